// The picture with what lies on it: names of the panes, the split line, what is under the pointer, the picked vertex and bone.
import * as THREE from "three";
import { influencesOf, type Content } from "../content";
import type { View } from "../scene/view";
import type { Store } from "../state";
import { h, num, percent } from "./dom";
import { nameOf } from "./inspector";
import { pointer } from "./pointer";

export interface Overlay {
  element: HTMLElement;
  canvas: HTMLCanvasElement;
  /** Called once the view exists. */
  attach: (view: View) => void;
}

export function overlay(content: Content, store: Store): Overlay {
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": describe(content) });
  const labels = h("div", { class: "labels", "aria-hidden": "true" });
  const tip = h("div", { class: "tip", hidden: true });
  const marker = h("div", { class: "marker", hidden: true });
  const flag = h("div", { class: "flag", hidden: true });
  const line = splitLine(store);
  const element = h("div", { class: "picture" }, canvas, labels, line, marker, flag, tip);
  const attach = (view: View): void => {
    let pending = false;
    const hover = (x: number, y: number): void => {
      if (pending || store.get().playing) return;
      pending = true;
      requestAnimationFrame(() => {
        pending = false;
        showTip(tip, view, content, store, x, y);
      });
    };
    pointer(view, content, store, hover, () => (tip.hidden = true));
    let shown = "";
    view.onDraw = () => {
      const now = JSON.stringify(view.places.map(({ pane }) => pane));
      if (now !== shown) labels.replaceChildren(...paneLabels(view, content, store));
      shown = now;
      placeMarks(view, store, marker, flag, content);
    };
    store.on(["layout", "frame", "weights", "model"], () => (tip.hidden = true));
    store.on(["layout"], (state) => (line.hidden = state.layout !== "split"));
    view.draw();
  };
  return { element, canvas, attach };
}

function describe(content: Content): string {
  const shown = [...(content.original ? ["the original"] : []), ...content.models.map((model) => model.name)].join(", ");
  return `Moving 3D picture of ${shown}: ${content.vertices} vertices, ${content.frames} ${content.shapes ? "shapes" : "frames"}`;
}

function paneLabels(view: View, content: Content, store: Store): HTMLElement[] {
  return view.places.flatMap(({ pane }, i) => {
    const split = store.get().layout === "split";
    return pane.sources.map((source, s) => {
      const model = content.models[source];
      const name = model ? model.name : "Original";
      const error = model?.error ? `RMS ${num(rms(model.error.per_frame.rms), 3)}` : "";
      const ghost = pane.sources.length > 1 && s === 0;
      const right = split && i === 1;
      const style = right
        ? `right:0;top:0`
        : `left:${100 * pane.clip.x}%;top:calc(${100 * pane.clip.y}% + ${1.75 * s}rem);max-width:${100 * pane.clip.width}%`;
      const { x, y, width, height } = pane.clip;
      const beside = !split && s === 0 ? h("i", { class: "divider", style: `left:${100 * x}%;top:${100 * y}%;width:${100 * width}%;height:${100 * height}%` }) : null;
      const label = h("div", { class: `label${ghost ? " ghost" : ""}`, style }, h("b", {}, name), ghost ? h("span", {}, "see-through") : error ? h("span", {}, error) : null);
      return h("div", {}, beside, label);
    });
  });
}

/** Root mean square over frames of the frames' RMS: all have the same number of vertices. */
function rms(values: number[]): number {
  return Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / Math.max(values.length, 1));
}

function splitLine(store: Store): HTMLElement {
  const line = h("div", { class: "split", role: "slider", tabindex: 0, "aria-label": "Split between left and right", "aria-valuemin": 0, "aria-valuemax": 100 }, h("span", {}));
  const move = (x: number): void => store.set({ split: Math.min(Math.max(x, 0.02), 0.98) });
  line.addEventListener("pointerdown", (event) => line.setPointerCapture(event.pointerId));
  line.addEventListener("pointermove", (event) => {
    if (!line.hasPointerCapture(event.pointerId)) return;
    const box = line.parentElement!.getBoundingClientRect();
    move((event.clientX - box.left) / box.width);
  });
  line.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
    if (by) move(store.get().split + by);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(1);
    else return;
    event.preventDefault();
  });
  store.on(["split"], (state) => {
    line.style.left = `${100 * state.split}%`;
    line.setAttribute("aria-valuenow", String(Math.round(100 * state.split)));
  });
  return line;
}

function showTip(tip: HTMLElement, view: View, content: Content, store: Store, x: number, y: number): void {
  const hit = view.vertexAt(x, y);
  tip.hidden = !hit;
  if (!hit) return;
  const state = store.get();
  const model = content.models[hit.source >= 0 ? hit.source : state.model];
  const lines: string[] = [];
  const error = model?.error;
  const now = state.errorKind === "frame" ? distanceNow(view, state.frame, hit.source >= 0 ? hit.source : state.model, hit.vertex) : null;
  if (now !== null) lines.push(`now ${num(now)}`);
  else if (error) lines.push(state.errorKind === "max" ? `worst ${num(error.worst[hit.vertex])}` : `RMS ${num(error.rms[hit.vertex])}`);
  const [strongest] = model ? influencesOf(model, hit.vertex) : [];
  if (strongest && model) lines.push(`${nameOf(model, strongest.bone)} ${percent(strongest.weight)}`);
  tip.replaceChildren(h("b", {}, `Vertex ${hit.vertex}`), ...lines.map((text) => h("span", {}, text)));
  const width = view.canvas.clientWidth;
  const left = Math.min(x * width + 16, width - tip.offsetWidth - 8);
  tip.style.transform = `translate(${left}px, ${Math.max(y * view.canvas.clientHeight - tip.offsetHeight - 12, 8)}px)`;
}

function distanceNow(view: View, frame: number, source: number, vertex: number): number | null {
  const original = view.sources.get(-1);
  const model = view.sources.get(source);
  if (!original || !model) return null;
  return original.place(frame, vertex, new THREE.Vector3()).distanceTo(model.place(frame, vertex, new THREE.Vector3()));
}

/** A ring on the picked vertex and the name of the picked bone, in the pane of the model that the inspector shows. */
function placeMarks(view: View, store: Store, marker: HTMLElement, flag: HTMLElement, content: Content): void {
  const state = store.get();
  const place = view.places.find(({ pane }) => pane.sources[pane.sources.length - 1] === state.model);
  const at = new THREE.Vector3();
  const put = (element: HTMLElement, pixel: [number, number] | null): void => {
    element.hidden = !pixel;
    if (pixel) element.style.transform = `translate(${pixel[0]}px, ${pixel[1]}px)`;
  };
  const source = view.sources.get(state.model);
  put(marker, place && source && state.vertex !== null ? view.project(place, source.place(state.frame, state.vertex, at)) : null);
  const skeleton = view.skeletons.get(state.model);
  const named = place && skeleton && state.bone !== null && (state.bones || state.color === "weights");
  put(flag, named ? view.project(place, skeleton.head(state.frame, state.bone!, at)) : null);
  if (named) flag.textContent = nameOf(content.models[state.model], state.bone!);
}
