// A camera on a sphere around its target. Kept as numbers, so that panes can share or part.
import * as THREE from "three";

export interface Pose {
  yaw: number;
  pitch: number;
  /** 1: the model fills its pane; 2: twice as far. */
  distance: number;
  /** Offset of the target from the model's middle, in units of the radius. */
  shift: THREE.Vector3;
}

const PITCH_LIMIT = 1.53;
export const FIELD_OF_VIEW = 30; // degrees, vertical
const FILL = 0.92; // of the pane
/** Radii from eye to target at distance 1, roughly: what a pan of the pane's height is worth. */
const NEAR = 4;

export function startPose(): Pose {
  return { yaw: 0.62, pitch: 0.24, distance: 1, shift: new THREE.Vector3() };
}

/** What the camera must show: vertices of sampled frames as offsets from the middle, [x, y, z] each, and the half diagonal of their box. */
export interface Extent {
  offsets: Float32Array;
  radius: number;
}

/** Distances by aspect: the offsets are many, the panes few. */
const fitted = new WeakMap<Extent, Map<string, number>>();

/** Direction from the target to the eye. */
function outward({ yaw, pitch }: Pose, zUp: boolean): THREE.Vector3 {
  const v = new THREE.Vector3(Math.sin(yaw) * Math.cos(pitch), Math.sin(pitch), Math.cos(yaw) * Math.cos(pitch));
  return zUp ? v.set(v.x, -v.z, v.y) : v;
}

/** Distance at which all offsets just fit, seen in the first pose. */
function fitting(extent: Extent, aspect: number, zUp: boolean): number {
  const known = fitted.get(extent) ?? new Map<string, number>();
  fitted.set(extent, known);
  const key = aspect.toFixed(4);
  const found = known.get(key) ?? fittingAnew(extent, aspect, zUp);
  known.set(key, found);
  return found;
}

function fittingAnew({ offsets, radius }: Extent, aspect: number, zUp: boolean): number {
  const out = outward(startPose(), zUp);
  const right = new THREE.Vector3(0, zUp ? 0 : 1, zUp ? 1 : 0).cross(out).normalize();
  const up = out.clone().cross(right);
  const slope = Math.tan((FIELD_OF_VIEW * Math.PI) / 360) * FILL;
  let most = 0;
  const c = new THREE.Vector3();
  for (let i = 0; i < offsets.length; i += 3) {
    c.fromArray(offsets, i);
    const wide = Math.abs(c.dot(right)) / (slope * aspect);
    const high = Math.abs(c.dot(up)) / slope;
    most = Math.max(most, Math.max(wide, high) + c.dot(out));
  }
  // A single point has no size.
  return most || radius;
}

/** Places `camera` of the given aspect. */
export function aim(camera: THREE.PerspectiveCamera, pose: Pose, middle: THREE.Vector3, extent: Extent, aspect: number, zUp: boolean): void {
  const { radius } = extent;
  const d = pose.distance * fitting(extent, aspect, zUp);
  const offset = outward(pose, zUp).multiplyScalar(d);
  camera.up.set(0, zUp ? 0 : 1, zUp ? 1 : 0);
  const target = pose.shift.clone().multiplyScalar(radius).add(middle);
  camera.position.copy(target).add(offset);
  camera.lookAt(target);
  camera.fov = FIELD_OF_VIEW;
  camera.aspect = aspect;
  camera.near = d / 200;
  camera.far = d + radius * 60;
  camera.updateProjectionMatrix();
  camera.updateMatrixWorld();
}

export function turn(pose: Pose, dYaw: number, dPitch: number): void {
  pose.yaw += dYaw;
  pose.pitch = Math.min(Math.max(pose.pitch + dPitch, -PITCH_LIMIT), PITCH_LIMIT);
}

export function zoom(pose: Pose, factor: number): void {
  pose.distance = Math.min(Math.max(pose.distance * factor, 0.04), 20);
}

/** Moves the target in the plane of the screen; dx, dy in heights of the pane. */
export function pan(pose: Pose, camera: THREE.PerspectiveCamera, dx: number, dy: number): void {
  const scale = 2 * Math.tan((FIELD_OF_VIEW * Math.PI) / 360) * pose.distance * NEAR;
  const right = new THREE.Vector3().setFromMatrixColumn(camera.matrixWorld, 0);
  const up = new THREE.Vector3().setFromMatrixColumn(camera.matrixWorld, 1);
  pose.shift.addScaledVector(right, -dx * scale).addScaledVector(up, dy * scale);
}
