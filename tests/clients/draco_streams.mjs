// Writes the streams that the tests of the reader decode: node draco_streams.mjs FOLDER. Needs `npm install`.
//
// Torus of 15 x 12 vertices, and one of 21 x 17 with missing quads. Colour and joints of a vertex are its place on the grid, from which
// position, normal and texture coordinates follow: crates/bonesmith-io/tests/gltf/draco.rs computes them again.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import draco3d from "draco3d";

const encoder = await draco3d.createEncoderModule({});
let seed = 1;
const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;

function torus(rows, columns, holes) {
  const mesh = { positions: [], normals: [], uvs: [], colors: [], joints: [], faces: [] };
  for (let i = 0; i <= rows; i++) {
    for (let j = 0; j <= columns; j++) {
      const [u, v] = [(i / rows) * 2 * Math.PI, (j / columns) * 2 * Math.PI];
      const radius = 2 + Math.cos(v);
      mesh.positions.push(radius * Math.cos(u), radius * Math.sin(u), Math.sin(v));
      mesh.normals.push(Math.cos(v) * Math.cos(u), Math.cos(v) * Math.sin(u), Math.sin(v));
      mesh.uvs.push(i / rows, j / columns);
      mesh.colors.push(i, j, i * j, 255);
      mesh.joints.push(i % 7, j % 5, (i + j) % 3, 0);
    }
  }
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      if (holes && random() < 0.1) continue;
      const [a, b] = [i * (columns + 1) + j, (i + 1) * (columns + 1) + j];
      mesh.faces.push(a, b, a + 1, b, b + 1, a + 1);
    }
  }
  return mesh;
}

function encode(mesh, speed, method, bits) {
  const [own, builder, target] = [new encoder.Encoder(), new encoder.MeshBuilder(), new encoder.Mesh()];
  const count = mesh.positions.length / 3;
  builder.AddFacesToMesh(target, mesh.faces.length / 3, new Uint32Array(mesh.faces));
  builder.AddFloatAttributeToMesh(target, encoder.POSITION, count, 3, new Float32Array(mesh.positions));
  builder.AddFloatAttributeToMesh(target, encoder.NORMAL, count, 3, new Float32Array(mesh.normals));
  builder.AddFloatAttributeToMesh(target, encoder.TEX_COORD, count, 2, new Float32Array(mesh.uvs));
  builder.AddUInt8Attribute(target, encoder.COLOR, count, 4, new Uint8Array(mesh.colors));
  builder.AddUInt16Attribute(target, encoder.GENERIC, count, 4, new Uint16Array(mesh.joints));
  own.SetSpeedOptions(speed, speed);
  own.SetEncodingMethod(method === "edgebreaker" ? 1 : 0);
  if (bits) {
    own.SetAttributeQuantization(encoder.POSITION, bits);
    own.SetAttributeQuantization(encoder.NORMAL, Math.min(bits, 10));
    own.SetAttributeQuantization(encoder.TEX_COORD, bits);
  }
  const bytes = new encoder.DracoInt8Array();
  const length = own.EncodeMeshToDracoBuffer(target, bytes);
  return Int8Array.from({ length }, (_, at) => bytes.GetValue(at));
}

const whole = torus(14, 11, false);
const open = torus(20, 16, true);
for (const [name, mesh, speed, method, bits] of [
  ["torus", whole, 0, "edgebreaker", 14],
  ["torus", whole, 4, "edgebreaker", 14],
  ["torus", whole, 5, "edgebreaker", 14],
  ["torus", whole, 7, "edgebreaker", 0],
  ["torus", whole, 10, "edgebreaker", 14],
  ["torus", whole, 0, "sequential", 14],
  ["torus", whole, 10, "sequential", 0],
  ["open", open, 2, "edgebreaker", 14],
]) {
  const file = `${name}_speed${speed}_${method}_${bits ? `${bits}bits` : "floats"}.drc`;
  writeFileSync(join(process.argv[2], file), encode(mesh, speed, method, bits));
}
