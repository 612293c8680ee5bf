"""Operators on rigs that are there: the figures they report, and what Blender shows afterwards."""

import os
import tempfile

import bpy
import numpy as np

import harness
import scenes

FRAMES = range(1, 25)


def apart(first, second, frames=FRAMES):
    """[F, N] distances of two objects."""
    return np.linalg.norm(harness.play([first], frames) - harness.play([second], frames), axis=-1)


def influences(thing):
    """Most groups with a weight of any vertex, and the largest deviation of a sum from 1."""
    rows = [[g.weight for g in v.groups if g.weight > 0] for v in thing.data.vertices]
    return max(len(row) for row in rows), max(abs(sum(row) - 1) for row in rows)


def solve(what):
    armature, tube, target = scenes.arm()
    # The target has the same armature: it is another shape once that moves otherwise.
    wanted = harness.play([target], FRAMES)
    before = np.linalg.norm(harness.play([tube], FRAMES) - wanted, axis=-1)
    harness.settings(solve=what, influences=3)
    harness.select(tube, target)
    assert bpy.ops.bonesmith.refit() == {"FINISHED"}
    after = np.linalg.norm(harness.play([tube], FRAMES) - wanted, axis=-1)
    reported = armature["bonesmith_max_error"]
    harness.within(abs(after.max() - reported), 0.01 * reported + 1e-5, "reported error against the real one")
    assert (after**2).mean() < (before**2).mean(), "the fit is no better"
    harness.within(influences(tube)[1], 1e-5, "sum of weights")
    return f"largest error {before.max():.3g} before, {after.max():.3g} after (reported {reported:.3g})"


def test_refit_weights():
    return solve("weights")


def test_refit_motion():
    return solve("motion")


def test_refit_both():
    return solve("both")


def test_refit_needs_a_target():
    _, tube, _ = scenes.arm()
    harness.select(tube)
    with harness.raises("select one deformed object"):
        bpy.ops.bonesmith.refit()


def test_refit_refuses_another_mesh():
    _, tube, _ = scenes.arm()
    other = scenes.ball("other")
    harness.select(tube, other)
    with harness.raises("they must be the same mesh"):
        bpy.ops.bonesmith.refit()


def test_refit_of_motion_refuses_constraints():
    armature, tube, target = scenes.arm()
    armature.pose.bones["bone 2"].constraints.new("LIMIT_ROTATION")
    harness.settings(solve="motion")
    harness.select(tube, target)
    with harness.raises("bone 2"):
        bpy.ops.bonesmith.refit()


def test_helper_bones():
    armature, tube, target = scenes.arm()
    before = apart(tube, target)
    poses = [[np.array(bone.matrix) for bone in armature.pose.bones] for frame in FRAMES if bpy.context.scene.frame_set(frame) is None]
    harness.settings(helpers=3, influences=4)
    harness.select(tube, target)
    assert bpy.ops.bonesmith.helper_bones() == {"FINISHED"}
    assert len(armature.data.bones) == 6, [bone.name for bone in armature.data.bones]
    for frame, pose in zip(FRAMES, poses):
        bpy.context.scene.frame_set(frame)
        for bone, matrix in zip(("bone 0", "bone 1", "bone 2"), pose):
            harness.within(np.abs(np.array(armature.pose.bones[bone].matrix) - matrix).max(), 1e-6, "motion of an old bone")
    after = apart(tube, target)
    reported = armature["bonesmith_max_error"]
    harness.within(abs(after.max() - reported), 0.01 * reported + 1e-5, "reported error against the real one")
    harness.within((after**2).mean() ** 0.5, 0.7 * (before**2).mean() ** 0.5, "mean error")
    return f"largest error {before.max():.3g} before, {after.max():.3g} after (reported {reported:.3g})"


def test_reduce_influences():
    _, tube, target = scenes.arm()
    tube.vertex_groups.new(name="paint").add([0, 1, 2], 0.5, "REPLACE")
    before = harness.play([tube], FRAMES)
    harness.settings(reduce_to=2)
    harness.select(tube)
    assert bpy.ops.bonesmith.reduce_influences() == {"FINISHED"}
    bones = {group.index for group in tube.vertex_groups if group.name != "paint"}
    most = max(len([g for g in v.groups if g.group in bones and g.weight > 0]) for v in tube.data.vertices)
    assert most == 2, most
    assert tube.data.vertices[1].groups[0].group not in bones or len(tube.data.vertices[1].groups) == 3, "another group has changed"
    moved = np.linalg.norm(harness.play([tube], FRAMES) - before, axis=-1)
    return f"2 influences instead of 3, at most {moved.max():.3g} away"


def test_direct_delta_mush_bake():
    _, tube, target = scenes.arm()
    harness.settings(mush_bones=16, mush_rigid=True, original="KEEP")
    harness.select(tube)
    assert bpy.ops.bonesmith.delta_mush_bake() == {"FINISHED"}
    armature = bpy.context.view_layer.objects.active
    made = harness.results([tube])[0]
    moved = apart(tube, made)
    assert moved.max() > 0.01, "Direct Delta Mush changes joints"
    # Independent of the extension: the library's Direct Delta Mush, not compressed, of arrays that are read here.
    library = _delta_mush(tube)
    distances = np.linalg.norm(harness.play([made], FRAMES) - library, axis=-1)
    reported = armature["bonesmith_max_error"]
    harness.within(distances.max(), reported * 1.02 + 1e-5, "distance from Direct Delta Mush")
    return f"{armature['bonesmith_bones']} virtual bones, at most {distances.max():.3g} from Direct Delta Mush (reported {reported:.3g}), {moved.max():.3g} from plain skinning"


def _delta_mush(tube):
    """[F, N, 3] Direct Delta Mush of the tube in world space."""
    import bonesmith

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tube.npz")
        rows = [sorted(((g.weight, tube.vertex_groups[g.group].name) for g in v.groups), reverse=True) for v in tube.data.vertices]
        armature = tube.modifiers[0].object
        names = [bone.name for bone in armature.data.bones]
        bones, worlds = [], []
        for frame in FRAMES:
            bpy.context.scene.frame_set(frame)
            bones.append([np.array(armature.pose.bones[n].matrix @ armature.data.bones[n].matrix_local.inverted())[:3] for n in names])
            worlds.append(np.array(armature.matrix_world))
        np.savez(
            path,
            rest=np.array([v.co for v in tube.data.vertices]),
            faces=np.array([[p.vertices[0], p.vertices[k], p.vertices[k + 1]] for p in tube.data.polygons for k in (1, 2)]),
            joint_indices=np.array([[names.index(n) for _, n in row] for row in rows]),
            joint_weights=np.array([[w for w, _ in row] for row in rows]),
            bones=np.array(bones),
        )
        posed = bonesmith.ddm(bonesmith.load_rig(path), rigid_bind=True).pose(slice(None))
    return np.array([points @ world[:3, :3].T + world[:3, 3] for points, world in zip(posed.astype(float), worlds)])


def test_error_as_colours():
    objects = scenes.shape_keys()
    harness.settings(goal="COUNT", bones=4, effort="fast")
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    armature, made = bpy.context.view_layer.objects.active, harness.results(objects)[0]
    harness.select(made)
    assert bpy.ops.bonesmith.error_colours() == {"FINISHED"}
    worst = np.empty(len(made.data.vertices), dtype=np.float32)
    made.data.attributes["bonesmith_error"].data.foreach_get("value", worst)
    harness.within(abs(worst.max() - armature["bonesmith_max_error"]), 1e-5, "largest error")
    assert objects[0].hide_get(), "the original is hidden again"
    assert made.data.color_attributes.active_color.name == "bonesmith_error_colour"
    harness.settings(error_frames="CURRENT")
    bpy.context.scene.frame_set(16)
    bpy.ops.bonesmith.error_colours()
    now = np.empty_like(worst)
    made.data.attributes["bonesmith_error"].data.foreach_get("value", now)
    assert now.max() > 0 and (now <= worst + 1e-6).all()
    return f"worst {worst.max():.3g}, in frame 16 {now.max():.3g}"


def test_error_as_colours_of_a_hidden_simulation():
    objects = scenes.flag()
    harness.settings(goal="COUNT", bones=12, effort="fast")
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    armature, made = bpy.context.view_layer.objects.active, harness.results(objects)[0]
    harness.select(made)
    bpy.ops.bonesmith.error_colours()
    worst = max(point.value for point in made.data.attributes["bonesmith_error"].data)
    # The simulation is computed anew: not the same to the last digit.
    harness.within(abs(worst - armature["bonesmith_max_error"]), 0.1 * worst, "largest error")


def test_reduction_of_objects_that_share_an_armature():
    objects = scenes.awkward()
    harness.settings(goal="COUNT", bones=12, effort="fast", reduce_to=2)
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    made = harness.results(objects)
    assert max(influences(thing)[0] for thing in made) > 2
    harness.select(*made)
    bpy.ops.bonesmith.reduce_influences()
    assert max(influences(thing)[0] for thing in made) == 2
    harness.within(max(influences(thing)[1] for thing in made), 1e-5, "sum of weights")


def test_report():
    objects = scenes.shape_keys()
    harness.settings(goal="COUNT", bones=4, effort="fast")
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    sizes = []
    made = harness.results(objects)[0]
    with tempfile.TemporaryDirectory() as folder:
        for shapes in (0, 2):
            path = os.path.join(folder, f"bericht ü {shapes}.html")
            harness.settings(report_path=path)
            harness.select(made)
            assert bpy.ops.bonesmith.report() == {"FINISHED"}
            text = open(path, encoding="utf-8").read()
            assert "face" in text and "<html" in text
            sizes.append(len(text))
            # A modifier more: positions are compared.
            made.modifiers.new("Smooth", "SMOOTH").factor = 0.1
    return f"{sizes[0] / 1e6:.1f} MB"


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]
