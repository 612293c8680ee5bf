"""Undo, cancel, running again, files, steps, the modal operator."""

import os
import tempfile
import time
from types import SimpleNamespace

import bpy
import numpy as np

import harness
import scenes
from test_fit import check, fit


def counts():
    """How much of each kind is in the file."""
    data = bpy.data
    return {name: len(getattr(data, name)) for name in ("objects", "meshes", "armatures", "actions")}


def test_undo_and_redo():
    scenes.shape_keys()
    bpy.ops.ed.undo_push(message="start")
    before = counts()
    harness.settings(goal="COUNT", bones=5, effort="fast")
    harness.select(bpy.data.objects["face"])
    bpy.ops.ed.undo_push(message="settings")
    # As a click does it: the operator pushes one step of undo.
    bpy.ops.bonesmith.deformation_to_bones("EXEC_DEFAULT", True)
    after = counts()
    assert after["armatures"] == before["armatures"] + 1
    bpy.ops.ed.undo()
    assert counts() == before, (counts(), before)
    assert not bpy.data.objects["face"].hide_get()
    bpy.ops.ed.redo()
    assert counts() == after, (counts(), after)
    armature = next(thing for thing in bpy.data.objects if thing.type == "ARMATURE")
    face = bpy.data.objects["face"]
    face.hide_set(False)
    return check([face], harness.play([face], range(1, 25)), armature)


def start(operator):
    """The job of an operator, not yet begun, in the present context."""
    jobs = harness.module("jobs")
    control = jobs.Control()
    return jobs.Job(operator.bl_label, operator.work(SimpleNamespace(), bpy.context, control), control)


def test_cancel_leaves_nothing():
    fitting = harness.module("fitting")
    stages = []
    for wanted in ("reading", "fitting", "weights", "action"):
        objects = scenes.flag()
        harness.settings(goal="COUNT", bones=20, effort="balanced")
        harness.select(*objects)
        before = counts()
        job = start(fitting.BONESMITH_OT_fit)
        # Small steps, so that each stage is seen.
        seen = False
        while not job.step(0.0):
            now = job.progress.stage
            if not seen and (now == wanted or (wanted == "fitting" and job._waiting and now not in ("reading", "normals"))):
                seen = True
                stages.append(now)
                job.cancel()
        assert seen and job.state == "cancelled", (wanted, job.state, job.problem)
        assert counts() == before, (wanted, counts(), before)
        assert bpy.context.scene.frame_current == 1 and not objects[0].hide_get()
        assert bpy.context.view_layer.objects.active == objects[0] and objects[0].select_get()
    return "cancelled while " + ", ".join(stages)


def test_running_again():
    objects = scenes.shape_keys()
    first, _ = fit(objects, goal="COUNT", bones=4, effort="fast")
    bpy.data.objects["face"].hide_set(False)
    bpy.data.objects.remove(harness.results(objects)[0])
    second, said = fit(objects, goal="COUNT", bones=9, effort="fast")
    assert first.name != second.name and first["bonesmith_bones"] == 4
    return said


def test_save_and_reload():
    objects = scenes.awkward()
    frames = range(1, 21)
    before = harness.play(objects, frames)
    fit(objects, goal="COUNT", bones=10, effort="fast")
    names = [thing.name for thing in objects]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "szene ü.blend")
        bpy.ops.wm.save_as_mainfile(filepath=path)
        bpy.ops.wm.open_mainfile(filepath=path)
    assert bpy.context.scene.bonesmith.bones == 10
    armature = next(thing for thing in bpy.data.objects if thing.type == "ARMATURE")
    return check([bpy.data.objects[name] for name in names], before, armature)


class Screen:
    """What a modal operator uses of a window."""

    def __init__(self):
        self.timers, self.handlers, self.status = 0, [], []

    def context(self):
        manager = SimpleNamespace(event_timer_add=self.add, event_timer_remove=self.remove, modal_handler_add=self.handlers.append)
        return SimpleNamespace(window_manager=manager, window=object(), screen=None, workspace=SimpleNamespace(status_text_set=self.status.append))

    def add(self, _seconds, window):
        self.timers += 1
        return "timer"

    def remove(self, _timer):
        self.timers -= 1


def operator(kind):
    """An operator outside Blender's registry, with the work of one of the extension."""
    running = harness.module("running")
    said = []

    class Operator(running.JobOperator):
        bl_label = kind.bl_label

        def work(self, _context, control):
            return kind.work(self, bpy.context, control)

        def report(self, kinds, text):
            said.append((kinds, text))

    return Operator(), said


def drive(screen, thing, escape_after=None):
    """Timer events until the operator ends; returns what it returned."""
    context = screen.context()
    thing._job = thing._begin(context)
    thing._timer = screen.add(0.02, None)
    for tick in range(20000):
        if thing._job._waiting:
            time.sleep(0.005)
        event = SimpleNamespace(type="ESC" if tick == escape_after else "TIMER", value="PRESS")
        answer = thing.modal(context, event)
        if answer != {"RUNNING_MODAL"}:
            return answer
    raise AssertionError("the operator does not end")


def test_modal_operator():
    fitting = harness.module("fitting")
    objects = scenes.shape_keys()
    harness.settings(goal="COUNT", bones=5, effort="fast")
    harness.select(*objects)
    screen = Screen()
    thing, said = operator(fitting.BONESMITH_OT_fit)
    assert thing.modal(screen.context(), SimpleNamespace(type="MIDDLEMOUSE", value="PRESS")) == {"PASS_THROUGH"}
    assert drive(screen, thing) == {"FINISHED"}
    assert screen.timers == 0 and screen.status[-1] is None and callable(screen.status[0])
    assert said[0][0] == {"INFO"}, said
    objects = scenes.shape_keys()
    harness.select(*objects)
    before = counts()
    thing, said = operator(fitting.BONESMITH_OT_fit)
    assert drive(screen, thing, escape_after=5) == {"CANCELLED"}
    assert counts() == before and said[0][0] == {"WARNING"}, said


def test_words_of_progress():
    jobs, words = harness.module("jobs"), harness.module("words")
    objects = scenes.flag()
    harness.settings(goal="COUNT", bones=12, effort="fast")
    harness.select(*objects)
    job = start(harness.module("fitting").BONESMITH_OT_fit)
    seen = set()
    while not job.step(0.001):
        seen.add(words.progress(job).split(",")[0].removeprefix("Deformation to Bones: "))
        fraction = job.progress.fraction
        assert fraction is None or 0 <= fraction <= 1
    assert job.state == "done" and {"reading", "action"} <= seen and len(seen) >= 4, seen
    return ", ".join(sorted(seen))


def test_steps_are_short():
    """No assertion on time: the machine may be busy. The figure is in the log."""
    objects = scenes.flag()
    harness.settings(goal="COUNT", bones=30, effort="fast")
    harness.select(*objects)
    job = start(harness.module("fitting").BONESMITH_OT_fit)
    job.run()
    stages = sorted(job.longest.items(), key=lambda item: -item[1])[:4]
    return "longest steps: " + ", ".join(f"{stage or 'start'} {1000 * seconds:.0f} ms" for stage, seconds in stages)


def test_presets_and_engines():
    scenes.still()
    settings = bpy.context.scene.bonesmith
    settings.preset = "CLOSE"
    assert (settings.goal, settings.bones, settings.bone_kind, settings.influences) == ("COUNT", 100, "trs", 8)
    settings.engine = "GODOT"
    assert settings.influences == 4
    preferences = bpy.context.preferences.addons[harness.MODULE].preferences
    preferences.threads = 1
    fit(scenes.shape_keys(), goal="COUNT", bones=3, effort="fast")
    preferences.threads = 0


def test_disable_and_enable():
    import addon_utils

    addon_utils.disable(harness.MODULE)
    assert not hasattr(bpy.types.Scene, "bonesmith")
    addon_utils.enable(harness.MODULE)
    assert hasattr(bpy.types.Scene, "bonesmith")


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]
