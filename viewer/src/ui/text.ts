// The written part: figures, storage, what was done, warnings, and how the page itself came about.
import type { Content, ModelContent } from "../content";
import type { Report } from "../types";
import { bars } from "./bars";
import { bytes, count, h, num, seconds } from "./dom";

const KINDS: Record<ModelContent["source"]["kind"], string> = {
  lbs: "linear blend skinning",
  two_layer: "two-layer skinning, bones over virtual bones",
  ddm: "Direct Delta Mush",
  compressed_ddm: "Direct Delta Mush, compressed",
  shaped: "linear blend skinning with corrective shapes",
  shape_bones: "linear blend skinning, bones driven by shapes",
  basis: "trajectories that vertices mix",
  sequence: "vertex positions per frame",
};

export function kindOf(model: ModelContent): string {
  return KINDS[model.source.kind] ?? model.source.kind;
}

/** The line under the title: what there is, how large. */
export function subtitle(content: Content): string {
  const { report } = content;
  const parts: string[] = [];
  if (content.vertices > 0) parts.push(`${count(content.vertices)} vertices`, `${count(report.file?.frames_total ?? content.frames)} ${content.shapes ? "shapes" : "frames"}`);
  const [model] = content.models;
  if (content.models.length > 1) parts.push(`${content.models.length} models`);
  else if (model && model.bones.length > 0) parts.push(`${count(model.bones.length)} bones`);
  if (content.models.length === 1) parts.push(kindOf(model));
  parts.push(`this file ${bytes(content.fileBytes)}`);
  return parts.join(" · ");
}

/** Told wherever frames were left out. */
export function decimation(report: Report): string | null {
  const every = report.file?.kept_frames_every ?? 1;
  if (!report.file || every <= 1) return null;
  const limit = report.file.limit_bytes ? ` so that the file stays below ${bytes(report.file.limit_bytes)}` : "";
  const what = report.shapes ? "shape" : "frame";
  return `The picture shows every ${ordinal(every)} ${what} (${count(report.frames?.count ?? 0)} of ${count(report.file.frames_total)})${limit}. Figures and plots are about all ${what}s.`;
}

function ordinal(n: number): string {
  const last = n % 100;
  const ending = last > 10 && last < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return n === 2 ? "second" : n === 3 ? "third" : `${n}${ending}`;
}

export function figures(model: ModelContent): HTMLElement {
  const cells = (model.source.figures ?? []).map((figure) =>
    h(
      "div",
      {},
      h("dt", {}, figure.name),
      h("dd", { class: "value" }, figure.text || num(figure.value ?? NaN), figure.unit ? h("small", {}, figure.unit) : null),
      figure.meaning ? h("dd", { class: "meaning" }, figure.meaning) : null,
    ),
  );
  return h("dl", { class: "figures" }, ...cells);
}

export function warnings(model: ModelContent): HTMLElement | null {
  const list = model.source.warnings ?? [];
  if (list.length === 0) return null;
  const items = list.map((w) => h("li", {}, h("b", {}, w.text), w.meaning ? h("p", {}, w.meaning) : null));
  return h("section", { class: "warnings", "aria-label": "Warnings" }, h("h3", {}, list.length === 1 ? "One thing to know" : `${list.length} things to know`), h("ul", {}, ...items));
}

export function storage(model: ModelContent): HTMLElement | null {
  const list = model.source.storage ?? [];
  if (list.length === 0) return null;
  const before = list[0].bytes;
  const amounts = list.map((entry, i) => ({
    label: entry.what,
    value: entry.bytes,
    text: bytes(entry.bytes),
    part: !!entry.part,
    note: i > 0 && !entry.part && entry.bytes > 0 && before > 0 ? (before >= entry.bytes ? `${num(before / entry.bytes, 3)}× smaller` : `${num(entry.bytes / before, 3)}× larger`) : "",
    strong: i > 0 && !entry.part,
  }));
  return bars("Storage before and after", "Bytes that the motion takes in each form.", amounts);
}

export function timings(model: ModelContent): HTMLElement | null {
  const list = model.source.plots?.timings ?? [];
  if (list.length === 0) return null;
  const stages = new Set(list.map((entry) => entry.stage));
  // `fit: vertices` is a part of `fit`, and stands under it.
  const owner = (stage: string): string | null => (stages.has(stage.split(": ")[0]) && stage.includes(": ") ? stage.split(": ")[0] : null);
  const whole = list.filter((entry) => !owner(entry.stage));
  const total = whole.reduce((sum, entry) => sum + entry.secs, 0);
  const ordered = whole.flatMap((entry) => [entry, ...list.filter((part) => owner(part.stage) === entry.stage)]);
  const amounts = ordered.map((entry) => {
    const part = owner(entry.stage) !== null;
    return { label: part ? entry.stage.split(": ").slice(1).join(": ") : entry.stage, value: entry.secs, text: seconds(entry.secs), strong: !part, part };
  });
  return bars("Where the time went", `Seconds of each stage; ${seconds(total)} in all.`, amounts);
}

export function done(report: Report): HTMLElement | null {
  const part = report.done;
  if (!part || !(part.text || part.params?.length || report.command_line)) return null;
  const rows = (part.params ?? []).map((p) =>
    h("div", {}, h("dt", {}, p.name), h("dd", {}, h("code", {}, typeof p.value === "number" ? num(p.value, 6) : (p.value ?? "–"))), p.meaning ? h("dd", { class: "meaning" }, p.meaning) : null),
  );
  const times = Object.entries(part.seconds ?? {}).map(([name, secs]) => `${name.replaceAll("_", " ")} ${seconds(secs)}`);
  return h(
    "section",
    { class: "done", id: "done" },
    h("h2", {}, "What was done"),
    h("p", { class: "lead" }, part.text),
    rows.length > 0 ? h("dl", { class: "params" }, ...rows) : null,
    report.command_line ? h("p", { class: "command" }, h("span", {}, "Command "), h("code", {}, report.command_line)) : null,
    times.length > 0 ? h("p", { class: "soft" }, `Time: ${times.join(", ")}.`) : null,
  );
}

function largestStep(boxes: Float32Array): number {
  let most = 0;
  for (let i = 0; i < boxes.length; i += 6) for (let c = 0; c < 3; c++) most = Math.max(most, (boxes[i + 3 + c] - boxes[i + c]) / 65535);
  return most;
}

export function footer(content: Content): HTMLElement {
  const { report } = content;
  const step = Math.max(0, ...[content.original, ...content.models.map((m) => m.baked)].map((b) => (b ? largestStep(b.boxes) : 0)));
  const accuracy = step > 0 ? ` Positions that are not skinned in the picture are kept on 16 bits, in steps of at most ${num(step, 2)} model units; figures were measured before that.` : "";
  return h(
    "footer",
    {},
    h("p", {}, `Written by Bonesmith ${report.version} (${report.command}). The page needs no network; everything is in this one file of ${bytes(content.fileBytes)}.${accuracy}`),
    h("p", {}, "Drawn with three.js (MIT licence). Set in Inter by The Inter Project Authors (SIL Open Font License 1.1)."),
  );
}
