"""The measures of `crates/bonesmith-core/src/metrics.rs`, written once more in numpy: a judge that shares no code with us.

Index letters: f frames, n vertices, b bones, t triangles.
"""

import itertools
import math

import numpy as np


def enclosing_radius(points):
    """Radius of the smallest enclosing sphere: the farthest point joins the support until none is outside."""
    support, centre, radius = [0], points[0], 0.0
    while True:
        distance = np.linalg.norm(points - centre, axis=1)
        far = int(distance.argmax())
        if distance[far] <= radius * (1 + 1e-9):
            return radius
        # The new sphere is the smallest one through some of these (at most 5) points that holds all of them.
        indices = [*support, far]
        candidates = points[indices]
        best = None
        for size in range(1, min(4, len(indices)) + 1):
            for subset in itertools.combinations(range(len(indices)), size):
                base = candidates[subset[0]]
                edges = candidates[list(subset[1:])] - base
                # Circumcentre within the subset's plane: 2 e_i . (c - base) = |e_i|^2.
                c = base + edges.T @ np.linalg.lstsq(2 * edges @ edges.T, (edges**2).sum(1), rcond=None)[0]
                r = np.linalg.norm(base - c)
                if np.linalg.norm(candidates - c, axis=1).max() <= r * (1 + 1e-9) + 1e-300 and (
                    best is None or r < best[0]
                ):
                    best = (r, c, [indices[i] for i in subset])
        if best is None or best[0] <= radius:
            # Rounding ends it: nothing grows any more. The two must then be as good as equal.
            assert distance[far] <= radius * (1 + 1e-6), f"no enclosing sphere: {distance[far]} outside {radius}"
            return radius
        radius, centre, support = best


def vertex_normals(positions, faces):
    """[n,3] area-weighted normals, not normalised."""
    a, b, c = (positions[faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    corners, spread = faces.T.ravel(), np.tile(normal, (3, 1))
    return np.stack([np.bincount(corners, spread[:, k], len(positions)) for k in range(3)], axis=1)


def angles_between(p, q):
    """Radians, of the pairs that both have a direction; atan2 keeps its digits near 0."""
    both = ((p**2).sum(1) > 0) & ((q**2).sum(1) > 0)
    p, q = p[both], q[both]
    return np.arctan2(np.linalg.norm(np.cross(p, q), axis=1), (p * q).sum(1))


def measure(sequence, rest, weights, bones, rest_normals=None):
    """Figures of the rig `rest` [n,3], `weights` [n,b], `bones` [f,b,3,4] (pose from rest) against a sequence.

    `rest_normals` [n,3] are those that the rig stores; without them, those of its rest pose, as an exporter writes them.
    """
    truth, faces = sequence["verts"], sequence["faces"]
    f, n, _ = truth.shape
    total, worst, angle_sum, angle_count, skinned_sum, skinned_count = 0.0, 0.0, 0.0, 0, 0.0, 0
    if rest_normals is None:
        rest_normals = vertex_normals(rest, faces)
    for frame, motion in zip(truth.astype(np.float64), bones):
        blended = (weights @ motion.reshape(len(motion), 12)).reshape(n, 3, 4)
        posed = np.einsum("nij,nj->ni", blended[:, :, :3], rest) + blended[:, :, 3]
        squared = ((posed - frame) ** 2).sum(1)
        total += squared.sum()
        worst = max(worst, squared.max())
        true_normals = vertex_normals(frame, faces)
        angles = angles_between(true_normals, vertex_normals(posed, faces))
        angle_sum, angle_count = angle_sum + angles.sum(), angle_count + len(angles)
        # As three.js and most engines do: the stored normal times the blended matrix.
        skinned = angles_between(true_normals, np.einsum("nij,nj->ni", blended[:, :, :3], rest_normals))
        skinned_sum, skinned_count = skinned_sum + skinned.sum(), skinned_count + len(skinned)
    own_rest = sequence["rest"].astype(np.float64)
    radius = enclosing_radius(own_rest)
    diagonal = np.linalg.norm(own_rest.max(0) - own_rest.min(0))
    return {
        "e_rms": 1000 / radius * math.sqrt(total / (3 * n * f)),
        "rmse_percent": 100 * math.sqrt(total / (n * f)) / float(diagonal),
        "max_error": 1000 * math.sqrt(worst) / radius,
        "normal_degrees": math.degrees(angle_sum / angle_count) if angle_count else None,
        "skinned_degrees": math.degrees(skinned_sum / skinned_count) if skinned_count else None,
        "radius_model_units": radius,
    }


def load_sequence(path):
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in ("verts", "rest", "faces")}
