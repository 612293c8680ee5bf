// Small helpers: elements, and numbers as people read them.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

function fill<T extends Element>(element: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => !!child));
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Drawn with strokes on a 16 x 16 grid. */
export function icon(path: string): SVGSVGElement {
  return svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, svg("path", { d: path }));
}

/** Four significant digits; a power of ten where zeros would be counted. */
export function num(x: number, digits = 4): string {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) {
    const [mantissa, power] = x.toExponential(Math.max(digits - 2, 0)).split("e");
    return `${Number(mantissa)}e${Number(power)}`;
  }
  if (size >= 1000) return Math.round(x).toLocaleString("en-US").replaceAll(",", "\u202f");
  return String(Number(x.toPrecision(digits)));
}

export function count(x: number): string {
  return Math.round(x).toLocaleString("en-US").replaceAll(",", "\u202f");
}

export function bytes(x: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let i = 0;
  let value = x;
  while (value >= 999.5 && i < units.length - 1) {
    value /= 1000;
    i++;
  }
  return `${i === 0 ? value : value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0)} ${units[i]}`;
}

export function seconds(x: number): string {
  if (x >= 90) return `${Math.floor(x / 60)} min ${Math.round(x % 60)} s`;
  if (x >= 1) return `${num(x, 3)} s`;
  if (x >= 1e-3) return `${num(x * 1e3, 3)} ms`;
  return `${num(x * 1e6, 3)} µs`;
}

export function percent(x: number): string {
  const p = 100 * x;
  if (p === 0) return "0 %";
  return p < 0.01 ? "<0.01 %" : `${p >= 10 ? p.toFixed(0) : num(p, 2)} %`;
}
