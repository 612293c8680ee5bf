"""Blender as a judge of USD files: imports them and compares its evaluated vertices with what we say they are.

usage: blender_usd_check.py FOLDER...

Takes the same files as usd_check.py. Blender turns stages to z up and metres; positions are compared there. Fails when any
vertex of any frame is off by more than TOLERANCE of the model's size.
"""

import json
import sys
from pathlib import Path

import bpy
import numpy as np
from usd_judge import judge

TOLERANCE = 1e-4


def positions(truth):
    depsgraph = bpy.context.evaluated_depsgraph_get()
    meshes = [o for o in bpy.context.scene.objects if o.type == "MESH"]
    names = truth.get("meshes")
    if len(meshes) != len(names or [""]):
        raise ValueError(f"{len(meshes)} meshes arrived")
    if names:
        # Pieces by name; what is soft comes last.
        place = {name: at for at, name in enumerate(names)}
        meshes.sort(key=lambda o: place.get(o.name, len(names)))
    parts = []
    for obj in meshes:
        source = obj.evaluated_get(depsgraph)
        mesh = source.data
        points = np.empty(3 * len(mesh.vertices))
        mesh.vertices.foreach_get("co", points)
        world = np.array(source.matrix_world)
        parts.append(points.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3])
    return np.concatenate(parts)


def in_blender(points, truth):
    """Z up and in metres."""
    points = np.array(points) * truth["metres_per_unit"]
    return points if truth["up"] == "Z" else np.stack([points[:, 0], -points[:, 2], points[:, 1]], axis=1)


def check(path):
    truth = json.loads(Path(f"{path}.json").read_text())
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.fps = round(truth["fps"])
    bpy.ops.wm.usd_import(filepath=str(path), apply_unit_conversion_scale=True)
    rest = in_blender(truth["rest"], truth)
    size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
    if truth["bones"]:
        armatures = [o for o in scene.objects if o.type == "ARMATURE"]
        if len(armatures) != 1 or len(armatures[0].data.bones) < truth["bones"]:
            raise ValueError(f"{[len(a.data.bones) for a in armatures]} bones arrived")
    worst = moved = 0.0
    for frame in truth["frames"]:
        scene.frame_set(round(frame["secs"] * truth["fps"]))
        expected = in_blender(frame["positions"], truth)
        found = positions(truth)
        if found.shape != expected.shape:
            raise ValueError(f"{len(found)} of {len(expected)} vertices arrived")
        worst = max(worst, float(np.linalg.norm(found - expected, axis=1).max()))
        moved = max(moved, float(np.linalg.norm(expected - rest, axis=1).max()))
    return worst / size, moved / size, len(truth["frames"])


if __name__ == "__main__":
    sys.exit(judge(sys.argv[1:], check, TOLERANCE))
