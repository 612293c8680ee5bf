// What a viewer notices, in the words of the report; a place is a button that goes there.
import type { Content } from "../content";
import type { Store } from "../state";
import type { Verdict } from "../types";
import { h } from "./dom";

/** Places offered as buttons. */
const PLACES = 4;

/** The verdict of the model shown; null where nothing was measured. */
export function verdict(content: Content, store: Store): HTMLElement | null {
  if (!content.models.some((model) => model.source.verdict)) return null;
  const element = h("section", { class: "verdict", "aria-label": "Verdict", "aria-live": "polite" });
  store.on(["model"], (state) => {
    const model = content.models[state.model];
    const found = model?.source.verdict;
    element.hidden = !found;
    if (!found) return;
    element.dataset["visibility"] = found.visibility;
    const of = content.models.length > 1 ? `${model.name}: ` : "";
    element.replaceChildren(h("p", {}, h("b", {}, "Difference "), `${of}${found.text}.`), ...places(content, store, found));
  });
  return element;
}

function places(content: Content, store: Store, { places: list }: Verdict): HTMLElement[] {
  const indices = content.report.frames?.indices ?? [];
  const name = (frame: number): string => content.shapes?.[frame]?.name ?? String(frame);
  return list.slice(0, PLACES).map(({ region, cause, frames }) => {
    const [first, last] = frames[0];
    const title = content.shapes ? `Show ${name(first)}` : `Show frame ${first}`;
    const button = h("button", { type: "button", class: "link", title }, `${region}, ${first === last ? name(first) : `${first}–${last}`}`);
    button.addEventListener("click", () => {
      // The kept frame nearest to the middle of the range.
      const middle = (first + last) / 2;
      const frame = indices.reduce((best, source, i) => (Math.abs(source - middle) < Math.abs(indices[best] - middle) ? i : best), 0);
      const color = cause === "shading" ? { color: "shading" as const } : { color: "error" as const, errorKind: "frame" as const };
      store.set({ frame, playing: false, ...color });
    });
    return button;
  });
}
