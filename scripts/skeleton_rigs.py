"""Skeletons that were found, beside the rigs that the animations were made with, as a Markdown table.

usage: skeleton_rigs.py [-v] BONESMITH RIG... [-- OPTIONS of `fit --skeleton`]

With -v the names of the joints that were not found go to the error output.

A RIG is a file with a skinned, animated mesh (.glb, .fbx, .usd*). Its animation is the input, its joints are the truth. An .npz of positions with the
arrays `gt_weights` [n,b] and `gt_bones` [f,b,3,4] has no tree: the one is taken whose joints hold best. Needs numpy and scipy.

A joint splits the surface in two: what hangs below it, and the rest. With `W_i` the weights of vertex i below a joint and `V_i` those below
another, the two splits are alike by `sum min(W, V) / sum max(W, V)`, of the smaller side. A joint of the truth counts if it
turns by more than 5 degrees and both sides of its split hold surface; it is found if a joint of the skeleton has a split that is at least 0.6 alike. Each joint
of the skeleton stands for one joint of the truth at most; those that stand for none are left over.

`away`: the largest distance from a joint to the surface that it splits, over the largest extent of the model.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

ALIKE = 0.6
TURN = 5.0


def read(path):
    return {name: value for name, value in np.load(path).items()}


def joint(a, b, near):
    """Where two bones [f,3,4] hold together best, near a place, and how far they are apart there."""
    lever = (a[..., :3] - b[..., :3]).reshape(-1, 3)
    offset = (a[..., 3] - b[..., 3]).reshape(-1)
    ridge = 1e-6 * len(a)
    place = np.linalg.solve(lever.T @ lever + ridge * np.eye(3), ridge * near - lever.T @ offset)
    return place, np.sqrt(((lever @ place + offset) ** 2).sum() / len(a))


def with_tree(file):
    """The truth of an npz with weights and bones: from the middle outwards, each bone hangs where it holds best."""
    weights, bones, rest = (file[key].astype(float) for key in ("gt_weights", "gt_bones", "rest"))
    b = weights.shape[1]
    middles = weights.T @ rest / weights.sum(0).clip(1e-9)[:, None]
    parents, joints = np.full(b, -1), middles.copy()
    root = int(np.linalg.norm(middles - rest.mean(0), axis=1).argmin())
    best = [(np.inf, -1, None)] * b
    inside, last = {root}, root
    while len(inside) < b:
        for k in set(range(b)) - inside:
            place, gap = joint(bones[:, last], bones[:, k], (middles[last] + middles[k]) / 2)
            cost = gap + 1e-4 * np.linalg.norm(middles[last] - middles[k])
            best[k] = min(best[k], (cost, last, place), key=lambda entry: entry[0])
        last = min(set(range(b)) - inside, key=lambda k: best[k][0])
        _, parents[last], joints[last] = best[last]
        inside.add(last)
    indices = np.argsort(-weights, axis=1)[:, :16]
    names = json.dumps({"bone_names": [f"bone {k}" for k in range(b)]})
    return {"rest": rest, "bones": bones, "parents": parents, "joint_positions": joints, "joint_indices": indices,
            "joint_weights": np.take_along_axis(weights, indices, 1), "bonesmith": names}


def truth_of(bonesmith, file, folder):
    if file.suffix == ".npz":
        arrays = read(file)
        if "gt_weights" in arrays:
            return with_tree(arrays)
    at = Path(folder) / "truth.npz"
    run(bonesmith, "convert", file, at)
    return read(at)


def below(rig):
    """[n,b] weights of the subtree of each joint, and the dense weights."""
    n, b = len(rig["rest"]), len(rig["parents"])
    dense = np.zeros((n, b))
    np.add.at(dense, (np.arange(n)[:, None], rig["joint_indices"]), rig["joint_weights"])
    sums, parents = dense.copy(), rig["parents"]
    depth = [0] * b
    for j in range(b):
        p = parents[j]
        while p >= 0:
            depth[j], p = depth[j] + 1, parents[p]
    for j in sorted(range(b), key=lambda j: -depth[j]):
        if parents[j] >= 0:
            sums[:, parents[j]] += sums[:, j]
    return sums, dense


def rotation(matrices):
    u, _, v = np.linalg.svd(matrices)
    return u @ (v * np.sign(np.linalg.det(u @ v))[..., None, None] ** np.array([0, 0, 1])[:, None])


def turns(rig):
    """[b] degrees by which each joint turns at most, between the first frame and another; 0 for roots."""
    bones, parents = rotation(rig["bones"][..., :3]), rig["parents"]
    out = np.zeros(len(parents))
    for j, p in enumerate(parents):
        if p >= 0:
            local = np.swapaxes(bones[:, p], 1, 2) @ bones[:, j]
            trace = np.einsum("ab,tab->t", local[0], local)
            out[j] = np.degrees(np.arccos(np.clip((trace - 1) / 2, -1, 1))).max()
    return out


def alike(truth, found):
    """[j,k] how much splits are alike."""
    n = len(truth)
    small = np.where(truth.sum(0) > n / 2, 1 - truth, truth)

    def score(v):
        return np.minimum(small, v).sum(0) / np.maximum(small, v).sum(0).clip(1e-9)

    return np.stack([np.maximum(score(v[:, None]), score(1 - v[:, None])) for v in found.T], 1)


def splits(truth):
    """Joints of the truth that count: those that turn and split; of several with one split, the first."""
    sums, _ = below(truth)
    n, turned = len(sums), turns(truth)
    joints = []
    for j, p in enumerate(truth["parents"]):
        inside = sums[:, j].sum()
        if p < 0 or turned[j] <= TURN or inside < 0.5 or inside > n - 0.5:
            continue
        if all(np.abs(sums[:, j] - sums[:, k]).max() > 1e-3 for k in joints):
            joints.append(j)
    return joints


def away(rig):
    """[b-1] distance of each joint from the surface that it splits, over the height."""
    sums, dense = below(rig)
    rest = rig["rest"]
    height = np.ptp(rest, axis=0).max()
    out = []
    for j, p in enumerate(rig["parents"]):
        if p >= 0:
            v = sums[:, j]
            rim = (v > 0.05) & (v < 0.95)
            if not rim.any():
                rim = (dense[:, j] > 0.5) | (dense[:, p] > 0.5)
            if not rim.any():
                rim = (v > 0.5)
            at = np.linalg.norm(rest[rim] - rig["joint_positions"][j], axis=1)
            out.append(at.min() / height if len(at) else np.inf)
    return np.array(out)


def compare(truth, found):
    """(joints that count, their matches or -1, joints left over)"""
    joints = splits(truth)
    children = [k for k, p in enumerate(found["parents"]) if p >= 0]
    score = alike(below(truth)[0][:, joints], below(found)[0][:, children])
    rows, columns = linear_sum_assignment(-np.where(score >= ALIKE, 10 + score, 0))
    match = {joints[r]: children[c] for r, c in zip(rows, columns) if score[r, c] >= ALIKE}
    left = [k for k in children if k not in match.values()]
    return joints, match, left


def run(*line):
    return subprocess.run([str(word) for word in line], check=True, capture_output=True, text=True)


def main(args):
    options = []
    if "--" in args:
        at = args.index("--")
        args, options = args[:at], args[at + 1 :]
    verbose = "-v" in args
    bonesmith, *files = [a for a in args if a != "-v"]
    print("| rig | options | bones | splits found | left over | away | E_RMS | fit s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for file in map(Path, files):
            found_at = Path(folder) / "found.npz"
            line = run(bonesmith, "fit", file, "--skeleton", "-o", found_at, "--quiet", "--json", "-", *options)
            summary = json.loads(line.stdout)
            truth, found = truth_of(bonesmith, file, folder), read(found_at)
            joints, match, left = compare(truth, found)
            cells = [file.stem, " ".join(options), len(found["parents"]), f"{len(match)}/{len(joints)}", len(left)]
            cells += [f"{away(found).max(initial=0):.2f}", f"{summary['e_rms']:.3f}", f"{summary['seconds']['fit']:.1f}"]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
            if verbose:
                names = json.loads(str(truth["bonesmith"]))["bone_names"]
                missed = [names[j] for j in joints if j not in match]
                print("missed", missed, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
