// `window.bonesmith`: what tests and scripts may call.
import { largest, type Content } from "./content";
import type { View } from "./scene/view";
import type { ColorMode, Layout, State, Store } from "./state";

export interface Api {
  ready: Promise<void>;
  state: () => Record<string, unknown>;
  set: (patch: Partial<State>) => void;
  setFrame: (frame: number) => void;
  setLayout: (layout: Layout) => void;
  setColor: (color: ColorMode) => void;
  pick: (vertex: number) => void;
  pickBone: (bone: number) => void;
  /** Positions [N, 3] of a model as the GPU places them. */
  positions: (model: number, frame: number) => Float32Array;
  originalPositions: (frame: number) => Float32Array;
  /** Largest error that the heat map can show, over the models. */
  errorMax: () => number | null;
}

export function api(content: Content, store: Store, view: View | null, strongest: (model: number, vertex: number) => number | null): Omit<Api, "ready"> {
  const draw = (patch: Partial<State>): void => {
    store.set(patch);
    view?.draw();
  };
  const need = (): View => {
    if (!view) throw new Error("this report has no 3D part");
    return view;
  };
  return {
    state: () => {
      const state = store.get();
      const bone = state.bone === null ? null : (content.models[state.model]?.bones[state.bone]?.name ?? null);
      return { ...state, frames: content.frames, models: content.models.length, boneName: bone, panes: view?.places.length ?? 0, fileBytes: content.fileBytes };
    },
    set: draw,
    setFrame: (frame) => draw({ frame: Math.min(Math.max(Math.round(frame), 0), content.frames - 1), playing: false }),
    setLayout: (layout) => draw({ layout }),
    setColor: (color) => draw({ color }),
    pick: (vertex) => draw({ vertex, bone: strongest(store.get().model, vertex) }),
    pickBone: (bone) => draw({ bone }),
    positions: (model, frame) => need().positions(model, frame),
    originalPositions: (frame) => need().positions(-1, frame),
    errorMax: () => {
      const found = content.models.flatMap((model) => (model.error ? [largest(model.error.worst)] : []));
      return found.length > 0 ? Math.max(...found) : null;
    },
  };
}
