// Sliders for the shapes of a face. Driven shapes show the weight that follows from the others.
import type { Content } from "../content";
import { shownWeights, type ShapeRow } from "../mix";
import type { Store } from "../state";
import { count, h } from "./dom";

/** From so many shapes on there is a field to find one. */
const MANY = 8;

export function shapeSliders(content: Content, store: Store): HTMLElement | null {
  const rows = content.shapes;
  if (!rows) return null;
  const kept = new Set(content.report.frames.indices);
  const shown = (): number[] => {
    const { frame, weights } = store.get();
    return shownWeights(content, frame, weights);
  };
  const set = (weights: readonly number[]): void => store.set({ weights, frame: content.frames, playing: false });
  const sliders = rows.map((row, s) => (kept.has(s) ? slider(row, (value) => set(shown().map((w, other) => (other === s ? value : w)))) : null));
  const items = rows.map((row, s) => {
    const made = sliders[s];
    if (!made) return null;
    const button = h("button", { type: "button", title: driverText(rows, row) || "This shape alone" }, row.name);
    button.addEventListener("click", () => store.set({ frame: content.report.frames.indices.indexOf(s), playing: false }));
    return h("li", { class: row.of.length > 0 ? "driven" : null }, button, made.value, made.input);
  });
  const list = h("ul", { class: "shapes" }, ...items);
  const filter = h("input", { type: "search", placeholder: "Find", "aria-label": "Find shapes by name", hidden: rows.length < MANY });
  filter.addEventListener("input", () => {
    const sought = filter.value.toLowerCase();
    items.forEach((item, s) => {
      if (item) item.hidden = !rows[s].name.toLowerCase().includes(sought);
    });
  });
  const reset = h("button", { type: "button", class: "link" }, "reset");
  reset.addEventListener("click", () => set(rows.map(() => 0)));
  store.on(["frame", "weights"], () => {
    const weights = shown();
    sliders.forEach((made, s) => made?.show(weights[s]));
  });
  return h("section", { class: "shape-list", "aria-label": "Shapes" }, h("div", { class: "row" }, h("h3", {}, `${count(rows.length)} shapes`, reset), filter), list);
}

interface Slider {
  input: HTMLInputElement;
  value: HTMLElement;
  show: (weight: number) => void;
}

function slider(row: ShapeRow, changed: (weight: number) => void): Slider {
  const input = h("input", { type: "range", class: "scrub", min: 0, max: 1, step: 0.01, "aria-label": row.name, disabled: row.of.length > 0 });
  const value = h("output", {});
  input.addEventListener("input", () => changed(Number(input.value)));
  const show = (weight: number): void => {
    input.value = String(weight);
    input.style.setProperty("--at", `${100 * Math.min(Math.max(weight, 0), 1)}%`);
    value.textContent = weight.toFixed(2);
  };
  return { input, value, show };
}

/** Where the weight of a driven shape comes from. */
function driverText(rows: readonly ShapeRow[], { of, range }: ShapeRow): string {
  const names = of.map((s) => rows[s]?.name ?? String(s));
  if (range) return `Follows ${names[0]}: from ${range[0]}, whole at ${range[1]}, to ${range[2]}`;
  return names.length > 0 ? `Follows the product of ${names.join(" and ")}` : "";
}
