// What lies under the pointer: a ray against all triangles as the GPU placed them. Brute force: a few milliseconds at 100 000 triangles.
import * as THREE from "three";

export interface Hit {
  vertex: number;
  distance: number;
}

/** A cloud has no faces to hit: the point nearest to the ray counts, within this slope. */
const CLOUD_REACH = 0.02;

export function pickPoint(ray: THREE.Ray, p: Float32Array): Hit | null {
  const { origin: o, direction: d } = ray;
  let best = CLOUD_REACH;
  let found: Hit | null = null;
  for (let i = 0; i < p.length; i += 3) {
    const x = p[i] - o.x;
    const y = p[i + 1] - o.y;
    const z = p[i + 2] - o.z;
    const along = x * d.x + y * d.y + z * d.z;
    if (along <= 0) continue;
    const slope = Math.sqrt(Math.max(x * x + y * y + z * z - along * along, 0)) / along;
    if (slope >= best) continue;
    best = slope;
    found = { vertex: i / 3, distance: along };
  }
  return found;
}

/** Nearest corner of the nearest triangle hit (Moeller and Trumbore 1997, both sides). */
export function pickVertex(ray: THREE.Ray, p: Float32Array, triangles: Uint32Array): Hit | null {
  const { origin: o, direction: d } = ray;
  let best = Infinity;
  let found = -1;
  let bestU = 0;
  let bestV = 0;
  for (let t = 0; t < triangles.length; t += 3) {
    const a = 3 * triangles[t];
    const b = 3 * triangles[t + 1];
    const c = 3 * triangles[t + 2];
    const e1x = p[b] - p[a];
    const e1y = p[b + 1] - p[a + 1];
    const e1z = p[b + 2] - p[a + 2];
    const e2x = p[c] - p[a];
    const e2y = p[c + 1] - p[a + 1];
    const e2z = p[c + 2] - p[a + 2];
    const hx = d.y * e2z - d.z * e2y;
    const hy = d.z * e2x - d.x * e2z;
    const hz = d.x * e2y - d.y * e2x;
    const det = e1x * hx + e1y * hy + e1z * hz;
    if (det === 0) continue;
    const sx = o.x - p[a];
    const sy = o.y - p[a + 1];
    const sz = o.z - p[a + 2];
    const u = (sx * hx + sy * hy + sz * hz) / det;
    if (u < 0 || u > 1) continue;
    const qx = sy * e1z - sz * e1y;
    const qy = sz * e1x - sx * e1z;
    const qz = sx * e1y - sy * e1x;
    const v = (d.x * qx + d.y * qy + d.z * qz) / det;
    if (v < 0 || u + v > 1) continue;
    const distance = (e2x * qx + e2y * qy + e2z * qz) / det;
    if (distance <= 0 || distance >= best) continue;
    best = distance;
    found = t;
    bestU = u;
    bestV = v;
  }
  if (found < 0) return null;
  const w = 1 - bestU - bestV;
  const corner = w >= bestU && w >= bestV ? 0 : bestU >= bestV ? 1 : 2;
  return { vertex: triangles[found + corner], distance: best };
}
