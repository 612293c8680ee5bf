// A tube that curls: the original bends along a smooth curve, the models pose it by bones, so that the errors are real ones.

/** Mesh of `rings` x `sides` vertices along y, thinner to the tip, closed by fans at both ends. */
export function tube(rings, sides) {
  const rest = new Float32Array(3 * rings * sides);
  for (let r = 0; r < rings; r++) {
    const s = r / (rings - 1);
    const radius = 0.16 * (1 - 0.72 * s) * Math.sqrt(Math.min(1, 12 * s + 0.25, 14 * (1 - s) + 0.12));
    for (let k = 0; k < sides; k++) {
      const a = (2 * Math.PI * k) / sides;
      const bump = 1 + 0.1 * Math.sin(3 * a + 9 * s);
      rest.set([radius * bump * Math.cos(a), 2 * s, radius * bump * Math.sin(a)], 3 * (r * sides + k));
    }
  }
  const quads = [];
  for (let r = 0; r + 1 < rings; r++) {
    for (let k = 0; k < sides; k++) {
      const next = (k + 1) % sides;
      quads.push([r * sides + k, (r + 1) * sides + k, (r + 1) * sides + next, r * sides + next]);
    }
  }
  const caps = [];
  for (let k = 1; k + 1 < sides; k++) caps.push([0, k, k + 1], [(rings - 1) * sides, (rings - 1) * sides + k + 1, (rings - 1) * sides + k]);
  const triangles = Uint32Array.from([...quads.flatMap(([a, b, c, d]) => [a, b, c, a, c, d]), ...caps.flat()]);
  const edges = Uint32Array.from(quads.flatMap(([a, b, , d]) => [a, b, a, d]));
  return { rest, triangles, edges, vertices: rings * sides };
}

/** Frame of the curve at height s (0 to 1) and time t (0 to 1): place and turn about z and x. */
function curve(s, t) {
  const steps = 24;
  const place = [0, 0, 0];
  let turn = 0;
  let lean = 0;
  for (let i = 0; i < steps; i++) {
    const u = ((i + 0.5) / steps) * s;
    turn = 1.5 * u * Math.sin(2 * Math.PI * t) + 0.8 * Math.sin(2 * Math.PI * (t - 0.7 * u)) * u;
    lean = 0.7 * u * Math.cos(2 * Math.PI * t);
    const step = (2 * s) / steps;
    place[0] += -Math.sin(turn) * Math.cos(lean) * step;
    place[1] += Math.cos(turn) * Math.cos(lean) * step;
    place[2] += Math.sin(lean) * step;
  }
  const [ct, st, cl, sl] = [Math.cos(turn), Math.sin(turn), Math.cos(lean), Math.sin(lean)];
  // Columns: across, along, depth; orthonormal.
  return { place, rows: [[ct, -st * cl, st * sl], [st, ct * cl, -ct * sl], [0, sl, cl]] };
}

export function bend(rest, t) {
  const out = new Float32Array(rest.length);
  const frames = new Map();
  for (let i = 0; i < rest.length; i += 3) {
    const y = rest[i + 1];
    if (!frames.has(y)) frames.set(y, curve(y / 2, t));
    const { place, rows } = frames.get(y);
    for (let c = 0; c < 3; c++) out[i + c] = place[c] + rows[c][0] * rest[i] + rows[c][2] * rest[i + 2];
  }
  return out;
}

/** posed_from_rest of a segment whose middle is at height s. */
export function segmentMatrix(s, t, out, at) {
  const { place, rows } = curve(s, t);
  for (let c = 0; c < 3; c++) out.set([...rows[c], place[c] - rows[c][1] * 2 * s], at + 4 * c);
}

/** Weights of the `keep` nearest of `count` segments, smooth, as u16 that sum to 65535. */
export function weights(rest, count, keep) {
  const n = rest.length / 3;
  const indices = new Uint16Array(n * keep);
  const values = new Uint16Array(n * keep);
  for (let v = 0; v < n; v++) {
    const x = (rest[3 * v + 1] / 2) * count - 0.5;
    const near = Array.from({ length: count }, (_, j) => [j, Math.max(0, 1 - Math.abs(x - j) / Math.max(1, keep / 2)) ** 2])
      .filter(([, w]) => w > 0)
      .sort((a, b) => b[1] - a[1])
      .slice(0, keep);
    if (near.length === 0) near.push([x < 0 ? 0 : count - 1, 1]);
    const sum = near.reduce((total, [, w]) => total + w, 0);
    let left = 65535;
    near.forEach(([j, w], i) => {
      indices[v * keep + i] = j;
      values[v * keep + i] = Math.floor((w / sum) * 65535);
      left -= values[v * keep + i];
    });
    values[v * keep] += left;
  }
  return { influences: keep, indices, weights: values };
}

export function skin(rest, skinning, matrices, joints, frame) {
  const out = new Float32Array(rest.length);
  const k = skinning.influences;
  for (let v = 0; 3 * v < rest.length; v++) {
    for (let i = v * k; i < (v + 1) * k; i++) {
      const w = skinning.weights[i] / 65535;
      const m = 12 * (frame * joints + skinning.indices[i]);
      if (w === 0) continue;
      for (let c = 0; c < 3; c++) {
        const row = m + 4 * c;
        out[3 * v + c] += w * (matrices[row] * rest[3 * v] + matrices[row + 1] * rest[3 * v + 1] + matrices[row + 2] * rest[3 * v + 2] + matrices[row + 3]);
      }
    }
  }
  return out;
}
