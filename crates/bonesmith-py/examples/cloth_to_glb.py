"""A cloth simulation as a rig that engines play.

Run it in a notebook cell by cell (the `# %%` lines), or as a script: python cloth_to_glb.py [FOLDER]
"""

# %% An animation: positions [frames, vertices, 3], here made by arithmetic. A real one: bonesmith.load_animation("cloth.abc").
import sys
from pathlib import Path

import numpy as np

import bonesmith

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
columns, rows, frames = 32, 24, 30
u, v = np.meshgrid(np.linspace(0, 1.4, columns), np.linspace(0, 1, rows))
waves = [0.12 * np.sin(6 * u - 0.4 * t) * u + 0.05 * np.cos(9 * v + 0.3 * t) for t in range(frames)]
verts = np.asarray([np.stack([u, v, w], axis=-1).reshape(-1, 3) for w in waves], dtype=np.float32)
at = np.arange(columns * rows).reshape(rows, columns)
faces = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1]], axis=-1).reshape(-1, 4)


# %% The fit. The progress function is called a few times a second; if it returned False, the fit would end.
def progress(stage: str, step: int, total: "int | None", error: "float | None") -> None:
    """Shows what is running."""
    print(f"{stage}: {step}{'' if total is None else f'/{total}'}", end="\r")


rig = bonesmith.fit(verts, faces, bones=24, bone_kind="affine", fps=30, name="cloth", progress=progress)
print(rig)

# %% How good is it? Below about 2 thousandths of the radius the error is hard to see.
metrics = rig.metrics
assert metrics is not None
frame, vertex = metrics.max_error_at
print(f"E_RMS {metrics.e_rms:.3f}, at most {metrics.max_error:.2f} in frame {frame} at vertex {vertex}")

# %% For engines, for people, and for this notebook.
rig.save(folder / "cloth.glb")
rig.report(folder / "cloth.html")
view = rig.view()

# %% The same mesh with bones of your own: all bones of frame 0, a hand's breadth higher.
bones = rig.bones[0].copy()
bones[:, 1, 3] += 0.1
lifted = rig.pose(bones)
assert np.allclose(lifted[:, 1], rig.pose(0)[:, 1] + 0.1, atol=1e-5)
print("written:", folder / "cloth.glb", folder / "cloth.html")
