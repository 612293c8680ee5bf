// Where what is drawn: panes of the layouts, in fractions of the canvas (x to the right, y down).
import type { State } from "../state";

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Pane {
  /** The camera's frame. */
  rect: Rect;
  /** The part of it that is drawn; differs from `rect` beside the split line. */
  clip: Rect;
  /** Sources drawn: -1 the original, else a model. The last is the solid one; one before it is a ghost. */
  sources: number[];
  /** Index of the camera when cameras are not linked. */
  camera: number;
}

const FULL: Rect = { x: 0, y: 0, width: 1, height: 1 };

export function panes(state: Readonly<State>, models: number, hasOriginal: boolean, aspect: number): Pane[] {
  const all = [...(hasOriginal ? [-1] : []), ...Array.from({ length: models }, (_, i) => i)];
  if (state.layout === "single" || all.length < 2) return [{ rect: FULL, clip: FULL, sources: [state.model], camera: 0 }];
  if (state.layout === "side") return tiles(all, aspect);
  if (state.layout === "overlay") return [{ rect: FULL, clip: FULL, sources: [state.against, state.model], camera: 0 }];
  return [
    { rect: FULL, clip: { ...FULL, width: state.split }, sources: [state.against], camera: 0 },
    { rect: FULL, clip: { ...FULL, x: state.split, width: 1 - state.split }, sources: [state.model], camera: 0 },
  ];
}

/** As many columns as keep the tiles nearest to square. */
function tiles(sources: number[], aspect: number): Pane[] {
  const n = sources.length;
  let columns = 1;
  let best = Infinity;
  for (let c = 1; c <= n; c++) {
    const shape = (aspect / c) * Math.ceil(n / c);
    const badness = Math.abs(Math.log(shape)) + 0.4 * (c * Math.ceil(n / c) - n);
    if (badness < best) {
      best = badness;
      columns = c;
    }
  }
  const rows = Math.ceil(n / columns);
  return sources.map((source, i) => {
    const rect = { x: (i % columns) / columns, y: Math.floor(i / columns) / rows, width: 1 / columns, height: 1 / rows };
    return { rect, clip: rect, sources: [source], camera: i };
  });
}
