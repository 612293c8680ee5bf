// Amounts beside each other as bars with their numbers: storage, seconds.
import { h } from "./dom";

export interface Amount {
  label: string;
  value: number;
  text: string;
  note?: string;
  strong?: boolean;
  /** A part of an amount near it: indented. */
  part?: boolean;
}

export function bars(title: string, caption: string, amounts: Amount[]): HTMLElement {
  const most = Math.max(...amounts.map((a) => a.value), 1e-300);
  const rows = amounts.map((a) =>
    h(
      "li",
      { class: [a.strong && "strong", a.part && "part"].filter(Boolean).join(" ") || null },
      h("span", { class: "what" }, a.label),
      h("span", { class: "amount" }, a.text, a.note ? h("small", {}, a.note) : null),
      h("span", { class: "track" }, h("i", { style: `width:${Math.max((100 * a.value) / most, 0.3)}%` })),
    ),
  );
  return h("figure", { class: "chart amounts" }, h("figcaption", {}, h("h3", {}, title), h("p", {}, caption)), h("ol", {}, ...rows));
}
