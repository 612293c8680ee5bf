// Play, scrub, speed, loop. Frames are shown as they were sampled: nothing is interpolated between them. Shapes of a face come one after the
// other, each from 0 to 1 and back.
import type { Content } from "../content";
import { ownWeights } from "../mix";
import type { Store } from "../state";
import { h, icon, num } from "./dom";

const PLAY = "M4.5 2.8v10.4l8.5-5.2z";
const PAUSE = "M4.5 3v10M11.5 3v10";
const LOOP = "M3 8a5 4 0 0 1 8.5-2.9L13 6.5M13 3v3.5H9.5M13 8a5 4 0 0 1-8.5 2.9L3 9.5M3 13V9.5h3.5";
export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
/** Seconds that a shape of a face takes. */
const SHAPE_SECS = 1.6;

export function transport(content: Content, store: Store): HTMLElement {
  const last = content.frames - 1;
  const play = h("button", { class: "round", type: "button" });
  play.addEventListener("click", () => store.set({ playing: !store.get().playing }));
  const scrub = h("input", { type: "range", min: 0, max: last, step: 1, "aria-label": content.shapes ? "Shape" : "Frame", class: "scrub" });
  scrub.addEventListener("input", () => store.set({ frame: Number(scrub.value), playing: false }));
  const place = h("output", { class: "place" });
  const loop = h("button", { class: "plain", type: "button", title: "Loop · key L" }, icon(LOOP), h("span", { class: "hidden" }, "Loop"));
  loop.addEventListener("click", () => store.set({ loop: !store.get().loop }));
  const speed = h("select", { "aria-label": "Speed", title: "Speed · keys [ and ]" }, ...SPEEDS.map((s) => h("option", { value: s }, `${s}×`)));
  speed.addEventListener("change", () => store.set({ speed: Number(speed.value) }));

  store.on(["playing"], ({ playing }) => {
    play.replaceChildren(icon(playing ? PAUSE : PLAY));
    play.setAttribute("aria-label", playing ? "Pause" : "Play");
    play.title = `${playing ? "Pause" : "Play"} · space`;
  });
  store.on(["frame"], ({ frame }) => {
    if (content.shapes) {
      showShape(content, scrub, place, frame);
      return;
    }
    scrub.value = String(frame);
    scrub.style.setProperty("--at", `${(100 * frame) / Math.max(last, 1)}%`);
    const source = content.report.frames?.indices[frame] ?? frame;
    const total = content.report.file?.frames_total ?? content.frames;
    scrub.setAttribute("aria-valuetext", `frame ${source}, ${num(frame / content.fps, 3)} seconds`);
    place.replaceChildren(h("b", {}, String(source)), ` of ${total - 1}`, h("span", { class: "time" }, `${(frame / content.fps).toFixed(2)} s${clipOf(content, frame)}`));
  });
  store.on(["loop"], (state) => loop.setAttribute("aria-pressed", String(state.loop)));
  store.on(["speed"], (state) => (speed.value = String(state.speed)));
  if (content.shapes) runShapes(content, store);
  else runClock(content, store);
  return h("div", { class: "transport", role: "group", "aria-label": "Playback" }, play, scrub, place, speed, loop);
}

function clipOf(content: Content, frame: number): string {
  const clips = content.report.frames?.clips ?? [];
  if (clips.length < 2) return "";
  const clip = clips.find((c) => frame >= c.start && frame < c.start + c.count);
  return clip ? ` · ${clip.name}` : "";
}

/** The shape that is shown alone, or that several are mixed. */
function showShape(content: Content, scrub: HTMLInputElement, place: HTMLElement, frame: number): void {
  const alone = frame < content.frames ? content.shapes![content.report.frames.indices[frame]].name : null;
  scrub.value = alone === null ? "0" : String(frame);
  scrub.style.setProperty("--at", alone === null ? "0%" : `${(100 * frame) / Math.max(content.frames - 1, 1)}%`);
  scrub.setAttribute("aria-valuetext", alone ?? "mixed");
  place.replaceChildren(h("b", {}, alone ?? "by the sliders"));
}

/** One shape after the other rises and falls. */
function runShapes(content: Content, store: Store): void {
  let startedAt = 0;
  let first = 0;
  const step = (now: number): void => {
    const { playing, speed, loop } = store.get();
    if (!playing) return;
    const passed = ((now - startedAt) / 1000 / SHAPE_SECS) * speed;
    const at = first + Math.floor(passed);
    if (at >= content.frames && !loop) {
      store.set({ weights: content.shapes!.map(() => 0), playing: false });
      return;
    }
    const shape = content.report.frames.indices[at % content.frames];
    const weight = Math.sin(Math.PI * (passed % 1)) ** 2;
    store.set({ frame: content.frames, weights: ownWeights(content.shapes!, shape, weight) });
    requestAnimationFrame(step);
  };
  const start = (): void => {
    startedAt = performance.now();
    const { frame, weights } = store.get();
    const largest = content.report.frames.indices.findIndex((shape) => weights[shape] > 0);
    first = frame < content.frames ? frame : Math.max(largest, 0);
  };
  store.on(["playing"], (state) => {
    if (!state.playing) return;
    start();
    requestAnimationFrame(step);
  });
  store.on(["speed"], start);
}

/** Moves the frame by the time that passed, so that a slow machine skips frames instead of slowing down. */
function runClock(content: Content, store: Store): void {
  let startedAt = 0;
  let startFrame = 0;
  const step = (now: number): void => {
    const state = store.get();
    if (!state.playing) return;
    const passed = startFrame + Math.floor(((now - startedAt) / 1000) * content.fps * state.speed);
    if (passed >= content.frames && !state.loop) {
      store.set({ frame: content.frames - 1, playing: false });
      return;
    }
    store.set({ frame: passed % content.frames });
    requestAnimationFrame(step);
  };
  const start = (): void => {
    startedAt = performance.now();
    startFrame = store.get().frame;
  };
  store.on(["playing"], (state) => {
    if (!state.playing) return;
    if (state.frame === content.frames - 1 && !state.loop) store.set({ frame: 0 });
    start();
    requestAnimationFrame(step);
  });
  store.on(["speed"], start);
}
