// Keys, and the panel that lists them.
import type { Content } from "../content";
import type { ColorMode, Layout, State, Store } from "../state";
import { pan, startPose, turn, zoom } from "../scene/orbit";
import type { View } from "../scene/view";
import { h } from "./dom";
import { SPEEDS } from "./transport";

interface Shortcut {
  keys: string[];
  show: string;
  what: string;
  run: (event: KeyboardEvent) => void;
}

type Flag = "loop" | "wireframe" | "bones" | "virtual" | "contours" | "facets" | "sync" | "follow";

function bindings(content: Content, store: Store, view: View, help: () => void): [string, Shortcut[]][] {
  const flip = (key: string, flag: Flag, what: string): Shortcut => ({
    keys: [key],
    show: key.toUpperCase(),
    what,
    run: () => store.set({ [flag]: !store.get()[flag] }),
  });
  const layout = (key: string, value: Layout, what: string): Shortcut => ({ keys: [key], show: key, what, run: () => store.set({ layout: value }) });
  const color = (key: string, value: ColorMode, what: string): Shortcut => ({ keys: [key], show: key.toUpperCase(), what, run: () => store.set({ color: value }) });
  const unit = content.shapes ? "shape" : "frame";
  const step = (by: number): void => {
    // From the mix of a face the first step goes to the first or to the last shape.
    const now = store.get().frame;
    const frame = (now === content.frames && by > 0 ? -1 : now) + by;
    store.set({ playing: false, frame: ((frame % content.frames) + content.frames) % content.frames });
  };
  const nextBone = (by: number): void => {
    const bones = content.models[store.get().model]?.bones.length ?? 0;
    if (bones > 0) store.set({ bone: ((store.get().bone ?? (by > 0 ? -1 : 0)) + by + bones) % bones });
  };
  const speed = (by: number): void => {
    const at = SPEEDS.indexOf(store.get().speed) + by;
    if (SPEEDS[at] !== undefined) store.set({ speed: SPEEDS[at] });
  };
  const camera = (change: () => void): void => {
    change();
    view.requestDraw();
  };
  return [
    ["Playback", [
      { keys: [" "], show: "Space", what: "play or pause", run: () => store.set({ playing: !store.get().playing }) },
      { keys: ["arrowleft"], show: "←", what: `one ${unit} back; with Shift ten`, run: (e) => step(e.shiftKey ? -10 : -1) },
      { keys: ["arrowright"], show: "→", what: `one ${unit} on; with Shift ten`, run: (e) => step(e.shiftKey ? 10 : 1) },
      { keys: ["home"], show: "Home", what: `first ${unit}`, run: () => store.set({ frame: 0, playing: false }) },
      { keys: ["end"], show: "End", what: `last ${unit}`, run: () => store.set({ frame: content.frames - 1, playing: false }) },
      { keys: ["["], show: "[", what: "slower", run: () => speed(-1) },
      { keys: ["]"], show: "]", what: "faster", run: () => speed(1) },
      flip("l", "loop", "loop"),
    ]],
    ["Layout", [
      layout("1", "side", "side by side"),
      layout("2", "overlay", "overlaid"),
      layout("3", "split", "split by a line"),
      layout("4", "single", "the model alone"),
      { keys: ["m"], show: "M", what: "next model", run: () => store.set({ model: (store.get().model + 1) % content.models.length }) },
    ]],
    ["Colours", [
      color("s", "surface", "plain surface"),
      color("e", "error", "error"),
      color("g", "shading", "error of the skinned normals"),
      { keys: ["i"], show: "I", what: "skinned normals, or from positions", run: () => store.set({ normals: store.get().normals === "skinned" ? "positions" : "skinned" }) },
      color("b", "bones", "bones"),
      color("w", "weights", "weights of the picked bone"),
      { keys: ["n"], show: "N", what: "next bone", run: () => nextBone(1) },
      { keys: ["p"], show: "P", what: "previous bone", run: () => nextBone(-1) },
      flip("c", "contours", "contour lines"),
    ]],
    ["Show", [
      flip("k", "bones", "skeleton"),
      flip("v", "virtual", "virtual bones"),
      flip("x", "wireframe", "wireframe"),
      flip("f", "facets", "facets instead of smooth shading"),
    ]],
    ["Camera", [
      { keys: ["a", "d"], show: "A D", what: "turn left, right", run: (e) => camera(() => turn(view.pose(0), e.key.toLowerCase() === "a" ? -0.12 : 0.12, 0)) },
      { keys: ["arrowup", "arrowdown"], show: "↑ ↓", what: "tilt, where the picture has the focus", run: (e) => camera(() => turn(view.pose(0), 0, e.key === "ArrowUp" ? 0.1 : -0.1)) },
      { keys: ["+", "=", "-"], show: "+ −", what: "nearer, farther", run: (e) => camera(() => zoom(view.pose(0), e.key === "-" ? 1.12 : 1 / 1.12)) },
      { keys: ["j", "u"], show: "U J", what: "move up, down", run: (e) => camera(() => pan(view.pose(0), view.places[0].camera, 0, e.key.toLowerCase() === "u" ? -0.05 : 0.05)) },
      { keys: ["r"], show: "R", what: "back to the first view", run: () => camera(() => (view.poses = [startPose()])) },
      flip("y", "sync", "link the cameras"),
      flip("o", "follow", "follow the model"),
    ]],
    ["Page", [
      { keys: ["t"], show: "T", what: "dark or light", run: () => store.set({ theme: store.get().theme === "dark" ? "light" : "dark" }) },
      { keys: ["?", "h"], show: "?", what: "this list", run: help },
      { keys: ["escape"], show: "Esc", what: "close, let go of what is picked", run: () => store.set({ vertex: null, bone: null } satisfies Partial<State>) },
    ]],
  ];
}

/** Keys work everywhere but in fields; keys that a control needs stay with it. */
function belongsToControl(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  if (target.isContentEditable || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement) return true;
  if (target instanceof HTMLInputElement && target.type === "search") return true;
  const moves = event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End";
  if (target instanceof HTMLInputElement) return event.key === " " ? target.type !== "range" : moves;
  if (target.matches("[role=slider], .chart svg")) return moves;
  if (event.key.startsWith("Arrow") && ["ArrowUp", "ArrowDown"].includes(event.key)) return !(target instanceof HTMLCanvasElement);
  return (target instanceof HTMLButtonElement || target instanceof HTMLAnchorElement || target.tagName === "SUMMARY") && event.key === " ";
}

export function shortcuts(content: Content, store: Store, view: View): { panel: HTMLDialogElement; open: () => void } {
  const panel = h("dialog", { class: "help", "aria-labelledby": "help-title" });
  const open = (): void => (panel.open ? panel.close() : panel.showModal());
  const groups = bindings(content, store, view, open);
  const close = h("button", { type: "button", class: "plain" }, "Close");
  close.addEventListener("click", () => panel.close());
  panel.addEventListener("click", (event) => {
    if (event.target === panel) panel.close();
  });
  panel.append(
    h("header", {}, h("h2", { id: "help-title" }, "Keys and mouse"), close),
    h("p", { class: "soft" }, "Drag turns, right drag or two fingers move, a pinch or the wheel (after a click into the picture) comes nearer. A click picks a vertex or a joint, a double click resets the view."),
    h("div", { class: "groups" }, ...groups.map(([name, list]) => group(name, list))),
  );
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || belongsToControl(event)) return;
    const key = event.key.toLowerCase();
    if (panel.open && key !== "?" && key !== "h") return;
    const found = groups.flatMap(([, list]) => list).find((shortcut) => shortcut.keys.includes(key));
    if (!found) return;
    event.preventDefault();
    found.run(event);
  });
  return { panel, open };
}

function group(name: string, list: Shortcut[]): HTMLElement {
  const rows = list.map((s) => h("div", {}, h("dt", {}, ...s.show.split(" ").map((k) => h("kbd", {}, k))), h("dd", {}, s.what)));
  return h("section", {}, h("h3", {}, name), h("dl", {}, ...rows));
}
