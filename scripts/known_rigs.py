"""Rigs of characters whose weights and motion are known, as npz.

usage: known_rigs.py SEQUENCES OUT NAME...
"""

import sys
from pathlib import Path

import numpy as np


def main(sequences, out, *names):
    for name in names:
        truth = np.load(Path(sequences) / f"{name}.npz")
        weights = truth["gt_weights"]
        most = int((weights > 0).sum(1).max())
        order = np.argsort(-weights, 1, kind="stable")[:, :most]
        picked = np.take_along_axis(weights, order, 1)
        np.savez(
            Path(out) / f"{name}.npz",
            rest=truth["rest"],
            faces=truth["faces"],
            joint_indices=order.astype(np.uint16),
            joint_weights=(picked / picked.sum(1, keepdims=True)).astype(np.float32),
            bones=truth["gt_bones"].astype(np.float64),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
