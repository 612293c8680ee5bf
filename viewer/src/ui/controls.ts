// Groups of choices and switches, bound to the state both ways. Native inputs underneath, so that keyboards and screen readers just work.
import type { State, Store } from "../state";
import { h } from "./dom";

export interface Choice<T> {
  value: T;
  label: string;
  key?: string;
  hint?: string;
}

/** One of several, as a row of radio buttons. */
export function choices<K extends keyof State>(store: Store, key: K, legend: string, options: Choice<State[K]>[]): HTMLElement {
  const inputs = options.map((option, i) => {
    const input = h("input", { type: "radio", name: key, value: String(option.value), id: `${key}-${i}` });
    input.addEventListener("change", () => store.set({ [key]: option.value } as Partial<State>));
    return input;
  });
  store.on([key], (state) => {
    options.forEach((option, i) => (inputs[i].checked = option.value === state[key]));
  });
  const row = options.map((option, i) =>
    h("label", { title: [option.hint, option.key && `key ${option.key}`].filter(Boolean).join(" · ") }, inputs[i], h("span", {}, option.label)),
  );
  return h("fieldset", { class: "choices" }, h("legend", {}, legend), h("div", { class: "segments" }, ...row));
}

/** On or off. */
export function toggle(store: Store, key: keyof State, label: string, shortcut: string, hint = ""): HTMLElement {
  const input = h("input", { type: "checkbox", role: "switch" });
  input.addEventListener("change", () => store.set({ [key]: input.checked } as Partial<State>));
  store.on([key], (state) => (input.checked = state[key] as boolean));
  return h("label", { class: "toggle", title: [hint, `key ${shortcut}`].filter(Boolean).join(" · ") }, input, h("span", { class: "knob" }), h("span", { class: "name" }, label));
}

export function select<K extends keyof State>(store: Store, key: K, label: string, options: Choice<State[K]>[]): HTMLElement {
  const element = h("select", { "aria-label": label }, ...options.map((o, i) => h("option", { value: i }, o.label)));
  element.addEventListener("change", () => store.set({ [key]: options[Number(element.value)].value } as Partial<State>));
  store.on([key], (state) => (element.value = String(Math.max(0, options.findIndex((o) => o.value === state[key])))));
  return h("label", { class: "select" }, h("span", {}, label), element);
}
