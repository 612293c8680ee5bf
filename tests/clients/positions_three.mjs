// Positions of all vertices in three.js at given times: node positions_three.mjs ASKED.json ANSWER.json (see differential.py).
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

// Loaders want a page; pictures are of no interest here.
globalThis.self = globalThis;
globalThis.window = globalThis;
globalThis.document = { createElementNS: () => ({ addEventListener() {}, removeEventListener() {}, style: {} }) };
globalThis.createImageBitmap = async () => ({ width: 1, height: 1, close() {} });

const viewer = join(dirname(fileURLToPath(import.meta.url)), "../../viewer/package.json");
const three = dirname(dirname(createRequire(viewer).resolve("three")));
const load = (file) => import(pathToFileURL(join(three, file)).href);
const THREE = await load("build/three.module.js");
const { GLTFLoader } = await load("examples/jsm/loaders/GLTFLoader.js");
const { MeshoptDecoder } = await load("examples/jsm/libs/meshopt_decoder.module.js");
const { FBXLoader } = await load("examples/jsm/loaders/FBXLoader.js");

async function open(path) {
  const bytes = readFileSync(path);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  if (path.toLowerCase().endsWith(".fbx")) {
    const scene = new FBXLoader().parse(buffer, "");
    return { scene, animations: scene.animations };
  }
  const source = path.toLowerCase().endsWith(".glb") ? buffer : bytes.toString("utf8");
  const loader = new GLTFLoader().setMeshoptDecoder(MeshoptDecoder);
  return new Promise((done, fail) => loader.parse(source, pathToFileURL(`${resolve(dirname(path))}/`).href, done, fail));
}

function positions(scene) {
  scene.updateMatrixWorld(true);
  const out = [];
  const p = new THREE.Vector3();
  scene.traverse((mesh) => {
    if (!mesh.isMesh) return;
    if (mesh.isSkinnedMesh) mesh.skeleton.update();
    for (let i = 0; i < mesh.geometry.attributes.position.count; i++) {
      mesh.getVertexPosition(i, p);
      p.applyMatrix4(mesh.matrixWorld);
      out.push(p.x, p.y, p.z);
    }
  });
  return out;
}

async function answer(job) {
  const { scene, animations } = await open(job.path);
  const clip = job.clip === null ? animations[0] : animations.find((own) => own.name === job.clip);
  const mixer = new THREE.AnimationMixer(scene);
  if (clip) {
    const action = mixer.clipAction(clip);
    action.setLoop(THREE.LoopOnce, 1);
    action.clampWhenFinished = true;
    action.play();
  }
  return job.times.map((secs) => {
    if (clip) mixer.setTime(Math.min(secs, clip.duration));
    return positions(scene);
  });
}

const [asked, target] = process.argv.slice(2);
const found = {};
for (const job of JSON.parse(readFileSync(asked, "utf8"))) {
  try {
    found[job.path] = await answer(job);
  } catch (problem) {
    found[job.path] = String(problem?.message ?? problem).slice(0, 200);
  }
}
writeFileSync(target, JSON.stringify(found));
