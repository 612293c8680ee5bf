"""`reduce --method poisson` beside an independent optimum of the same quadratic program.

usage: poisson_optimum.py BONESMITH RIG K,...

The objective [Course2014 eq. 43, with the anchor of docs/algorithms/reduce.md] is computed from the rig alone, densely, in float64: `sum |L (x - v)|^2 + 0.003 |x - v|^2` over
all clips, `L` of clamped cotangents. Its minimum over the K bones of largest effect of each vertex (eq. 14) is found by non-negative least squares (SciPy), sums by multipliers;
then over those of these bones alone to which geometric reduction gives a weight. For rigs of a few hundred vertices. Units are those of the model.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

ANCHOR = 3e-3


class Program:
    """Poses of a rig, and the objective."""

    def __init__(self, path):
        data = np.load(path, allow_pickle=True)
        self.rest, transforms = data["rest"].astype(float), data["bones"].astype(float)
        self.vertices, (self.frames, self.bones) = len(self.rest), transforms.shape[:2]
        self.weights = self.dense(path)
        self.weights /= self.weights.sum(1, keepdims=True)
        homogeneous = np.c_[self.rest, np.ones(self.vertices)]
        self.alone = np.einsum("fbac,nc->nbfa", transforms, homogeneous)
        self.target = self.blend(self.weights)
        laplacian = self.laplacian(data["faces"])
        self.squared = laplacian.T @ laplacian + ANCHOR * np.eye(self.vertices)

    def dense(self, path):
        data = np.load(path, allow_pickle=True)
        weights = np.zeros((self.vertices, self.bones))
        for bones, values in zip(data["joint_indices"].T, data["joint_weights"].T):
            np.add.at(weights, (np.arange(self.vertices), bones), values.astype(float))
        return weights

    def blend(self, weights):
        return np.einsum("nb,nbfa->nfa", weights, self.alone).reshape(self.vertices, -1)

    def laplacian(self, faces):
        n = self.vertices
        cotangents, edges = np.zeros((n, n)), np.zeros((n, n), bool)
        for face in faces:
            for c in range(3):
                o, a, b = face[c], face[(c + 1) % 3], face[(c + 2) % 3]
                x, y = self.rest[a] - self.rest[o], self.rest[b] - self.rest[o]
                area = np.linalg.norm(np.cross(x, y))
                half = 0.5 * x @ y / area if area > 0 else 0.0
                cotangents[a, b] += half
                cotangents[b, a] += half
                edges[a, b] = edges[b, a] = True
        weights = np.where(edges, np.clip(cotangents, 0.02, 20), 0)
        return np.eye(n) - weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)

    def objective(self, weights):
        off = self.blend(weights) - self.target
        return float(np.sum(off * (self.squared @ off)))

    def strongest(self, count):
        """Bones of largest effect, about the centre of the unit space: that of the smallest sphere, moved with the mean of the vertices."""
        ball = self.rest.mean(0)
        for step in range(1, 200_000):
            ball += (self.rest[np.argmax(((self.rest - ball) ** 2).sum(1))] - ball) / (step + 1)
        mean = self.target.reshape(self.vertices, self.frames, 3).mean(0)
        own = (self.alone - (mean - self.rest.mean(0) + ball)).reshape(self.vertices, self.bones, -1)
        effect = self.weights**2 * np.sum(own**2, -1)
        order = np.argsort(-effect, axis=1, kind="stable")[:, :count]
        return [[j for j in row if self.weights[i, j] > 0] for i, row in enumerate(order)]

    def optimum(self, rows):
        pairs = np.array([(i, j) for i, row in enumerate(rows) for j in row])
        vertex, bone = pairs.T
        alone = self.alone[vertex, bone].reshape(len(pairs), -1)
        form = (alone @ alone.T) * self.squared[np.ix_(vertex, vertex)]
        linear = np.einsum("vl,vl->v", alone, (self.squared @ self.target)[vertex])
        scale = np.mean(np.diag(form))
        sums = np.zeros((self.vertices, len(pairs)))
        sums[vertex, np.arange(len(pairs))] = 1
        heavy, multipliers = 100.0, np.zeros(self.vertices)
        factor = cholesky(form / scale + heavy * sums.T @ sums + 1e-13 * np.eye(len(pairs)))
        for _ in range(40):
            right = linear / scale + sums.T @ (heavy + multipliers)
            found, _ = nnls(factor, solve_triangular(factor, right, trans="T"), maxiter=100_000)
            gap = 1 - sums @ found
            multipliers += heavy * gap
            if abs(gap).max() < 1e-9:
                break
        weights = np.zeros((self.vertices, self.bones))
        weights[vertex, bone] = found
        return weights / weights.sum(1, keepdims=True)


def main(bonesmith, rig, counts):
    run = lambda *words: subprocess.run([bonesmith, *map(str, words), "-q"], check=True)
    print("| K | `poisson` | optimum on K bones | on those with a geometric weight |")
    print("|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        source, made, geometric = (Path(folder) / name for name in ("source.npz", "poisson.npz", "geometric.npz"))
        run("convert", rig, source)
        program = Program(source)
        for count in map(int, counts.split(",")):
            run("reduce", rig, "--influences", count, "--method", "poisson", "-o", made)
            run("reduce", rig, "--influences", count, "--method", "geometric", "-o", geometric)
            weights = program.dense(made)
            weighted = [np.nonzero(row)[0] for row in program.dense(geometric)]
            best = [program.objective(program.optimum(rows)) for rows in (program.strongest(count), weighted)]
            print(f"| {count} | {program.objective(weights):.2f} | {best[0]:.2f} | {best[1]:.2f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
