"""What tests share: installing the extension as a user does, and looking at objects without the extension's code."""

import os
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager

# Preferences and extensions of the test alone. Blender looks at this when it starts.
USER = tempfile.TemporaryDirectory(prefix="bonesmith-blender-")
os.environ["BLENDER_USER_RESOURCES"] = USER.name

import bpy  # noqa: E402
import numpy as np  # noqa: E402

MODULE = "bl_ext.user_default.bonesmith"


#: The zip that is tested.
ZIP = [None]


def install(path):
    """Installs the zip and enables the extension, as dropping it on Blender's window does."""
    ZIP[0] = path
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    bpy.ops.extensions.package_install_files(filepath=str(path), repo="user_default", enable_on_install=True)
    if MODULE not in bpy.context.preferences.addons:
        raise SystemExit(f"{path}: the extension was not enabled")


def module(name):
    """A module of the installed extension."""
    return sys.modules[f"{MODULE}.{name}"]


def select(*objects):
    """Selects objects; the first is the active one."""
    bpy.ops.object.select_all(action="DESELECT")
    for thing in objects:
        thing.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]


def settings(**values):
    """Sets settings of the scene."""
    for name, value in values.items():
        setattr(bpy.context.scene.bonesmith, name, value)


def world(thing):
    """[N, 3] evaluated vertices in world space, in float64."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    evaluated = thing.evaluated_get(depsgraph)
    mesh = evaluated.to_mesh()
    points = np.empty(3 * len(mesh.vertices), dtype=np.float32)
    mesh.vertices.foreach_get("co", points)
    matrix = np.array(evaluated.matrix_world, dtype=np.float64)
    evaluated.to_mesh_clear()
    return points.reshape(-1, 3).astype(np.float64) @ matrix[:3, :3].T + matrix[:3, 3]


def play(objects, frames):
    """[F, N, 3] of all objects together, frame by frame."""
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(np.concatenate([world(thing) for thing in objects]))
    return np.array(found)


def results(originals):
    """The objects that the extension made of others, in their order."""
    found = {}
    for thing in bpy.data.objects:
        source = thing.get("bonesmith_source")
        if source is not None:
            found[source.name] = thing
    return [found[original.name] for original in originals]


@contextmanager
def raises(text):
    """The operator ends with an error that has the text."""
    try:
        yield
    except RuntimeError as problem:
        assert text in str(problem), f"{text!r} is not in {str(problem)!r}"
    else:
        raise AssertionError(f"no error with {text!r}")


def within(value, limit, what):
    """A number that must not exceed another."""
    assert value <= limit, f"{what}: {value:.6g} is above {limit:.6g}"
    return value


def run(tests, only=None):
    """Runs functions; the last line is "N passed, N failed"."""
    passed = failed = 0
    for test in tests:
        name = test.__name__.removeprefix("test_").replace("_", " ")
        if only and only not in name:
            continue
        began = time.perf_counter()
        try:
            said = test()
        except Exception:
            failed += 1
            print(f"FAIL {name}", flush=True)
            traceback.print_exc(file=sys.stdout)
        else:
            passed += 1
            print(f"ok   {name} ({time.perf_counter() - began:.1f} s){': ' + said if said else ''}", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if failed == 0 and passed > 0 else 1
