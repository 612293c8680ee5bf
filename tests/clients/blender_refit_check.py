"""Blender imports skinned GLBs, bakes them into Alembic caches, and Bonesmith refits the rigs from those.

    .venv-blender/bin/python tests/clients/blender_refit_check.py BONESMITH FILE.glb... [FOLDER]

Blender splits vertices at seams, and adds objects of its own. Of a folder, CesiumMan.glb is taken where it is there. The rig's
motion is solved from the cache; it must be the cache's: E_RMS below TOLERANCE.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import bpy

TOLERANCE = 0.05


def bake(path, cache):
    """Returns the number of vertices that Blender has for the meshes."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.scene.render.fps = 24
    bpy.ops.import_scene.gltf(filepath=str(path))
    ends = [action.frame_range[1] for action in bpy.data.actions]
    bpy.ops.wm.alembic_export(filepath=str(cache), start=1, end=int(max(ends)), as_background_job=False)
    return sum(len(o.data.vertices) for o in bpy.data.objects if o.type == "MESH")


def check(bonesmith, path, folder):
    cache, out = folder / f"{path.stem}.abc", folder / f"{path.stem}_refit.glb"
    vertices = bake(path, cache)
    command = [bonesmith, "fit", cache, "--rig", path, "--solve", "motion", "-o", out, "-q", "--json", "-"]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode != 0:
        return False, run.stderr.strip()
    summary = json.loads(run.stdout)
    e_rms, own = summary["e_rms"], summary["vertices"]
    return e_rms <= TOLERANCE, f"{vertices} vertices in Blender, {own} in the rig, E_RMS {e_rms:.2g}"


def main(bonesmith, arguments):
    files = []
    for path in map(Path, arguments):
        files += [path / "CesiumMan.glb"] if path.is_dir() else [path]
    files = [path for path in files if path.is_file()]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            try:
                passed, text = check(bonesmith, path, Path(folder))
            except Exception as problem:  # a file that Blender refuses is a failure like any other
                passed, text = False, f"{type(problem).__name__}: {problem}"
            failed += not passed
            print(f"{'ok  ' if passed else 'FAIL'} {path.name}: {text}", flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    return 0 if files and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
