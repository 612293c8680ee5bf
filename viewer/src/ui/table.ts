// A table that sorts by a click on a column's head. Numbers stand right-aligned; empty cells stay last.
import type { Cell, Table } from "../types";
import { h, num } from "./dom";

export interface RowAction {
  /** What a row stands for, or null. */
  index: (row: Cell[]) => number | null;
  current: () => number;
  choose: (index: number) => void;
}

export function table(data: Table, action?: RowAction): { element: HTMLElement; refresh: () => void } {
  const numeric = data.columns.map((_, c) => data.rows.some((row) => isNumber(row[c])) && data.rows.every((row) => row[c] === null || row[c] === "" || isNumber(row[c])));
  const body = h("tbody", {});
  const heads: HTMLTableCellElement[] = [];
  let sorted = -1;
  let down = false;
  const fill = (): void => {
    const rows = data.rows.slice();
    if (sorted >= 0) rows.sort((a, b) => order(a[sorted], b[sorted], down ? -1 : 1));
    body.replaceChildren(...rows.map((row) => rowOf(row, numeric, action, refresh)));
  };
  const refresh = (): void => {
    fill();
    heads.forEach((head, c) => head.setAttribute("aria-sort", c !== sorted ? "none" : down ? "descending" : "ascending"));
  };
  data.columns.forEach((column, c) => {
    const { name, meaning = null, unit = null } = typeof column === "string" ? { name: column } : column;
    const button = h("button", { type: "button", title: meaning ?? null }, name, unit ? h("small", {}, ` ${unit}`) : null);
    button.addEventListener("click", () => {
      down = sorted === c ? !down : false;
      sorted = c;
      refresh();
    });
    heads.push(h("th", { scope: "col", class: numeric[c] ? "number" : null }, button));
  });
  refresh();
  const element = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": data.title ?? "Table" }, h("table", {}, h("thead", {}, h("tr", {}, ...heads)), body));
  return { element, refresh };
}

function rowOf(row: Cell[], numeric: boolean[], action: RowAction | undefined, refresh: () => void): HTMLElement {
  const index = action?.index(row) ?? null;
  const cells = row.map((cell, c) => {
    const text = cell === null ? "" : typeof cell === "number" ? num(cell) : cell;
    if (c > 0 || index === null || !action) return h(c === 0 ? "th" : "td", { class: numeric[c] ? "number" : null, scope: c === 0 ? "row" : null }, text);
    const button = h("button", { type: "button", class: "link", "aria-pressed": String(action.current() === index) }, text);
    button.addEventListener("click", () => {
      action.choose(index);
      refresh();
    });
    return h("th", { scope: "row" }, button);
  });
  return h("tr", { class: action && index !== null && action.current() === index ? "current" : null }, ...cells);
}

/** A number with at most a sign before it and a unit behind it. */
const NUMBER = /^[<>≈~]?\s*[-+−]?\d[\d\u202f_]*(\.\d+)?(e[-+]?\d+)?\s*(%|×|x|°|[kMGT]?i?B|[mµun]?s|min|fps)?$/i;

function isNumber(cell: Cell | undefined): boolean {
  return typeof cell === "number" || (typeof cell === "string" && NUMBER.test(cell));
}

/** The number at the head of a cell: `12.5 %`, `1.2e-3 s`, `3×`. */
function numberOf(cell: Cell | undefined): number {
  if (typeof cell === "number") return cell;
  const found = /[-+−]?\d[\d\u202f_]*(\.\d+)?(e[-+]?\d+)?/i.exec(cell ?? "");
  return found ? Number(found[0].replace("−", "-").replaceAll(/[\u202f_]/g, "")) : NaN;
}

function order(a: Cell | undefined, b: Cell | undefined, sign: number): number {
  const empty = (cell: Cell | undefined): number => (cell === null || cell === undefined || cell === "" ? 1 : 0);
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  if (isNumber(a) && isNumber(b)) return sign * (numberOf(a) - numberOf(b));
  return sign * String(a).localeCompare(String(b));
}
