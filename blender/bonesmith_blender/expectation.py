"""What a fit will need, before it starts: memory and size from counts, and an error that a fit of a sample gave.

Memory and size are arithmetic. An error is shown only after Estimate has run: it fits a sample of vertices and frames with several numbers of bones
(the library's sweep), and the panel interpolates between them.
"""

import json
import math

import bonesmith
import bpy
import numpy as np

from . import fitting, reading, words
from .jobs import Refused, in_worker
from .running import JobOperator
from .settings import frames_of, threads

#: Vertices and frames of the sample, at most.
VERTICES, FRAMES = 1500, 40

#: Numbers of bones that are tried.
COUNTS = (2, 4, 8, 16, 32, 64, 100)

#: Peak memory of a fit over the bytes of the positions, and what it needs besides. Measured: 10,000 and 100,000 vertices, 100 frames, 30 bones.
PEAK, BESIDES = 2.2, 30e6


def vertex_count(context, objects):
    """Vertices of the objects as they are evaluated now; 0 where they are not."""
    depsgraph = context.view_layer.depsgraph
    if depsgraph is None:
        return 0
    total = 0
    for thing in objects:
        data = thing.evaluated_get(depsgraph).data
        total += len(data.vertices) if isinstance(data, bpy.types.Mesh) else 0
    return total


def lines(context):
    """Lines for the panel."""
    try:
        objects, _ = fitting.sources(context)
    except Refused as problem:
        return [str(problem)]
    frames, settings = len(frames_of(context.scene)), context.scene.bonesmith
    count = vertex_count(context, objects)
    if not objects:
        return ["select the objects that deform"]
    found = [f"{len(objects)} object{'s' * (len(objects) > 1)}, {count:,} vertices, {frames} frames"]
    if count:
        positions = 12 * count * frames
        found.append(f"memory: {words.size(positions)} to read, about {words.size(PEAK * positions + BESIDES)} to fit")
        bones = expected_bones(context)
        if bones is not None:
            found.append(f"size: about {words.size(run_time_bytes(count, frames, bones, settings))} at run time")
    estimate = expected(context, objects)
    if estimate is not None:
        found.append(estimate)
    return found


def run_time_bytes(vertices, frames, bones, settings):
    """Rest pose, weights and motion, as `Rig.nbytes` counts them."""
    per_bone = {"rigid": 7, "trs": 10, "affine": 12}[settings.bone_kind]
    return vertices * (12 + 6 * settings.influences) + 4 * per_bone * bones * frames


def signature(context, objects):
    """What an estimate is of: it is shown for nothing else."""
    settings = context.scene.bonesmith
    options = {name: value for name, value in settings.fit_options().items() if name in ("influences", "bone_kind")}
    return [[thing.name for thing in objects], frames_of(context.scene)[:1], len(frames_of(context.scene)), settings.frame_step, options]


def curve(context, objects):
    """Points (bones, root mean square distance) of the estimate, or `None`."""
    settings = context.scene.bonesmith
    if not settings.estimate or settings.skeleton:
        return None
    stored = json.loads(settings.estimate)
    return stored if stored["of"] == signature(context, objects) else None


def expected_bones(context):
    """The number of bones, where it is known before the fit."""
    settings = context.scene.bonesmith
    if settings.goal == "COUNT":
        return settings.bones
    try:
        stored = curve(context, fitting.sources(context)[0])
    except Refused:
        return None
    if stored is None:
        return None
    limit = stored["auto"] if settings.goal == "AUTO" else settings.target_error
    return bones_for(stored["points"], limit)


def expected(context, objects):
    """The line about the error, or `None`."""
    stored = curve(context, objects)
    if stored is None:
        return None
    bones = expected_bones(context)
    if bones is None:
        last = stored["points"][-1]
        return f"expected: more than {last[0]} bones (error about {words.length(last[1])} with those)"
    error = error_for(stored["points"], bones)
    return f"expected: {bones} bones, error about {words.length(error)} in the mean"


def error_for(points, bones):
    """The error with a number of bones: between points along straight lines of logarithms."""
    xs = [math.log(point[0]) for point in points]
    ys = [math.log(max(point[1], 1e-30)) for point in points]
    return float(math.exp(np.interp(math.log(bones), xs, ys)))


def bones_for(points, limit):
    """The fewest bones that stay below an error, or `None`."""
    for bones in range(points[0][0], points[-1][0] + 1):
        if error_for(points, bones) <= limit:
            return bones
    return None


class BONESMITH_OT_estimate(JobOperator, bpy.types.Operator):
    """Estimate the error by fits of a sample of vertices and frames. Simulations are played through"""

    bl_idname = "bonesmith.estimate"
    bl_label = "Estimate"
    bl_options = {"REGISTER"}

    def work(self, context, control):
        settings = context.scene.bonesmith
        objects, active = fitting.sources(context)
        reading.check_objects(context, objects)
        of = signature(context, objects)
        frames = frames_of(context.scene)
        if not frames:
            raise Refused("the frame range is empty")
        picked = sorted({round(at) for at in np.linspace(0, len(frames) - 1, min(FRAMES, len(frames)))})
        recording = yield from reading.record(context, objects, [frames[at] for at in picked], active=active, meshes=False)
        options = {name: value for name, value in settings.fit_options().items() if name in ("influences", "bone_kind", "seed")}
        points, auto = yield from in_worker(control, "sample", sampled, recording.positions, threads(context), control.report, options)
        settings.estimate = json.dumps({"of": of, "points": points, "auto": auto})
        return expected(context, objects) or "no estimate for these settings"


def sampled(positions, workers, report, options):
    """Points of the curve, and the distance that automatic numbers of bones aim at. For a worker."""
    count = positions.shape[1]
    rows = np.sort(np.random.default_rng(0).permutation(count)[:VERTICES])
    sample = np.ascontiguousarray(positions[:, rows])
    # At most one bone for four vertices: with more, a sample says nothing.
    counts = [bones for bones in COUNTS if bones * 4 <= len(rows)] or [1]
    found = bonesmith.sweep(sample, counts=counts, effort="fast", threads=workers, progress=report, **options)
    whole = bonesmith.Animation(sample[:1], name="sample")
    unit = bonesmith.evaluate(whole, whole).radius / 1000 * 3**0.5
    points = [[point.bones, point.e_rms * unit] for point in found.points]
    # More bones are never worse; a single fit may be.
    for before, after in zip(points, points[1:]):
        after[1] = min(after[1], before[1])
    return points, 2 * unit


CLASSES = (BONESMITH_OT_estimate,)
