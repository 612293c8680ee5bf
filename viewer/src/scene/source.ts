// One thing that moves in the view: the original, or a model. Owns its vertex arrays on the GPU and the materials that draw them.
import * as THREE from "three";
import type { Baked, Content, ModelContent } from "../content";
import { MATRIX_WIDTH, READ_FRAGMENT, READ_WIDTH, LINE_FRAGMENT, SURFACE_FRAGMENT, vertexShader } from "./shaders";

export type Uniforms = Record<string, THREE.IUniform>;

/** Uniforms that all sources share by reference: ramp, scale of the map, theme. */
export interface Shared {
  ramp: THREE.IUniform<THREE.Texture>;
  top: THREE.IUniform<number>;
  contours: THREE.IUniform<number>;
  facets: THREE.IUniform<number>;
  ink: THREE.IUniform<THREE.Vector3>;
  /** Pixels of a point where the mesh has no faces. */
  pointSize: THREE.IUniform<number>;
}

export class Source {
  /** Triangles, or points where the mesh has none. */
  readonly surface: THREE.Mesh | THREE.Points;
  readonly wire: THREE.LineSegments;
  readonly points: THREE.Points;
  /** Vertex colours of the modes `bones` and `weights`, sRGB bytes read as linear by the shader's `tint`. */
  readonly tint: THREE.BufferAttribute;
  readonly value: THREE.BufferAttribute;
  readonly uniforms: Uniforms;
  frame = -1;
  /** Frame whose posed positions gave the normals of a skinned source. */
  private normalsFrame = -1;
  private readonly position: THREE.BufferAttribute;
  private readonly normal: THREE.BufferAttribute;
  private readonly matrices: THREE.DataTexture | null;

  constructor(
    readonly name: string,
    private readonly content: Content,
    readonly model: ModelContent | null,
    private readonly baked: Baked | null,
    other: Source | null,
    shared: Shared,
  ) {
    const n = content.vertices;
    const skin = baked ? null : (model?.skin ?? null);
    const rest = model ? model.rest : new Float32Array(3 * n);
    this.position = baked ? dynamic(new THREE.BufferAttribute(new Uint16Array(3 * n), 3, true)) : new THREE.BufferAttribute(rest, 3);
    this.normal = new THREE.BufferAttribute(new Float32Array(3 * n), 3);
    dynamic(this.normal);
    if (!baked) normals(rest, content.triangles, this.normal.array as Float32Array);
    this.value = new THREE.BufferAttribute(new Float32Array(n), 1);
    this.tint = new THREE.BufferAttribute(new Uint8Array(3 * n).fill(255), 3, true);
    this.matrices = skin ? matrixTexture(skin.joints) : null;
    this.uniforms = {
      ...shared,
      matrices: { value: this.matrices },
      boxMin: { value: new THREE.Vector3() },
      boxSize: { value: new THREE.Vector3(1, 1, 1) },
      otherMin: { value: new THREE.Vector3() },
      otherSize: { value: new THREE.Vector3(1, 1, 1) },
      frameError: { value: 0 },
      storedNormals: { value: 0 },
      readRows: { value: readRows(n) },
      pointSize: shared.pointSize,
      cloud: { value: content.triangles.length === 0 ? 1 : 0 },
      mode: { value: 0 },
      ghost: { value: 0 },
      base: { value: new THREE.Vector3(1, 1, 1) },
    };
    const attributes: Record<string, THREE.BufferAttribute> = {
      position: this.position,
      normal: this.normal,
      other: other?.position ?? this.position,
      otherNormal: other?.normal ?? this.normal,
      value: this.value,
      tint: this.tint,
      ...(skin ? influences(skin, n) : {}),
    };
    const quads = skin ? Math.ceil(skin.influences / 4) : 0;
    const cloud = content.triangles.length === 0;
    const shape = geometry(attributes, cloud ? null : content.triangles);
    this.surface = cloud ? new THREE.Points(shape, this.surfaceMaterial(quads)) : new THREE.Mesh(shape, this.surfaceMaterial(quads));
    this.wire = new THREE.LineSegments(geometry(attributes, content.edges), this.wireMaterial(quads));
    this.points = new THREE.Points(geometry(attributes, null), this.readMaterial(quads));
    for (const object of [this.surface, this.wire, this.points]) object.frustumCulled = false;
  }

  /** Whether it is skinned here and has normals to deform. */
  get hasStoredNormals(): boolean {
    return !this.baked && !!this.model?.skin && !!this.model.normals;
  }

  /** Shades with the stored normals, deformed by the bones. */
  useStoredNormals(): void {
    if (!this.hasStoredNormals || this.uniforms["storedNormals"].value === 1) return;
    (this.normal.array as Float32Array).set(this.model!.normals!);
    this.normal.needsUpdate = true;
    this.uniforms["storedNormals"].value = 1;
    this.normalsFrame = -1;
  }

  /** Shades with the normals of posed positions in the frame shown. */
  useNormalsOf(posed: () => Float32Array): void {
    if (this.baked || this.normalsFrame === this.frame) return;
    normals(posed(), this.content.triangles, this.normal.array as Float32Array);
    this.normal.needsUpdate = true;
    this.uniforms["storedNormals"].value = 0;
    this.normalsFrame = this.frame;
  }

  /** The frame shown has other positions now. */
  refresh(): void {
    this.frame = -1;
    this.normalsFrame = -1;
  }

  setFrame(frame: number): void {
    if (frame === this.frame) return;
    this.frame = frame;
    const n3 = 3 * this.content.vertices;
    if (this.content.original) setBox(this.content.original, frame, this.uniforms["otherMin"].value, this.uniforms["otherSize"].value);
    if (this.baked) {
      setBox(this.baked, frame, this.uniforms["boxMin"].value, this.uniforms["boxSize"].value);
      const array = this.position.array as Uint16Array;
      array.set(this.baked.positions.subarray(frame * n3, (frame + 1) * n3));
      this.position.needsUpdate = true;
      normals(this.unpacked(frame), this.content.triangles, this.normal.array as Float32Array);
      this.normal.needsUpdate = true;
    } else if (this.matrices && this.model?.skin) {
      const size = 12 * this.model.skin.joints;
      (this.matrices.image.data as Float32Array).set(this.model.skin.matrices.subarray(frame * size, (frame + 1) * size));
      this.matrices.needsUpdate = true;
    }
  }

  /** Middle of a sample of vertices, for the camera that follows. */
  centre(frame: number, out: THREE.Vector3): THREE.Vector3 {
    const n = this.content.vertices;
    const step = Math.max(1, Math.floor(n / 200));
    const place = new THREE.Vector3();
    out.set(0, 0, 0);
    let count = 0;
    for (let v = 0; v < n; v += step, count++) out.add(this.place(frame, v, place));
    return out.divideScalar(Math.max(count, 1));
  }

  /** One vertex on the CPU, for labels and the camera; drawing and read-back use the GPU. */
  place(frame: number, v: number, out: THREE.Vector3): THREE.Vector3 {
    if (this.baked) {
      const at = 3 * (frame * this.content.vertices + v);
      const { positions: q, boxes } = this.baked;
      const on = (c: number): number => boxes[6 * frame + c] + (q[at + c] / 65535) * (boxes[6 * frame + 3 + c] - boxes[6 * frame + c]);
      return out.set(on(0), on(1), on(2));
    }
    const rest = this.model!.rest;
    const skin = this.model!.skin;
    if (!skin) return out.set(rest[3 * v], rest[3 * v + 1], rest[3 * v + 2]);
    let x = 0;
    let y = 0;
    let z = 0;
    for (let i = v * skin.influences; i < (v + 1) * skin.influences; i++) {
      if (skin.weights[i] === 0) continue;
      const w = skin.weights[i] / 65535;
      transform(skin.matrices, frame * skin.joints + skin.indices[i], rest[3 * v], rest[3 * v + 1], rest[3 * v + 2], out);
      x += w * out.x;
      y += w * out.y;
      z += w * out.z;
    }
    return out.set(x, y, z);
  }

  /** Positions of a frame up to a shift, which normals do not see. */
  private unpacked(frame: number): Float32Array {
    const n3 = 3 * this.content.vertices;
    const { positions: q, boxes } = this.baked!;
    const scale = [0, 1, 2].map((c) => (boxes[6 * frame + 3 + c] - boxes[6 * frame + c]) / 65535);
    const out = new Float32Array(n3);
    for (let i = 0, at = frame * n3; i < n3; i += 3, at += 3) {
      out[i] = q[at] * scale[0];
      out[i + 1] = q[at + 1] * scale[1];
      out[i + 2] = q[at + 2] * scale[2];
    }
    return out;
  }

  private surfaceMaterial(quads: number): THREE.RawShaderMaterial {
    return new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms: this.uniforms,
      vertexShader: vertexShader(quads, false),
      fragmentShader: SURFACE_FRAGMENT,
      side: THREE.DoubleSide,
      polygonOffset: true,
      polygonOffsetFactor: 1,
      polygonOffsetUnits: 1,
      premultipliedAlpha: true,
    });
  }

  private wireMaterial(quads: number): THREE.RawShaderMaterial {
    return new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms: { ...this.uniforms, base: this.uniforms["ink"], opacity: { value: 0.3 } },
      vertexShader: vertexShader(quads, false),
      fragmentShader: LINE_FRAGMENT,
      transparent: true,
      premultipliedAlpha: true,
      depthWrite: false,
    });
  }

  private readMaterial(quads: number): THREE.RawShaderMaterial {
    return new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms: this.uniforms,
      vertexShader: vertexShader(quads, true),
      fragmentShader: READ_FRAGMENT,
      depthTest: false,
      depthWrite: false,
      blending: THREE.NoBlending,
    });
  }
}

function setBox({ boxes }: Baked, frame: number, min: THREE.Vector3, size: THREE.Vector3): void {
  min.fromArray(boxes, 6 * frame);
  size.fromArray(boxes, 6 * frame + 3).sub(min);
}

export function readRows(vertices: number): number {
  return Math.max(1, Math.ceil(vertices / READ_WIDTH));
}

/** out = matrix `index` of `matrices` (3x4, row-major) times (x, y, z, 1). */
export function transform(matrices: Float32Array, index: number, x: number, y: number, z: number, out: THREE.Vector3): THREE.Vector3 {
  const m = 12 * index;
  const on = (row: number): number =>
    matrices[m + 4 * row] * x + matrices[m + 4 * row + 1] * y + matrices[m + 4 * row + 2] * z + matrices[m + 4 * row + 3];
  return out.set(on(0), on(1), on(2));
}

function dynamic(attribute: THREE.BufferAttribute): THREE.BufferAttribute {
  return attribute.setUsage(THREE.DynamicDrawUsage);
}

function matrixTexture(joints: number): THREE.DataTexture {
  const rows = Math.max(1, Math.ceil((3 * joints) / MATRIX_WIDTH));
  const texture = new THREE.DataTexture(new Float32Array(4 * MATRIX_WIDTH * rows), MATRIX_WIDTH, rows, THREE.RGBAFormat, THREE.FloatType);
  texture.needsUpdate = true;
  return texture;
}

/** Attributes joints0.., weights0.. of four each. */
function influences(skin: NonNullable<ModelContent["skin"]>, n: number): Record<string, THREE.BufferAttribute> {
  const attributes: Record<string, THREE.BufferAttribute> = {};
  const k = skin.influences;
  for (let group = 0; 4 * group < k; group++) {
    const joints = new Uint16Array(4 * n);
    const weights = new Uint16Array(4 * n);
    for (let v = 0; v < n; v++) {
      for (let i = 4 * group; i < Math.min(4 * group + 4, k); i++) {
        joints[4 * v + i - 4 * group] = skin.indices[v * k + i];
        weights[4 * v + i - 4 * group] = skin.weights[v * k + i];
      }
    }
    attributes[`joints${group}`] = new THREE.BufferAttribute(joints, 4);
    attributes[`weights${group}`] = new THREE.BufferAttribute(weights, 4, true);
  }
  return attributes;
}

function geometry(attributes: Record<string, THREE.BufferAttribute>, index: Uint32Array | null): THREE.BufferGeometry {
  const made = new THREE.BufferGeometry();
  for (const [name, attribute] of Object.entries(attributes)) made.setAttribute(name, attribute);
  if (index) made.setIndex(new THREE.BufferAttribute(index, 1));
  return made;
}

/** Vertex normals weighted by area. */
export function normals(p: Float32Array, triangles: Uint32Array, out: Float32Array): void {
  out.fill(0);
  for (let t = 0; t < triangles.length; t += 3) {
    const a = 3 * triangles[t];
    const b = 3 * triangles[t + 1];
    const c = 3 * triangles[t + 2];
    const ux = p[b] - p[a];
    const uy = p[b + 1] - p[a + 1];
    const uz = p[b + 2] - p[a + 2];
    const vx = p[c] - p[a];
    const vy = p[c + 1] - p[a + 1];
    const vz = p[c + 2] - p[a + 2];
    const nx = uy * vz - uz * vy;
    const ny = uz * vx - ux * vz;
    const nz = ux * vy - uy * vx;
    out[a] += nx;
    out[a + 1] += ny;
    out[a + 2] += nz;
    out[b] += nx;
    out[b + 1] += ny;
    out[b + 2] += nz;
    out[c] += nx;
    out[c + 1] += ny;
    out[c + 2] += nz;
  }
  for (let i = 0; i < out.length; i += 3) {
    const length = Math.sqrt(out[i] * out[i] + out[i + 1] * out[i + 1] + out[i + 2] * out[i + 2]) || 1;
    out[i] /= length;
    out[i + 1] /= length;
    out[i + 2] /= length;
  }
}
