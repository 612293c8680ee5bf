// Writes the page of the crate bonesmith-report: page, style, font and script in one file, the same bytes for the same sources.
// `--check` builds in memory and fails when the committed file differs.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const MARKER = "<!--BONESMITH-DATA-->"; // the Rust side puts JSON and blob here
const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../crates/bonesmith-report/page/report.html");

async function bundle(entry, options) {
  const result = await build({
    entryPoints: [join(here, entry)],
    absWorkingDir: here,
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    legalComments: "eof",
    target: ["es2022", "chrome109", "firefox115", "safari16.4"],
    ...options,
  });
  return result.outputFiles[0].text.trim();
}

/** Splits at the placeholder instead of String.replace, which reads `$` in the replacement. */
function fill(page, placeholder, text) {
  const parts = page.split(placeholder);
  if (parts.length !== 2) throw new Error(`${placeholder} stands ${parts.length - 1} times in the page`);
  return parts.join(text);
}

async function page() {
  const style = await bundle("src/style.css", { loader: { ".woff2": "dataurl" } });
  const script = await bundle("src/main.ts", { format: "esm" });
  let html = readFileSync(join(here, "src/index.html"), "utf8");
  html = fill(html, "/*STYLE*/", style);
  const safe = script.replaceAll("</script", "<\\/script");
  html = fill(html, "/*SCRIPT*/", safe);
  // The page runs its own script and no other, whatever the names in a report say; it loads nothing.
  html = fill(html, "/*SCRIPT-HASH*/", createHash("sha256").update(safe, "utf8").digest("base64"));
  if (html.split(MARKER).length !== 2) throw new Error(`${MARKER} must stand exactly once in the page`);
  return html;
}

const html = await page();
if (process.argv.includes("--check")) {
  let committed = "";
  try {
    committed = readFileSync(target, "utf8");
  } catch {
    // Absent counts as stale.
  }
  if (committed !== html) {
    console.error("crates/bonesmith-report/page/report.html is stale: run `npm run build` in viewer/ and commit it");
    process.exit(1);
  }
  console.log(`crates/bonesmith-report/page/report.html is fresh (${html.length} characters)`);
} else {
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, html);
  console.log(`crates/bonesmith-report/page/report.html: ${(Buffer.byteLength(html) / 1024).toFixed(0)} KiB`);
}
