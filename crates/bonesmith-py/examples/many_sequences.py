"""A loop over 200 sequences: a table of errors, and a rig of each.

Run it in a notebook cell by cell, or as a script: python many_sequences.py [FOLDER [COUNT]]
"""

# %% Sequences of all kinds of waves. Real ones: for path in sorted(Path("caches").glob("*.abc")).
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import bonesmith

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
side, frames = 12, 10
u, v = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side))
at = np.arange(side * side).reshape(side, side)
faces = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1]], axis=-1).reshape(-1, 4)


def sequence(number: int) -> np.ndarray:
    """[F, N, 3] positions."""
    random = np.random.default_rng(number)
    speed, length, height = random.uniform(0.2, 0.6), random.uniform(2, 7), random.uniform(0.05, 0.2)
    heights = [height * np.sin(length * u + speed * t) * v for t in range(frames)]
    return np.asarray([np.stack([u, v, h], axis=-1).reshape(-1, 3) for h in heights], dtype=np.float32)


# %% One thread of the fit for each of several sequences at once. Nothing is lost when one of them fails.
def one(number: int) -> str:
    """Fits and saves one sequence; returns a row of the table."""
    name = f"wave_{number:03}"
    try:
        rig = bonesmith.fit(sequence(number), faces, bones=6, effort="fast", name=name, threads=1)
        metrics = rig.metrics
        rig.save(folder / f"{name}.npz")
    except (bonesmith.BonesmithError, OSError) as error:
        return f"{name},failed: {error},"
    assert metrics is not None
    return f"{name},{metrics.e_rms:.4f},{metrics.max_error:.3f}"


with ThreadPoolExecutor(max_workers=4) as pool:
    rows = list(pool.map(one, range(count)))

# %% The table.
(folder / "errors.csv").write_text("\n".join(["name,e_rms,max_error", *rows]) + "\n", encoding="utf-8")
errors = [float(row.split(",")[1]) for row in rows]
print(f"{count} rigs, E_RMS {min(errors):.3f} to {max(errors):.3f}; written: {folder / 'errors.csv'}")
