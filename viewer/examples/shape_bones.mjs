// Faces of `bonesmith shapes` in three.js: the glTF extension BONESMITH_shape_bones (docs/formats/BONESMITH_shape_bones.md).
//
//   import { ShapeBonesPlugin } from "./shape_bones.mjs";
//   const loader = new GLTFLoader().register((parser) => new ShapeBonesPlugin(parser));
//   const { scene } = await loader.loadAsync("face.glb");
//   const [face] = ShapeBones.of(scene);
//   face.set("jawOpen", 0.7);           // any number of shapes, then
//   face.update();                      // bones follow; meshes blend as usual
//
// three.js blends four influences of a vertex: `bonesmith shapes --influences 4`.
import { Matrix4 } from "three";

const EXTENSION = "BONESMITH_shape_bones";

/** Entries (row, column, value) of the components. */
const COMPONENTS = [
  [[0, 3, 1]], [[1, 3, 1]], [[2, 3, 1]],
  [[2, 1, 1], [1, 2, -1]], [[0, 2, 1], [2, 0, -1]], [[1, 0, 1], [0, 1, -1]],
  [[0, 0, 1]], [[1, 1, 1]], [[2, 2, 1]],
  [[2, 1, 1], [1, 2, 1]], [[0, 2, 1], [2, 0, 1]], [[1, 0, 1], [0, 1, 1]],
];

/** The bones of a skin, driven by weights of shapes. */
export class ShapeBones {
  constructor(skeleton, definition, joints, components, numbers) {
    this.skeleton = skeleton;
    this.shapes = definition.shapes;
    this.names = definition.shapes.map((shape) => shape.name);
    this.weights = new Float32Array(this.names.length);
    this.joints = joints;
    this.components = components;
    this.numbers = numbers;
    // A bone stays where it is at rest and moves about its own place. The loader has set its place, but not its matrix yet.
    for (const bone of skeleton.bones) bone.updateMatrix();
    this.rest = skeleton.bones.map((bone) => bone.matrix.clone());
    this.bind = skeleton.boneInverses.map((inverse) => inverse.clone().invert());
    this.parents = skeleton.bones.map((bone) => skeleton.bones.indexOf(bone.parent));
    for (const bone of skeleton.bones) bone.matrixAutoUpdate = false;
  }

  /** Faces of a scene that was loaded with the plugin. */
  static of(scene) {
    const found = new Set();
    scene.traverse((object) => object.skeleton?.shapeBones && found.add(object.skeleton.shapeBones));
    return [...found];
  }

  /** Sets the weight of a shape; weights of shapes with a driver follow from others. */
  set(name, weight) {
    const at = this.names.indexOf(name);
    if (at < 0) throw new Error(`there is no shape ${name}`);
    this.weights[at] = weight;
  }

  /** Weights of all shapes, by the drivers. */
  driven() {
    return this.shapes.map(({ driver = { rule: "own" } }, s) => {
      if (driver.rule === "own") return this.weights[s];
      if (driver.rule === "product") return driver.of.reduce((product, other) => product * this.weights[other], 1);
      const { from, peak, to } = driver;
      const w = this.weights[driver.of];
      return Math.min(Math.max(w <= peak ? (w - from) / (peak - from) : (to - w) / (to - peak), 0), 1);
    });
  }

  /** Moves the bones as the weights say. */
  update() {
    const { bones } = this.skeleton;
    const moves = bones.map(() => [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]);
    const weights = this.driven();
    let at = 0;
    this.shapes.forEach(({ count }, s) => {
      for (const end = at + count; at < end; at++) {
        if (weights[s] === 0) continue;
        for (const [row, column, value] of COMPONENTS[this.components[at]]) moves[this.joints[at]][4 * row + column] += weights[s] * this.numbers[at] * value;
      }
    });
    const matrices = moves.map((m) => new Matrix4().set(...m, 0, 0, 0, 1));
    bones.forEach((bone, j) => {
      const parent = this.parents[j];
      bone.matrix.multiplyMatrices(parent < 0 ? this.rest[j] : this.bind[j], matrices[j]);
      // The formula is of the model's space: what a parent does to its children is taken back.
      if (parent >= 0) bone.matrix.premultiply(this.bind[parent].clone().multiply(matrices[parent]).invert());
      bone.matrixWorldNeedsUpdate = true;
    });
  }
}

/** Of GLTFLoader: gives skeletons with the extension a `shapeBones`. */
export class ShapeBonesPlugin {
  constructor(parser) {
    this.parser = parser;
    this.name = EXTENSION;
  }

  async afterRoot() {
    const { json } = this.parser;
    const uses = (json.nodes ?? []).map((node, index) => ({ node, index })).filter(({ node }) => json.skins?.[node.skin]?.extensions?.[EXTENSION]);
    for (const { node, index } of uses) {
      const definition = json.skins[node.skin].extensions[EXTENSION];
      const arrays = await Promise.all(["joints", "components", "numbers"].map((key) => this.parser.getDependency("accessor", definition[key])));
      const [joints, components, numbers] = arrays.map((accessor) => accessor.array);
      const object = await this.parser.getDependency("node", index);
      object.traverse((mesh) => {
        if (mesh.isSkinnedMesh) mesh.skeleton.shapeBones ??= new ShapeBones(mesh.skeleton, definition, joints, components, numbers);
      });
    }
  }
}
