"""Renders a wall that breaks, written as nodes: three frames, every piece in a colour of its own.

usage: render_wall.py WALL.glb OUT.png [SAMPLES]

What is seen is what Blender makes of the file: each piece is a mesh node that its keys move.
"""

import colorsys
import sys

import bpy
from mathutils import Matrix, Vector
from render_demo import light, render, set_world

FPS = 24  # of the scene: Blender puts keys at time x scene fps
FRAMES = [(6, -26.0), (30, 0.0), (62, 26.0)]  # frame, and where it stands in the picture
COLORS = [colorsys.hsv_to_rgb(0.02 + 0.09 * (k % 4) / 3, 0.35 + 0.12 * (k % 3), 0.62 + 0.1 * (k % 5)) for k in range(20)]
COLORS += [colorsys.hsv_to_rgb(0.55 + 0.03 * k, 0.45, 0.75) for k in range(4)]


def material(color):
    made = bpy.data.materials.new("piece")
    made.use_nodes = True
    shader = made.node_tree.nodes["Principled BSDF"]
    shader.inputs["Base Color"].default_value = (*(c**2.2 for c in color), 1.0)
    shader.inputs["Roughness"].default_value = 0.7
    return made


def camera():
    made = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    made.data.lens = 53
    made.location = (0, -125, 26)
    made.rotation_euler = (Vector((0, 0, 6.5)) - made.location).to_track_quat("-Z", "Y").to_euler()
    bpy.context.collection.objects.link(made)
    bpy.context.scene.camera = made


def main(path, out, samples=48):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.fps = FPS
    bpy.ops.import_scene.gltf(filepath=path)
    pieces = sorted((o for o in scene.objects if o.type == "MESH" and o.name.startswith("piece_")), key=lambda o: o.name)
    if len(pieces) < 100:
        raise SystemExit(f"{len(pieces)} pieces in {path}")
    materials = [material(color) for color in COLORS]
    copies = []
    for frame, x in FRAMES:
        scene.frame_set(frame)
        for at, piece in enumerate(pieces):
            mesh = piece.data.copy()
            mesh.transform(Matrix.Translation((x, 0, 0)) @ piece.matrix_world)
            mesh.materials.clear()
            mesh.materials.append(materials[(at * 7 + at // 20) % len(materials)])
            copies.append(bpy.data.objects.new("copy", mesh))
    for obj in list(scene.objects):
        bpy.data.objects.remove(obj)
    for obj in copies:
        bpy.context.collection.objects.link(obj)
    light("key", 90000, 40, (-50, -70, 80))
    light("fill", 20000, 60, (80, -60, 30))
    set_world()
    camera()
    render(out, int(samples))


if __name__ == "__main__":
    main(*sys.argv[1:])
