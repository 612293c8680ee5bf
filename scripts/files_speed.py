"""How fast files are read, beside Blender's own import of the same files in the same run.

usage: files_speed.py BONESMITH FOLDER [PYTHON_WITH_BPY]

Ours is the best of ten reads of a warm file, with the check of every number: all frames are in memory then. Blender's is its
import and one step through all frames with the positions taken out, the best of three: its import alone reads one frame.
"""

import json
import subprocess
import sys
from pathlib import Path

# A format that both read is one more name here.
FILES = ["dembones/Bone_Anim.abc", "cloth.abc", "softbody.abc", "character.abc", "character.fbx", "dembones/Decomposition_10.fbx",
         "softbody.usdc", "character_skel.usdc"]

BLENDER = r"""
import json, sys, time
import bpy
import numpy as np
reads = {"abc": lambda p: bpy.ops.wm.alembic_import(filepath=p, as_background_job=False),
         "fbx": lambda p: bpy.ops.import_scene.fbx(filepath=p, anim_offset=0.0),
         "usdc": lambda p: bpy.ops.wm.usd_import(filepath=p)}
out = {}
for path, frames in json.loads(sys.argv[1]).items():
    best = 1e9
    for _ in range(3):
        bpy.ops.wm.read_factory_settings(use_empty=True)
        start = time.perf_counter()
        reads[path.rsplit(".", 1)[1]](path)
        imported = time.perf_counter() - start
        graph = bpy.context.evaluated_depsgraph_get()
        for frame in range(1, frames + 1):
            bpy.context.scene.frame_set(frame)
            for obj in bpy.context.scene.objects:
                if obj.type == "MESH":
                    mesh = obj.evaluated_get(graph).data
                    points = np.empty(3 * len(mesh.vertices), np.float32)
                    mesh.vertices.foreach_get("co", points)
        best = min(best, time.perf_counter() - start)
    out[path] = [imported, best]
print("RESULT" + json.dumps(out))
"""


def main(bonesmith, folder, python=None):
    paths = [str(path) for path in (Path(folder) / name for name in FILES) if path.exists()]
    ours = json.loads(subprocess.run([bonesmith, "bench", "files", "--json", "-", *paths], check=True, capture_output=True, text=True).stdout)["files"]
    theirs = {}
    if python:
        asked = json.dumps({path: row["frames"] for path, row in zip(paths, ours)})
        said = subprocess.run([python, "-c", BLENDER, asked], capture_output=True, text=True).stdout
        theirs = json.loads(said[said.index("RESULT") + 6 :].splitlines()[0]) if "RESULT" in said else {}
    print("| file | MB | frames x vertices | ms | MB/s | Blender: import, ms | and all frames, ms | times as fast |")
    print("|---|---|---|---|---|---|---|---|")
    for path, row in zip(paths, ours):
        imported, everything = theirs.get(path, (None, None))
        cells = [f"{1e3 * t:.0f}" if t is not None else "-" for t in (imported, everything)]
        faster = f"{everything / row['seconds']:.0f}" if everything else "-"
        print(
            f"| {row['file']} | {row['megabytes']:.2f} | {row['frames']} x {row['vertices']} | {1e3 * row['seconds']:.1f} "
            f"| {row['megabytes_per_second']:.0f} | {cells[0]} | {cells[1]} | {faster} |"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
