// Generated from crates/bonesmith-report/src/document.rs: change it there, then `BONESMITH_BLESS=1 cargo test -p bonesmith-report typescript`.

export type Bars = { edges: Array<number>, counts: Array<number>, };

export type BlobInfo = {
/**
 * Unpacked.
 */
bytes: number, encoding: Encoding, };

export type BoneRow = { name: string,
/**
 * -1: none.
 */
parent: number, kind: BoneRowKind, head: [number, number, number], tip: [number, number, number] | null, };

export type BoneRowKind = "bone";

/**
 * Where a buffer lies in the blob.
 */
export type Buffer = {
/**
 * Type of the elements.
 */
type: ElementKind,
/**
 * Bytes from the start of the unpacked blob.
 */
offset: number,
/**
 * Elements.
 */
length: number, };

export type Cause = "shape" | "shading";

/**
 * A cell of a table.
 */
export type Cell = string | number | null;

/**
 * Kept frames `start .. start + count`.
 */
export type ClipRow = { name: string, start: number, count: number, };

/**
 * How positions are written.
 */
export type Coding = "delta";

/**
 * The head of a column.
 */
export type Column = {
/**
 * What stands above it.
 */
name: string,
/**
 * One sentence; may be empty.
 */
meaning: string,
/**
 * May be empty.
 */
unit: string, };

/**
 * All of it.
 */
export type Document = { format: number, version: string, title: string, command: string,
/**
 * As it was typed.
 */
command_line: string | null, up: Up, blob: BlobInfo, file: FileInfo, mesh: Mesh | null, frames: Frames,
/**
 * What the frames of the source are, where they are the shapes of a face, each alone at weight 1.
 */
shapes: Array<ShapeRow> | null, original: Positions | null, models: Array<Model>, done: Done, table: Table | null, tables: Array<Table> | null, };

/**
 * What was done.
 */
export type Done = {
/**
 * One sentence.
 */
text: string,
/**
 * How it was asked for.
 */
params: Array<Param>,
/**
 * Seconds by stage; null where none were measured.
 */
seconds: SecondsByStage | null, };

/**
 * Types of elements, little-endian.
 */
export type ElementKind = "u8" | "u16" | "u32" | "f32";

/**
 * How the blob is packed before base64.
 */
export type Encoding = "gzip";

/**
 * Distances in model units.
 */
export type ErrorPart = {
/**
 * [N] over all frames of the source.
 */
per_vertex_rms: Buffer,
/**
 * [N]
 */
per_vertex_max: Buffer, max: Largest,
/**
 * Of `per_vertex_rms`.
 */
percentiles: Percentiles,
/**
 * [F] each
 */
per_frame: PerFrame, histogram: Bars,
/**
 * Radius of the rest pose's smallest enclosing sphere.
 */
radius: number, };

/**
 * A figure and what it means.
 */
export type Figure = {
/**
 * Short name.
 */
name: string,
/**
 * The number.
 */
value: number,
/**
 * The number for a person.
 */
text: string,
/**
 * Unit; may be empty.
 */
unit: string,
/**
 * One sentence.
 */
meaning: string, };

/**
 * What was left out to stay within the limit.
 */
export type FileInfo = { limit_bytes: number,
/**
 * 1: all frames.
 */
kept_frames_every: number, frames_total: number, };

export type Frames = { count: number,
/**
 * Of the source, before any were left out.
 */
fps: number,
/**
 * Numbers in the source.
 */
indices: Array<number>, clips: Array<ClipRow>, };

/**
 * Weights in 16 bits that sum to 65535 exactly.
 */
export type Influences = {
/**
 * K.
 */
influences: number,
/**
 * [N, K] bone, or virtual bone.
 */
indices: Buffer,
/**
 * [N, K] weight in 65535ths.
 */
weights: Buffer, };

/**
 * The error after a round.
 */
export type Iteration = {
/**
 * From 1.
 */
iteration: number,
/**
 * In the unit that the method itself looks at; E_RMS for fits.
 */
error: number,
/**
 * What the round was part of.
 */
stage: string, };

export type Largest = { value: number,
/**
 * In the source.
 */
frame: number, vertex: number, };

export type Mesh = { vertices: number,
/**
 * [T, 3]
 */
triangles: Buffer,
/**
 * [E, 2] edges of polygons; `None` where all faces are triangles.
 */
edges: Buffer | null, };

export type Model = { name: string, kind: "sequence" | "lbs" | "two_layer" | "ddm" | "compressed_ddm" | "shaped" | "shape_bones" | "basis",
/**
 * [N, 3]
 */
rest: Buffer,
/**
 * [N, 3] stored unit normals, of a model that the page skins.
 */
normals: Buffer | null, skin: Skin | null, positions: Positions | null, bones: Array<BoneRow>,
/**
 * [f, B, 12] posed_from_rest
 */
bone_matrices: Buffer | null, bone_weights: Influences | null,
/**
 * [J, 3]
 */
virtual_heads: Buffer | null, error: ErrorPart | null, verdict: Verdict | null, plots: Plots, figures: Array<Figure>, storage: Array<StorageRow>, warnings: Array<Remark>, };

/**
 * A parameter.
 */
export type Param = {
/**
 * As stored in files.
 */
name: string,
/**
 * As text.
 */
value: string,
/**
 * One sentence, where there is one.
 */
meaning: string | null, };

/**
 * The distances of the vertices in each frame of the source.
 */
export type PerFrame = { rms: Array<number>, q1: Array<number>, median: Array<number>, q3: Array<number>, max: Array<number>, };

/**
 * Values below which 50, 90, 95 and 99 percent lie.
 */
export type Percentiles = { p50: number, p90: number, p95: number, p99: number, };

/**
 * A region above a limit.
 */
export type Place = {
/**
 * Bone or place.
 */
region: string, cause: Cause,
/**
 * First and last frame of each range.
 */
frames: Array<[number, number]>,
/**
 * Whether these are nearly all frames.
 */
throughout: boolean,
/**
 * How many times the limit, in the worst frame.
 */
excess: number, };

export type Plots = { iterations: Array<Iteration> | null,
/**
 * Vertices with k influences, k from 0.
 */
influence_counts: Array<number>,
/**
 * [B] mean weight over the vertices.
 */
bone_usage: Array<number>, timings: Array<Timing>, };

/**
 * Positions in 16 bits per coordinate, each frame in a box of its own: a walk of many lengths costs no precision.
 */
export type Positions = {
/**
 * How `positions` are written.
 */
coding: Coding,
/**
 * [2, f, 3, N] low and high bytes of the differences of q, where `position = min + q / 65535 (max - min)` of the
 * frame's box.
 */
positions: Buffer,
/**
 * [f, 6] corners of each box in model units: min x y z, max x y z.
 */
boxes: Buffer, };

/**
 * A warning and what to make of it.
 */
export type Remark = {
/**
 * As on the command line.
 */
text: string,
/**
 * In plain words.
 */
meaning: string | null, };

/**
 * Seconds by the name of the stage.
 */
export type SecondsByStage = { [key in string]: number };

/**
 * A shape of a face, and how its weight follows from others.
 */
export type ShapeRow = {
/**
 * Its name.
 */
name: string,
/**
 * Numbers of the shapes that drive it; empty: it has a weight of its own. Without a range the product of their weights.
 */
of: Array<number>,
/**
 * An in-between: weights of that shape where this one begins, is 1, and ends.
 */
range: [number, number, number] | null, };

/**
 * Skinned on the page itself.
 */
export type Skin = { joints: number,
/**
 * [f, J, 12] posed_from_rest
 */
matrices: Buffer,
/**
 * K.
 */
influences: number,
/**
 * [N, K] bone, or virtual bone.
 */
indices: Buffer,
/**
 * [N, K] weight in 65535ths.
 */
weights: Buffer, };

/**
 * How much room something takes.
 */
export type StorageRow = {
/**
 * What, in words.
 */
what: string,
/**
 * How much.
 */
bytes: number,
/**
 * Whether it is counted in the row above that is none.
 */
part?: boolean, };

/**
 * Rows to compare.
 */
export type Table = {
/**
 * May be empty.
 */
title: string,
/**
 * Heads.
 */
columns: Array<Column>,
/**
 * Texts, numbers or nothing.
 */
rows: Array<Array<Cell>>, };

/**
 * Wall-clock time of a stage.
 */
export type Timing = {
/**
 * What.
 */
stage: string,
/**
 * How long.
 */
secs: number, };

/**
 * The axis that points up.
 */
export type Up = "y" | "z";

/**
 * What a viewer notices. Frames are those of the source.
 */
export type Verdict = { visibility: Visibility,
/**
 * One sentence.
 */
text: string,
/**
 * Regions above a limit, the worst first.
 */
places: Array<Place>, };

export type Visibility = "hard_to_see" | "visible" | "obvious";
