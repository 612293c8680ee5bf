"""Undo, cancel, running again, files, steps, the modal operator."""

import os
import subprocess
import sys
import tempfile
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


def start(operator, thing=SimpleNamespace()):
    """The job of an operator, not yet begun, in the present context. `thing`: what its methods are called on."""
    jobs = harness.module("jobs")
    control = jobs.Control()
    return jobs.Job(operator.bl_label, operator.work(thing, bpy.context, control), control)


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
            job.pause()
            now = job.progress.stage
            if not seen and (now == wanted or (wanted == "fitting" and job._waiting and now != "reading")):
                seen = True
                stages.append(now)
                job.cancel()
        assert seen and job.state == "cancelled", (wanted, job.state, job.problem)
        assert counts() == before, (wanted, counts(), before)
        assert bpy.context.scene.frame_current == 1 and not objects[0].hide_get()
        assert bpy.context.view_layer.objects.active == objects[0] and objects[0].select_get()
    return "cancelled while " + ", ".join(stages)


def test_cancel_while_an_object_is_changed():
    """Weights of an object are replaced completely or not at all."""
    rigging = harness.module("rigging")
    _, tube, _ = scenes.arm()
    harness.settings(reduce_to=2)
    harness.select(tube)
    job = start(rigging.BONESMITH_OT_reduce, rigging.RigOperator())
    seen = False
    while not job.step(0.0):
        job.pause()
        if job.progress.stage == "weights":
            seen = True
            job.cancel()
    assert seen and job.state == "done", (seen, job.state, job.problem)
    sums = [sum(group.weight for group in vertex.groups) for vertex in tube.data.vertices]
    assert min(sums) > 0.99, min(sums)
    return f"all {len(sums)} vertices have their weights"


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
        thing._job.pause()
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


def test_another_file_ends_a_job():
    """Blender calls `cancel` of a modal operator when another file is opened."""
    running = harness.module("running")
    for wanted in ("reading", "prepare"):
        objects = scenes.shape_keys()
        harness.settings(goal="COUNT", bones=12)
        harness.select(*objects)
        before = counts()
        screen = Screen()
        thing, _ = operator(harness.module("fitting").BONESMITH_OT_fit)
        thing._job, thing._timer = thing._begin(screen.context()), screen.add(0.02, None)
        while thing._job.progress.stage != "reading" if wanted == "reading" else not thing._job._waiting:
            thing._job.step(0.0)
        assert running.running() is thing._job
        thing.cancel(screen.context())
        assert running.running() is None and screen.timers == 0 and thing._job.state == "cancelled"
        assert counts() == before
    fit(scenes.shape_keys(), goal="COUNT", bones=3, effort="fast")


def test_words_of_progress():
    words = harness.module("words")
    objects = scenes.flag()
    harness.settings(goal="COUNT", bones=12, effort="fast")
    harness.select(*objects)
    job = start(harness.module("fitting").BONESMITH_OT_fit)
    seen = set()
    while not job.step(0.0):
        job.pause()
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
    assert settings.influences == 8
    settings.engine = "THREE"
    assert settings.influences == 4
    settings.bones = 77
    bpy.ops.bonesmith.preset_add(name="mine")
    settings.bones = 5
    path = next(os.path.join(bpy.utils.preset_paths("bonesmith")[0], name) for name in os.listdir(bpy.utils.preset_paths("bonesmith")[0]))
    bpy.ops.script.execute_preset(filepath=path, menu_idname="BONESMITH_MT_presets")
    assert settings.bones == 77
    preferences = bpy.context.preferences.addons[harness.MODULE].preferences
    preferences.threads = 1
    fit(scenes.shape_keys(), goal="COUNT", bones=3, effort="fast")
    preferences.threads = 0


class Layout:
    """What panels draw on; remembers texts, and refuses properties that are not there."""

    def __init__(self, texts):
        self.texts, self.use_property_split = texts, False

    def prop(self, owner, name, **_):
        assert hasattr(owner, name), name

    def operator(self, name, **_):
        area, word = name.split(".")
        assert getattr(getattr(bpy.ops, area), word).get_rna_type()
        return SimpleNamespace()

    def menu(self, name, **_):
        assert hasattr(bpy.types, name), name

    def label(self, text="", **_):
        self.texts.append(text)

    def progress(self, factor, type, text):
        assert 0 <= factor <= 1 and type in ("BAR", "RING")
        self.texts.append(text)

    def box(self, **_):
        return self

    def separator(self, **_):
        pass

    column = row = box


def drawn():
    """All panels, drawn; returns their texts."""
    texts = []
    for cls in harness.module("panel").CLASSES:
        cls.draw(SimpleNamespace(layout=Layout(texts)), bpy.context)
    return texts


def test_panels_and_the_expectation():
    objects = scenes.flag()
    harness.settings(goal="COUNT", bones=12)
    harness.select(*objects)
    texts = drawn()
    assert any("187 vertices, 40 frames" in text for text in texts), texts
    assert any(text.startswith("memory: 89.8 kB to read") for text in texts), texts
    assert not any(text.startswith("expected") for text in texts), texts
    assert bpy.ops.bonesmith.estimate() == {"FINISHED"}
    line = next(text for text in drawn() if text.startswith("expected: 12 bones"))
    expectation = harness.module("expectation")
    stored = expectation.curve(bpy.context, objects)
    expected = expectation.error_for(stored["points"], 12)
    for settings in ({"goal": "ERROR", "target_error": 0.01}, {"goal": "AUTO"}, {"goal": "COUNT"}):
        harness.settings(**settings)
        drawn()
    armature, said = fit(objects, effort="balanced")
    made = harness.results(objects)
    objects[0].hide_set(False)
    real = float(np.sqrt((np.linalg.norm(harness.play(made, range(1, 41)) - harness.play(objects, range(1, 41)), axis=-1) ** 2).mean()))
    harness.within(max(expected / real, real / expected), 2.0, "expected error against the real one")
    harness.settings(influences=3)
    assert not any(text.startswith("expected") for text in drawn()), "an estimate of other settings is shown"
    return f"{line}; in fact {real:.3g}"


def test_status_bar():
    running = harness.module("running")
    objects = scenes.flag()
    harness.settings(goal="COUNT", bones=12, effort="fast")
    harness.select(*objects)
    thing, said = operator(harness.module("fitting").BONESMITH_OT_fit)
    job, texts = thing._begin(bpy.context), []
    while not job.step(0.002):
        job.pause()
        running.draw_status(SimpleNamespace(layout=Layout(texts)), bpy.context)
    assert not bpy.ops.bonesmith.refit.poll(), "one job at a time"
    thing._end(job)
    bars = sorted({text for text in texts if text.startswith("Deformation to Bones: ")})
    assert any("of 40" in text for text in bars), bars[:20]
    # As the library reports a round of a fit.
    job.control.report("weights and bones", 5, 20, 1.25)
    job._stage_began -= 10
    text = harness.module("words").progress(job)
    assert text == "Deformation to Bones: weights and bones, 5 of 20, E_RMS 1.25, 30 s left in this stage", text
    return f"{len(bars)} texts"


def test_the_zip_is_a_valid_extension():
    """Blender's own check of extensions."""
    import bl_pkg

    program = os.path.join(os.path.dirname(bl_pkg.__file__), "cli", "blender_ext.py")
    run = subprocess.run([sys.executable, program, "validate", str(harness.ZIP[0])], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.strip().splitlines()[-1]


def test_disable_and_enable():
    import addon_utils

    addon_utils.disable(harness.MODULE)
    assert not hasattr(bpy.types.Scene, "bonesmith")
    addon_utils.enable(harness.MODULE)
    assert hasattr(bpy.types.Scene, "bonesmith")


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]
