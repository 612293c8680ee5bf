// The page below the picture. What is about one model is rebuilt when another is chosen.
import type { Content, ModelContent } from "../content";
import { boneUsage, comparedFrames, histogram, influenceCounts, iterations, perFrame, perShape } from "../plots/plots";
import type { Store } from "../state";
import { h } from "./dom";
import { choices } from "./controls";
import { table } from "./table";
import { decimation, done, figures, footer, kindOf, storage, timings, warnings } from "./text";

export function sections(content: Content, store: Store): HTMLElement[] {
  const { report } = content;
  const shared: (HTMLElement | null)[] = [comparison(content, store), ...(report.tables ?? []).map((data) => tableSection(data.title ?? "", table(data).element))];
  const notice = decimation(report);
  if (notice) shared.unshift(h("p", { class: "notice decimated" }, notice));
  const perModel = content.models.map((model) => modelParts(content, store, model));
  const bodies = perModel.map((parts, i) => h("div", { class: "model", "data-model": i }, ...parts));
  store.on(["model"], (state) => bodies.forEach((body, i) => (body.hidden = i !== state.model)));
  const tabs = content.models.length > 1 ? modelTabs(content, store) : null;
  return [...shared, tabs, ...bodies, done(report), footer(content)].filter((part): part is HTMLElement => !!part);
}

function modelTabs(content: Content, store: Store): HTMLElement {
  const options = content.models.map((model, i) => ({ value: i, label: model.name, hint: kindOf(model) }));
  return h("nav", { class: "models", "aria-label": "Model" }, choices(store, "model", "Figures and plots of", options));
}

function tableSection(title: string, element: HTMLElement): HTMLElement {
  return h("section", { class: "tables" }, title ? h("h2", {}, title) : null, element);
}

/** The table of `compare`; its first column names the models. */
function comparison(content: Content, store: Store): HTMLElement | null {
  const data = content.report.table;
  const plot = comparedFrames(content, store);
  if (!data && !plot) return null;
  const section = h("section", { class: "tables" }, h("h2", {}, content.models.length > 1 ? "Side by side" : "Results"));
  if (data) {
    const made = table(data, {
      index: (row) => {
        const at = content.models.findIndex((model) => model.name === row[0]);
        return at < 0 ? null : at;
      },
      current: () => store.get().model,
      choose: (model) => store.set({ model }),
    });
    store.on(["model"], made.refresh);
    section.append(made.element);
  }
  if (plot) section.append(h("div", { class: "charts" }, plot.element));
  return section;
}

function modelParts(content: Content, store: Store, model: ModelContent): HTMLElement[] {
  const plots = model.source.plots ?? {};
  const about = h("section", { class: "about" }, h("h2", {}, content.models.length > 1 ? model.name : "Figures"), figures(model), warnings(model));
  const usage = plots.bone_usage ?? [];
  const charts = [
    model.error ? (content.shapes ? perShape : perFrame)(content, store, model.error).element : null,
    model.error && model.error.histogram.counts.length > 0 ? histogram(model.error.histogram).element : null,
    plots.iterations ? iterations(plots.iterations)?.element : null,
    plots.influence_counts?.length ? influenceCounts(plots.influence_counts).element : null,
    usage.length > 0 ? boneUsage(model, store, usage).element : null,
    storage(model),
    timings(model),
  ].filter((part): part is HTMLElement => !!part);
  return [about, h("section", { class: "plots" }, h("h2", {}, "Plots"), h("div", { class: "charts" }, ...charts))];
}
