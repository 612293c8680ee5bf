// Reports in headless Chromium, from disk, without a network: `node report_check.mjs [--references DIR] [--update] FOLDER...`.
// For each NAME.html: it opens without errors, what the GPU draws is what the core computed (NAME.json beside it), every control works by
// mouse and by keys, it fits a phone, and it looks as it did (DIR/NAME-*.png, small). `--update` writes these pictures anew.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, open } from "./report_browser.mjs";
import { comparePicture } from "./report_looks.mjs";
import * as checks from "./report_steps.mjs";
import { readReport } from "./report_data.mjs";

const args = process.argv.slice(2);
const update = args.includes("--update");
const at = args.indexOf("--references");
const references = at >= 0 ? args[at + 1] : join(dirname(fileURLToPath(import.meta.url)), "report_references");
const folders = args.filter((arg, i) => !arg.startsWith("--") && (at < 0 || i !== at + 1));
const files = folders.flatMap((folder) => readdirSync(folder).filter((name) => extname(name) === ".html").sort().map((name) => join(folder, name)));
if (files.length === 0) {
  console.error(`no .html in ${folders.join(", ") || "the folders given"}`);
  process.exit(2);
}

let passed = 0;
let failed = 0;

/** One line per step; a step throws what is wrong, and may return what it saw. */
async function step(name, what, run) {
  try {
    const seen = await run();
    passed++;
    console.log(`ok   ${name}: ${what}${seen ? ` (${seen})` : ""}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${what}: ${error.message.split("\n")[0]}`);
  }
}

async function judge(browser, file) {
  const name = basename(file, ".html");
  const { report, buffer } = readReport(file);
  const beside = file.replace(/\.html$/, ".json");
  const reference = existsSync(beside) ? JSON.parse(readFileSync(beside, "utf8")) : null;
  const opened = await open(browser, file);
  const { page, problems } = opened;
  const subject = { page, report, buffer, reference };
  const is3d = !!report.mesh && report.models.length > 0;
  await step(name, "text and figures are there", () => checks.text(subject));
  if (is3d) {
    if (reference) await step(name, "the GPU places vertices as the core does", () => checks.positions(subject));
    if (report.shapes) await step(name, "sliders mix the shapes", () => checks.shapes(subject));
    await step(name, "scrubbing moves the picture", () => checks.scrub(subject));
    await step(name, "layouts", () => checks.layouts(subject));
    await step(name, "colours", () => checks.colors(subject));
    await step(name, "switches", () => checks.switches(subject));
    await step(name, "skinned normals", () => checks.shading(subject));
    await step(name, "verdict", () => checks.verdict(subject));
    await step(name, "heat map and its numbers", () => checks.heat(subject));
    await step(name, "picking", () => checks.picking(subject));
    await step(name, "keys", () => checks.keys(subject));
  }
  await step(name, "plots read out numbers", () => checks.plots(subject));
  await step(name, "tables sort", () => checks.tables(subject));
  await step(name, "themes keep contrast", () => checks.themes(subject));
  await step(name, "every control has a name", () => checks.names(subject));
  await step(name, "no error, no request", () => {
    if (problems.length > 0) throw new Error(problems.join("; "));
    return `open after ${opened.seconds.toFixed(2)} s`;
  });
  await opened.context.close();
  if (is3d) {
    const moving = await open(browser, file, { motion: true });
    await step(name, "opens plain and playing", () => checks.opening({ page: moving.page, report }));
    await moving.context.close();
  }
  await looks(browser, file, name, is3d);
}

/** Desktop and phone beside the small pictures kept. */
async function looks(browser, file, name, is3d) {
  const shots = [
    ["desktop", { width: 1280, height: 720 }, [192, 108]],
    ["dark", { width: 1280, height: 720, theme: "dark" }, [192, 108]],
    ["phone", { width: 390, height: 844, phone: true }, [90, 195]],
  ];
  for (const [shape, settings, size] of shots) {
    const { page, context } = await open(browser, file, settings);
    if (is3d) await page.evaluate((dark) => window.bonesmith.set(dark ? { color: "bones", bones: true } : {}), shape === "dark");
    await step(name, `fits, ${shape}`, () => checks.fits({ page }));
    // What has no reference picture is not compared, and does not count as passed.
    const reference = join(references, `${name}-${shape}.png`);
    if (update || existsSync(reference)) await step(name, `looks as it did, ${shape}`, () => comparePicture(page, reference, size, update));
    else console.log(`not compared: ${name}, ${shape}: no reference picture`);
    await context.close();
  }
}

/** Half of the data: the page must say so instead of showing half a model. */
async function cutOff(browser, file) {
  const html = readFileSync(file, "utf8");
  const start = html.indexOf('id="bonesmith-data">') + 'id="bonesmith-data">'.length;
  const end = html.indexOf("</script>", start);
  const folder = mkdtempSync(join(tmpdir(), "bonesmith-report-"));
  const cut = join(folder, "cut.html");
  writeFileSync(cut, html.slice(0, start + 4 * Math.floor((end - start) / 8)) + html.slice(end));
  const { page, context } = await open(browser, cut);
  const shown = await page.innerText("body");
  await context.close();
  rmSync(folder, { recursive: true });
  if (!shown.includes("cut off")) throw new Error(`the page shows "${shown.slice(0, 80)}"`);
}

/** Scripts and handlers that are not the page's own do not run, and nothing is loaded. */
async function foreignScripts(browser, file) {
  const { page, context } = await open(browser, file);
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.foreign = 1";
    const image = document.createElement("img");
    image.setAttribute("onerror", "window.foreign = 2");
    image.src = "data:,";
    document.body.append(script, image);
    return new Promise((done) => setTimeout(done, 200));
  });
  const ran = await page.evaluate(() => window.foreign);
  await context.close();
  if (ran !== undefined) throw new Error(`foreign script ${ran} ran`);
}

if (update) mkdirSync(references, { recursive: true });
const browser = await launch();
for (const file of files) await judge(browser, file);
const whole = files.find((file) => readReport(file).report.blob?.bytes > 0);
if (whole) await step(basename(whole, ".html"), "a file cut off says so", () => cutOff(browser, whole));
await step(basename(files[0], ".html"), "scripts of others do not run", () => foreignScripts(browser, files[0]));
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
