// Pictures of reports for the docs, each below 150 kB: `node scripts/report_pictures.mjs OUT_DIR NAME=REPORT.html...` writes
// OUT_DIR/NAME.png (as it opens, dark), NAME-heat.png (the error on the model), NAME-bones.png (bones and skeleton, split).
// Needs Chromium and the packages of tests/clients (`npm install` there).
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch, open } from "../tests/clients/report_browser.mjs";

const LIMIT = 150_000; // bytes
const WIDTHS = [1280, 1120, 960, 800]; // tried until the file is small enough

const SHOTS = [
  { suffix: "", theme: "dark", place: 0.3, patch: {} },
  { suffix: "-heat", theme: "light", place: 0.3, patch: { layout: "single", color: "error", errorKind: "rms" } },
  { suffix: "-bones", theme: "light", place: 0.3, patch: { layout: "split", color: "bones", bones: true, split: 0.5 } },
];

const [out, ...pairs] = process.argv.slice(2);
if (!out || pairs.length === 0 || pairs.some((pair) => !pair.includes("="))) {
  console.error("usage: node scripts/report_pictures.mjs OUT_DIR NAME=REPORT.html...");
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const browser = await launch();
for (const pair of pairs) {
  const name = pair.slice(0, pair.indexOf("="));
  const file = pair.slice(pair.indexOf("=") + 1);
  for (const shot of SHOTS) await picture(file, join(out, `${name}${shot.suffix}.png`), shot);
}
await browser.close();

async function picture(file, target, { theme, place, patch }) {
  const { page, context, problems } = await open(browser, file, { theme, height: 720 });
  if (problems.length > 0) throw new Error(`${file}: ${problems.join("; ")}`);
  const is3d = await page.evaluate(() => window.bonesmith.state().frames > 0);
  if (!is3d && patch.layout) return context.close();
  await page.evaluate(({ place, patch }) => window.bonesmith.set({ frame: Math.round(place * Math.max(window.bonesmith.state().frames - 1, 0)), ...patch }), { place, patch });
  await page.waitForTimeout(200);
  const shot = (await page.screenshot()).toString("base64");
  for (const width of WIDTHS) {
    writeFileSync(target, Buffer.from(await page.evaluate(shrink, { shot, width }), "base64"));
    if (statSync(target).size < LIMIT) break;
  }
  console.log(`${target}: ${statSync(target).size} bytes`);
  return context.close();
}

/** In the page: the screenshot at the width given, as PNG. */
async function shrink({ shot, width }) {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${shot}`)).blob());
  const canvas = new OffscreenCanvas(width, Math.round((image.height * width) / image.width));
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
