"""NumPy as the judge of our archives: reads what we write, and writes what we must read.

usage: numpy_check.py FOLDER

FOLDER holds rig.npz and posed.npz (the same rig, posed by us). Without pickles, every array must load with the type and
shape of docs/formats/npz.md; posing the rig must give posed.npz. Then foreign.npz is written for us to read.
"""

import json
import pathlib
import sys

import numpy as np

folder = pathlib.Path(sys.argv[1])
rig = np.load(folder / "rig.npz", allow_pickle=False)
posed = np.load(folder / "posed.npz", allow_pickle=False)

arrays = {key: rig[key] for key in rig.files}  # every one must load
n, k = arrays["joint_indices"].shape
f, b = arrays["bones"].shape[:2]
expected = {
    "rest": ((n, 3), "float32"),
    "faces": ((len(arrays["faces"]), 3), "int32"),
    "joint_indices": ((n, k), "uint16"),
    "joint_weights": ((n, k), "float32"),
    "bones": ((f, b, 3, 4), "float64"),
    "parents": ((b,), "int32"),
    "joint_positions": ((b, 3), "float64"),
    "world_from_bind": ((b, 3, 4), "float64"),
    "times": ((f,), "float64"),
}
for key, (shape, dtype) in expected.items():
    assert arrays[key].shape == shape and arrays[key].dtype == dtype, (key, arrays[key].shape, arrays[key].dtype)
assert json.loads(str(arrays["params"]))["bones"] == b
assert len(json.loads(str(arrays["bonesmith"]))["bone_names"]) == b
assert arrays["face_counts"].sum() == len(arrays["face_indices"])

# The line of docs/formats/npz.md.
rest, w, joint_indices, bones = (arrays[key] for key in ("rest", "joint_weights", "joint_indices", "bones"))
for t, frame in enumerate(posed["verts"]):
    ours = np.einsum("nk,nkij,nj->ni", w, bones[t][joint_indices], np.c_[rest, np.ones(n)])
    assert np.abs(ours - frame).max() < 1e-5, (t, np.abs(ours - frame).max())

verts = np.asfortranarray(posed["verts"].astype(np.float64))
np.savez_compressed(
    folder / "foreign.npz", verts=verts, rest=posed["rest"], faces=posed["faces"].astype(np.int64), fps=50, note="hello"
)
print(f"numpy {np.__version__}: ok")
