"""Positions of all vertices in Blender at given times: positions_blender.py ASKED.json ANSWER.json (see differential.py)."""

import json
import sys
from pathlib import Path

import bpy
import numpy as np

FPS = 24
IMPORT = {
    ".glb": lambda name: bpy.ops.import_scene.gltf(filepath=name),
    ".gltf": lambda name: bpy.ops.import_scene.gltf(filepath=name),
    ".fbx": lambda name: bpy.ops.import_scene.fbx(filepath=name, anim_offset=0.0),
    ".abc": lambda name: bpy.ops.wm.alembic_import(filepath=name, as_background_job=False),
    ".obj": lambda name: bpy.ops.wm.obj_import(filepath=name, up_axis="Z", forward_axis="Y"),
    ".ply": lambda name: bpy.ops.wm.ply_import(filepath=name),
}


def choose(clip):
    """The action of this name, on whatever it moves; importers mute all but one or play them all."""
    for obj in bpy.data.objects:
        data = obj.animation_data
        if clip is None or data is None:
            continue
        for track in data.nla_tracks:
            track.mute = True
            for strip in track.strips:
                if strip.action and (track.name == clip or strip.action.name.startswith(clip)):
                    data.action = strip.action
                    if hasattr(data, "action_slot") and data.action.slots:
                        data.action_slot = data.action.slots[0]


def positions(job):
    path = Path(job["path"])
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.fps, scene.render.fps_base = FPS, 1.0
    usd = lambda name: bpy.ops.wm.usd_import(filepath=name)
    IMPORT.get(path.suffix.lower(), usd)(str(path))
    choose(job["clip"])
    rate = scene.render.fps / scene.render.fps_base
    frames = []
    for secs in job["times"]:
        frame = secs * rate
        scene.frame_set(int(frame // 1), subframe=frame % 1)
        depsgraph = bpy.context.evaluated_depsgraph_get()
        parts = []
        for obj in scene.objects:
            if obj.type != "MESH" or obj.name.startswith("Icosphere"):
                continue
            source = obj.evaluated_get(depsgraph)
            points = np.empty(3 * len(source.data.vertices))
            source.data.vertices.foreach_get("co", points)
            world = np.array(source.matrix_world)
            parts.append(points.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3])
        frames.append(np.concatenate(parts).ravel().tolist())
    return frames


def main(asked, answer):
    found = {}
    for job in json.loads(Path(asked).read_text()):
        try:
            found[job["path"]] = positions(job)
        except Exception as problem:  # a refusal is an answer
            found[job["path"]] = f"{type(problem).__name__}: {problem}"[:200]
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
