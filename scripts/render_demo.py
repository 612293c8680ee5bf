"""Renders the demo rig with Blender: poses of the animation with the fish's own materials, and its bones by colour.

usage: render_demo.py RIG.glb OUT.png [SAMPLES]

What is seen is what Blender makes of the file: its own import, skinning and materials.
"""

import colorsys
import math
import sys
from pathlib import Path

import bpy
import numpy as np
from mathutils import Matrix, Vector

WIDTH, HEIGHT = 1200, 500
FPS = 30  # of the demo: Blender puts keys at time x scene fps
BACKGROUND = (0.92, 0.95, 0.98)  # sRGB

# What each fish shows: frame, place (x, z) and size in the picture, turn about the vertical (0 = to the right).
FISH = [
    {"frame": 8, "at": (-0.60, 0.235), "size": 0.88, "turn": 28, "bones": False},
    {"frame": 26, "at": (0.52, 0.225), "size": 0.88, "turn": -24, "bones": False},
    {"frame": 44, "at": (-0.46, -0.24), "size": 0.88, "turn": 16, "bones": False},
    {"frame": 44, "at": (0.66, -0.24), "size": 0.88, "turn": 16, "bones": True},
]


def import_rig(path):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.scene.render.fps = FPS
    bpy.ops.import_scene.gltf(filepath=str(path))
    # The importer adds an icosphere as the bones' display shape.
    meshes = [o for o in bpy.context.scene.objects if o.type == "MESH" and not o.name.startswith("Icosphere")]
    return max(meshes, key=lambda o: len(o.data.vertices))


def posed(source, frame):
    """A copy of the mesh as the armature leaves it in `frame`, in world space."""
    bpy.context.scene.frame_set(frame)
    evaluated = source.evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh = bpy.data.meshes.new_from_object(evaluated)
    mesh.transform(evaluated.matrix_world)
    return mesh


def bone_colors(source):
    """A colour for each bone: of an even palette the one that differs most from the bones it shares vertices with."""
    count = len(source.vertex_groups)
    shared = [[0.0] * count for _ in range(count)]
    for vertex in source.data.vertices:
        for a in vertex.groups:
            for b in vertex.groups:
                shared[a.group][b.group] += a.weight * b.weight
    palette = [colorsys.hsv_to_rgb(j / count, (0.72, 0.5)[j % 2], (0.88, 1.0)[j % 2]) for j in range(count)]
    colors = {}
    for j in sorted(range(count), key=lambda j: -shared[j][j]):
        near = [(shared[j][k], color) for k, color in colors.items()]
        best = max(palette, key=lambda c: sum(weight * math.dist(c, other) for weight, other in near))
        palette.remove(best)
        colors[j] = best
    return colors


def color_by_bones(mesh, source):
    """Each vertex in the colours of its bones; the strongest bone's shows most."""
    colors = bone_colors(source)
    attribute = mesh.color_attributes.new("bones", "FLOAT_COLOR", "POINT")
    for vertex, target in zip(source.data.vertices, attribute.data):
        shares = [(g.weight**2, colors[g.group]) for g in vertex.groups]
        total = sum(share for share, _ in shares)
        mixed = [sum(share * color[c] for share, color in shares) / total for c in range(3)]
        target.color = (*(c**2.2 for c in mixed), 1.0)
    material = bpy.data.materials.new("bones")
    material.use_nodes = True
    nodes, links = material.node_tree.nodes, material.node_tree.links
    node = nodes.new("ShaderNodeVertexColor")
    node.layer_name = "bones"
    links.new(node.outputs["Color"], nodes["Principled BSDF"].inputs["Base Color"])
    nodes["Principled BSDF"].inputs["Roughness"].default_value = 0.5
    mesh.materials.clear()
    mesh.materials.append(material)


def place(mesh, fish):
    """About its own centre, nose to the right, then turned towards the camera, scaled and moved."""
    points = [v.co for v in mesh.vertices]
    low, high = (Vector(f(p[a] for p in points) for a in range(3)) for f in (min, max))
    size = fish["size"] / (high - low).y  # glTF's z is Blender's -y: the fish looks along -y
    turn = Matrix.Rotation(math.radians(90 + fish["turn"]), 4, "Z")
    at = Matrix.Translation((fish["at"][0], 0, fish["at"][1]))
    mesh.transform(at @ turn @ Matrix.Scale(size, 4) @ Matrix.Translation(-(low + high) / 2))
    bpy.context.collection.objects.link(bpy.data.objects.new("fish", mesh))


def light(name, energy, size, location):
    lamp = bpy.data.objects.new(name, bpy.data.lights.new(name, "AREA"))
    lamp.data.energy, lamp.data.size = energy, size
    lamp.location = location
    lamp.rotation_euler = (-Vector(location)).to_track_quat("-Z", "Y").to_euler()
    bpy.context.collection.objects.link(lamp)


def set_world():
    """Soft light from all around."""
    world = bpy.data.worlds.new("world")
    bpy.context.scene.world = world
    world.use_nodes = True
    around = world.node_tree.nodes["Background"]
    around.inputs["Color"].default_value = (0.75, 0.88, 1.0, 1.0)
    around.inputs["Strength"].default_value = 0.55


def set_camera():
    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    camera.data.type = "ORTHO"
    camera.data.ortho_scale = 2.4  # width of the picture in scene units
    camera.location = (0, -10, 3.0)
    camera.rotation_euler = (-camera.location).to_track_quat("-Z", "Y").to_euler()
    bpy.context.collection.objects.link(camera)
    bpy.context.scene.camera = camera


def render(path, samples):
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.device = "CPU"
    scene.cycles.samples = samples
    scene.cycles.use_denoising = True
    scene.cycles.max_bounces = 4
    scene.cycles.seed = 0
    scene.render.dither_intensity = 0.0  # dither does not compress
    scene.view_settings.view_transform = "Standard"
    scene.render.resolution_x, scene.render.resolution_y = WIDTH, HEIGHT
    scene.render.resolution_percentage = 100
    scene.render.image_settings.file_format = "PNG"
    scene.render.image_settings.color_mode = "RGBA"
    scene.render.film_transparent = True
    scene.render.filepath = str(Path(path).resolve())
    bpy.ops.render.render(write_still=True)
    fill_background(scene.render.filepath)


def fill_background(path):
    """One plain colour behind the fish: it compresses, a rendered one does not."""
    image = bpy.data.images.load(path)
    image.colorspace_settings.name = "Non-Color"  # numbers as they are stored
    pixels = np.empty(4 * WIDTH * HEIGHT, dtype=np.float32)
    image.pixels.foreach_get(pixels)
    pixels = pixels.reshape(-1, 4)
    alpha = pixels[:, 3:]
    pixels[:, :3] = alpha * pixels[:, :3] + (1 - alpha) * np.array(BACKGROUND, dtype=np.float32)
    pixels[:, 3] = 1
    image.pixels.foreach_set(pixels.ravel())
    scene = bpy.context.scene
    scene.view_settings.view_transform = "Raw"
    scene.render.image_settings.color_mode = "RGB"
    scene.render.image_settings.compression = 100
    image.save_render(path, scene=scene)


def main(rig, out, samples=64):
    source = import_rig(rig)
    for fish in FISH:
        mesh = posed(source, fish["frame"])
        if fish["bones"]:
            color_by_bones(mesh, source)
        place(mesh, fish)
    for obj in [o for o in bpy.context.scene.objects if o.name != "fish" and not o.name.startswith("fish.")]:
        bpy.data.objects.remove(obj)
    light("key", 230, 3, (-2, -4, 4))
    light("fill", 60, 4, (4, -4, 0))
    light("rim", 120, 2, (1, 4, 3))
    set_world()
    set_camera()
    render(out, int(samples))


if __name__ == "__main__":
    main(*sys.argv[1:])
