"""Figures of the extension on a large object: reading against Blender's own evaluation, and how long the interface is blocked. Not a test.

    .venv-blender/bin/python blender/tests/measure.py EXTENSION.zip [--frames 250] [--side 316] [--runs 3]

"reading besides" is what reading adds to the evaluation, in memory
that is there already. "new memory" is a whole reading: 300 MB that the system hands out at the first touch, which takes longer than the rest on some virtual machines.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import harness  # noqa: E402  (before bpy: it sets the folder of user files)
import bpy  # noqa: E402
import numpy as np  # noqa: E402

import scenes  # noqa: E402
from test_life import start  # noqa: E402


def shape_keys(side, frames):
    """A sheet with six shape keys."""
    thing = scenes.grid("sheet", side, side)
    thing.shape_key_add(name="Basis")
    base = np.empty((side * side, 3), dtype=np.float32)
    thing.data.vertices.foreach_get("co", base.reshape(-1))
    for k in range(6):
        key = thing.shape_key_add(name=f"key {k}")
        moved = base.copy()
        moved[:, 1] += 0.3 * np.sin((k + 2) * base[:, 0] + k) * np.cos((k + 1) * base[:, 2])
        key.data.foreach_set("co", moved.reshape(-1))
        scenes.keyed(key, "value", {1: 0.0, 1 + frames * (k + 1) // 7: 1.0, frames: 0.0})
    return thing


def wave(side, _frames):
    """A sheet with a Wave modifier."""
    thing = scenes.grid("sheet", side, side)
    modifier = thing.modifiers.new("Wave", "WAVE")
    modifier.height, modifier.width, modifier.narrowness, modifier.use_normal = 0.2, 0.4, 4.0, True
    return thing


def subdivided(side, frames):
    """A sheet with Wave and Subdivision Surface."""
    thing = wave(side // 2, frames)
    thing.modifiers.new("Subdivision", "SUBSURF").levels = 1
    return thing


def cloth(side, frames):
    """A sheet of cloth that falls, in few frames: the simulation takes its time."""
    thing = scenes.grid("sheet", side, side)
    modifier = thing.modifiers.new("Cloth", "CLOTH")
    modifier.settings.quality = 1
    modifier.settings.vertex_group_mass = scenes.pin(thing, lambda co: co.x < 0.001)
    return thing


def measured(function):
    """Seconds of the clock, and of the processor."""
    began, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - began, time.process_time() - processor


def evaluate(thing, frames):
    """Blender alone: every frame, and the evaluated mesh."""
    for frame in range(1, frames + 1):
        bpy.context.scene.frame_set(frame)
        len(thing.evaluated_get(bpy.context.evaluated_depsgraph_get()).data.vertices)


def read(thing, frames):
    """The extension."""
    jobs = harness.module("jobs")
    job = jobs.Job("reading", harness.module("reading").record(bpy.context, [thing], list(range(1, frames + 1)), meshes=False), jobs.Control())
    return job.run()


def blocks(thing):
    """Longest piece of work by stage: milliseconds of this thread's processor time, of a whole run."""
    harness.settings(goal="COUNT", bones=30, effort="fast")
    harness.select(thing)
    job, longest = start(harness.module("fitting").BONESMITH_OT_fit), {}
    while True:
        stage, began = job.progress.stage, time.thread_time()
        ended = job.step()
        longest[stage] = max(longest.get(stage, 0.0), time.thread_time() - began)
        if ended:
            break
        job.pause()
    assert job.state == "done", job.problem
    return sorted(longest.items(), key=lambda item: -item[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zip", type=Path)
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--side", type=int, default=316)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    harness.install(arguments.zip.resolve())
    print(f"Blender {bpy.app.version_string}, {arguments.side**2} vertices, {arguments.frames} frames")
    for make in (shape_keys, wave, subdivided):
        scenes.empty(arguments.frames)
        thing = make(arguments.side, arguments.frames)
        alone, ours = besides(thing, arguments.frames)
        print(f"{make.__name__}: evaluation {alone:.2f} s, reading besides {ours:.2f} s, ratio {1 + ours / alone:.2f}", flush=True)
        for _ in range(arguments.runs):
            compare(thing, make.__name__, arguments.frames)
        if make is not subdivided:
            print(f"{make.__name__}: blocked by stage: " + ", ".join(f"{stage or 'start'} {1000 * seconds:.0f} ms" for stage, seconds in blocks(thing)[:5]), flush=True)
    # A simulation is computed once: each time in a new scene, so that none is played from a cache.
    alone, ours = [], []
    for function, found in ((evaluate, alone), (read, ours)):
        scenes.empty(8)
        thing = cloth(arguments.side, 8)
        found.append(measured(lambda: function(thing, 8)))
    print(f"cloth, 8 frames: evaluation {alone[0][0]:.2f} s, reading {ours[0][0]:.2f} s, ratio {ours[0][0] / alone[0][0]:.2f}")


def besides(thing, frames):
    """Processor time of evaluation, and of reading besides it, into memory that is there already."""
    reading = harness.module("reading")
    bpy.context.view_layer.update()
    parts = reading._parts([thing.name], bpy.context.evaluated_depsgraph_get(), 1)
    recording = reading.Recording(list(range(1, frames + 1)), parts, parts[-1].last, None)
    recording.positions.fill(0)
    alone = ours = 0.0
    for t in range(frames):
        began = time.process_time()
        bpy.context.scene.frame_set(t + 1)
        depsgraph = bpy.context.evaluated_depsgraph_get()
        len(thing.evaluated_get(depsgraph).data.vertices)
        between = time.process_time()
        reading._read_frame(recording, t, depsgraph, np.eye(4))
        alone, ours = alone + between - began, ours + time.process_time() - between
    return alone, ours


def compare(thing, name, frames):
    """Evaluation and reading of one object."""
    alone = measured(lambda: evaluate(thing, frames))
    ours = measured(lambda: read(thing, frames))
    clock, processor = ours[0] / alone[0], ours[1] / alone[1]
    print(f"{name}, new memory: evaluation {alone[0]:.2f} s, reading {ours[0]:.2f} s, ratio {clock:.2f} (of processor time {processor:.2f})", flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # As in run.py.
    __import__("os")._exit(0)
