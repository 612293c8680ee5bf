// What the page shows now. Controls set it; view, plots and text follow by subscription.

export type Layout = "side" | "overlay" | "split" | "single";
export type ColorMode = "surface" | "error" | "shading" | "bones" | "weights";
export type ErrorKind = "rms" | "max" | "frame";
export type ErrorTop = "absolute" | "p99" | "max";
/** Normals of a skinned model: stored ones deformed by the bones, as engines do, or from posed positions. */
export type Normals = "skinned" | "positions";
export type Theme = "light" | "dark";

export interface State {
  /** Of a face: the frame after the last is the mix of the shapes by `weights`. */
  frame: number;
  /** Of a face: weights of all shapes; those of driven shapes are not read. */
  weights: readonly number[];
  playing: boolean;
  speed: number;
  loop: boolean;
  layout: Layout;
  color: ColorMode;
  errorKind: ErrorKind;
  errorTop: ErrorTop;
  normals: Normals;
  contours: boolean;
  wireframe: boolean;
  bones: boolean;
  virtual: boolean;
  facets: boolean;
  sync: boolean;
  follow: boolean;
  /** Place of the split line, 0 to 1 of the width. */
  split: number;
  /** Model that the inspector, the plots and the text are about. */
  model: number;
  /** What it is set against in the layouts of two: -1 the original, else a model. */
  against: number;
  vertex: number | null;
  bone: number | null;
  theme: Theme;
}

type Listener = (state: Readonly<State>, changed: ReadonlySet<keyof State>) => void;

export class Store {
  private readonly listeners: Listener[] = [];

  constructor(private current: State) {}

  get(): Readonly<State> {
    return this.current;
  }

  set(patch: Partial<State>): void {
    const changed = new Set<keyof State>();
    for (const key of Object.keys(patch) as (keyof State)[]) {
      if (patch[key] !== undefined && patch[key] !== this.current[key]) changed.add(key);
    }
    if (changed.size === 0) return;
    this.current = { ...this.current, ...patch };
    for (const listener of this.listeners) listener(this.current, changed);
  }

  /** Calls `listener` on each change of one of `keys` (all when none), and once now. */
  on(keys: (keyof State)[], listener: Listener): void {
    this.listeners.push((state, changed) => {
      if (keys.length === 0 || keys.some((key) => changed.has(key))) listener(state, changed);
    });
    listener(this.current, new Set(keys));
  }
}
