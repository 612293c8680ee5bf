// The controls beside the picture.
import type { Content } from "../content";
import type { State, Store } from "../state";
import { choices, select, toggle, type Choice } from "./controls";
import { h } from "./dom";
import { inspector } from "./inspector";
import { legend } from "./legend";
import { shapeSliders } from "./shapes";

export function panel(content: Content, store: Store): HTMLElement {
  const sources = content.models.length + (content.original ? 1 : 0);
  const hasWeights = content.models.some((model) => model.weights);
  const hasError = content.models.some((model) => model.error);
  const element = h(
    "aside",
    { class: "panel", "aria-label": "What the picture shows" },
    sources > 1 ? layoutPart(content, store) : null,
    shapeSliders(content, store),
    hasError || hasWeights ? colorPart(content, store, hasError, hasWeights) : null,
    legend(content, store),
    content.models.some((model) => model.normals) ? normalsPart(store) : null,
    showPart(content, store, sources),
    inspector(content, store),
  );
  return element;
}

function colorPart(content: Content, store: Store, hasError: boolean, hasWeights: boolean): HTMLElement {
  const hasShading = !!content.original && content.models.some((model) => model.normals && model.error);
  const shading: Choice<State["color"]>[] = [{ value: "shading", label: "Shading", key: "G", hint: "How far the skinned normals are off" }];
  const error: Choice<State["color"]>[] = [{ value: "error", label: "Error", key: "E" }];
  const weights: Choice<State["color"]>[] = [
    { value: "bones", label: "Bones", key: "B" },
    { value: "weights", label: "Weights", key: "W", hint: "Weights of the picked bone" },
  ];
  return choices(store, "color", "Colours", [{ value: "surface", label: "Plain", key: "S" }, ...(hasError ? error : []), ...(hasShading ? shading : []), ...(hasWeights ? weights : [])]);
}

function normalsPart(store: Store): HTMLElement {
  return choices(store, "normals", "Normals", [
    { value: "skinned", label: "Skinned", key: "I", hint: "Stored normals deformed by the bones, as engines do" },
    { value: "positions", label: "Positions", key: "I", hint: "Computed from the posed vertices" },
  ]);
}

function layoutPart(content: Content, store: Store): HTMLElement {
  const part = h(
    "div",
    {},
    choices(store, "layout", "Layout", [
      { value: "side", label: "Side", key: "1", hint: "Side by side" },
      { value: "overlay", label: "Over", key: "2", hint: "One over the other" },
      { value: "split", label: "Split", key: "3", hint: "Split by a line to drag" },
      { value: "single", label: "Alone", key: "4", hint: "The model alone" },
    ]),
  );
  if (content.models.length > 1) {
    const models = content.models.map((model, i): Choice<number> => ({ value: i, label: model.name }));
    const all = content.original ? [{ value: -1, label: "Original" }, ...models] : models;
    const pair = h("div", { class: "pair" }, select(store, "against", "Left or under", all), select(store, "model", "Model", models));
    part.append(pair);
    store.on(["layout"], (state) => (pair.hidden = state.layout === "side"));
  }
  return part;
}

function showPart(content: Content, store: Store, sources: number): HTMLElement {
  const hasFaces = content.triangles.length > 0;
  const hasBones = content.models.some((model) => model.bones.length > 0);
  const hasVirtual = content.models.some((model) => model.virtualHeads);
  return h(
    "fieldset",
    { class: "show" },
    h("legend", {}, "Show"),
    hasBones ? toggle(store, "bones", "Skeleton", "K") : null,
    hasVirtual ? toggle(store, "virtual", "Virtual bones", "V") : null,
    hasFaces ? toggle(store, "wireframe", "Wireframe", "X") : null,
    hasFaces ? toggle(store, "facets", "Facets", "F", "Flat faces instead of smooth shading") : null,
    sources > 1 ? toggle(store, "sync", "Link cameras", "Y", "All panes share one camera") : null,
    toggle(store, "follow", "Follow", "O", "The camera moves along"),
  );
}
