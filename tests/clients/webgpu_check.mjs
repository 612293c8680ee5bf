// The WGSL in Chromium: every kernel that docs/runtime.md puts together from parts is compiled, and the worked example
// poses its strip, with bones of both forms.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { constants } from "../../crates/bonesmith-gpu/examples/web/strip.mjs";
import { launch } from "./report_browser.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const SHADERS = "crates/bonesmith-gpu/shaders";
const EXAMPLE = "crates/bonesmith-gpu/examples/web/strip.mjs";

let passed = 0;
let failed = 0;
function check(name, problem) {
  if (problem) failed++;
  else passed++;
  console.log(problem ? `FAIL ${name}: ${problem}` : `ok   ${name}`);
}

/** Cells of the lines of a table in docs/runtime.md whose heading begins with `first`. */
function table(first) {
  const lines = readFileSync(join(ROOT, "docs/runtime.md"), "utf8").split("\n");
  const start = lines.findIndex((line) => line.startsWith(`| ${first}`));
  const rest = lines.slice(start + 2);
  return rest.slice(0, rest.findIndex((line) => !line.startsWith("|"))).map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));
}

/** Texts of all kernels in the documentation, for bones of every form, with and without what can be switched. */
function texts() {
  const part = (name) => readFileSync(join(ROOT, SHADERS, `${name}.wgsl`), "utf8");
  const all = [];
  let before = "";
  for (const [kernel, joined, planes, centre, width, rigid] of table("kernel")) {
    const line = joined.replace("the same", before);
    before = joined.startsWith("the same") ? before : joined.split(",")[0];
    const variant = /VARIANT = (\d)/.exec(line)?.[1] ?? "0";
    for (const [bones, ...letters] of table("bones at binding 4")) {
      const named = Object.fromEntries(["B", "H", "T"].map((letter, n) => [letter, letters[n].replaceAll("`", "")]));
      const names = line.replace(/, `VARIANT.*/, "").replaceAll("`", "").split(/\s+/).map((name) => named[name] ?? name);
      for (const [cached, staged, kept, equal] of [[false, false, 0, false], [true, false, 4, false], [true, true, 4, true]]) {
        const numbers = {
          WORKGROUP: 64, TILE: 4, PLANES: planes, CENTRE: centre || 0, VARIANT: variant, WIDTH: width.split(",")[0] || 0,
          KEPT: kept, BONES: cached ? 20 : 1, INSTANCE_ORIGINS: 1024,
        };
        const switches = { RIGID: rigid, EQUAL: equal, CACHED: cached, STAGED: staged };
        const name = `${kernel}; ${bones.split(";")[0]}; cached ${cached}, staged ${staged}, kept ${kept}`;
        all.push({ name, code: [...constants(numbers, switches), ...names.map(part)].join("\n") });
      }
    }
  }
  return all;
}

/** Serves the repository to the page: modules are not loaded from files. */
function serve() {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const type = path.endsWith(".mjs") ? "text/javascript" : path.endsWith(".wgsl") ? "text/plain" : "text/html";
    let body = null;
    try {
      body = path === "/" ? "<!doctype html>" : readFileSync(join(ROOT, path));
    } catch {
      // Not there: the browser asks for an icon, too.
    }
    response.writeHead(body === null ? 404 : 200, { "content-type": type }).end(body);
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

const server = await serve();
const browser = await launch(["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]);
const page = await browser.newPage();
await page.goto(`http://127.0.0.1:${server.address().port}/`);
const adapter = await page.evaluate(async () => {
  const found = await navigator.gpu?.requestAdapter();
  globalThis.device = await found?.requestDevice();
  return found ? `${found.info.vendor} ${found.info.architecture}` : null;
});
if (!adapter) {
  console.log("SKIPPED: this Chromium has no WebGPU adapter");
} else {
  console.log(`adapter: ${adapter}`);
  for (const { name, code } of texts()) {
    const problem = await page.evaluate(async (code) => {
      const module = device.createShaderModule({ code });
      const { messages } = await module.getCompilationInfo();
      if (messages.length > 0) return messages.map((m) => `${m.lineNum}: ${m.message}`).join("; ");
      try {
        await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "main" } });
        return "";
      } catch (error) {
        return error.message;
      }
    }, code);
    check(name, problem);
  }
  for (const form of ["affine", "similar"]) {
    const problem = await page.evaluate(
      async ([example, shaders, form]) => {
        const { pose, share, angle, VERTICES, INSTANCES, STRIDE } = await import(`/${example}`);
        const part = async (name) => (await fetch(`/${shaders}/${name}.wgsl`)).text();
        const posed = await pose(device, part, form);
        for (let t = 0; t < INSTANCES; t++) {
          for (let i = 0; i < VERTICES; i++) {
            const [x, s] = [i / 10, share(i)];
            const wanted = [x * (1 - s + s * Math.cos(angle(t))), x * s * Math.sin(angle(t)), 0, 0, 0, 1];
            const got = [...posed.subarray(6 * (t * STRIDE + i), 6 * (t * STRIDE + i) + 6)];
            if (!got.every((v, n) => Math.abs(v - wanted[n]) < 1e-5)) return `vertex ${i} of instance ${t}: ${got} for ${wanted}`;
          }
        }
        return "";
      },
      [EXAMPLE, SHADERS, form],
    );
    check(`the example poses ${form} bones`, problem);
  }
}
await browser.close();
server.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
