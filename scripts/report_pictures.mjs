// Pictures of reports for the docs, each below 150 kB: `node scripts/report_pictures.mjs OUT_DIR NAME=REPORT.html...` writes
// OUT_DIR/NAME.png (as it opens, dark), NAME-heat.png (the error on the model), NAME-bones.png (bones and skeleton, split).
// Needs Chromium and the packages of tests/clients (`npm install` there).
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { launch, open } from "../tests/clients/report_browser.mjs";

const LIMIT = 150_000; // bytes
const SIZES = [[1280, 720], [1200, 675], [1120, 640], [1040, 600], [960, 560], [900, 540]]; // of the window, tried in turn

const SHOTS = [
  { suffix: "", theme: "dark", place: 0.3, patch: {} },
  { suffix: "-heat", theme: "light", place: 0.3, patch: { layout: "single", color: "error", errorKind: "rms" } },
  { suffix: "-bones", theme: "light", place: 0.3, patch: { layout: "split", color: "bones", bones: true, split: 0.42 } },
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

/** A screenshot in a window that shrinks until the file is small enough: scaling would blur the text. */
async function picture(file, target, { theme, place, patch }) {
  for (const [width, height] of SIZES) {
    const { page, context, problems } = await open(browser, file, { theme, width, height });
    if (problems.length > 0) throw new Error(`${file}: ${problems.join("; ")}`);
    const frames = await page.evaluate(() => window.bonesmith.state().frames);
    if (frames > 0 || !patch.layout) {
      await page.evaluate((wanted) => window.bonesmith.set(wanted), { ...patch, ...(frames > 0 ? { frame: Math.round(place * (frames - 1)) } : {}) });
      await page.waitForTimeout(200);
      await page.screenshot({ path: target });
    }
    await context.close();
    if (frames === 0 && patch.layout) return;
    if (statSync(target).size < LIMIT) break;
  }
  console.log(`${target}: ${statSync(target).size} bytes`);
}
