"""Error as colours on the mesh, and the report."""

import os
import pathlib
import tempfile

import bonesmith
import bpy
import numpy as np

from . import reading, rigs, words
from .jobs import Progress, Refused, in_worker
from .rigging import rate
from .running import JobOperator
from .settings import frames_of

#: Names of the attributes.
ERROR, COLOUR = "bonesmith_error", "bonesmith_error_colour"

#: Colours of an error from none to full: linear red, green and blue at fifths.
RAMP = np.array([[0.02, 0.03, 0.25], [0.0, 0.25, 0.6], [0.0, 0.55, 0.25], [0.85, 0.7, 0.0], [1.0, 0.25, 0.0], [0.7, 0.0, 0.05]])


def pair(context):
    """The active object and what it should look like: its source, or the other selected object."""
    thing = context.view_layer.objects.active
    if thing is None or thing.type != "MESH":
        raise Refused("make the mesh to be measured the active object")
    others = [other for other in context.selected_objects if other != thing and other.type in reading.TYPES and other.type != "ARMATURE"]
    source = thing.get("bonesmith_source")
    if source is not None and source.name in context.scene.objects:
        return thing, source
    if len(others) != 1:
        raise Refused(f"{thing.name} was not made by Bonesmith: select the object to compare with, and then {thing.name}")
    return thing, others[0]


def in_world(_depsgraph):
    """world_from_reference of positions in world space."""
    return np.eye(4)


def colours(errors, limit):
    """[N, 4] colours of errors [N]."""
    at = np.clip(errors / limit, 0, 1)
    stops = np.linspace(0, 1, len(RAMP))
    channels = [np.interp(at, stops, RAMP[:, c]) for c in range(3)]
    return np.stack([*channels, np.ones_like(at)], axis=-1).astype(np.float32)


def set_attribute(mesh, name, kind, field, values):
    """Values of an attribute on the vertices."""
    old = mesh.attributes.get(name)
    if old is not None:
        mesh.attributes.remove(old)
    mesh.attributes.new(name, kind, "POINT")
    mesh.attributes[name].data.foreach_set(field, np.ascontiguousarray(values, dtype=np.float32).reshape(-1))


class BONESMITH_OT_colours(JobOperator, bpy.types.Operator):
    """Colour the active object by its distance from the original: an attribute with distances, and one with colours"""

    bl_idname = "bonesmith.error_colours"
    bl_label = "Error as Colours"
    bl_options = {"REGISTER", "UNDO"}

    def work(self, context, control):
        scene, settings = context.scene, context.scene.bonesmith
        thing, source = pair(context)
        name = thing.name
        frames = frames_of(scene) if settings.error_frames == "WORST" else [scene.frame_current]
        # Together, so that simulations are played once.
        both = yield from reading.record(context, [thing, source], frames, meshes=False, reference=in_world)
        first, second = both.parts
        if first.last - first.first != second.last - second.first:
            raise Refused(f"{first.name} has {first.last - first.first} vertices, {second.name} {second.last - second.first}: they must be the same mesh")
        mesh = bpy.data.objects[name].data
        if len(mesh.vertices) != first.last:
            raise Refused(f"modifiers of {name} change its vertices: {len(mesh.vertices)} became {first.last}")
        worst = np.zeros(first.last, dtype=np.float32)
        moments = np.zeros(first.last, dtype=np.int64)
        for t, frame in enumerate(both.positions):
            apart = np.linalg.norm(frame[: first.last] - frame[first.last :], axis=-1)
            moments[apart > worst] = t
            worst = np.maximum(worst, apart)
            yield Progress("measuring", t + 1, len(frames))
        extent = np.ptp(both.positions[0, : first.last], axis=0)
        limit = settings.error_limit or max(float(np.linalg.norm(extent)) / 2, 1e-12) / 100
        set_attribute(mesh, ERROR, "FLOAT", "value", worst)
        set_attribute(mesh, COLOUR, "FLOAT_COLOR", "color", colours(worst, limit))
        mesh.color_attributes.active_color_name = COLOUR
        at = int(np.argmax(worst))
        return f"{name}: error at most {words.length(float(worst[at]))} (vertex {at}, frame {frames[moments[at]]:g}); full colour at {words.length(limit)}"


class BONESMITH_OT_report(JobOperator, bpy.types.Operator):
    """Write the report of the active object against its original, one html file, and open it in the browser"""

    bl_idname = "bonesmith.report"
    bl_label = "Report"

    def work(self, context, control):
        scene, settings = context.scene, context.scene.bonesmith
        thing, source = pair(context)
        name, frames = thing.name, frames_of(scene)
        path = bpy.path.abspath(settings.report_path) or os.path.join(tempfile.gettempdir(), "bonesmith-report.html")
        if not path.lower().endswith((".html", ".htm")):
            raise Refused(f"{path}: a report is an html file")
        fps = rate(scene)
        plain = rigs.armature_of(thing) is not None and thing.data.shape_keys is None and len(thing.modifiers) == 1
        if plain:
            existing = yield from rigs.read(context, [thing], [source], frames)
            model = yield from in_worker(control, "rig", rigs.library_rig, existing, name, fps)
            original = existing.recording
        else:
            # Shapes and other modifiers are no part of a rig: the positions are compared.
            original = yield from reading.record(context, [source], frames, meshes=False, reference=in_world)
            result = yield from reading.record(context, [thing], frames, meshes=False, reference=in_world)
            model = bonesmith.Animation(result.positions, result.faces(), fps=fps, name=name)
        yield from in_worker(control, "report", write_report, model, original, fps, path)
        if not bpy.app.background:
            bpy.ops.wm.url_open(url=pathlib.Path(path).absolute().as_uri())
        return f"report: {path}"


def write_report(model, original, fps, path):
    """For a worker."""
    against = bonesmith.Animation(original.positions, original.faces(), fps=fps, name=original.parts[0].name)
    model.report(path, against=against)


CLASSES = (BONESMITH_OT_colours, BONESMITH_OT_report)
