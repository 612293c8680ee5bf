"""Deformation to Bones on scenes of all kinds: evaluated vertices of the result against the original, within the reported error."""

import tempfile

import bpy
import numpy as np

import harness
import scenes


def fit(objects, **settings):
    """Fits objects and compares the result with them in every frame; returns the armature and a line of figures."""
    scene = bpy.context.scene
    harness.settings(**settings)
    frames = range(scene.frame_start, scene.frame_end + 1)
    before = harness.play(objects, frames)
    scene.frame_set(7)
    harness.select(*objects)
    assert bpy.ops.bonesmith.deformation_to_bones() == {"FINISHED"}
    assert scene.frame_current == 7, "the frame was not restored"
    armature = bpy.context.view_layer.objects.active
    return armature, check(objects, before, armature)


def check(objects, before, armature):
    """The result in all frames against positions [F, N, 3], within the error that is stored with it."""
    scene = bpy.context.scene
    frames = range(scene.frame_start, scene.frame_end + 1)
    made = harness.results(objects)
    after = harness.play(made, frames)
    distances = np.linalg.norm(after - before, axis=-1)
    size = np.ptp(before.reshape(-1, 3), axis=0).max()
    motion = np.linalg.norm(before - before[0], axis=-1).max()
    reported = armature["bonesmith_max_error"]
    # Blender computes in float32, and far from the origin that has fewer digits.
    rounding = 3e-6 * size + 4e-7 * np.abs(before).max()
    harness.within(distances.max(), reported * 1.01 + rounding, "largest error")
    harness.within(reported, distances.max() * 1.01 + rounding, "reported largest error against the real one")
    return f"{armature['bonesmith_bones']} bones, moves by {motion:.3g}, largest error {distances.max():.3g} (reported {reported:.3g}), mean {distances.mean():.2g}"


def _scene_test(name):
    def test():
        return fit(scenes.FITS[name](), goal="AUTO", effort="fast")[1]

    test.__name__ = f"test_{name}".replace(" ", "_")
    return test


def test_alembic_cache():
    with tempfile.TemporaryDirectory() as folder:
        return fit(scenes.alembic(folder), goal="COUNT", bones=12, effort="fast")[1]


def test_awkward_objects():
    objects = scenes.awkward()
    armature, said = fit(objects, goal="COUNT", bones=16, effort="fast")
    assert len(harness.results(objects)) == 3 and all(thing.parent == armature for thing in harness.results(objects))
    return said


def test_bones_with_scale():
    armature, said = fit(scenes.shape_keys(), goal="COUNT", bones=6, bone_kind="trs", effort="fast")
    assert armature["bonesmith_kind"] == "trs"
    return said


def test_affine_bones():
    armature, said = fit(scenes.shape_keys(), goal="COUNT", bones=6, bone_kind="affine", effort="fast")
    pairs = [bone for bone in armature.data.bones if not bone.use_deform]
    assert pairs, "affine bones have an outer bone"
    return f"{len(pairs)} pairs, {said}"


def test_skeleton():
    _, _, target = scenes.arm()
    armature, said = fit([target], skeleton=True, effort="fast", goal="COUNT", bones=8)
    assert any(bone.parent for bone in armature.data.bones)
    return said


def test_root_motion():
    objects = scenes.cape()
    armature, said = fit(objects, goal="COUNT", bones=10, root_motion="plane", effort="fast")
    roots = [bone for bone in armature.data.bones if bone.parent is None]
    assert len(roots) == 1 and len(roots[0].children) >= 9, [bone.name for bone in roots]
    root = armature.pose.bones[roots[0].name]
    heads = [root.head.copy() for frame in (1, 36) if bpy.context.scene.frame_set(frame) is None]
    walked = heads[1] - heads[0]
    assert walked.y < -2 and abs(walked.z) < 1e-4, walked
    return f"the root walks {walked.length:.3g}, {said}"


def test_corrective_shapes():
    armature, said = fit(scenes.shape_keys(), goal="COUNT", bones=3, shapes=4, effort="fast")
    return said


def test_collection_with_hidden_objects():
    objects = scenes.shape_keys()
    collection = bpy.data.collections.new("hidden")
    bpy.context.scene.collection.children.link(collection)
    collection.objects.link(objects[0])
    bpy.context.scene.collection.objects.unlink(objects[0])
    frames = range(1, 25)
    before = harness.play(objects, frames)
    objects[0].hide_set(True)
    objects[0].hide_viewport = True
    harness.settings(source="COLLECTION", collection=collection, goal="COUNT", bones=8, effort="fast", original="KEEP")
    bpy.ops.bonesmith.deformation_to_bones()
    assert objects[0].hide_viewport and objects[0].hide_get(), "what was hidden is hidden again"
    return check(objects, before, bpy.context.view_layer.objects.active)


def test_nothing_moves():
    return fit(scenes.still(), effort="fast")[1]


def test_range_step_and_rest_frame():
    objects = scenes.shape_keys()
    harness.settings(frames="CUSTOM", frame_start=3, frame_end=21, frame_step=3, rest="FRAME", rest_frame=9, goal="COUNT", bones=8, effort="fast", original="BESIDE")
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    armature = bpy.context.view_layer.objects.active
    assert not objects[0].hide_get()
    frames = range(3, 22, 3)
    gap = np.array(armature.matrix_world.translation - objects[0].matrix_world.translation)
    assert gap[0] > 2 and abs(gap[1:]).max() < 1e-6, gap
    distances = np.linalg.norm(harness.play(harness.results(objects), frames) - gap - harness.play(objects, frames), axis=-1)
    harness.within(distances.max(), armature["bonesmith_max_error"] * 1.01 + 1e-5, "largest error")


def test_step_and_late_start_of_a_simulation():
    objects = scenes.flag()
    wanted = harness.play(objects, range(1, 41))
    # A cache that was never played: everything has to be computed from its first frame.
    objects = scenes.flag()
    harness.settings(frames="CUSTOM", frame_start=10, frame_end=40, frame_step=5, goal="COUNT", bones=16, effort="fast", original="KEEP")
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    armature = bpy.context.view_layer.objects.active
    frames = range(10, 41, 5)
    # The cache is filled now. Two runs of a simulation are not the same to the last digit.
    cached, made = harness.play(objects, frames), harness.play(harness.results(objects), frames)
    harness.within(np.linalg.norm(made - cached, axis=-1).max(), armature["bonesmith_max_error"] * 1.01 + 1e-5, "largest error")
    apart = np.linalg.norm(cached - wanted[9:40:5], axis=-1).mean()
    harness.within(apart, 0.1, "mean distance from a simulation that was played from its start")
    return f"{apart:.2g} from another run of the simulation"


def test_changing_faces_are_refused():
    """As many vertices and corners in every frame, but other faces."""
    scenes.empty(10)
    sheet = scenes.grid("flips", 4, 4)
    tree = bpy.data.node_groups.new("flip", "GeometryNodeTree")
    for way in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=way, socket_type="NodeSocketGeometry")
    new, join = tree.nodes.new, tree.links.new
    start, end, flip, time, late = new("NodeGroupInput"), new("NodeGroupOutput"), new("GeometryNodeFlipFaces"), new("GeometryNodeInputSceneTime"), new("FunctionNodeCompare")
    late.inputs["B"].default_value = 5.5
    join(time.outputs["Frame"], late.inputs["A"])
    join(late.outputs[0], flip.inputs["Selection"])
    join(start.outputs[0], flip.inputs[0])
    join(flip.outputs[0], end.inputs[0])
    sheet.modifiers.new("Flip", "NODES").node_group = tree
    harness.select(sheet)
    with harness.raises("flips has other faces in frame 6"):
        bpy.ops.bonesmith.deformation_to_bones()


def test_changing_topology_is_refused():
    objects = scenes.changing()
    harness.select(*objects)
    count = len(bpy.data.objects), len(bpy.data.meshes)
    with harness.raises("vertices in frame 2, but"):
        bpy.ops.bonesmith.deformation_to_bones()
    assert (len(bpy.data.objects), len(bpy.data.meshes)) == count


def test_nothing_selected_is_refused():
    scenes.still()
    bpy.ops.object.select_all(action="DESELECT")
    with harness.raises("select the objects"):
        bpy.ops.bonesmith.deformation_to_bones()


TESTS = [_scene_test(name) for name in scenes.FITS] + [value for name, value in list(globals().items()) if name.startswith("test_")]
