"""Deformation to Bones: objects that deform become an armature, weights and an action."""

import warnings

import bonesmith
import bpy
import numpy as np
from mathutils import Matrix

from . import building, reading, words
from .jobs import Progress, Refused, in_worker
from .running import JobOperator
from .settings import frames_of, threads


def sources(context):
    """The objects to read, and the one whose place the result has."""
    settings = context.scene.bonesmith
    if settings.source == "COLLECTION":
        if settings.collection is None:
            raise Refused("choose a collection")
        objects = [thing for thing in settings.collection.all_objects if thing.type in reading.TYPES]
        if not objects:
            raise Refused(f"the collection {settings.collection.name} has no object with a surface")
    else:
        objects = [thing for thing in context.selected_objects if thing.type in reading.TYPES]
    # The same order whatever was selected first.
    objects.sort(key=lambda thing: thing.name)
    active = context.view_layer.objects.active
    return objects, active if active in objects else (objects[0] if objects else None)


def rest_index(settings, frames):
    """The number of the rest frame among the frames."""
    if settings.rest == "FIRST":
        return 0
    if settings.rest_frame not in frames:
        raise Refused(f"the rest frame {settings.rest_frame} is not one of the frames that are read")
    return frames.index(settings.rest_frame)


def fitted(positions, faces, **options):
    """A rig and its figures, with the library's warnings; for a worker."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bonesmith.BonesmithWarning)
        rig = bonesmith.fit(positions, faces() if callable(faces) else faces, **options)
        metrics = rig.metrics
    return rig, metrics, [str(warning.message) for warning in caught if isinstance(warning.message, bonesmith.BonesmithWarning)]


class BONESMITH_OT_fit(JobOperator, bpy.types.Operator):
    """Turn the deformation of the selected objects into an armature, weights and an action"""

    bl_idname = "bonesmith.deformation_to_bones"
    bl_label = "Deformation to Bones"
    bl_options = {"REGISTER", "UNDO"}

    def work(self, context, control):
        scene, settings = context.scene, context.scene.bonesmith
        objects, active = sources(context)
        reading.check_objects(context, objects)
        frames = frames_of(scene)
        if not frames:
            raise Refused("the frame range is empty")
        if settings.skeleton and settings.goal == "ERROR":
            raise Refused("a skeleton has no target error: choose Automatic, or a number of bones, which is then the maximum")
        rest = rest_index(settings, frames)
        options = settings.fit_options()
        rate = scene.render.fps / scene.render.fps_base / settings.frame_step
        recording = yield from reading.record(context, objects, frames, rest, active)
        try:
            try:
                rig, metrics, notes = yield from in_worker(
                    control,
                    "fitting",
                    fitted,
                    recording.positions,
                    recording.faces,
                    rest=recording.positions[rest],
                    fps=rate,
                    name=active.name,
                    threads=threads(context),
                    progress=control.report,
                    **options,
                )
            except bonesmith.BonesmithError as problem:
                raise words.located(problem, recording)
            armature = yield from build(context, control, recording, rig, metrics)
        finally:
            recording.discard()
        return summary(armature, rig, metrics, notes, frames)


def summary(armature, rig, metrics, notes, frames):
    """One line about a result."""
    frame, _ = metrics.max_error_at
    unit = metrics.radius / 1000
    text = (
        f"{armature.name}: {rig.bone_count} bones, error {words.length(metrics.e_rms * unit * 3**0.5)} in the mean, "
        f"at most {words.length(metrics.max_error_model_units)} (frame {frames[frame]:g}), E_RMS {metrics.e_rms:.3g}"
    )
    return ". ".join([text, *notes])


class Made:
    """New data of a job: removed if the job does not reach its end."""

    def __init__(self):
        self.objects, self.actions = [], []

    def remove(self):
        """Removes all of it; meshes belong to the recording, which discards them."""
        for thing in self.objects:
            data = thing.data
            bpy.data.objects.remove(thing)
            if isinstance(data, bpy.types.Armature):
                bpy.data.armatures.remove(data)
        for action in self.actions:
            bpy.data.actions.remove(action)


def build(context, control, recording, rig, metrics, parent=None, label="rig"):
    """A generator: the objects of a rig; returns the armature. Nothing stays if it does not reach its end.

    `parent`: name of an object that the armature is a child of, in its space.
    """
    made = Made()
    selected = [thing.name for thing in context.selected_objects]
    active = context.view_layer.objects.active.name if context.view_layer.objects.active else None
    try:
        return (yield from _build(context, control, recording, rig, metrics, made, parent, label))
    except BaseException:
        made.remove()
        for name in selected:
            bpy.data.objects[name].select_set(True)
        context.view_layer.objects.active = bpy.data.objects.get(active) if active else None
        raise


def _build(context, control, recording, rig, metrics, made, parent, label):
    settings = context.scene.bonesmith
    free = parent is None
    plan = yield from in_worker(
        control, "armature", building.plan, rig, metrics.radius, with_tips=free, with_normals=free and settings.engine_normals
    )
    originals = [bpy.data.objects[part.name] for part in recording.parts]
    collection = collection_for(context, originals[0])
    world = place_beside(recording) if settings.original == "BESIDE" else recording.reference
    yield Progress("armature")
    armature, names = building.make_armature(context, f"{rig.name} {label}", collection, world, plan.bones)
    made.objects.append(armature)
    if parent is not None:
        armature.parent = bpy.data.objects[parent]
        armature.matrix_parent_inverse = Matrix.Identity(4)
        armature.matrix_basis = world
    yield Progress("armature")
    results = []
    for part, mesh, original in zip(recording.parts, recording.meshes, originals):
        thing = bpy.data.objects.new(f"{part.name} {label} skin", mesh)
        made.objects.append(thing)
        results.append(thing)
        collection.objects.link(thing)
        yield from set_up_object(thing, mesh, original, rig, part, plan, armature, names)
        thing["bonesmith_source"] = original
    curves = building.Curves(armature, f"{armature.name} action")
    made.actions.append(curves.action)
    yield from building.set_motion(control, curves, armature, names, rig.parents, plan.transforms, recording.frames, outers=plan.outers)
    if isinstance(rig, bonesmith.CorrectiveRig):
        yield from add_shapes(results, recording, rig, made)
    note_on(armature, rig, metrics, recording.frames)
    yield Progress("scene")
    if settings.original == "HIDE":
        for original in originals:
            original.hide_set(True)
            original.hide_render = True
    building.activate(context, armature)
    for thing in results:
        thing.select_set(True)
    return armature


def set_up_object(thing, mesh, original, rig, part, plan, armature, names):
    """A generator: positions, normals, materials, weights and armature of one object."""
    for slot, old in zip(thing.material_slots, original.material_slots):
        if old.link == "OBJECT":
            slot.link, slot.material = "OBJECT", old.material
    thing.vertex_groups.clear()
    rows = slice(part.first, part.last)
    smooth = building.is_smooth(mesh)
    building.set_positions(mesh, rig.rest[rows])
    yield Progress("mesh")
    if smooth and plan.normals is not None and len(part.corners):
        corners = slice(part.first_corner, part.first_corner + len(part.corners))
        yield from building.set_normals(mesh, part.corners, plan.normals[corners])
    yield from building.set_weights(thing, names, rig.joint_indices[rows].astype(np.int64), rig.joint_weights[rows])
    building.bind(thing, armature)
    yield Progress("mesh")


def collection_for(context, original):
    """A collection of the original that is in the view layer, else the scene's."""
    for collection in original.users_collection:
        found = _layer_collection(context.view_layer.layer_collection, collection)
        if found is not None and not found.exclude and found.is_visible:
            return collection
    return context.scene.collection


def _layer_collection(layer, collection):
    if layer.collection == collection:
        return layer
    return next((found for child in layer.children if (found := _layer_collection(child, collection))), None)


def place_beside(recording):
    """world_from_reference, moved along the scene's X axis by the width of all frames and a tenth."""
    along = recording.positions[..., 0]
    return Matrix.Translation((1.1 * float(along.max() - along.min()), 0, 0)) @ recording.reference


def note_on(armature, rig, metrics, frames):
    """Figures of the result, as properties that are saved with the file."""
    armature["bonesmith_bones"] = rig.bone_count
    armature["bonesmith_kind"] = rig.bone_kind
    armature["bonesmith_e_rms"] = metrics.e_rms
    armature["bonesmith_max_error"] = metrics.max_error_model_units
    armature["bonesmith_frames"] = [float(frames[0]), float(frames[-1])]


def add_shapes(results, recording, rig, made):
    """A generator: corrective shapes as shape keys with keys in all frames. Values are scaled into Blender's range of sliders."""
    shapes, values = rig.shapes, rig.shape_weights()
    # Blender clamps the values of sliders; shapes of the size of their largest value keep them within -1 to 1.
    sizes = np.maximum(np.abs(values).max(axis=0), 1e-30)
    shapes, values = shapes * sizes[:, None, None], values / sizes
    for thing, part in zip(results, recording.parts):
        thing.shape_key_add(name="Basis", from_mix=False)
        keys = []
        for r, shape in enumerate(shapes):
            key = thing.shape_key_add(name=f"Corrective {r + 1}", from_mix=False)
            key.slider_min, key.slider_max = -1.0, 1.0
            moved = rig.rest[part.first : part.last] + shape[part.first : part.last]
            key.data.foreach_set("co", np.ascontiguousarray(moved, dtype=np.float32).reshape(-1))
            keys.append(key.name)
            yield Progress("shapes", r + 1, len(shapes))
        curves = building.Curves(thing.data.shape_keys, f"{thing.name} shapes")
        made.actions.append(curves.action)
        for r, name in enumerate(keys):
            path = f'key_blocks["{bpy.utils.escape_identifier(name)}"].value'
            curves.set(path, None, recording.frames, values[:, r : r + 1])
        yield Progress("shapes", len(shapes), len(shapes))


CLASSES = (BONESMITH_OT_fit,)
