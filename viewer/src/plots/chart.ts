// A small chart: axes, marks drawn by the caller, and a reading of numbers under pointer or arrow keys. Redrawn when its width changes.
import { h, svg } from "../ui/dom";

export interface Frame {
  width: number;
  height: number;
  x: (value: number) => number;
  y: (value: number) => number;
}

export interface Key {
  label: string;
  class: string;
}

export interface Spec {
  title: string;
  /** One sentence on what it shows. */
  caption: string;
  x: [number, number];
  y: [number, number];
  logY?: boolean;
  xTicks: [number, string][];
  yFormat: (value: number) => string;
  key?: Key[];
  draw: (frame: Frame) => SVGElement[];
  /** Places that can be read: their x, and what is there. */
  places: number[];
  read: (index: number) => string;
  pick?: (index: number) => void;
  wide?: boolean;
}

export interface Chart {
  element: HTMLElement;
  /** Moves the mark of the current frame, at x in the chart's units; null hides it. */
  mark: (x: number | null) => void;
}

const HEIGHT = 220;
const LEFT = 62;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 26;
let clips = 0;

export function chart(spec: Spec): Chart {
  const reading = h("output", { class: "reading" });
  const picture = svg("svg", { tabindex: 0, role: "img", "aria-label": `${spec.title}. ${spec.caption}`, height: HEIGHT });
  const key = h("ul", { class: "key" }, ...(spec.key ?? []).map((k) => h("li", {}, svg("svg", { viewBox: "0 0 22 10", class: k.class }, svg("line", { x1: 1, x2: 21, y1: 5, y2: 5 })), k.label)));
  const element = h(
    "figure",
    { class: `chart${spec.wide ? " wide" : ""}` },
    h("figcaption", {}, h("h3", {}, spec.title), h("p", {}, spec.caption)),
    spec.key ? key : null,
    picture,
    reading,
  );
  let marked: number | null = null;
  let frame: Frame | null = null;
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const mark = svg("line", { class: "mark", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const put = (line: SVGElement, at: number | null): void => {
    line.setAttribute("visibility", at === null || !frame ? "hidden" : "visible");
    if (at === null || !frame) return;
    line.setAttribute("x1", String(frame.x(at)));
    line.setAttribute("x2", String(frame.x(at)));
  };
  const redraw = (): void => {
    const width = Math.max(picture.clientWidth, 200);
    frame = frameOf(spec, width);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const clip = `plot-${clips++}`;
    const area = svg("clipPath", { id: clip }, svg("rect", { x: LEFT, y: TOP - 4, width: width - LEFT - RIGHT + 2, height: HEIGHT - TOP - BOTTOM + 5 }));
    picture.replaceChildren(area, ...axes(spec, frame), mark, svg("g", { "clip-path": `url(#${clip})` }, ...spec.draw(frame)), cursor);
    put(mark, marked);
  };
  new ResizeObserver(redraw).observe(picture);
  window.addEventListener("beforeprint", redraw);
  listen(spec, picture, () => frame, (index) => {
    put(cursor, index === null ? null : spec.places[index]);
    reading.textContent = index === null ? "" : spec.read(index);
  });
  return {
    element,
    mark: (x) => {
      marked = x;
      put(mark, x);
    },
  };
}

function frameOf(spec: Spec, width: number): Frame {
  const [x0, x1] = spec.x;
  const [y0, y1] = spec.logY ? spec.y.map(Math.log10) : spec.y;
  const x = (value: number): number => LEFT + ((value - x0) / (x1 - x0 || 1)) * (width - LEFT - RIGHT);
  const y = (value: number): number => {
    const v = spec.logY ? Math.log10(Math.max(value, 1e-300)) : value;
    return HEIGHT - BOTTOM - ((v - y0) / (y1 - y0 || 1)) * (HEIGHT - TOP - BOTTOM);
  };
  return { width, height: HEIGHT, x, y };
}

function axes(spec: Spec, frame: Frame): SVGElement[] {
  const values = spec.logY ? logSteps(spec.y[0], spec.y[1]) : steps(spec.y[0], spec.y[1], 4);
  const across = values.flatMap((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: frame.width - RIGHT, y1: frame.y(value), y2: frame.y(value) }),
    svg("text", { x: LEFT - 8, y: frame.y(value) + 4, "text-anchor": "end" }, spec.yFormat(value)),
  ]);
  let lastX = -Infinity;
  const along = spec.xTicks.flatMap(([at, text]) => {
    const x = frame.x(at);
    if (x - lastX < 44) return [];
    lastX = x;
    return [svg("text", { x: Math.min(x, frame.width - RIGHT), y: HEIGHT - 8, "text-anchor": x > frame.width - RIGHT - 8 ? "end" : "middle" }, text)];
  });
  return [...across, ...along];
}

function listen(spec: Spec, picture: SVGSVGElement, frame: () => Frame | null, show: (index: number | null) => void): void {
  let at: number | null = null;
  const set = (index: number | null): void => {
    at = index;
    show(index);
  };
  const nearest = (event: PointerEvent): number | null => {
    const now = frame();
    if (!now || spec.places.length === 0) return null;
    const x = ((event.clientX - picture.getBoundingClientRect().left) / picture.clientWidth) * now.width;
    return spec.places.reduce((best, place, i) => (Math.abs(now.x(place) - x) < Math.abs(now.x(spec.places[best]) - x) ? i : best), 0);
  };
  picture.addEventListener("pointermove", (event) => {
    set(nearest(event));
    if (event.buttons === 1 && at !== null) spec.pick?.(at);
  });
  picture.addEventListener("pointerdown", (event) => {
    set(nearest(event));
    if (at !== null) spec.pick?.(at);
  });
  picture.addEventListener("pointerleave", () => set(null));
  picture.addEventListener("blur", () => set(null));
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by !== undefined) {
      set(Math.min(Math.max((at ?? (by > 0 ? -1 : 1)) + by, 0), spec.places.length - 1));
      event.preventDefault();
    } else if (event.key === "Enter" && at !== null) spec.pick?.(at);
  });
}

/** Round numbers between a and b, about `wanted` of them. */
export function steps(a: number, b: number, wanted: number): number[] {
  const raw = (b - a) / wanted;
  if (!(raw > 0)) return [a];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) ?? raw;
  const found: number[] = [];
  for (let i = Math.ceil(a / step - 1e-9); i * step <= b * (1 + 1e-9); i++) found.push(i * step + 0); // -0 would show
  return found;
}

function logSteps(a: number, b: number): number[] {
  const found: number[] = [];
  const decades = Math.log10(b / a);
  for (let power = Math.floor(Math.log10(a)); power <= Math.ceil(Math.log10(b)); power++) {
    for (const m of decades > 2.5 ? [1] : decades > 1 ? [1, 3] : [1, 2, 3, 5, 7]) found.push(m * 10 ** power);
  }
  return found.filter((value) => value >= a * 0.999 && value <= b * 1.001);
}

export function path(points: [number, number][], attributes: Record<string, string>): SVGElement {
  const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return svg("path", { d, ...attributes });
}
