// The three.js example for BONESMITH_shape_bones in Chromium: `node shape_bones_check.mjs FOLDER`. For each NAME.glb with NAME.json beside it (sets of
// shape weights, and the positions that the core computes for them) the example poses the same vertices.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join, normalize, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { launch } from "./report_browser.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const LARGEST = 1e-5; // of the model's size
const folder = resolve(process.argv[2] ?? ".");

const PAGE = `<!doctype html><script type="importmap">{"imports": {
  "three": "/viewer/node_modules/three/build/three.module.js", "three/addons/": "/viewer/node_modules/three/examples/jsm/"}}</script>`;

/** Runs in the page: the positions of all vertices for each set of weights. */
async function pose([url, poses]) {
  const { Vector3 } = await import("three");
  const { GLTFLoader } = await import("three/addons/loaders/GLTFLoader.js");
  const { ShapeBones, ShapeBonesPlugin } = await import("/viewer/examples/shape_bones.mjs");
  const { scene } = await new GLTFLoader().register((parser) => new ShapeBonesPlugin(parser)).loadAsync(url);
  const [face] = ShapeBones.of(scene);
  if (!face) throw new Error("no mesh has the extension");
  return poses.map(({ weights }) => {
    for (const [name, weight] of Object.entries(weights)) face.set(name, weight);
    face.update();
    scene.updateMatrixWorld(true);
    const out = [];
    const p = new Vector3();
    scene.traverse((mesh) => {
      if (!mesh.isSkinnedMesh) return;
      mesh.skeleton.update();
      for (let i = 0; i < mesh.geometry.attributes.position.count; i++) out.push(...mesh.getVertexPosition(i, p).applyMatrix4(mesh.matrixWorld).toArray());
    });
    return out;
  });
}

/** For each vertex how far the one of the file is from it in all poses, of the size. The file may have its vertices in another order, and several for one: the first pose, the
 * neutral, shows which may be meant, and the nearest of them counts. */
function differences(truth, found, size) {
  const cell = (list, v, c) => Math.floor(list[3 * v + c] / size / LARGEST);
  const cells = new Map();
  for (let v = 0; 3 * v < found[0].length; v++) {
    const key = [0, 1, 2].map((c) => cell(found[0], v, c)).join(" ");
    cells.set(key, [...(cells.get(key) ?? []), v]);
  }
  const near = [-1, 0, 1].flatMap((x) => [-1, 0, 1].flatMap((y) => [-1, 0, 1].map((z) => [x, y, z])));
  return Array.from({ length: truth[0].length / 3 }, (_, v) => {
    const meant = near.flatMap((step) => cells.get(step.map((d, c) => cell(truth[0], v, c) + d).join(" ")) ?? []);
    if (meant.length === 0) throw new Error(`vertex ${v} is not where the neutral has it`);
    const off = (own) => Math.max(...truth.flatMap((pose, at) => [0, 1, 2].map((c) => Math.abs(pose[3 * v + c] - found[at][3 * own + c]))));
    return Math.min(...meant.map(off)) / size;
  });
}

function serve() {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    if (path === "/") return response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
    const file = path.startsWith("/files/") ? join(folder, path.slice(7)) : join(ROOT, path);
    const type = /\.m?js$/.test(path) ? "text/javascript" : "application/octet-stream";
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": type }).end(readFileSync(file));
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

const names = readdirSync(folder).filter((name) => name.endsWith(".glb")).sort();
if (names.length === 0) {
  console.error(`no .glb in ${folder}`);
  process.exit(2);
}
const server = await serve();
const browser = await launch();
let failed = 0;
for (const name of names) {
  const { size, poses } = JSON.parse(readFileSync(join(folder, name.replace(/\.glb$/, ".json")), "utf8"));
  const page = await browser.newPage();
  try {
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const found = await page.evaluate(pose, [`/files/${name}`, poses]);
    const worst = Math.max(...differences(poses.map(({ positions }) => positions), found, size));
    if (worst > LARGEST) throw new Error(`off by ${worst.toExponential(1)} of the size`);
    console.log(`ok   ${name}: ${poses.length} sets of weights, off by at most ${worst.toExponential(1)} of the size`);
  } catch (problem) {
    failed++;
    console.log(`FAIL ${name}: ${problem.message.split("\n")[0]}`);
  }
  await page.close();
}
await browser.close();
server.close();
console.log(`${names.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
