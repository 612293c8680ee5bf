// What is picked: a vertex with its bones and errors, and the list of all bones.
import { influencesOf, type Content, type ModelContent } from "../content";
import type { State, Store } from "../state";
import { count, h, num, percent } from "./dom";
import { chip } from "./legend";

export function inspector(content: Content, store: Store): HTMLElement {
  const picked = h("section", { class: "picked", "aria-live": "polite" });
  store.on(["vertex", "bone", "model"], (state) => picked.replaceChildren(...pickedOf(content, store, state)));
  return h("div", { class: "inspector" }, picked, boneList(content, store));
}

function pickedOf(content: Content, store: Store, state: Readonly<State>): Node[] {
  const model = content.models[state.model];
  const vertex = state.vertex;
  if (!model || vertex === null) return [];
  const influences = influencesOf(model, vertex);
  const clear = h("button", { type: "button", class: "link" }, "clear");
  clear.addEventListener("click", () => store.set({ vertex: null }));
  const nodes: Node[] = [h("h3", {}, `Vertex ${vertex}`, clear)];
  if (model.error) {
    nodes.push(h("p", { class: "soft" }, `Error ${num(model.error.rms[vertex])} RMS, ${num(model.error.worst[vertex])} at worst.`));
  }
  if (influences.length === 0) return nodes;
  const rows = influences.map(({ bone, weight }) => {
    const button = h("button", { type: "button", "aria-pressed": String(state.bone === bone) }, chip(model.colors[bone] ?? [0.5, 0.5, 0.5]), nameOf(model, bone));
    button.addEventListener("click", () => store.set({ bone, color: "weights" }));
    return h("li", {}, button, h("span", { class: "share" }, percent(weight)), h("span", { class: "length", style: `width:${100 * weight}%` }));
  });
  nodes.push(h("ol", { class: "influences" }, ...rows));
  return nodes;
}

export function nameOf(model: ModelContent, bone: number): string {
  return model.bones[bone]?.name ?? `bone ${bone}`;
}

function boneList(content: Content, store: Store): HTMLElement {
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter bones by name" });
  const list = h("ul", { class: "bones" });
  const heading = h("h3", {});
  let buttons: HTMLButtonElement[] = [];
  const fill = (model: ModelContent | undefined): void => {
    const usage = model?.source.plots?.bone_usage ?? [];
    const virtual = model?.virtualHeads ? `, ${count(model.virtualHeads.length / 3)} virtual` : "";
    heading.textContent = `${count(model?.bones.length ?? 0)} bones${virtual}${content.models.length > 1 ? ` · ${model?.name}` : ""}`;
    buttons = (model?.bones ?? []).map((bone, b) => {
      const share = usage[b] === undefined ? "" : percent(usage[b]);
      const button = h("button", { type: "button", style: `--depth:${depth(model!, b)}` }, chip(model!.colors[b]), h("span", {}, bone.name), h("small", {}, share));
      button.addEventListener("click", () => store.set({ bone: b, color: "weights" }));
      return button;
    });
    list.replaceChildren(...buttons.map((button) => h("li", {}, button)));
  };
  filter.addEventListener("input", () => {
    const sought = filter.value.toLowerCase();
    for (const button of buttons) button.parentElement!.hidden = !button.textContent!.toLowerCase().includes(sought);
  });
  const section = h("section", { class: "bone-list" }, h("div", { class: "row" }, heading, filter), list);
  store.on(["model"], (state) => {
    fill(content.models[state.model]);
    section.hidden = buttons.length === 0;
    filter.hidden = buttons.length < 12;
  });
  store.on(["bone", "model"], (state) => {
    buttons.forEach((button, b) => button.setAttribute("aria-pressed", String(b === state.bone)));
    const chosen = state.bone === null ? undefined : buttons[state.bone];
    if (chosen) list.scrollTo({ top: chosen.offsetTop - list.clientHeight / 2 });
  });
  return section;
}

function depth(model: ModelContent, bone: number): number {
  let steps = 0;
  for (let b = model.bones[bone].parent; b >= 0 && steps < 8; b = model.bones[b].parent) steps++;
  return steps;
}
