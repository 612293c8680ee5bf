// The steps of report_check.mjs. Each takes { page, report, buffer, reference }, throws what is wrong and may return what it saw.
import { createHash } from "node:crypto";
import { array, strongestBone } from "./report_data.mjs";

const POSITIONS = 2e-4; // of the model's size

function must(condition, message) {
  if (!condition) throw new Error(message);
}

const state = (page) => page.evaluate(() => window.bonesmith.state());
const set = (page, patch) => page.evaluate((p) => window.bonesmith.set(p), patch);

/** A digest of the picture's pixels. */
async function digest(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const png = await page.evaluate(() => document.querySelector(".picture canvas").toDataURL());
  return createHash("sha256").update(png).digest("hex");
}

export async function text({ page, report }) {
  const shown = await page.innerText("body");
  must(shown.includes(report.title), `the title ${report.title} is not shown`);
  must(shown.includes(report.version), `the version ${report.version} is not shown`);
  for (const figure of report.models[0]?.figures ?? []) {
    must(shown.includes(figure.name) && shown.includes(figure.text), `figure ${figure.name} = ${figure.text} is not shown`);
    must(!figure.meaning || shown.includes(figure.meaning), `figure ${figure.name} is not explained`);
  }
  for (const { text: warning, meaning } of report.models[0]?.warnings ?? []) must(shown.includes(warning) && (!meaning || shown.includes(meaning)), `warning "${warning}" is not shown`);
  for (const { name } of report.done?.params ?? []) must(shown.includes(name), `parameter ${name} is not shown`);
  if (report.done) must(shown.includes(report.done.text), "what was done is not shown");
  if (report.command_line) must(shown.includes(report.command_line), "the command line is not shown");
  const verdict = report.models[0]?.verdict;
  if (verdict) must(shown.includes(verdict.text), `the verdict "${verdict.text}" is not shown`);
  if ((report.file?.kept_frames_every ?? 1) > 1) must(/shows every \S+ frame/.test(shown), "left-out frames are not shown");
  return /this file [\d.]+ [kM]B/.exec(shown)?.[0];
}

/** What the GPU places, beside the reference; returns the largest distance seen. */
export async function positions({ page, reference }) {
  let worst = 0;
  const compare = async (label, call, shots) => {
    const seen = [];
    for (const { frame, positions: wanted } of shots) {
      const got = await page.evaluate(([call, frame]) => Array.from(call < 0 ? window.bonesmith.originalPositions(frame) : window.bonesmith.positions(call, frame)), [call, frame]);
      must(got.length === 3 * wanted.length, `${label}: ${got.length / 3} vertices instead of ${wanted.length}`);
      wanted.forEach((p, v) => {
        const distance = Math.hypot(p[0] - got[3 * v], p[1] - got[3 * v + 1], p[2] - got[3 * v + 2]) / reference.size;
        must(distance <= POSITIONS, `${label}, frame ${frame}, vertex ${v} is off by ${distance.toExponential(2)} of the size`);
        worst = Math.max(worst, distance);
      });
      seen.push({ wanted, got });
    }
    // Frames that differ in the reference must differ on the screen.
    for (const other of seen.slice(1)) {
      const moves = (key, stride) => other[key].some((x, i) => (stride ? Math.hypot(...x.map((c, d) => c - seen[0][key][i][d])) : Math.abs(x - seen[0][key][i])) > 1e-3 * reference.size);
      must(moves("got", false) || !moves("wanted", true), `${label}: the frames look alike`);
    }
  };
  for (const [m, model] of reference.models.entries()) await compare(model.name, m, model.frames);
  if (reference.original) await compare("original", -1, reference.original);
  return `off by at most ${worst.toExponential(1)} of the size`;
}

/** Sliders of a face: they mix the shapes as the core does, drivers follow, names are found, reset goes back. */
export async function shapes({ page, report, reference }) {
  const rows = report.shapes;
  const frames = report.frames.count;
  let worst = 0;
  for (const { weights, model, original } of reference?.mixes ?? []) {
    await set(page, { weights, frame: frames, playing: false });
    for (const [source, wanted] of [[0, model], [-1, original]]) {
      const got = await page.evaluate(([source, frame]) => Array.from(source < 0 ? window.bonesmith.originalPositions(frame) : window.bonesmith.positions(source, frame)), [source, frames]);
      wanted.flat().forEach((x, i) => (worst = Math.max(worst, Math.abs(x - got[i]) / reference.size)));
    }
  }
  must(worst <= POSITIONS, `a mix is off by ${worst.toExponential(2)} of the size`);
  const list = page.locator(".shapes li");
  must((await list.count()) === rows.length, `${await list.count()} sliders for ${rows.length} shapes`);
  await page.getByRole("button", { name: "reset" }).click();
  const neutral = await digest(page);
  const own = rows.findIndex((row) => row.of.length === 0);
  await list.nth(own).locator("input").fill("0.5");
  const now = await state(page);
  must(now.weights[own] === 0.5 && now.frame === frames, "a slider does not set the weight");
  must((await digest(page)) !== neutral, "a slider changes nothing");
  for (const [s, row] of rows.entries()) {
    if (row.of.length === 0) continue;
    must(await list.nth(s).locator("input").isDisabled(), `${row.name} is driven, and its slider can be moved`);
    const shown = Number(await list.nth(s).locator("output").innerText());
    const of = row.of.map((other) => now.weights[other]);
    const [from, peak, to] = row.range ?? [];
    const wanted = row.range ? Math.min(Math.max(of[0] <= peak ? (of[0] - from) / (peak - from) : (to - of[0]) / (to - peak), 0), 1) : of.reduce((a, b) => a * b, 1);
    must(Math.abs(shown - wanted) < 0.006, `${row.name} shows ${shown} instead of ${wanted}`);
  }
  await page.getByRole("button", { name: "reset" }).click();
  must((await digest(page)) === neutral, "reset does not go back to the neutral");
  await list.nth(own).locator("button").click();
  must((await state(page)).frame === report.frames.indices.indexOf(own), "the name of a shape does not show it alone");
  const find = page.getByLabel("Find shapes by name");
  if (await find.isVisible()) {
    await find.fill(rows[own].name.toUpperCase());
    const visible = await list.evaluateAll((items) => items.filter((item) => !item.hidden).map((item) => item.textContent));
    must(visible.length < rows.length && visible.every((text) => text.includes(rows[own].name)), `the search shows ${visible.length} shapes`);
    await find.fill("");
  }
  return `${rows.length} shapes, mixes off by at most ${worst.toExponential(1)} of the size`;
}

export async function scrub({ page, report }) {
  const frames = report.frames.count;
  await set(page, { frame: 0, playing: false });
  if (frames < 2) return "one frame";
  // Not the middle: with two clips of one length that is a first frame again.
  const other = Math.ceil(frames / 3);
  const before = await digest(page);
  await page.locator(".transport .scrub").focus();
  await page.keyboard.press("ArrowRight");
  must((await state(page)).frame === 1, "the arrow key on the slider does not go to frame 1");
  await page.locator(".transport .scrub").fill(String(other));
  must((await state(page)).frame === other, "the slider does not set the frame");
  must((await digest(page)) !== before, "the picture does not change");
  await page.locator(".transport .round").click();
  await page.waitForFunction((was) => window.bonesmith.state().frame !== was, other, { timeout: 20_000 });
  await page.locator(".transport .round").click();
  must(!(await state(page)).playing, "the button does not pause");
}

/** Clicks through a group of radio buttons. */
async function clickThrough(page, group, seen) {
  const inputs = page.locator(`.panel input[name="${group}"]`);
  const values = await inputs.evaluateAll((list) => list.map((input) => input.value));
  for (const [i, value] of values.entries()) {
    await inputs.nth(i).check({ force: true });
    must(String((await state(page))[group]) === value, `${group} ${value} cannot be chosen`);
    await seen(value);
  }
  return values;
}

export async function layouts({ page, report }) {
  const sources = report.models.length + (report.original ? 1 : 0);
  if (sources < 2) return "one thing to show";
  const digests = new Set();
  await set(page, { frame: 0, color: "surface" });
  await clickThrough(page, "layout", async (layout) => {
    digests.add(await digest(page));
    const { panes } = await state(page);
    const wanted = { side: sources, overlay: 1, split: 2, single: 1 }[layout];
    must(panes === wanted, `${layout} has ${panes} panes instead of ${wanted}`);
  });
  // Where nothing is to be seen of the error, one over the other looks like one alone.
  const invisible = report.models[0]?.verdict && !report.models[0].verdict.places.length;
  must(digests.size >= (invisible ? 3 : 4), `only ${digests.size} of 4 layouts differ`);
  await set(page, { layout: "split", split: 0.5 });
  const line = await page.locator(".split").boundingBox();
  await page.mouse.move(line.x + line.width / 2, line.y + 60);
  await page.mouse.down();
  await page.mouse.move(line.x + line.width / 2 + 120, line.y + 60, { steps: 3 });
  await page.mouse.up();
  must((await state(page)).split > 0.55, "the line cannot be dragged");
  await set(page, { layout: "side" });
}

export async function colors({ page }) {
  const digests = new Set();
  await set(page, { bone: 0 });
  const values = await clickThrough(page, "color", async () => digests.add(await digest(page)));
  must(digests.size === values.length, `only ${digests.size} of ${values.length} colourings differ`);
  await set(page, { bone: null });
  return values.join(", ");
}

export async function switches({ page, report }) {
  const [model] = report.models;
  await set(page, { layout: "single", color: report.original && model.error ? "error" : "surface" });
  const visible = [...(report.mesh.triangles.length ? ["wireframe", "facets"] : []), ...(model.bones?.length ? ["bones"] : []), ...(model.virtual_heads ? ["virtual"] : [])];
  const names = { wireframe: "Wireframe", facets: "Facets", bones: "Skeleton", virtual: "Virtual bones" };
  for (const key of visible) {
    const before = await digest(page);
    const input = page.getByRole("switch", { name: names[key] });
    await input.check({ force: true });
    must((await state(page))[key] === true, `${names[key]} does not switch on`);
    must((await digest(page)) !== before, `${names[key]} changes nothing`);
    await input.uncheck({ force: true });
    must((await digest(page)) === before, `${names[key]} leaves something behind`);
  }
  return visible.join(", ") || "none";
}

/** How a page opens: plain, playing, errors on the absolute scale, lit by skinned normals where the model has them. */
export async function opening({ page, report }) {
  const now = await state(page);
  must(now.color === "surface", `it opens coloured by ${now.color}`);
  must(now.playing === report.frames.count > 1, "it does not open playing");
  if (report.models.some((model) => model.error?.radius)) must(now.errorTop === "absolute", `the scale is ${now.errorTop}`);
  must(now.normals === (report.models.some((model) => model.normals) ? "skinned" : "positions"), `normals are ${now.normals}`);
}

/** Both kinds of normals, and the map of the error of the skinned ones. */
export async function shading({ page, report }) {
  const [model] = report.models;
  if (!model.normals) return "no stored normals";
  await set(page, { layout: "single", color: "surface", facets: false, frame: Math.floor(report.frames.count / 2), playing: false });
  const digests = new Map();
  await clickThrough(page, "normals", async (normals) => digests.set(normals, await digest(page)));
  must(digests.get("skinned") !== digests.get("positions"), "both kinds of normals look alike");
  await set(page, { normals: "skinned" });
  must((await digest(page)) === digests.get("skinned"), "the switch leaves something behind");
  if (report.original && model.error) {
    await set(page, { color: "shading" });
    must((await digest(page)) !== digests.get("skinned"), "the error of the normals is not shown");
    must((await page.locator(".legend .ticks span").last().innerText()) === "30°", "the key of the normals does not end at 30°");
  }
  await set(page, { color: "surface", frame: 0 });
}

/** A place of the verdict is a button that goes to its frames. */
export async function verdict({ page, report }) {
  const place = report.models[0].verdict?.places[0];
  if (!place) return "nothing to see";
  await set(page, { frame: 0, color: "surface" });
  await page.locator(".verdict button").first().click();
  const now = await state(page);
  const [first, last] = place.frames[0];
  const shown = report.frames.indices[now.frame];
  const near = Math.min(...report.frames.indices.map((t) => Math.abs(t - (first + last) / 2)));
  must(Math.abs(shown - (first + last) / 2) === near, `frame ${shown} is shown instead of the middle of ${first} to ${last}`);
  must(now.color === (place.cause === "shading" ? "shading" : "error"), `the place is coloured by ${now.color}`);
  await set(page, { frame: 0, color: "surface", errorKind: "rms" });
}

/** Whether a shown number is a value, rounded as the page does: to three digits, to two below 1e-4. */
function reads(shown, value) {
  return Math.abs(shown - value) <= (value < 1e-4 ? 6e-2 : 6e-3) * value + 1e-12;
}

export async function heat({ page, report, buffer, reference }) {
  const models = report.models.filter((model) => model.error);
  if (models.length === 0) return "no original to compare with";
  const wanted = Math.max(...models.map((model) => model.error.max.value));
  const shown = await page.evaluate(() => window.bonesmith.errorMax());
  must(Math.abs(shown - wanted) <= 1e-5 * wanted, `the map's largest is ${shown}, the report's ${wanted}`);
  for (const [m, model] of (reference?.models ?? []).entries()) {
    const reported = report.models[m].error?.max.value;
    if (model.max && reported !== undefined) must(Math.abs(model.max.value - reported) <= 1e-4 * reported + 1e-6 * reference.size, `model ${m}: the report's largest is ${reported}, the core's ${model.max.value}`);
  }
  await set(page, { color: "error", errorKind: "max", errorTop: "max", model: 0 });
  if (wanted === 0) return "no error at all";
  const top = Number(await page.locator(".legend .ticks span").last().innerText());
  must(reads(top, wanted), `the key ends at ${top} instead of ${wanted}`);
  await set(page, { errorKind: "rms", errorTop: "p99" });
  const percentiles = await page.locator(".legend .percentiles dd").allInnerTexts();
  const given = models[0].error.percentiles;
  [given.p50, given.p90, given.p95, given.p99].forEach((p, i) => must(reads(Number(percentiles[i]), p), `percentile ${i} reads ${percentiles[i]} instead of ${p}`));
  const rms = array(buffer, models[0].error.per_vertex_rms).slice().sort();
  const median = rms[Math.floor(rms.length / 2)];
  must(Math.abs(median - given.p50) <= 0.1 * median + 1e-9, `the median of the vertices is ${median}, the report says ${given.p50}`);
  return `largest ${shown.toPrecision(4)}`;
}

export async function picking({ page, report, buffer, reference }) {
  const [model] = report.models;
  const vertices = Object.entries(reference?.models[0]?.bones ?? {});
  for (const [vertex, name] of vertices) {
    await page.evaluate((v) => window.bonesmith.pick(v), Number(vertex));
    const now = await state(page);
    must(now.boneName === name, `vertex ${vertex} shows ${now.boneName} instead of ${name}`);
    must((await page.locator(".influences button").first().innerText()).trim() === name, `the list of vertex ${vertex} does not begin with ${name}`);
  }
  await page.evaluate(() => window.bonesmith.set({ vertex: null, bone: null, bones: false, layout: "single", frame: 0 }));
  const vertex = await clickOnModel(page);
  const wanted = strongestBone(buffer, model, vertex);
  const now = await state(page);
  if (wanted !== null) must(now.boneName === wanted, `the vertex clicked, ${vertex}, shows ${now.boneName} instead of ${wanted}`);
  await set(page, { vertex: null, bone: null, layout: "side" });
  return `${vertices.length} vertices, and ${vertex} by a click`;
}

/** Clicks on a grid of places until a vertex is hit. */
async function clickOnModel(page) {
  await page.evaluate(() => window.scrollTo(0, 0));
  const box = await page.locator(".picture canvas").first().boundingBox();
  for (const fy of [0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2]) {
    for (const fx of [0.5, 0.45, 0.55, 0.4, 0.6, 0.3, 0.7]) {
      await page.mouse.click(box.x + fx * box.width, box.y + fy * box.height);
      const { vertex } = await state(page);
      if (vertex !== null) return vertex;
    }
  }
  throw new Error("no click in the picture hits the model");
}

export async function keys({ page, report }) {
  await page.evaluate(() => document.activeElement?.blur());
  const press = async (key, what, holds) => {
    await page.keyboard.press(key);
    must(holds(await state(page)), `the key ${key} does not ${what}`);
  };
  const frames = report.frames.count;
  await set(page, { frame: 0, playing: false, layout: "side", color: "surface", wireframe: false, bones: false, bone: null, vertex: null });
  await press("ArrowRight", "step on", (s) => s.frame === 1 % frames);
  await press("End", "go to the last frame", (s) => s.frame === frames - 1);
  await press("Home", "go to the first frame", (s) => s.frame === 0);
  await press(" ", "play", (s) => s.playing);
  await press(" ", "pause", (s) => !s.playing);
  for (const [key, layout] of [["2", "overlay"], ["3", "split"], ["4", "single"], ["1", "side"]]) await press(key, `show ${layout}`, (s) => s.layout === layout);
  for (const [key, color] of [["e", "error"], ["b", "bones"], ["w", "weights"], ["s", "surface"]]) await press(key, `colour by ${color}`, (s) => s.color === color);
  for (const [key, flag] of [["x", "wireframe"], ["k", "bones"], ["f", "facets"], ["l", "loop"], ["c", "contours"], ["y", "sync"], ["o", "follow"]]) {
    const was = (await state(page))[flag];
    await press(key, `switch ${flag}`, (s) => s[flag] === !was);
    await press(key, `switch ${flag} back`, (s) => s[flag] === was);
  }
  if (report.models[0].bones?.length) {
    await set(page, { bone: null });
    await press("n", "pick a bone", (s) => s.bone === 0);
  }
  const theme = (await state(page)).theme;
  await press("t", "change the theme", (s) => s.theme !== theme);
  await press("t", "change the theme back", (s) => s.theme === theme);
  await page.keyboard.press("?");
  must(await page.locator("dialog.help").evaluate((dialog) => dialog.open), "the key ? does not open the help");
  await page.keyboard.press("Escape");
  must(!(await page.locator("dialog.help").evaluate((dialog) => dialog.open)), "Escape does not close the help");
}

export async function plots({ page, report }) {
  const charts = page.locator(".chart:visible > svg");
  const count = await charts.count();
  const [model] = report.models;
  if (count === 0) {
    must(!model?.error, "there are errors but no plot");
    return "none";
  }
  for (let i = 0; i < count; i++) {
    const chart = charts.nth(i);
    const title = await chart.locator("xpath=..").locator("h3").innerText();
    await chart.scrollIntoViewIfNeeded();
    await chart.hover({ position: { x: 150, y: 100 } });
    const read = await chart.locator("xpath=..").locator(".reading").innerText();
    must(/\d/.test(read), `"${title}" reads out nothing`);
    const broken = await chart.evaluate((svg) => [...svg.querySelectorAll("path, rect, line")].filter((mark) => [...mark.attributes].some((a) => a.value.includes("NaN"))).length);
    must(broken === 0, `"${title}" has ${broken} marks without a place`);
  }
  await page.evaluate(() => window.scrollTo(0, 0));
  return `${count} of them`;
}

export async function tables({ page }) {
  const tables = page.locator(".table table");
  const count = await tables.count();
  for (let i = 0; i < count; i++) {
    const heads = tables.nth(i).locator("thead button");
    for (let c = 0; c < (await heads.count()); c++) {
      const numeric = await tables.nth(i).locator("thead th").nth(c).evaluate((th) => th.classList.contains("number"));
      const column = async () => (await tables.nth(i).locator(`tbody tr > :nth-child(${c + 1})`).allInnerTexts()).filter((cell) => cell !== "");
      const value = (cell) => Number(/[-+]?[\d.]+(e[-+]?\d+)?/.exec(cell.replaceAll("\u202f", "").replace("−", "-"))?.[0]);
      const rises = (list, sign) => list.every((cell, k) => k === 0 || (numeric ? sign * (value(cell) - value(list[k - 1])) >= 0 : sign * cell.localeCompare(list[k - 1]) >= 0));
      await heads.nth(c).click();
      must(rises(await column(), 1), `table ${i}, column ${c} does not sort upwards`);
      await heads.nth(c).click();
      must(rises(await column(), -1), `table ${i}, column ${c} does not sort downwards`);
    }
  }
  return count === 0 ? "none" : `${count} of them`;
}

/** WCAG AA in both themes: 4.5 to 1 for text, against the nearest opaque ground. */
export async function themes({ page }) {
  let least = Infinity;
  const was = (await state(page)).theme;
  for (const theme of ["light", "dark"]) {
    await set(page, { theme });
    const { ratio, worst } = await page.evaluate(leastContrast);
    must(ratio >= 4.5, `${theme}: contrast ${ratio.toFixed(2)} at "${worst}"`);
    least = Math.min(least, ratio);
  }
  await set(page, { theme: was });
  return `at least ${least.toFixed(1)} to 1`;
}

/** In the page: the least contrast of any text that is shown. */
function leastContrast() {
  const parse = (color) => (/[\d.]+/g.exec(color) ? color.match(/[\d.]+/g).map(Number) : [0, 0, 0, 0]);
  const light = ([r, g, b]) => {
    const on = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * on[0] + 0.7152 * on[1] + 0.0722 * on[2];
  };
  const groundOf = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if ((color[3] ?? 1) > 0.99) return color;
    }
    return [255, 255, 255];
  };
  let found = { ratio: Infinity, worst: "" };
  const walker = document.createTreeWalker(document.getElementById("page"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("script, style, .hidden, option") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const a = light(parse(element instanceof SVGElement ? style.fill : style.color));
    const b = light(groundOf(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < found.ratio) found = { ratio, worst: node.textContent.trim().slice(0, 40) };
  }
  return found;
}

/** Buttons, fields and pictures are named for those who do not see them. */
export async function names({ page }) {
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("button, input, select, canvas[tabindex], [role=slider], svg[tabindex]")]
      .filter((e) => e.checkVisibility())
      .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label")?.textContent.trim() || e.title))
      .map((e) => e.outerHTML.slice(0, 80)),
  );
  must(nameless.length === 0, `without a name: ${nameless.join(", ")}`);
}

export async function fits({ page }) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  must(over <= 0, `the page is ${over} pixels too wide`);
}
