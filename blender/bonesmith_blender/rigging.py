"""Operators on rigs that are there: Refit, Helper Bones, Reduce Influences, Direct Delta Mush Bake."""

import os
import tempfile
import warnings

import bonesmith
import bpy
from mathutils import Matrix

from . import building, fitting, reading, rigs, words
from .jobs import Refused, in_worker, to_the_end
from .running import JobOperator
from .settings import frames_of, threads


def rig_and_targets(context):
    """The active object, which has an armature, and the other selected meshes: what it should look like."""
    rig = context.view_layer.objects.active
    if rigs.armature_of(rig) is None:
        raise Refused("make a mesh with an armature the active object")
    targets = [thing for thing in context.selected_objects if thing != rig and thing.type in reading.TYPES]
    if not targets:
        source = rig.get("bonesmith_source")
        targets = [source] if source is not None else []
    if len(targets) != 1:
        raise Refused(f"select one deformed object, the target, and then {rig.name}: {len(targets)} targets are selected")
    return [rig], targets


def rate(scene):
    """Frames of the library in a second."""
    return scene.render.fps / scene.render.fps_base / scene.bonesmith.frame_step


def quietly(function, *arguments, **options):
    """A result of the library and its figures; its warnings are in the result's words. For a worker."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bonesmith.BonesmithWarning)
        rig = function(*arguments, **options)
        metrics = rig.metrics
    return rig, metrics, [str(warning.message) for warning in caught if isinstance(warning.message, bonesmith.BonesmithWarning)]


class RigOperator(JobOperator):
    """Base of operators that read a rig and change it."""

    def existing(self, context, control, objects, targets):
        """A generator: the rig of the scene, the library's rig, and how it is now against the targets."""
        frames = frames_of(context.scene)
        if not frames:
            raise Refused("the frame range is empty")
        found = yield from rigs.read(context, objects, targets, frames)
        rig = yield from in_worker(control, "rig", rigs.library_rig, found, objects[0].name, rate(context.scene))
        return found, rig

    def solved(self, control, context, function, *arguments, **options):
        """A generator: runs the library in a worker."""
        return (yield from in_worker(control, "fitting", quietly, function, *arguments, threads=threads(context), progress=control.report, **options))


def line(name, metrics, notes=()):
    """One line about a result."""
    mean = metrics.e_rms * metrics.radius / 1000 * 3**0.5
    text = f"{name}: error {words.length(mean)} in the mean, at most {words.length(metrics.max_error_model_units)}, E_RMS {metrics.e_rms:.3g}"
    return ". ".join([text, *notes])


def note(existing, metrics):
    """Figures of the result, as properties of the armature that are saved with the file."""
    armature = bpy.data.objects[existing.armature]
    armature["bonesmith_e_rms"] = metrics.e_rms
    armature["bonesmith_max_error"] = metrics.max_error_model_units


class BONESMITH_OT_refit(RigOperator, bpy.types.Operator):
    """Fit weights or motion of the active object's armature to the other selected object, which deforms as it should"""

    bl_idname = "bonesmith.refit"
    bl_label = "Refit"
    bl_options = {"REGISTER", "UNDO"}

    def work(self, context, control):
        settings = context.scene.bonesmith
        objects, targets = rig_and_targets(context)
        name = objects[0].name
        if settings.solve != "weights" and rigs.armature_of(objects[0]) is not None:
            rigs.check_constraints(rigs.armature_of(objects[0]))
        existing, rig = yield from self.existing(context, control, objects, targets)
        solved, metrics, notes = yield from self.solved(
            control, context, bonesmith.refit, rig, existing.recording.positions, solve=settings.solve, influences=settings.influences, align="off", keep_normals=True
        )
        if settings.solve != "weights":
            yield from to_the_end(rigs.write_motion(context, control, existing, solved))
        if settings.solve != "motion":
            yield from to_the_end(rigs.write_weights(existing, solved, keep_loose=False))
        note(existing, metrics)
        building.activate(context, bpy.data.objects[name])
        return line(name, metrics, notes)


class BONESMITH_OT_helpers(RigOperator, bpy.types.Operator):
    """Add bones to the active object's armature where it is farthest from the other selected object, and fit the weights"""

    bl_idname = "bonesmith.helper_bones"
    bl_label = "Helper Bones"
    bl_options = {"REGISTER", "UNDO"}

    def work(self, context, control):
        settings = context.scene.bonesmith
        objects, targets = rig_and_targets(context)
        name = objects[0].name
        existing, rig = yield from self.existing(context, control, objects, targets)
        solved, metrics, notes = yield from self.solved(
            control,
            context,
            bonesmith.add_bones,
            rig,
            existing.recording.positions,
            settings.helpers,
            influences=settings.influences,
            bone_kind="rigid",
            align="off",
            keep_normals=True,
        )
        yield from to_the_end(rigs.write_helpers(context, control, existing, solved, metrics))
        note(existing, metrics)
        building.activate(context, bpy.data.objects[name])
        return line(f"{name}, {solved.bone_count - rig.bone_count} bones more", metrics, notes)


class BONESMITH_OT_reduce(RigOperator, bpy.types.Operator):
    """Fewer bones per vertex for the selected objects with an armature, with the poses of the frame range kept as well as possible"""

    bl_idname = "bonesmith.reduce_influences"
    bl_label = "Reduce Influences"
    bl_options = {"REGISTER", "UNDO"}

    def work(self, context, control):
        settings = context.scene.bonesmith
        objects = [thing for thing in context.selected_objects if rigs.armature_of(thing) is not None]
        if not objects:
            raise Refused("select meshes with an armature")
        name = objects[0].name
        existing, rig = yield from self.existing(context, control, objects, objects)
        before = int((existing.weights > 0).sum(axis=1).max())
        if before <= settings.reduce_to:
            return f"{name}: no vertex has more than {before} influences"
        solved, metrics, notes = yield from self.solved(control, context, bonesmith.reduce, rig, influences=settings.reduce_to)
        yield from to_the_end(rigs.write_weights(existing, solved, keep_loose=True))
        return line(f"{name}, {settings.reduce_to} influences instead of {before}", metrics, notes)


def mushed(rig, **options):
    """A rig with Direct Delta Mush, baked: virtual bones with motion of their own, and how far it is from Direct Delta Mush. For a worker."""
    mush = bonesmith.ddm(rig, **options)
    with tempfile.TemporaryDirectory(prefix="bonesmith-") as folder:
        path = os.path.join(folder, "mush.npz")
        mush.save(path, shape="baked")
        baked = bonesmith.load_rig(path)
    return baked, mush.metrics


class BONESMITH_OT_mush(RigOperator, bpy.types.Operator):
    """A new object with smooth joints: Direct Delta Mush of the active object's rig, baked into virtual bones"""

    bl_idname = "bonesmith.delta_mush_bake"
    bl_label = "Direct Delta Mush Bake"
    bl_options = {"REGISTER", "UNDO"}

    def work(self, context, control):
        settings = context.scene.bonesmith
        thing = context.view_layer.objects.active
        if rigs.armature_of(thing) is None:
            raise Refused("make a mesh with an armature the active object")
        name = thing.name
        existing, rig = yield from self.existing(context, control, [thing], [thing])
        options = {"compress": settings.mush_bones, "rigid_bind": settings.mush_rigid}
        if settings.mush_smooth > 0:
            options["rotation_smooth"] = settings.mush_smooth
        baked, metrics = yield from in_worker(
            control, "Direct Delta Mush", mushed, rig, threads=threads(context), progress=control.report, **options
        )
        recording = existing.recording
        recording.meshes = [rest_mesh(bpy.data.objects[name])]
        recording.reference = Matrix.Identity(4)
        try:
            armature = yield from fitting.build(context, control, recording, baked, metrics, parent=existing.armature, label="mush")
        finally:
            recording.discard()
        return line(f"{armature.name}, {baked.bone_count} virtual bones against Direct Delta Mush", metrics)


def rest_mesh(thing):
    """A copy of an object's mesh without shape keys."""
    mesh = thing.data.copy()
    if mesh.shape_keys is not None:
        holder = bpy.data.objects.new("bonesmith", mesh)
        holder.shape_key_clear()
        bpy.data.objects.remove(holder)
    return mesh


CLASSES = (BONESMITH_OT_refit, BONESMITH_OT_helpers, BONESMITH_OT_reduce, BONESMITH_OT_mush)
