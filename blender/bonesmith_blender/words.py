"""Numbers and problems in words."""

import bpy

from .jobs import Refused


def length(value, scene=None):
    """A length in units of the scene, as its settings show lengths."""
    units = (scene or bpy.context.scene).unit_settings
    if units.system == "NONE":
        return f"{value:.4g} units"
    return bpy.utils.units.to_string(units.system, "LENGTH", value * units.scale_length, precision=3)


def size(count):
    """Bytes."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            return f"{count / step:.3g} {unit}"
    return f"{count} bytes"


def seconds(value):
    """A duration."""
    return f"{value:.0f} s" if value < 90 else f"{value / 60:.0f} min"


def progress(job):
    """Stage, error and time left of a job."""
    now = job.progress
    parts = [f"{job.title}: {now.stage}"]
    if now.total:
        parts.append(f"{now.done} of {now.total}")
    if now.error is not None:
        parts.append(f"E_RMS {now.error:.3g}")
    left = job.seconds_left()
    if left is not None:
        parts.append(f"{seconds(left)} left in this stage")
    return ", ".join(parts)


def problem(error):
    """An exception as one line for the user."""
    if isinstance(error, Refused):
        return str(error)
    kind = type(error).__name__
    if isinstance(error, MemoryError):
        return "There is not enough memory: choose fewer frames or a larger step"
    return f"{error}" if hasattr(error, "option") else f"{kind}: {error}"


def located(error, recording):
    """An error of the library about a frame or a vertex, with the scene's frame and the object's vertex."""
    frame, vertex = getattr(error, "frame", None), getattr(error, "vertex", None)
    if frame is None and vertex is None:
        return error
    where = []
    if vertex is not None and vertex < recording.vertex_count:
        name, own = recording.where(vertex)
        where.append(f"{name}, vertex {own}")
    if frame is not None and frame < len(recording.frames):
        where.append(f"frame {recording.frames[frame]:g}")
    return Refused(f"{', '.join(where)}: {error}")
