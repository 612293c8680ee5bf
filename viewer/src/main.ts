// Puts the page together: data, picture, panels, text.
import { api, type Api } from "./api";
import { influencesOf, sizeOf, unpack, type Content } from "./content";
import { load } from "./data";
import { View } from "./scene/view";
import { Store, type State, type Theme } from "./state";
import { h, icon } from "./ui/dom";
import { panel } from "./ui/panel";
import { sections } from "./ui/sections";
import { shortcuts } from "./ui/shortcuts";
import { overlay } from "./ui/stage";
import { subtitle } from "./ui/text";
import { verdict } from "./ui/verdict";
import { transport } from "./ui/transport";

declare global {
  interface Window {
    bonesmith: Partial<Api>;
  }
}

const SUN = "M8 5a3 3 0 1 0 0 6a3 3 0 1 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1";

const page = document.getElementById("page")!;
window.bonesmith = {};
window.bonesmith.ready = start().catch((error: unknown) => {
  console.error(error);
  page.replaceChildren(h("p", { class: "notice", role: "alert" }, `This report cannot be shown: ${error instanceof Error ? error.message : String(error)}`));
});

async function start(): Promise<void> {
  const loaded = await load();
  if (!loaded) {
    page.replaceChildren(h("p", { class: "notice" }, "This is the empty page that Bonesmith fills: run a command with --report FILE.html."));
    return;
  }
  const content = unpack(loaded);
  const store = new Store(firstState(content));
  document.title = content.report.title;
  followTheme(store);
  keepPickSound(content, store);
  const strongest = (model: number, vertex: number): number | null => influencesOf(content.models[model], vertex)[0]?.bone ?? null;
  const header = headerOf(content, store);
  const main = h("main", {});
  page.replaceChildren(...[header.element, verdict(content, store), main].filter((part): part is HTMLElement => !!part));
  let view: View | null = null;
  if (content.vertices > 0 && content.models.length > 0) view = stage(content, store, main, header.help);
  main.append(h("div", { class: "sheet" }, ...sections(content, store)));
  Object.assign(window.bonesmith, api(content, store, view, strongest));
}

/** Weights are of some bone, and a bone picked in one model may not be there in the next. */
function keepPickSound(content: Content, store: Store): void {
  store.on(["color", "model"], ({ color, model, bone }) => {
    const bones = content.models[model]?.bones.length ?? 0;
    if (bone !== null && bone >= bones) store.set({ bone: null });
    if (color === "weights" && store.get().bone === null && bones > 0) store.set({ bone: 0 });
  });
}

function firstState(content: Content): State {
  const several = content.models.length + (content.original ? 1 : 0) > 1;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  return {
    frame: content.shapes ? content.frames : 0,
    weights: (content.shapes ?? []).map(() => 0),
    playing: content.frames > 1 && !still,
    speed: 1,
    loop: true,
    layout: several ? "side" : "single",
    color: "surface",
    errorKind: "rms",
    errorTop: sizeOf(content.models) === null ? "p99" : "absolute",
    normals: content.models.some((model) => model.normals) ? "skinned" : "positions",
    contours: true,
    wireframe: false,
    bones: false,
    virtual: false,
    facets: false,
    sync: true,
    follow: false,
    split: 0.5,
    model: 0,
    against: content.original ? -1 : Math.min(1, content.models.length - 1),
    vertex: null,
    bone: null,
    theme: window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
  };
}

/** The picture and its panel. A machine without WebGL 2 still gets figures and plots. */
function stage(content: Content, store: Store, main: HTMLElement, help: HTMLButtonElement): View | null {
  const picture = overlay(content, store);
  const box = h("section", { class: "stage", "aria-label": "Picture" }, picture.element, transport(content, store), panel(content, store));
  main.append(box);
  try {
    const view = new View(picture.canvas, content, store);
    picture.attach(view);
    store.set({ follow: view.travels });
    const keys = shortcuts(content, store, view);
    help.hidden = false;
    help.addEventListener("click", keys.open);
    document.body.append(keys.panel);
    printedPicture(view, picture.element);
    return view;
  } catch (error) {
    box.replaceWith(h("p", { class: "notice", role: "alert" }, `No picture: this browser gives no WebGL 2 (${error instanceof Error ? error.message : String(error)}).`));
    return null;
  }
}

/** Printers get what was last put on the screen of a WebGL canvas, so the light picture goes to a plain one first. */
function printedPicture(view: View, box: HTMLElement): void {
  const copy = h("canvas", { class: "printed", "aria-hidden": "true" });
  box.append(copy);
  window.addEventListener("beforeprint", () => {
    view.draw();
    copy.width = view.canvas.width;
    copy.height = view.canvas.height;
    copy.getContext("2d")?.drawImage(view.canvas, 0, 0);
  });
}

function headerOf(content: Content, store: Store): { element: HTMLElement; help: HTMLButtonElement } {
  const help = h("button", { type: "button", class: "plain", hidden: true, title: "Keys and mouse · key ?" }, "Keys ", h("kbd", {}, "?"));
  const theme = h("button", { type: "button", class: "plain", title: "Dark or light · key T", "aria-label": "Dark or light" }, icon(SUN));
  theme.addEventListener("click", () => store.set({ theme: store.get().theme === "dark" ? "light" : "dark" }));
  const element = h(
    "header",
    { class: "head" },
    h("div", { class: "mark", "aria-hidden": "true" }),
    h("div", { class: "titles" }, h("h1", {}, content.report.title), h("p", {}, subtitle(content))),
    help,
    theme,
  );
  return { element, help };
}

/** Follows the system until the reader chooses; printing is always light. */
function followTheme(store: Store): void {
  store.on(["theme"], (state) => (document.documentElement.dataset["theme"] = state.theme));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => store.set({ theme: event.matches ? "dark" : "light" }));
  let before: Theme | null = null;
  window.addEventListener("beforeprint", () => {
    before = store.get().theme;
    store.set({ theme: "light" });
  });
  window.addEventListener("afterprint", () => {
    if (before) store.set({ theme: before });
  });
}
