"""Rigs that are in the scene already: meshes with an armature, as rigs of the library, and results written back.

Everything is in the space of the armature object, frame by frame: an armature that moves as an object does not disturb a fit. Only bones that
deform are bones of the library's rig; the motion of the others is kept beside them.
"""

import bonesmith
import bpy
import numpy as np

from . import building, matrices, reading
from .jobs import Progress, Refused

#: Vertices whose weights are read between two looks at the clock.
CHUNK = 2000


def armature_of(thing):
    """The armature that deforms a mesh object, or `None`."""
    if thing is None or thing.type != "MESH":
        return None
    found = [m.object for m in thing.modifiers if m.type == "ARMATURE" and m.object is not None and m.show_viewport]
    return found[0] if found else None


class Poses:
    """Motion of the bones of an armature object: called once a frame while positions are read, gives world_from_armature."""

    def __init__(self, armature):
        self.name = armature.name
        self.frames = []

    def __call__(self, depsgraph):
        evaluated = bpy.data.objects[self.name].evaluated_get(depsgraph)
        bones = evaluated.pose.bones
        found = np.empty(16 * len(bones), dtype=np.float32)
        bones.foreach_get("matrix", found)
        # Blender's arrays of matrices are column by column.
        self.frames.append(found.reshape(-1, 4, 4).transpose(0, 2, 1).astype(np.float64))
        return np.array(evaluated.matrix_world, dtype=np.float64)


class Existing:
    """A rig of the scene: mesh objects, their armature, and its motion over frames."""

    def __init__(self, objects, armature, recording, poses):
        self.objects = [thing.name for thing in objects]
        self.armature = armature.name
        #: Positions of the target, or of the objects themselves.
        self.recording = recording
        bones = armature.data.bones
        self.names = [bone.name for bone in bones]
        self.parents = np.array([bones.find(bone.parent.name) if bone.parent else -1 for bone in bones], dtype=np.int32)
        self.rests = np.array([bone.matrix_local for bone in bones], dtype=np.float64)
        #: [F, A, 4, 4] posed_from_rest of all bones.
        self.transforms = np.array(poses.frames) @ np.linalg.inv(self.rests)
        #: Numbers of the bones that deform, among all.
        self.deform = np.flatnonzero([bone.use_deform for bone in bones])
        self.positions, self.indices, self.weights, self.parts = None, None, None, []
        #: [N] vertices that no deforming bone moves.
        self.loose = None

    def tree(self):
        """[B] parents of the deforming bones among themselves: the nearest that deforms."""
        number = {int(j): b for b, j in enumerate(self.deform)}
        found = []
        for j in self.deform:
            above = int(self.parents[j])
            while above >= 0 and above not in number:
                above = int(self.parents[above])
            found.append(number.get(above, -1))
        return np.array(found, dtype=np.int32)


def read_rest(context, existing):
    """A generator: rest positions and weights of the objects, in the armature's space."""
    armature = bpy.data.objects[existing.armature]
    to_bone = {existing.names[j]: b for b, j in enumerate(existing.deform)}
    if not to_bone:
        raise Refused(f"{existing.armature} has no bone that deforms")
    positions, rows, parts, first = [], [], [], 0
    for name in existing.objects:
        thing = bpy.data.objects[name]
        mesh = thing.data
        points = np.empty((len(mesh.vertices), 3), dtype=np.float32)
        mesh.attributes["position"].data.foreach_get("vector", points.reshape(-1))
        into = np.linalg.inv(np.array(armature.matrix_world, dtype=np.float64)) @ np.array(thing.matrix_world, dtype=np.float64)
        reading.transform(points, into)
        positions.append(points)
        parts.append((first, first + len(points)))
        first += len(points)
        groups = {group.index: to_bone[group.name] for group in thing.vertex_groups if group.name in to_bone}
        for start in range(0, len(points), CHUNK):
            for vertex in mesh.vertices[start : start + CHUNK]:
                rows.append([(groups[g.group], g.weight) for g in vertex.groups if g.group in groups and g.weight > 0])
            yield Progress("reading weights", first - len(points) + start, first)
    existing.positions, existing.parts = np.concatenate(positions), parts
    slots = max(1, max(len(row) for row in rows))
    existing.indices = np.zeros((len(rows), slots), dtype=np.int64)
    existing.weights = np.zeros((len(rows), slots), dtype=np.float64)
    for i, row in enumerate(rows):
        for k, (bone, weight) in enumerate(sorted(row, key=lambda pair: -pair[1])):
            existing.indices[i, k], existing.weights[i, k] = bone, weight
    sums = existing.weights.sum(axis=1)
    existing.loose = sums <= 0
    existing.weights[existing.loose, 0] = 1.0
    existing.weights /= existing.weights.sum(axis=1, keepdims=True)


def library_rig(existing, name, fps):
    """The rig as the library has it; for a worker."""
    return bonesmith.Rig(
        existing.positions,
        existing.recording.faces(),
        joint_indices=existing.indices,
        joint_weights=existing.weights,
        bones=existing.transforms[:, existing.deform],
        parents=existing.tree(),
        binds=existing.rests[existing.deform],
        names=[existing.names[j] for j in existing.deform],
        fps=fps,
        name=name,
    )


def read(context, objects, targets, frames):
    """A generator: an `Existing` of mesh objects with one armature, with positions of the targets in the armature's space."""
    armatures = {armature_of(thing) for thing in objects}
    if not objects or None in armatures:
        raise Refused("select a mesh with an armature")
    if len(armatures) > 1:
        raise Refused("the objects have different armatures: " + ", ".join(sorted(a.name for a in armatures)))
    armature = armatures.pop()
    for thing in (armature, *objects):
        if thing.library is not None or thing.data.library is not None:
            raise Refused(f"{thing.name} is linked from another file and cannot be changed")
    names, armature_name = [thing.name for thing in objects], armature.name
    poses = Poses(armature)
    with reading.Visible([armature_name]):
        recording = yield from reading.record(context, targets, frames, meshes=False, reference=poses)
    existing = Existing([bpy.data.objects[name] for name in names], bpy.data.objects[armature_name], recording, poses)
    yield from read_rest(context, existing)
    if recording.vertex_count != len(existing.positions):
        raise Refused(
            f"{', '.join(part.name for part in recording.parts)}: {recording.vertex_count} vertices, but "
            f"{', '.join(names)}: {len(existing.positions)}: they must be the same mesh"
        )
    return existing


def write_weights(existing, rig, keep_loose):
    """A generator: the rig's weights in place of those of the objects. `keep_loose`: vertices without weights stay so."""
    names = rig.names
    indices, weights = rig.joint_indices.astype(np.int64), rig.joint_weights.copy()
    if keep_loose:
        weights[existing.loose] = 0
    for name, (first, last) in zip(existing.objects, existing.parts):
        thing = bpy.data.objects[name]
        building.remove_weights(thing, names)
        yield from building.set_weights(thing, names, indices[first:last], weights[first:last])


def check_constraints(armature):
    """Refuses constraints, which would move bones away from motion that is fitted."""
    for bone in armature.pose.bones:
        if any(not constraint.mute for constraint in bone.constraints):
            raise Refused(f"the bone {bone.name} of {armature.name} has constraints, which would move it away from the fit: bake or mute them first")


def write_motion(context, control, existing, rig):
    """A generator: the rig's motion as a new action of the armature. The old action stays in the file."""
    armature = bpy.data.objects[existing.armature]
    transforms = existing.transforms.copy()
    transforms[:, existing.deform] = rig.bones[:, : len(existing.deform)]
    basis = matrices.bases(transforms, existing.rests, existing.parents)
    sheared = matrices.sheared(basis)
    if sheared.any():
        raise Refused(f"the bone {existing.names[int(np.argmax(sheared))]} would need shear, which a bone of Blender cannot have")
    _free_bones(context, armature, basis)
    if armature.animation_data and armature.animation_data.action:
        armature.animation_data.action.use_fake_user = True
    curves = building.Curves(armature, f"{armature.name} refit")
    yield from building.set_motion(control, curves, armature, existing.names, existing.parents, transforms, existing.recording.frames)


def _free_bones(context, armature, basis):
    """Bones that inherit all of their parents and may move away from them, where the motion needs it."""
    moved = np.abs(basis[:, :, :3, 3]).max(axis=(0, 2)) > 1e-6
    connected = [bone.name for bone, moves in zip(armature.data.bones, moved) if bone.use_connect and moves]
    if connected:
        building.activate(context, armature)
        bpy.ops.object.mode_set(mode="EDIT")
        for name in connected:
            armature.data.edit_bones[name].use_connect = False
        bpy.ops.object.mode_set(mode="OBJECT")
    for bone in armature.data.bones:
        bone.use_inherit_rotation = bone.use_local_location = True
        bone.inherit_scale = "FULL"


def write_helpers(context, control, existing, rig, metrics):
    """A generator: the rig's new bones, their motion and all weights. Returns their names."""
    armature = bpy.data.objects[existing.armature]
    known = len(existing.deform)
    transforms = np.concatenate([existing.transforms, rig.bones[:, known:]], axis=1)
    above = [int(existing.deform[p]) if 0 <= p < known else -1 for p in rig.parents[known:]]
    rests = np.concatenate([existing.rests, rig.binds[known:]])
    basis = matrices.bases(transforms, rests, np.append(existing.parents, above))
    # A parent with scale would shear its child: such a bone is a root.
    above = [-1 if bent else parent for parent, bent in zip(above, matrices.sheared(basis)[len(existing.names) :])]
    length = max(metrics.radius / 16, 1e-4)
    bones = [building.Bone(name, int(parent), None, None, None, True) for name, parent in zip(existing.names, existing.parents)]
    for j, parent in enumerate(above, known):
        head = rig.binds[j, :3, 3]
        bones.append(building.Bone(rig.names[j], parent, head, head + rig.binds[j, :3, 1] * length, None, True))
    names = building.add_bones(context, armature, bones, len(existing.names))
    yield Progress("armature")
    old = armature.animation_data.action if armature.animation_data else None
    curves = building.Curves(armature, f"{armature.name} helpers", action=old.copy() if old else None)
    new = range(len(existing.names), len(names))
    yield from building.set_motion(control, curves, armature, names, np.append(existing.parents, above), transforms, existing.recording.frames, only=new)
    yield from write_weights(existing, _Named(rig, [existing.names[j] for j in existing.deform] + [names[j] for j in new]), keep_loose=False)
    return [names[j] for j in new]


class _Named:
    """Weights of a rig with the names that Blender gave to its bones."""

    def __init__(self, rig, names):
        self.names, self.joint_indices, self.joint_weights = names, rig.joint_indices, rig.joint_weights
