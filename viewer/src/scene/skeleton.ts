// Bones as slim octahedra from head to tip, joints as discs, hierarchy as lines, virtual bones as small rings. Rewritten on the CPU per frame:
// there are hundreds of them at most, where vertices are tens of thousands.
import * as THREE from "three";
import type { ModelContent } from "../content";
import { BONE_FRAGMENT, BONE_VERTEX } from "./shaders";
import { transform } from "./source";

const CORNERS = 24; // eight triangles
/** Where the octahedron is widest, and how wide, in lengths of the bone. */
const WAIST = 0.14;
const WIDTH = 0.075;

class Part {
  readonly position: THREE.BufferAttribute;
  readonly tint: THREE.BufferAttribute;
  readonly object: THREE.Mesh | THREE.LineSegments | THREE.Points;

  constructor(kind: "solid" | "line" | "point", vertices: number, uniforms: Record<string, THREE.IUniform>, order: number) {
    this.position = new THREE.BufferAttribute(new Float32Array(3 * vertices), 3).setUsage(THREE.DynamicDrawUsage);
    this.tint = new THREE.BufferAttribute(new Uint8Array(4 * vertices), 4, true);
    const geometry = new THREE.BufferGeometry().setAttribute("position", this.position).setAttribute("tint", this.tint);
    const material = new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms: { pointSize: { value: 9 }, opacity: { value: 0.95 }, ...uniforms, shape: { value: kind === "solid" ? 0 : kind === "point" ? 1 : 2 } },
      vertexShader: BONE_VERTEX,
      fragmentShader: BONE_FRAGMENT,
      transparent: true,
      premultipliedAlpha: true,
      depthTest: false,
      depthWrite: false,
    });
    if (kind === "solid") this.object = new THREE.Mesh(geometry, material);
    else this.object = kind === "point" ? new THREE.Points(geometry, material) : new THREE.LineSegments(geometry, material);
    this.object.frustumCulled = false;
    this.object.renderOrder = order;
  }

  put(at: number, p: THREE.Vector3): void {
    this.position.setXYZ(at, p.x, p.y, p.z);
  }
}

export class Skeleton {
  readonly bones: Part;
  readonly links: Part;
  readonly joints: Part;
  readonly virtual: Part | null;
  private readonly solid: number[] = [];
  private readonly tips: (readonly number[])[] = [];
  private frame = -1;

  constructor(
    private readonly model: ModelContent,
    rim: THREE.IUniform<THREE.Vector3>,
    ratio: THREE.IUniform<number>,
  ) {
    this.findTips();
    const shared = { rim };
    const count = model.bones.length;
    const linked = model.bones.filter((bone) => bone.parent >= 0).length;
    this.bones = new Part("solid", CORNERS * this.solid.length, shared, 10);
    this.links = new Part("line", 2 * linked, { ...shared, opacity: { value: 0.8 } }, 11);
    this.joints = new Part("point", count, { ...shared, pointSize: scaled(10, ratio) }, 12);
    const heads = model.virtualHeads;
    this.virtual = heads ? new Part("point", heads.length / 3, { ...shared, pointSize: scaled(6.5, ratio), opacity: { value: 0.85 } }, 9) : null;
    this.paint(null);
  }

  /** Tips given, else the only child's head; a bone with neither is a joint alone. */
  private findTips(): void {
    this.model.bones.forEach((bone, b) => {
      const children = this.model.bones.filter((other) => other.parent === b);
      const tip = bone.tip ?? (children.length === 1 ? children[0].head : null);
      if (!tip || Math.hypot(tip[0] - bone.head[0], tip[1] - bone.head[1], tip[2] - bone.head[2]) < 1e-9) return;
      this.solid.push(b);
      this.tips.push(tip);
    });
  }

  /** Each bone in its colour; the picked one is drawn larger. */
  paint(picked: number | null): void {
    const tint = (part: Part, at: number, bone: number): void => {
      const [r, g, b] = this.model.colors[bone];
      part.tint.setXYZW(at, r, g, b, bone === picked ? 1 : 0.5);
    };
    this.model.bones.forEach((_, b) => tint(this.joints, b, b));
    this.solid.forEach((b, i) => {
      for (let corner = 0; corner < CORNERS; corner++) tint(this.bones, CORNERS * i + corner, b);
    });
    let at = 0;
    this.model.bones.forEach((bone, b) => {
      if (bone.parent < 0) return;
      tint(this.links, at++, bone.parent);
      tint(this.links, at++, b);
    });
    for (let j = 0; this.virtual && j < this.virtual.tint.count; j++) this.virtual.tint.setXYZW(j, 0.6, 0.58, 0.52, 0.5);
    for (const part of this.parts()) part.tint.needsUpdate = true;
  }

  parts(): Part[] {
    return [this.bones, this.links, this.joints, ...(this.virtual ? [this.virtual] : [])];
  }

  head(frame: number, bone: number, out: THREE.Vector3): THREE.Vector3 {
    return this.posed(frame, bone, this.model.bones[bone].head, out);
  }

  /** The frame shown has other poses now. */
  refresh(): void {
    this.frame = -1;
  }

  setFrame(frame: number): void {
    if (frame === this.frame) return;
    this.frame = frame;
    const p = new THREE.Vector3();
    const q = new THREE.Vector3();
    this.model.bones.forEach((_, b) => this.joints.put(b, this.head(frame, b, p)));
    this.solid.forEach((b, i) => octahedron(this.bones, CORNERS * i, this.head(frame, b, p), this.posed(frame, b, this.tips[i], q)));
    let at = 0;
    this.model.bones.forEach((bone, b) => {
      if (bone.parent < 0) return;
      this.links.put(at++, this.head(frame, bone.parent, p));
      this.links.put(at++, this.head(frame, b, p));
    });
    this.setVirtual(frame, p);
    for (const part of this.parts()) part.position.needsUpdate = true;
  }

  private setVirtual(frame: number, p: THREE.Vector3): void {
    const heads = this.model.virtualHeads;
    const skin = this.model.skin;
    if (!heads || !this.virtual) return;
    for (let j = 0; j < heads.length / 3; j++) {
      if (skin) transform(skin.matrices, frame * skin.joints + j, heads[3 * j], heads[3 * j + 1], heads[3 * j + 2], p);
      else p.set(heads[3 * j], heads[3 * j + 1], heads[3 * j + 2]);
      this.virtual.put(j, p);
    }
  }

  private posed(frame: number, bone: number, at: readonly number[], out: THREE.Vector3): THREE.Vector3 {
    const matrices = this.model.boneMatrices;
    if (!matrices) return out.set(at[0], at[1], at[2]);
    return transform(matrices, frame * this.model.bones.length + bone, at[0], at[1], at[2], out);
  }
}

function scaled(size: number, ratio: THREE.IUniform<number>): THREE.IUniform<number> {
  return {
    get value(): number {
      return size * ratio.value;
    },
  } as THREE.IUniform<number>;
}

function octahedron(part: Part, at: number, head: THREE.Vector3, tip: THREE.Vector3): void {
  const axis = tip.clone().sub(head);
  const length = axis.length();
  axis.normalize();
  const side = new THREE.Vector3(Math.abs(axis.x) < 0.7 ? 1 : 0, Math.abs(axis.x) < 0.7 ? 0 : 1, 0).cross(axis).normalize();
  const across = axis.clone().cross(side);
  const waist = head.clone().addScaledVector(axis, WAIST * length);
  const ring = [side, across, side.clone().negate(), across.clone().negate()].map((d) => waist.clone().addScaledVector(d, WIDTH * length));
  for (let i = 0; i < 4; i++) {
    const corners = [head, ring[(i + 1) % 4], ring[i], tip, ring[i], ring[(i + 1) % 4]];
    corners.forEach((corner, c) => part.put(at + 6 * i + c, corner));
  }
}
