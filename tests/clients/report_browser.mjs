// Chromium without a network, and reports in it: shared by report_check.mjs, webgpu_check.mjs and scripts/report_pictures.mjs.
import { accessSync, constants } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const NAMES = [process.env.BONESMITH_CHROMIUM, process.env.CHROMIUM, "chromium", "chromium-browser", "google-chrome"];
// Software WebGL 2, and none of the browser's own errands.
const ARGUMENTS = [
  "--no-sandbox",
  "--use-angle=swiftshader",
  "--enable-unsafe-swiftshader",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-quic",
  "--no-first-run",
  "--force-color-profile=srgb",
];

function executable() {
  for (const name of NAMES.filter(Boolean)) {
    const places = name.includes("/") ? [resolve(name)] : (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name));
    for (const place of places) {
      try {
        accessSync(place, constants.X_OK);
        return place;
      } catch {
        // The next one.
      }
    }
  }
  return null;
}

export async function launch(more = []) {
  const executablePath = executable();
  if (!executablePath) {
    console.error("no Chromium: set BONESMITH_CHROMIUM, or put chromium, chromium-browser or google-chrome on the PATH");
    process.exit(2);
  }
  return chromium.launch({ executablePath, args: [...ARGUMENTS, ...more] });
}

/** Opens a report from disk with every request refused; `problems` collects errors and requests as they come. */
export async function open(browser, file, { width = 1280, height = 720, theme = "light", phone = false, motion = false } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: motion ? "no-preference" : "reduce",
    ...(phone ? { hasTouch: true, isMobile: true } : {}),
  });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(`page error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(`console: ${message.text()}`);
  });
  const url = pathToFileURL(resolve(file)).href;
  await context.route(
    (asked) => asked.href !== url,
    (route) => {
      problems.push(`request: ${route.request().url().slice(0, 120)}`);
      return route.abort();
    },
  );
  const start = performance.now();
  await page.goto(url, { waitUntil: "load", timeout: 120_000 });
  await page.evaluate(() => window.bonesmith.ready);
  const seconds = (performance.now() - start) / 1000;
  await page.evaluate(() => document.fonts.ready);
  return { page, context, problems, seconds };
}
