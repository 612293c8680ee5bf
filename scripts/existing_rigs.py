"""Fits that start from a rig, on characters whose truth is known, as a Markdown table.

usage: existing_rigs.py BONESMITH SEQUENCES

Of each gt_*.npz a rig is made whose weights say nothing (all bones alike) and one that does not move; `bonesmith fit --rig` finds
the weights, the motion, and both. Needs numpy.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def rigs(truth, folder):
    """(rig without weights, rig without motion)"""
    n, b = truth["gt_weights"].shape
    common = {"rest": truth["rest"], "faces": truth["faces"]}
    bones = np.tile(np.arange(b, dtype=np.uint16), (n, 1))
    alike = np.full((n, b), 1 / b, dtype=np.float32)
    np.savez(folder / "moving.npz", joint_indices=bones, joint_weights=alike, bones=truth["gt_bones"], **common)
    still = np.tile(np.eye(3, 4), (1, b, 1, 1))
    np.savez(folder / "still.npz", joint_indices=bones, joint_weights=truth["gt_weights"], bones=still, **common)
    return folder / "moving.npz", folder / "still.npz"


def fit(bonesmith, sequence, rig, solve, out):
    line = [bonesmith, "fit", sequence, "--rig", rig, "--solve", solve, "-o", out, "--threads", "1", "--quiet", "--json", "-"]
    return json.loads(subprocess.run([str(word) for word in line], check=True, capture_output=True, text=True).stdout)


def weights_of(path, bones):
    rig = np.load(path)
    dense = np.zeros((len(rig["rest"]), bones))
    np.add.at(dense, (np.arange(len(dense))[:, None], rig["joint_indices"]), rig["joint_weights"])
    return dense


def main(bonesmith, sequences):
    print("| sequence | vertices | bones | frames | solve | E_RMS | weights off by | fit s |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |")
    for path in sorted(Path(sequences).glob("gt_*.npz")):
        truth = np.load(path)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            moving, still = rigs(truth, folder)
            for solve, rig in [("weights", moving), ("motion", still), ("both", moving)]:
                summary = fit(bonesmith, path, rig, solve, folder / "out.npz")
                found, true = weights_of(folder / "out.npz", summary["bones"]), truth["gt_weights"]
                used = (found > 0) | (true > 0)
                off = f"{np.abs(found - true)[used].mean():.1e}" if solve == "weights" else ""
                shape = f"{summary['vertices']} | {summary['bones']} | {summary['frames']}"
                print(f"| {path.stem} | {shape} | {solve} | {summary['e_rms']:.1e} | {off} | {summary['seconds']['fit']:.2f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
