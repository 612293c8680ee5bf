// Positions of all vertices in Babylon.js at given times, without a page: node positions_babylon.mjs ASKED.json ANSWER.json (see differential.py).
import { readFileSync, writeFileSync } from "node:fs";
import { NullEngine } from "@babylonjs/core/Engines/nullEngine.js";
import { LoadAssetContainerAsync } from "@babylonjs/core/Loading/sceneLoader.js";
import { Vector3 } from "@babylonjs/core/Maths/math.vector.js";
import { MeshoptCompression } from "@babylonjs/core/Meshes/Compression/meshoptCompression.js";
import { Scene } from "@babylonjs/core/scene.js";
import "@babylonjs/loaders/glTF/index.js";
import { MeshoptDecoder } from "meshoptimizer";

await MeshoptDecoder.ready;
// Babylon takes the decoder from the network otherwise.
MeshoptCompression._Default = {
  async decodeGltfBufferAsync(source, count, stride, mode, filter) {
    const target = new Uint8Array(count * stride);
    MeshoptDecoder.decodeGltfBuffer(target, count, stride, source, mode, filter);
    return target;
  },
};

function positions(scene) {
  const out = [];
  scene.skeletons.forEach((skeleton) => skeleton.prepare(true));
  for (const mesh of scene.meshes) {
    if (!mesh.getTotalVertices()) continue;
    mesh.computeWorldMatrix(true);
    const data = mesh.getPositionData(true, true);
    for (let i = 0; i < data.length; i += 3) {
      const p = Vector3.TransformCoordinates(Vector3.FromArray(data, i), mesh.getWorldMatrix());
      out.push(p.x, p.y, p.z);
    }
  }
  return out;
}

async function answer(engine, job) {
  const scene = new Scene(engine);
  scene.useRightHandedSystem = true;
  const container = await LoadAssetContainerAsync(new Uint8Array(readFileSync(job.path)), scene, { pluginExtension: ".glb" });
  container.addAllToScene();
  const groups = container.animationGroups;
  const group = job.clip === null ? groups[0] : groups.find((own) => own.name === job.clip);
  groups.forEach((own) => own.stop());
  if (group) group.start(false).pause();
  return job.times.map((secs) => {
    if (group) group.goToFrame(secs * group.targetedAnimations[0].animation.framePerSecond);
    scene.transformNodes.concat(scene.meshes).forEach((node) => node.computeWorldMatrix(true));
    return positions(scene);
  });
}

const [asked, target] = process.argv.slice(2);
const engine = new NullEngine();
const found = {};
for (const job of JSON.parse(readFileSync(asked, "utf8"))) {
  try {
    found[job.path] = await answer(engine, job);
  } catch (problem) {
    found[job.path] = String(problem?.message ?? problem).slice(0, 200);
  }
}
writeFileSync(target, JSON.stringify(found));
process.exit(0);
