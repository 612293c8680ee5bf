// The report's JSON, as docs/formats/report.md describes it: generated from the Rust types, under the names that the page uses.
export type {
  Bars as Histogram,
  BoneRow as Bone,
  Buffer as Buf,
  Cell,
  Document as Report,
  ErrorPart,
  Figure,
  Influences as Weights,
  Model,
  PerFrame,
  Plots,
  Positions as Quantised,
  Skin,
  Table,
  Verdict,
} from "./generated/report";

export type Maybe<T> = T | null | undefined;
