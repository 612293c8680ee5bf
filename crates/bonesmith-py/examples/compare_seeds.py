"""How much does the result depend on the seed, and how does it compare with Dem Bones?

Run it in a notebook cell by cell, or as a script: python compare_seeds.py [FOLDER]
Dem Bones is compared where it is installed: pip install py-dem-bones
"""

# %% An arm of a few segments that bends.
import sys
import time
from pathlib import Path

import numpy as np

import bonesmith

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
around, along, frames = 16, 48, 40
angle, height = np.meshgrid(np.linspace(0, 2 * np.pi, around, endpoint=False), np.linspace(0, 4, along))
bend = np.clip(height - 1, 0, 1) + np.clip(height - 2.5, 0, 1)


def arm(t: int) -> np.ndarray:
    """[N, 3] positions of one frame."""
    turn = 0.9 * np.sin(0.25 * t) * bend
    x, y = 0.3 * np.cos(angle), 0.3 * np.sin(angle)
    lengths = np.diff(height[:, :1], axis=0, prepend=0)
    centre_x = np.cumsum(lengths * np.sin(turn[:, :1]), axis=0)
    centre_y = np.cumsum(lengths * np.cos(turn[:, :1]), axis=0)
    return np.stack([centre_x + x * np.cos(turn), centre_y - x * np.sin(turn), y], axis=-1).reshape(-1, 3)


verts = np.asarray([arm(t) for t in range(frames)], dtype=np.float32)
at = np.arange(around * along).reshape(along, around)
ring = np.roll(at, -1, axis=1)
faces = np.stack([at[:-1], ring[:-1], ring[1:], at[1:]], axis=-1).reshape(-1, 4)
animation = bonesmith.Animation(verts, faces, name="arm")

# %% Several seeds. The same seed gives the same bytes, on any number of threads.
rigs = {f"seed {seed}": bonesmith.fit(animation, bones=8, seed=seed) for seed in range(4)}
for name, metrics in bonesmith.compare(rigs, animation, report=folder / "seeds.html").items():
    print(f"{name}: E_RMS {metrics.e_rms:.4f}, max error {metrics.max_error:.3f}")


# %% Dem Bones, and the drop-in with its shapes: both keep the rest pose, both have rigid bones and four influences.
def error(weights: np.ndarray, transforms: np.ndarray) -> float:
    """E_RMS of weights [B, N] and transforms [F, B, 4, 4]."""
    rest = np.concatenate([verts[0].astype(float), np.ones((verts.shape[1], 1))], axis=1)
    posed = np.einsum("ji,tjrc,ic->tir", weights, transforms, rest)[..., :3]
    radius = bonesmith.evaluate(animation, animation).radius
    return float(1000 * np.sqrt(((posed - verts) ** 2).mean()) / radius)


started = time.perf_counter()
weights, transforms = bonesmith.solve(verts[0], verts, 8, faces=faces)
print(f"bonesmith.solve: E_RMS {error(weights, transforms):.3f} in {time.perf_counter() - started:.2f} s")
try:
    import py_dem_bones
except ImportError:
    print("Dem Bones is not installed: not compared")
else:
    started = time.perf_counter()
    theirs = py_dem_bones.solve_skinning(verts[0], verts, 8, faces=faces.tolist())
    print(f"Dem Bones: E_RMS {error(theirs.weights, theirs.transforms):.3f} in {time.perf_counter() - started:.2f} s")
