"""Pictures of docs/blender.md, rendered by Blender itself without a window: the original on the left, the result on the right, coloured by bones.

    .venv-blender/bin/python blender/tests/pictures.py EXTENSION.zip docs/pictures [--only NAME]
"""

import argparse
import colorsys
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import harness  # noqa: E402  (before bpy: it sets the folder of user files)
import bpy  # noqa: E402
import numpy as np  # noqa: E402
from mathutils import Vector  # noqa: E402

import scenes  # noqa: E402

#: Scene, frame of the picture, direction that the camera looks from.
PICTURES = {
    "flag": (lambda _: scenes.flag(41, 27, 4000), 33, (0.25, -1, 0.15)),
    "jelly": (lambda _: scenes.jelly(9), 17, (0.4, -1, 0.5)),
    "shape-keys": (lambda _: scenes.shape_keys(32, 20), 14, (0.3, -1, 0.3)),
    "geometry-nodes": (lambda _: scenes.geometry_nodes(48, 30), 14, (0.35, -1, 0.5)),
    "wall": (lambda _: scenes.wall(), 13, (0.5, -1, 0.45)),
    "cape": (lambda _: scenes.cape(25, 31), 24, (0.9, 0.8, 0.3)),
    "alembic": (lambda folder: scenes.alembic(folder, 32, 20), 14, (0.3, -1, 0.3)),
}

SIZE = (640, 300)


def material(name, colour=None):
    """One colour, or the colours of the mesh."""
    made = bpy.data.materials.new(name)
    made.use_nodes = True
    surface = made.node_tree.nodes["Principled BSDF"]
    surface.inputs["Roughness"].default_value = 0.6
    if colour is not None:
        surface.inputs["Base Color"].default_value = (*colour, 1)
    else:
        node = made.node_tree.nodes.new("ShaderNodeVertexColor")
        node.layer_name = "bones"
        made.node_tree.links.new(node.outputs["Color"], surface.inputs["Base Color"])
    return made


def colour_by_bones(thing, names):
    """Each bone has a colour; a vertex mixes those of its bones."""
    palette = np.array([colorsys.hsv_to_rgb(0.618 * j % 1, 0.75, 0.6) for j in range(len(names))])
    colours = np.ones((len(thing.data.vertices), 4), dtype=np.float32)
    for vertex in thing.data.vertices:
        rows = [(names.index(thing.vertex_groups[g.group].name), g.weight) for g in vertex.groups]
        colours[vertex.index, :3] = sum(palette[j] * weight for j, weight in rows)
    attribute = thing.data.color_attributes.new("bones", "FLOAT_COLOR", "POINT")
    attribute.data.foreach_set("color", colours.reshape(-1))


def set_material(thing, one):
    thing.data.materials.clear()
    thing.data.materials.append(one)


def stage(points, direction):
    """Camera, light and background around points [n, 3]."""
    scene = bpy.context.scene
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    scene.collection.objects.link(camera)
    scene.camera = camera
    away = Vector(direction).normalized()
    camera.rotation_euler = away.to_track_quat("Z", "Y").to_euler()
    camera.location = Vector(middle) + away * 50
    camera.data.type = "ORTHO"
    camera.data.clip_end = 200
    axes = np.array(camera.rotation_euler.to_matrix()).T
    seen = points @ axes.T
    wide, high = np.ptp(seen[:, 0]), np.ptp(seen[:, 1])
    centre = (seen.min(axis=0) + seen.max(axis=0)) / 2 - axes @ middle
    camera.location += Vector(axes[0] * centre[0] + axes[1] * centre[1])
    camera.data.ortho_scale = 1.12 * max(wide, high * SIZE[0] / SIZE[1])
    sun = bpy.data.objects.new("sun", bpy.data.lights.new("sun", "SUN"))
    sun.data.energy, sun.data.angle = 2.2, 0.2
    sun.rotation_euler = (away + Vector((0.6, 0.0, 1.0))).to_track_quat("Z", "Y").to_euler()
    scene.collection.objects.link(sun)
    scene.world = bpy.data.worlds.new("world")
    scene.world.use_nodes = True
    background = scene.world.node_tree.nodes["Background"]
    background.inputs["Color"].default_value, background.inputs["Strength"].default_value = (1, 1, 1, 1), 0.45


def render(path):
    """By Cycles on the processor: the other renderers need a graphics card."""
    render = bpy.context.scene.render
    render.engine = "CYCLES"
    bpy.context.scene.cycles.samples = 32
    bpy.context.scene.cycles.use_denoising = True
    bpy.context.scene.cycles.device = "CPU"
    render.resolution_x, render.resolution_y, render.resolution_percentage = *SIZE, 100
    bpy.context.scene.view_settings.view_transform = "Standard"
    render.image_settings.file_format, render.image_settings.color_mode, render.image_settings.compression = "PNG", "RGB", 100
    render.dither_intensity = 0
    render.filepath = str(path)
    bpy.ops.render.render(write_still=True)


def objects_place(armature, left, right):
    """Where the armature has to stand so that the result is at the place of the original."""
    return np.array(armature.location) + left.mean(axis=0) - right.mean(axis=0)


def picture(name, folder, cache):
    """One scene."""
    make, frame, direction = PICTURES[name]
    objects = make(cache)
    harness.settings(goal="AUTO", original="BESIDE")
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    armature = bpy.context.view_layer.objects.active
    made = harness.results(objects)
    bones = [bone.name for bone in armature.data.bones]
    grey, coloured = material("original", (0.35, 0.36, 0.4)), material("result")
    for thing in objects:
        set_material(thing, grey)
    for thing in made:
        colour_by_bones(thing, bones)
        set_material(thing, coloured)
    for other in bpy.data.objects:
        if other.type == "MESH" and other not in objects and other not in made:
            other.hide_render = True
    bpy.context.scene.frame_set(frame)
    left, right = (np.concatenate([harness.world(thing) for thing in group]) for group in (objects, made))
    # Side by side in this picture: along the camera's right, by the width in this frame.
    aside = np.array(Vector(direction).normalized().to_track_quat("Z", "Y").to_matrix())[:, 0]
    armature.location = Vector(objects_place(armature, left, right)) + Vector(aside * 1.15 * np.ptp(left @ aside))
    bpy.context.scene.frame_set(frame)
    right = np.concatenate([harness.world(thing) for thing in made])
    stage(np.concatenate([left, right]), direction)
    render(folder / f"blender-{name}.png")
    print(f"{name}: {armature['bonesmith_bones']} bones, E_RMS {armature['bonesmith_e_rms']:.3g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zip", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    harness.install(arguments.zip.resolve())
    with tempfile.TemporaryDirectory() as cache:
        for name in PICTURES:
            if arguments.only in name:
                picture(name, arguments.folder.resolve(), cache)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # As in run.py.
    os._exit(0)
