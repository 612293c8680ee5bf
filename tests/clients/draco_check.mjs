// Scenes compressed with Draco read as their decompressed twins: node draco_check.mjs BONESMITH [FILES]
//
// A scene of its own, and those of FILES, are compressed by gltf-transform and Google's encoder in several ways. Both the compressed file and what
// Google's decoder makes of it are baked to npz by BONESMITH; the two must have the same bytes.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Document, NodeIO } from "@gltf-transform/core";
import { ALL_EXTENSIONS, KHRDracoMeshCompression } from "@gltf-transform/extensions";
import draco3d from "draco3d";
import { MeshoptDecoder } from "meshoptimizer";

const [bonesmith, files] = [resolve(process.argv[2]), process.argv[3]];
const folder = mkdtempSync(join(tmpdir(), "draco-"));
await MeshoptDecoder.ready;
const io = new NodeIO().registerExtensions(ALL_EXTENSIONS).registerDependencies({
  "draco3d.decoder": await draco3d.createDecoderModule(),
  "draco3d.encoder": await draco3d.createEncoderModule(),
  "meshopt.decoder": MeshoptDecoder,
});
const SETTINGS = [
  { method: "edgebreaker", encodeSpeed: 0, decodeSpeed: 0 },
  { method: "edgebreaker", encodeSpeed: 5, decodeSpeed: 5, quantizationBits: { POSITION: 11, NORMAL: 8 } },
  { method: "edgebreaker", encodeSpeed: 10, decodeSpeed: 10 },
  { method: "sequential", encodeSpeed: 3, decodeSpeed: 3 },
];

/** A tube with texture coordinates, skinned to two joints of which one turns. */
function ownScene() {
  const document = new Document();
  const buffer = document.createBuffer();
  const accessor = (type, array) => document.createAccessor().setType(type).setArray(array).setBuffer(buffer);
  const [positions, uvs, joints, weights, faces] = [[], [], [], [], []];
  for (let y = 0; y <= 12; y++) {
    for (let a = 0; a <= 16; a++) {
      const angle = (a / 16) * 2 * Math.PI;
      positions.push(0.3 * Math.cos(angle), y / 6, 0.3 * Math.sin(angle));
      uvs.push(a / 16, y / 12);
      joints.push(0, 1, 0, 0);
      weights.push(1 - y / 12, y / 12, 0, 0);
      if (y < 12 && a < 16) {
        const [low, high] = [17 * y + a, 17 * (y + 1) + a];
        faces.push(low, high, low + 1, low + 1, high, high + 1);
      }
    }
  }
  const primitive = document
    .createPrimitive()
    .setIndices(accessor("SCALAR", new Uint16Array(faces)))
    .setAttribute("POSITION", accessor("VEC3", new Float32Array(positions)))
    .setAttribute("TEXCOORD_0", accessor("VEC2", new Float32Array(uvs)))
    .setAttribute("JOINTS_0", accessor("VEC4", new Uint8Array(joints)))
    .setAttribute("WEIGHTS_0", accessor("VEC4", new Float32Array(weights)));
  const tip = document.createNode("tip").setTranslation([0, 1, 0]);
  const root = document.createNode("root").addChild(tip);
  const binds = new Float32Array(32);
  for (const at of [0, 5, 10, 15, 16, 21, 26, 31]) binds[at] = 1;
  binds[29] = -1;
  const skin = document.createSkin().addJoint(root).addJoint(tip).setInverseBindMatrices(accessor("MAT4", binds));
  const mesh = document.createMesh("tube").addPrimitive(primitive);
  document.createScene().addChild(root).addChild(document.createNode("tube").setMesh(mesh).setSkin(skin));
  const sampler = document
    .createAnimationSampler()
    .setInput(accessor("SCALAR", new Float32Array([0, 0.5, 1])))
    .setOutput(accessor("VEC4", new Float32Array([0, 0, 0, 1, 0, 0, Math.SQRT1_2, Math.SQRT1_2, 0, 0, 0, 1])));
  const channel = document.createAnimationChannel().setTargetNode(tip).setTargetPath("rotation").setSampler(sampler);
  document.createAnimation("bend").addSampler(sampler).addChannel(channel);
  return document;
}

/** The npz that the binary makes of a file. */
function baked(path, name) {
  const out = join(folder, name, "scene.npz");
  execFileSync(bonesmith, ["convert", "--bake", "-q", path, out], { stdio: ["ignore", "ignore", "pipe"] });
  return readFileSync(out);
}

async function same(source, settings) {
  for (const name of ["compressed", "twin"]) mkdirSync(join(folder, name), { recursive: true });
  const [compressed, twin] = [join(folder, "compressed/scene.glb"), join(folder, "twin/scene.glb")];
  if (settings === null) {
    copyFileSync(source, compressed);
  } else {
    const document = await source();
    document.createExtension(KHRDracoMeshCompression).setRequired(true).setEncoderOptions(settings);
    await io.write(compressed, document);
  }
  const decoded = await io.read(compressed);
  for (const extension of decoded.getRoot().listExtensionsUsed()) {
    if (/draco|meshopt/.test(extension.extensionName)) extension.dispose();
  }
  await io.write(twin, decoded);
  return baked(compressed, "compressed").equals(baked(twin, "twin"));
}

let [passed, failed] = [0, 0];
async function judge(what, source, settings) {
  let said = "the bytes differ";
  try {
    if (await same(source, settings)) {
      passed += 1;
      return;
    }
  } catch (error) {
    said = String(error.stderr ?? error);
  }
  failed += 1;
  console.log(`FAILED: ${what}: ${said}`);
}
for (const settings of SETTINGS) {
  const words = JSON.stringify(settings);
  await judge(`own scene, ${words}`, async () => ownScene(), settings);
  for (const name of ["scenes/Soldier.glb", "scenes/RobotExpressive.glb", "CesiumMan.glb"]) {
    const path = files && join(files, name);
    if (path && existsSync(path)) await judge(`${name}, ${words}`, () => io.read(path), settings);
  }
}
const gears = files && join(files, "scenes/gears.glb");
if (gears && existsSync(gears)) await judge("gears.glb", gears, null);
rmSync(folder, { recursive: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
