// The floor under the model: a grid that fades out. It only says where down is and how far things move.
import * as THREE from "three";
import { FLOOR_FRAGMENT, FLOOR_VERTEX } from "./shaders";

const CELLS = 9;
const REACH = 3.2; // radii of the model

export class Floor {
  readonly object: THREE.Mesh;
  private readonly uniforms: Record<string, THREE.IUniform>;

  constructor(
    private readonly height: number,
    private readonly radius: number,
    private readonly zUp: boolean,
    ink: THREE.IUniform<THREE.Vector3>,
  ) {
    this.uniforms = {
      ink,
      centre: { value: new THREE.Vector3() },
      across: { value: new THREE.Vector3(1, 0, 0) },
      along: { value: zUp ? new THREE.Vector3(0, 1, 0) : new THREE.Vector3(0, 0, 1) },
      radius: { value: REACH * radius },
      cells: { value: CELLS },
      shift: { value: new THREE.Vector2() },
      strength: { value: 0.2 },
    };
    const corners = new Float32Array([-1, -1, 0, 1, -1, 0, 1, 1, 0, -1, -1, 0, 1, 1, 0, -1, 1, 0]);
    const material = new THREE.RawShaderMaterial({
      glslVersion: THREE.GLSL3,
      uniforms: this.uniforms,
      vertexShader: FLOOR_VERTEX,
      fragmentShader: FLOOR_FRAGMENT,
      transparent: true,
      premultipliedAlpha: true,
      depthWrite: false,
      side: THREE.DoubleSide,
    });
    this.object = new THREE.Mesh(new THREE.BufferGeometry().setAttribute("position", new THREE.BufferAttribute(corners, 3)), material);
    this.object.frustumCulled = false;
    this.object.renderOrder = -1;
  }

  /** Under `middle`; the lines stay where they are while the floor follows. */
  moveTo(middle: THREE.Vector3): void {
    const step = (REACH * this.radius) / CELLS;
    const deep = this.zUp ? middle.y : middle.z;
    this.uniforms["centre"].value.set(middle.x, this.zUp ? deep : this.height, this.zUp ? this.height : deep);
    this.uniforms["shift"].value.set(middle.x / step, deep / step);
  }
}
