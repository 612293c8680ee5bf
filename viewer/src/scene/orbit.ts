// A camera on a sphere around its target. Kept as numbers, so that panes can share or part.
import * as THREE from "three";

export interface Pose {
  yaw: number;
  pitch: number;
  /** In units of the model's radius, so that a pose fits any size. */
  distance: number;
  /** Offset of the target from the model's middle, in units of the radius. */
  shift: THREE.Vector3;
}

const PITCH_LIMIT = 1.53;
export const FIELD_OF_VIEW = 30; // degrees, vertical

export function startPose(): Pose {
  return { yaw: 0.62, pitch: 0.24, distance: 4.4, shift: new THREE.Vector3() };
}

/** Places `camera` of the given aspect; narrow panes step back so that the model still fits. */
export function aim(camera: THREE.PerspectiveCamera, pose: Pose, middle: THREE.Vector3, radius: number, aspect: number, zUp: boolean): void {
  const back = aspect < 1 ? 1 / Math.max(aspect, 0.3) ** 0.85 : 1;
  const d = pose.distance * radius * back;
  const flat = Math.cos(pose.pitch) * d;
  const offset = new THREE.Vector3(Math.sin(pose.yaw) * flat, Math.sin(pose.pitch) * d, Math.cos(pose.yaw) * flat);
  if (zUp) offset.set(offset.x, -offset.z, offset.y);
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
  pose.distance = Math.min(Math.max(pose.distance * factor, 0.15), 60);
}

/** Moves the target in the plane of the screen; dx, dy in heights of the pane. */
export function pan(pose: Pose, camera: THREE.PerspectiveCamera, dx: number, dy: number): void {
  const scale = 2 * Math.tan((FIELD_OF_VIEW * Math.PI) / 360) * pose.distance;
  const right = new THREE.Vector3().setFromMatrixColumn(camera.matrixWorld, 0);
  const up = new THREE.Vector3().setFromMatrixColumn(camera.matrixWorld, 1);
  pose.shift.addScaledVector(right, -dx * scale).addScaledVector(up, dy * scale);
}
