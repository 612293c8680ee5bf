"""Armature, weights and action of a rig, made step by step. All functions with `yield` are generators for a job."""

from typing import NamedTuple

import bpy
import numpy as np
from mathutils import Euler, Matrix, Quaternion, Vector

from . import matrices
from .jobs import Progress, in_worker

#: Weights that are set between two looks at the clock.
CHUNK = 2000

#: Blender's number of linear interpolation.
LINEAR = 1

#: Name of the outer bone of a pair that has shear, after the bone's own.
OUTER = " stretch"


class Bone(NamedTuple):
    """A bone of the armature to be made."""

    name: str
    #: Number of the parent among these bones; -1 for a root.
    parent: int
    head: np.ndarray
    tail: np.ndarray
    #: Rest matrix [4, 4] where the orientation matters, else `None`.
    rest: object
    deforms: bool


class Plan(NamedTuple):
    """What is made of a rig."""

    bones: list
    #: Number of the outer bone of each bone that has one.
    outers: dict
    #: [F, B, 4, 4] posed_from_rest.
    transforms: np.ndarray
    #: [C, 3] rest normals by corner, or `None`.
    normals: object


def plan(rig, radius, with_tips=True, with_normals=False):
    """Bones, motion and rest normals of a rig. Takes a while: for a worker."""
    transforms = rig.bones
    bones, outers = with_outer_bones(bones_of(rig, radius, rig.tips if with_tips else None), transforms)
    return Plan(bones, outers, transforms, rig.normals if with_normals else None)


def bones_of(rig, radius, tips=None):
    """The bones of a fitted rig: joints point at their children, free bones have the length of a sixteenth of the model's radius."""
    binds, parents, names = rig.binds, rig.parents, rig.names
    heads = binds[:, :3, 3]
    length = max(radius / 16, 1e-4)
    ends = heads + binds[:, :3, 1] * length
    for j in range(len(names)):
        children = np.flatnonzero(parents == j)
        if rig.bone_kind != "rigid":
            continue
        if len(children):
            ends[j] = heads[children].mean(axis=0)
        elif tips is not None and np.isfinite(tips[j]).all():
            ends[j] = tips[j]
        if np.linalg.norm(ends[j] - heads[j]) < length / 8:
            ends[j] = heads[j] + binds[j, :3, 1] * length
    rests = [None if rig.bone_kind == "rigid" else binds[j] for j in range(len(names))]
    return [Bone(names[j], int(parents[j]), heads[j], ends[j], rests[j], True) for j in range(len(names))]


def with_outer_bones(bones, transforms):
    """Bones, and which have an outer bone for their shear: outer bones come last, and are the parents of the inner ones."""
    rests = np.stack([np.eye(4) if bone.rest is None else rigid(bone.rest) for bone in bones])
    basis = matrices.bases(transforms, rests, [bone.parent for bone in bones])
    pairs = np.flatnonzero(matrices.sheared(basis)) if any(bone.rest is not None for bone in bones) else []
    made = list(bones)
    outers = {}
    for j in pairs:
        outers[int(j)] = len(made)
        made.append(bones[j]._replace(name=bones[j].name + OUTER, deforms=False))
        made[j] = bones[j]._replace(parent=outers[int(j)])
    return made, outers


def rigid(matrix):
    """The nearest rotation and the place of a matrix."""
    u, _, vt = np.linalg.svd(matrix[:3, :3])
    found = np.eye(4)
    found[:3, :3] = u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt
    found[:3, 3] = matrix[:3, 3]
    return found


def make_armature(context, name, collection, world, bones):
    """An armature object with the bones; returns it and the names that Blender gave to the bones."""
    data = bpy.data.armatures.new(name)
    thing = bpy.data.objects.new(name, data)
    collection.objects.link(thing)
    thing.matrix_world = world
    data.display_type = "STICK" if len(bones) > 40 else "OCTAHEDRAL"
    thing.show_in_front = True
    names = add_bones(context, thing, bones, 0)
    return thing, names


def add_bones(context, thing, bones, known):
    """Adds `bones[known:]` to an armature object whose first bones are `bones[:known]`; returns the names of all."""
    activate(context, thing)
    bpy.ops.object.mode_set(mode="EDIT")
    try:
        edit = thing.data.edit_bones
        names = [bone.name for bone in bones[:known]]
        for bone in bones[known:]:
            made = edit.new(bone.name)
            names.append(made.name)
            made.head, made.tail, made.roll = Vector(bone.head), Vector(bone.tail), 0.0
            if bone.rest is not None:
                length = made.length
                made.matrix = Matrix(rigid(bone.rest))
                made.length = length
            made.use_deform = bone.deforms
            made.inherit_scale = "FULL"
        for j, bone in enumerate(bones[known:], known):
            if bone.parent >= 0:
                edit[names[j]].parent = edit[names[bone.parent]]
    finally:
        bpy.ops.object.mode_set(mode="OBJECT")
    for name in names[known:]:
        thing.pose.bones[name].rotation_mode = "QUATERNION"
    return names


def activate(context, thing):
    """Makes an object the active one, alone selected."""
    for other in context.view_layer.objects.selected:
        other.select_set(False)
    thing.hide_set(False)
    thing.select_set(True)
    context.view_layer.objects.active = thing


def rests_of(thing, names):
    """[B, 4, 4] rest matrices of bones in the armature's space."""
    return np.array([thing.data.bones[name].matrix_local for name in names], dtype=np.float64)


def set_positions(mesh, positions):
    """Moves the vertices of a mesh."""
    mesh.attributes["position"].data.foreach_set("vector", np.ascontiguousarray(positions, dtype=np.float32).reshape(-1))
    mesh.update()


def is_smooth(mesh):
    """Whether one normal for each vertex describes the shading: no flat faces, no sharp edges, no normals of its own."""
    if mesh.has_custom_normals:
        return False
    return not any(
        name in mesh.attributes and _any(mesh.attributes[name]) for name in ("sharp_face", "sharp_edge")
    )


def _any(attribute):
    values = np.empty(len(attribute.data), dtype=bool)
    attribute.data.foreach_get("value", values)
    return bool(values.any())


def set_normals(mesh, corners, normals):
    """A generator: rest normals of a smooth mesh by vertex, out of normals [C, 3] by corner."""
    by_vertex = np.zeros((len(mesh.vertices), 3), dtype=np.float32)
    by_vertex[corners] = normals
    # Blender reads lists twice as fast as arrays; they are made in pieces.
    rows = []
    for start in range(0, len(by_vertex), 4 * CHUNK):
        rows += by_vertex[start : start + 4 * CHUNK].tolist()
        yield Progress("mesh")
    mesh.normals_split_custom_set_from_vertices(rows)
    yield Progress("mesh")


def bind(thing, armature):
    """Parents an object to an armature, which deforms it by vertex groups."""
    thing.parent = armature
    thing.matrix_parent_inverse = Matrix.Identity(4)
    thing.matrix_basis = Matrix.Identity(4)
    modifier = thing.modifiers.new("Armature", "ARMATURE")
    modifier.object = armature
    modifier.use_vertex_groups = True
    modifier.use_bone_envelopes = False
    modifier.use_deform_preserve_volume = False


def set_weights(thing, names, indices, weights, stage="weights"):
    """Vertex groups of an object: bones [n, K] and weights [n, K]; names of bones without weights get no group."""
    used = np.unique(indices[weights > 0])
    groups = {}
    for j in used.tolist():
        old = thing.vertex_groups.get(names[j])
        groups[j] = (old or thing.vertex_groups.new(name=names[j])).add
    vertices, slots = np.nonzero(weights > 0)
    count = len(vertices)
    for start in range(0, count, CHUNK):
        rows = slice(start, start + CHUNK)
        of, at = vertices[rows], slots[rows]
        for vertex, bone, weight in zip(of.tolist(), indices[of, at].tolist(), weights[of, at].tolist()):
            groups[bone]((vertex,), weight, "REPLACE")
        yield Progress(stage, min(start + CHUNK, count), count)


def remove_weights(thing, names):
    """Removes the vertex groups of bones, but not others."""
    for name in names:
        group = thing.vertex_groups.get(name)
        if group is not None:
            thing.vertex_groups.remove(group)


class Curves:
    """The curves of a new action on an object: layered where Blender has layers."""

    def __init__(self, thing, name, action=None):
        self.action = action or bpy.data.actions.new(name)
        #: Whether curves of others may be there.
        self.copied = action is not None
        data = thing.animation_data or thing.animation_data_create()
        data.action = self.action
        self.layered = hasattr(self.action, "slots")
        if self.layered:
            slots = self.action.slots
            slot = data.action_slot or (slots[0] if len(slots) else slots.new(thing.id_type, thing.name))
            data.action_slot = slot
            layer = self.action.layers[0] if len(self.action.layers) else self.action.layers.new("Layer")
            strip = layer.strips[0] if len(layer.strips) else layer.strips.new(type="KEYFRAME")
            self.holder = strip.channelbag(slot, ensure=True)
        else:
            self.holder = self.action

    def group(self, name):
        """The group of that name."""
        return self.holder.groups.get(name) or self.holder.groups.new(name)

    def remove(self, path):
        """Removes the curves of a bone's transform."""
        if self.copied:
            channels = {f"{path}.{name}" for name in ("location", "rotation_quaternion", "rotation_euler", "rotation_axis_angle", "scale")}
            for curve in [curve for curve in self.holder.fcurves if curve.data_path in channels]:
                self.holder.fcurves.remove(curve)

    def set(self, path, group, frames, values):
        """Keys [F, n] of a property with n components in all frames, linear between them."""
        keys = np.empty((len(frames), 2), dtype=np.float32)
        keys[:, 0] = frames
        linear = np.full(len(frames), LINEAR, dtype=np.int32)
        for index in range(values.shape[1]):
            curve = self.holder.fcurves.new(path, index=index)
            if group is not None:
                curve.group = group
            keys[:, 1] = values[:, index]
            curve.keyframe_points.add(len(frames))
            curve.keyframe_points.foreach_set("co", keys.reshape(-1))
            curve.keyframe_points.foreach_set("interpolation", linear)
            curve.update()


def set_motion(control, curves, thing, names, parents, transforms, frames, only=None, outers=None):
    """Keys of all bones, or of those in `only`, that give them `posed_from_rest` [F, B, 4, 4]; a generator.

    `outers`: the outer bones of pairs, see `with_outer_bones`; they are the last of `names`.
    """
    outers = outers or {}
    count = transforms.shape[1]
    chosen = list(range(count) if only is None else only)
    rests = rests_of(thing, names[:count])
    found = yield from in_worker(control, "action", matrices.channels, transforms, rests, parents, chosen, outers)
    for done, (j, (place, rotation, scale, inner)) in enumerate(zip(chosen, found), 1):
        if inner is None:
            _set_bone(curves, thing, names[j], frames, place, rotation, scale)
        else:
            _set_bone(curves, thing, names[outers[j]], frames, place, rotation, scale)
            _set_bone(curves, thing, names[j], frames, np.zeros_like(place), inner, np.ones_like(scale))
        yield Progress("action", done, len(chosen))


def _set_bone(curves, thing, name, frames, place, rotation, scale):
    """Keys of one bone in its own rotation mode; channels that do nothing in any frame are left out, the rotation never."""
    path = f'pose.bones["{bpy.utils.escape_identifier(name)}"]'
    bone, group = thing.pose.bones[name], curves.group(name)
    curves.remove(path)
    if np.abs(place).max() > 1e-9:
        curves.set(f"{path}.location", group, frames, place)
    if bone.rotation_mode == "AXIS_ANGLE":
        bone.rotation_mode = "QUATERNION"
    if bone.rotation_mode == "QUATERNION":
        curves.set(f"{path}.rotation_quaternion", group, frames, rotation)
    else:
        curves.set(f"{path}.rotation_euler", group, frames, _eulers(rotation, bone.rotation_mode))
    if np.abs(scale - 1).max() > 1e-6:
        curves.set(f"{path}.scale", group, frames, scale)
    # What has no curve must not keep an old value.
    bone.location, bone.scale = (0, 0, 0), (1, 1, 1)


def _eulers(rotations, mode):
    """[F, 3] angles of quaternions [F, 4], each near the one before."""
    found, before = [], Euler((0, 0, 0), mode)
    for rotation in rotations:
        before = Quaternion(rotation).to_euler(mode, before)
        found.append(tuple(before))
    return np.array(found)
