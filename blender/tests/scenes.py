"""Scenes made by script. Each function makes one in an empty file and returns the objects to be fitted; all are small, so that tests are quick."""

import math
import os

import bpy
import numpy as np


def empty(frames=30):
    """An empty file."""
    # The user's preferences stay: the extension is enabled there.
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, frames
    return scene


def link(thing, collection=None):
    (collection or bpy.context.scene.collection).objects.link(thing)
    return thing


def grid(name, nx, ny, width=2.0, height=1.0):
    """A grid in the XZ plane, smooth."""
    xs, zs = np.meshgrid(np.linspace(0, width, nx), np.linspace(0, height, ny), indexing="xy")
    points = np.stack([xs, np.zeros_like(xs), zs], axis=-1).reshape(-1, 3)
    faces = [(y * nx + x, y * nx + x + 1, (y + 1) * nx + x + 1, (y + 1) * nx + x) for y in range(ny - 1) for x in range(nx - 1)]
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(points.tolist(), [], faces)
    mesh.shade_smooth()
    return link(bpy.data.objects.new(name, mesh))


def ball(name, segments=16, rings=10, radius=1.0):
    bpy.ops.mesh.primitive_uv_sphere_add(segments=segments, ring_count=rings, radius=radius)
    thing = bpy.context.object
    thing.name = thing.data.name = name
    thing.data.shade_smooth()
    return thing


def pin(thing, condition, name="pin"):
    """A vertex group of the vertices that fulfil a condition."""
    group = thing.vertex_groups.new(name=name)
    group.add([v.index for v in thing.data.vertices if condition(v.co)], 1.0, "REPLACE")
    return name


def flag(nx=17, ny=11, wind=600):
    """Cloth in the wind, pinned at the pole."""
    scene = empty(40)
    thing = grid("flag", nx, ny)
    group = pin(thing, lambda co: co.x < 0.01)
    cloth = thing.modifiers.new("Cloth", "CLOTH")
    cloth.settings.vertex_group_mass = group
    cloth.settings.quality = 4
    # As heavy as a whole, whatever the resolution.
    cloth.settings.mass *= 17 * 11 / (nx * ny)
    cloth.point_cache.frame_end = scene.frame_end
    bpy.ops.object.effector_add(type="WIND", rotation=(0.3, math.pi / 2, 0.2))
    bpy.context.object.field.strength = wind
    bpy.context.object.field.noise = 2
    return [thing]


def jelly(cuts=4):
    """A soft body that falls on a floor."""
    scene = empty(36)
    bpy.ops.mesh.primitive_plane_add(size=10)
    bpy.ops.object.modifier_add(type="COLLISION")
    bpy.ops.mesh.primitive_cube_add(size=1, location=(0, 0, 1.2), rotation=(0.4, 0.3, 0))
    thing = bpy.context.object
    thing.name = "jelly"
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.subdivide(number_cuts=cuts)
    bpy.ops.object.mode_set(mode="OBJECT")
    thing.data.shade_smooth()
    soft = thing.modifiers.new("Softbody", "SOFT_BODY")
    soft.settings.use_goal = False
    soft.settings.pull = soft.settings.push = 0.9
    soft.settings.bend = 4
    soft.point_cache.frame_end = scene.frame_end
    return [thing]


def keyed(path_owner, path, keys):
    """Keys of a property: {frame: value}."""
    for frame, value in keys.items():
        setattr(path_owner, path, value)
        path_owner.keyframe_insert(path, frame=frame)


def shape_keys(segments=16, rings=10):
    """A ball with two shape keys."""
    empty(24)
    thing = ball("face", segments, rings)
    thing.shape_key_add(name="Basis")
    smile = thing.shape_key_add(name="smile")
    puff = thing.shape_key_add(name="puff")
    for v in thing.data.vertices:
        x, y, z = v.co
        smile.data[v.index].co = (x, y, z + 0.4 * x * x)
        puff.data[v.index].co = (x * (1 + 0.4 * max(z, 0)), y * (1 + 0.4 * max(z, 0)), z)
    keyed(smile, "value", {1: 0.0, 10: 1.0, 24: 0.2})
    keyed(puff, "value", {1: 0.0, 16: 1.0, 24: 0.5})
    return [thing]


def geometry_nodes(nx=18, ny=12):
    """A sheet that geometry nodes wave, with the time of the scene."""
    empty(24)
    thing = grid("wave", nx, ny)
    tree = bpy.data.node_groups.new("wave", "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    new, join = tree.nodes.new, tree.links.new
    start, end = new("NodeGroupInput"), new("NodeGroupOutput")
    move, place, split, offset = new("GeometryNodeSetPosition"), new("GeometryNodeInputPosition"), new("ShaderNodeSeparateXYZ"), new("ShaderNodeCombineXYZ")
    time, scaled, phase, sine, height = new("GeometryNodeInputSceneTime"), new("ShaderNodeMath"), new("ShaderNodeMath"), new("ShaderNodeMath"), new("ShaderNodeMath")
    scaled.operation = "MULTIPLY"
    scaled.inputs[1].default_value = 3.0
    phase.operation, sine.operation, height.operation = "MULTIPLY_ADD", "SINE", "MULTIPLY"
    join(place.outputs[0], split.inputs[0])
    join(time.outputs["Seconds"], scaled.inputs[0])
    join(split.outputs["X"], phase.inputs[0])
    phase.inputs[1].default_value = 4.0
    join(scaled.outputs[0], phase.inputs[2])
    join(phase.outputs[0], sine.inputs[0])
    join(sine.outputs[0], height.inputs[0])
    height.inputs[1].default_value = 0.25
    join(height.outputs[0], offset.inputs["Y"])
    join(start.outputs[0], move.inputs["Geometry"])
    join(offset.outputs[0], move.inputs["Offset"])
    join(move.outputs[0], end.inputs[0])
    thing.modifiers.new("Wave", "NODES").node_group = tree
    return [thing]


def wall():
    """Bricks that a ball knocks over, as rigid bodies."""
    scene = empty(36)
    bpy.ops.mesh.primitive_plane_add(size=20)
    bpy.ops.rigidbody.object_add(type="PASSIVE")
    bricks = []
    for row in range(3):
        for column in range(4):
            bpy.ops.mesh.primitive_cube_add(size=1, location=(column * 0.52 + 0.26 * (row % 2), 0, 0.13 + row * 0.26), scale=(0.25, 0.12, 0.125))
            brick = bpy.context.object
            brick.name = f"brick {row} {column}"
            bpy.ops.rigidbody.object_add(type="ACTIVE")
            bricks.append(brick)
    hammer = ball("hammer", 12, 8, 0.25)
    bpy.ops.rigidbody.object_add(type="ACTIVE")
    hammer.rigid_body.kinematic = True
    hammer.rigid_body.mass = 20
    keyed(hammer, "location", {1: (0.9, -2, 0.4), 16: (0.9, 1.2, 0.4)})
    scene.rigidbody_world.point_cache.frame_end = scene.frame_end
    return bricks


def cape(nx=11, ny=13):
    """Cloth that hangs from an armature which walks and turns."""
    scene = empty(36)
    data = bpy.data.armatures.new("walker")
    walker = link(bpy.data.objects.new("walker", data))
    bpy.context.view_layer.objects.active = walker
    bpy.ops.object.mode_set(mode="EDIT")
    spine = data.edit_bones.new("spine")
    spine.head, spine.tail = (0, 0, 0), (0, 0, 1.0)
    bpy.ops.object.mode_set(mode="OBJECT")
    bone = walker.pose.bones["spine"]
    bone.rotation_mode = "XYZ"
    keyed(walker, "location", {1: (0, 0, 0), 36: (0, -2.5, 0)})
    keyed(bone, "rotation_euler", {1: (0, 0, 0), 12: (0.2, 0.5, 0), 24: (-0.2, -0.5, 0.1), 36: (0, 0.3, 0)})
    thing = grid("cape", nx, ny, 0.8, 1.0)
    for v in thing.data.vertices:
        v.co.x -= 0.4
        v.co.y += 0.15
    pin(thing, lambda co: True, "spine")
    group = pin(thing, lambda co: co.z > 0.99)
    modifier = thing.modifiers.new("Armature", "ARMATURE")
    modifier.object = walker
    thing.parent = walker
    cloth = thing.modifiers.new("Cloth", "CLOTH")
    cloth.settings.vertex_group_mass = group
    cloth.settings.quality = 4
    cloth.point_cache.frame_end = scene.frame_end
    return [thing]


def alembic(folder, segments=16, rings=10):
    """The shape keys as an Alembic cache."""
    path = os.path.join(folder, "face.abc")
    shape_keys(segments, rings)
    bpy.ops.wm.alembic_export(filepath=path, start=1, end=24, as_background_job=False)
    empty(24)
    bpy.ops.wm.alembic_import(filepath=path, as_background_job=False)
    return [thing for thing in bpy.data.objects if thing.type == "MESH"]


def awkward():
    """Linked duplicates, non-uniform scale, an animated parent, another collection, a curve, names that are not ASCII, far from the origin."""
    scene = empty(20)
    parent = link(bpy.data.objects.new("父", None))
    keyed(parent, "location", {1: (500, 0, 0), 20: (500, 1, 0.5)})
    keyed(parent, "rotation_euler", {1: (0, 0, 0), 20: (0, 0, 0.8)})
    first = ball("布 Ünïcode", 12, 8)
    first.scale = (0.4, 1.0, 2.0)
    first.rotation_euler = (0.3, 0.2, 0.1)
    wave = first.modifiers.new("Wave", "WAVE")
    wave.height, wave.width, wave.narrowness, wave.speed = 0.3, 0.8, 2.0, 0.2
    other = bpy.data.collections.new("other")
    scene.collection.children.link(other)
    second = link(first.copy(), other)
    second.location = (3, 0, 0)
    second.scale = (-1, 1, 1)
    line = bpy.data.curves.new("line", "CURVE")
    line.dimensions, line.bevel_depth = "3D", 0.1
    spline = line.splines.new("POLY")
    spline.points.add(7)
    for i, point in enumerate(spline.points):
        point.co = (i * 0.3, 2, 0, 1)
    third = link(bpy.data.objects.new("line", line))
    keyed(third, "rotation_euler", {1: (0, 0, 0), 20: (1, 0, 0)})
    for thing in (first, second, third):
        thing.parent = parent
    return [first, second, third]


def changing():
    """A mesh whose faces appear one by one."""
    empty(20)
    thing = ball("builds", 12, 8)
    build = thing.modifiers.new("Build", "BUILD")
    build.frame_start, build.frame_duration = -3, 20
    return [thing]


def still():
    """Nothing moves."""
    empty(10)
    return [ball("still", 12, 8)]


def arm(frames=24):
    """A tube on three bones, bent, with weights by distance; and the same tube with a bulge and a twist that the bones do not make."""
    empty(frames)
    data = bpy.data.armatures.new("arm")
    armature = link(bpy.data.objects.new("arm", data))
    armature.location, armature.rotation_euler = (1, 2, 0), (0, 0, 0.5)
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode="EDIT")
    before = None
    for i in range(3):
        bone = data.edit_bones.new(f"bone {i}")
        bone.head, bone.tail, bone.parent = (i, 0, 0), (i + 1, 0, 0), before
        bone.use_connect = before is not None
        before = bone
    bpy.ops.object.mode_set(mode="OBJECT")
    mesh = bpy.data.meshes.new("tube")
    around, along = 12, 25
    points = [(3 * i / (along - 1), 0.3 * math.cos(2 * math.pi * k / around), 0.3 * math.sin(2 * math.pi * k / around)) for i in range(along) for k in range(around)]
    faces = [(i * around + k, i * around + (k + 1) % around, (i + 1) * around + (k + 1) % around, (i + 1) * around + k) for i in range(along - 1) for k in range(around)]
    mesh.from_pydata(points, [], faces)
    mesh.shade_smooth()
    tube = link(bpy.data.objects.new("tube", mesh))
    tube.parent = armature
    tube.modifiers.new("Armature", "ARMATURE").object = armature
    groups = [tube.vertex_groups.new(name=f"bone {i}") for i in range(3)]
    for v in mesh.vertices:
        near = [math.exp(-4 * (v.co.x - i - 0.5) ** 2) for i in range(3)]
        for group, weight in zip(groups, near):
            group.add([v.index], weight / sum(near), "REPLACE")
    for i in (1, 2):
        bone = armature.pose.bones[f"bone {i}"]
        bone.rotation_mode = "XYZ"
        keyed(bone, "rotation_euler", {1: (0, 0, 0), 12: (0.3, 0.2, 0.9), frames: (0, 0, 0.1)})
    target = link(tube.copy())
    target.name, target.data = "target", mesh.copy()
    keys = target.shape_key_add(name="Basis"), target.shape_key_add(name="bulge")
    for v in target.data.vertices:
        grown = 1 + 0.6 * math.exp(-8 * (v.co.x - 1.4) ** 2)
        keys[1].data[v.index].co = (v.co.x, v.co.y * grown, v.co.z * grown)
    keyed(keys[1], "value", {1: 0.0, 12: 1.0, frames: 0.1})
    return armature, tube, target


#: Scenes of Deformation to Bones, by name.
FITS = {"flag": flag, "jelly": jelly, "shape keys": shape_keys, "geometry nodes": geometry_nodes, "wall": wall, "cape": cape}
