// The report's JSON, as docs/formats/report.md describes it. Optional fields are absent or null.

export type Maybe<T> = T | null | undefined;
export type Vec3 = [number, number, number];
export type Cell = string | number | null;

export interface Buf {
  type: "u8" | "u16" | "u32" | "f32";
  /** Bytes from the start of the unpacked blob, a multiple of 4. */
  offset: number;
  /** Elements. */
  length: number;
}

/** Positions [frames, N, 3] on 16 bits: min + q / 65535 * (max - min), with min and max of the frame in `boxes` [frames, 6]. */
export interface Quantised {
  positions: Buf;
  boxes: Buf;
  /** `delta`: `positions` are bytes [2, frames, 3, N], see `undelta`. */
  coding?: Maybe<"delta">;
}

/** Weights [N, K] of `influences` = K each; a row sums to 65535. */
export interface Weights {
  influences: number;
  indices: Buf;
  weights: Buf;
}

export interface Skin extends Weights {
  joints: number;
  /** [frames, joints, 12], row-major 3x4, posed_from_rest. */
  matrices: Buf;
}

export interface Bone {
  name: string;
  parent: number;
  kind: "bone" | "virtual";
  head: Vec3;
  tip?: Maybe<Vec3>;
}

export interface PerFrame {
  rms: number[];
  median: number[];
  q1: number[];
  q3: number[];
  max: number[];
}

export interface Histogram {
  edges: number[];
  counts: number[];
}

export interface ErrorPart {
  per_vertex_rms: Buf;
  per_vertex_max: Buf;
  max: { value: number; frame: number; vertex: number };
  percentiles: { p50: number; p90: number; p95: number; p99: number };
  per_frame: PerFrame;
  histogram: Histogram;
  /** Radius of the rest pose's smallest enclosing sphere, the size that thousandths are of. */
  radius?: Maybe<number>;
}

/** What a viewer notices, as the Rust side words it. Frames are those of the source. */
export interface Verdict {
  visibility: "hard_to_see" | "visible" | "obvious";
  text: string;
  places: { region: string; cause: "shape" | "shading"; frames: [number, number][]; throughout: boolean; excess: number }[];
}

export interface Figure {
  name: string;
  value?: Maybe<number>;
  text: string;
  unit?: Maybe<string>;
  meaning?: Maybe<string>;
}

export interface Plots {
  iterations?: Maybe<{ iteration: number; error: number; stage?: Maybe<string> }[]>;
  influence_counts?: Maybe<number[]>;
  bone_usage?: Maybe<number[]>;
  timings?: Maybe<{ stage: string; secs: number }[]>;
}

export interface Model {
  name: string;
  kind: "lbs" | "two_layer" | "ddm" | "compressed_ddm" | "shaped" | "basis" | "sequence";
  rest: Buf;
  /** [N, 3] stored unit normals of the rest pose, of a model with a skin. */
  normals?: Maybe<Buf>;
  skin?: Maybe<Skin>;
  positions?: Maybe<Quantised>;
  bones?: Maybe<Bone[]>;
  bone_matrices?: Maybe<Buf>;
  bone_weights?: Maybe<Weights>;
  virtual_heads?: Maybe<Buf>;
  error?: Maybe<ErrorPart>;
  verdict?: Maybe<Verdict>;
  plots?: Maybe<Plots>;
  figures?: Maybe<Figure[]>;
  /** `part`: of the entry that follows or precedes it, not a form of its own. */
  storage?: Maybe<{ what: string; bytes: number; part?: Maybe<boolean> }[]>;
  warnings?: Maybe<{ text: string; meaning?: Maybe<string> }[]>;
}

export interface Table {
  title?: Maybe<string>;
  columns: (string | { name: string; meaning?: Maybe<string>; unit?: Maybe<string> })[];
  rows: Cell[][];
}

export interface Report {
  format: number;
  version: string;
  title: string;
  command: string;
  /** As it was typed. */
  command_line?: Maybe<string>;
  up?: Maybe<"y" | "z">;
  blob?: Maybe<{ bytes: number; encoding: "gzip" | "none" }>;
  file?: Maybe<{ limit_bytes?: Maybe<number>; kept_frames_every: number; frames_total: number }>;
  mesh?: Maybe<{ vertices: number; triangles: Buf; edges?: Maybe<Buf> }>;
  frames?: Maybe<{ count: number; fps: number; indices: number[]; /** In kept frames. */ clips?: Maybe<{ name: string; start: number; count: number }[]> }>;
  original?: Maybe<Quantised>;
  models: Model[];
  done?: Maybe<{ text: string; params?: Maybe<{ name: string; value: Cell; meaning?: Maybe<string> }[]>; seconds?: Maybe<Record<string, number>> }>;
  table?: Maybe<Table>;
  tables?: Maybe<Table[]>;
}
