"""Blender as a judge: imports each NAME.glb of a folder and compares its evaluated vertices with NAME.json.

NAME.json: {"fps", "rest": [[x,y,z]...], "frames": [{"frame", "positions"}...]} in glTF axes (y up).
Fails when any vertex of any frame is off by more than TOLERANCE of the model's size.
"""

import json
import sys
from pathlib import Path

import bpy
import numpy as np

TOLERANCE = 1e-4


def import_fresh(path, fps):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    # Blender puts keys at time x scene fps: the rate must be right before the import.
    bpy.context.scene.render.fps = fps
    bpy.context.scene.render.fps_base = 1.0
    bpy.ops.import_scene.gltf(filepath=str(path))


def meshes():
    # The importer adds an icosphere as the bones' display shape; it is not part of the scene.
    return [o for o in bpy.context.scene.objects if o.type == "MESH" and not o.name.startswith("Icosphere")]


def positions(objects, evaluated):
    depsgraph = bpy.context.evaluated_depsgraph_get()
    parts = []
    for obj in objects:
        source = obj.evaluated_get(depsgraph) if evaluated else obj
        mesh = source.data
        points = np.empty(3 * len(mesh.vertices))
        mesh.vertices.foreach_get("co", points)
        world = np.array(source.matrix_world)
        points = points.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3]
        parts.append(np.stack([points[:, 0], points[:, 2], -points[:, 1]], axis=1))  # z up to y up
    return np.concatenate(parts)


def originals(rest, imported, size):
    """Which original vertex each imported one is: the nearest at rest. Test meshes have no two in one place."""
    distance = ((imported[:, None, :] - rest[None, :, :]) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1)
    worst = float(np.sqrt(distance[np.arange(len(imported)), nearest].max()))
    if worst > 1e-3 * size:
        raise ValueError(f"the rest pose is off by {worst:g}")
    if len(set(nearest)) != len(rest):
        raise ValueError(f"{len(set(nearest))} of {len(rest)} vertices arrived")
    return nearest


def check(path):
    reference = json.loads(path.with_suffix(".json").read_text())
    rest = np.array(reference["rest"])
    size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
    import_fresh(path, reference["fps"])
    objects = meshes()
    which = originals(rest, positions(objects, evaluated=False), size)
    worst = 0.0
    moved = 0.0
    for frame in reference["frames"]:
        bpy.context.scene.frame_set(frame["frame"])
        expected = np.array(frame["positions"])
        found = positions(objects, evaluated=True)
        worst = max(worst, float(np.linalg.norm(found - expected[which], axis=1).max()))
        moved = max(moved, float(np.linalg.norm(expected - rest, axis=1).max()))
    return worst / size, moved / size, len(reference["frames"])


def main(folder):
    files = sorted(path for path in Path(folder).glob("*.glb") if path.with_suffix(".json").exists())
    if not files:
        print(f"no .glb with a .json beside it in {folder}")
        return 2
    failed = 0
    for path in files:
        try:
            error, moved, frames = check(path)
            passed = error <= TOLERANCE
            text = f"largest error {error:.2e} of the size over {frames} frames (it moves by {moved:.2f})"
        except Exception as problem:  # a file that Blender refuses is a failure like any other
            passed, text = False, f"{type(problem).__name__}: {problem}"
        failed += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {path.name}: {text}", flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
