"""Blender's own exporters with the settings of docs/blender.md: Bonesmith's readers find the motion that Blender shows."""

import json
import os
import subprocess
import sys
import tempfile

import bpy
import numpy as np

import harness
import scenes

def export_glb(path):
    bpy.ops.export_scene.gltf(filepath=path, use_selection=True, export_animation_mode="ACTIVE_ACTIONS", export_anim_single_armature=False, export_influence_nb=8, export_all_influences=False)


def export_fbx(path):
    bpy.ops.export_scene.fbx(filepath=path, use_selection=True, add_leaf_bones=False, bake_anim_simplify_factor=0.0, bake_anim_use_nla_strips=False, bake_anim_use_all_actions=False)


def export_usd(path):
    bpy.ops.wm.usd_export(filepath=path, selected_objects_only=True, export_animation=True)


EXPORTS = {".glb": export_glb, ".fbx": export_fbx, ".usdc": export_usd}


def spaces(points, wanted):
    """Points of a file as they are and with Y up turned to Z up, in Blender's unit; and the way back."""
    for turn in (np.eye(3), np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])):
        turned = points @ turn.T
        scale = np.ptp(wanted[0], axis=0).max() / np.ptp(turned[0], axis=0).max()
        yield turned * scale, turn.T / scale


def partners(points, wanted):
    """For each vertex of a file the nearest of Blender's, over three frames: exporters split and reorder vertices."""
    picked = [0, len(wanted) // 2, -1]
    ours = points[picked].transpose(1, 0, 2).reshape(points.shape[1], -1)
    theirs = wanted[picked].transpose(1, 0, 2).reshape(wanted.shape[1], -1)
    return np.array([np.argmin(((theirs - row) ** 2).sum(axis=1)) for row in ours])


def evaluate(path, folder, positions):
    """What `bonesmith eval` says of a file against positions; the program is the one in the wheel."""
    import bonesmith

    original = os.path.join(folder, "original.npz")
    np.savez(original, verts=positions.astype(np.float32), fps=bpy.context.scene.render.fps)
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(bonesmith.__file__)))
    command = [sys.executable, "-m", "bonesmith", "eval", path, original, "--json", "-", "--quiet"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def exported(original, made, armature, rounding):
    """Exports the selection in all formats; what is read must be what Blender shows, and its error the one that was reported."""
    import bonesmith

    scene = bpy.context.scene
    frames = range(scene.frame_start, scene.frame_end + 1)
    wanted = harness.play([made], frames)
    size = np.ptp(wanted.reshape(-1, 3), axis=0).max()
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for extension, export in EXPORTS.items():
            scene.frame_set(1)
            path = os.path.join(folder, "rig" + extension)
            export(path)
            points = bonesmith.load_animation(path, fps=scene.render.fps).verts.astype(float)
            assert len(points) == len(frames), f"{extension}: {len(points)} frames, not {len(frames)}"
            found = []
            for turned, back in spaces(points, wanted):
                pairs = partners(turned, wanted)
                found.append((np.linalg.norm(turned - wanted[:, pairs], axis=-1).max() / size, pairs, back))
            apart, pairs, back = min(found, key=lambda row: row[0])
            harness.within(apart, rounding[extension], f"{extension}: distance over size")
            figures = evaluate(path, folder, original[:, pairs] @ back.T)
            limit = 0.02 * armature["bonesmith_max_error"] + 2 * rounding[extension] * size
            scale = 1 / np.linalg.norm(back[0])
            harness.within(abs(figures["max_error_model_units"] * scale - armature["bonesmith_max_error"]), limit, f"{extension}: largest error of bonesmith eval")
            said.append(f"{extension} {apart:.1g}")
    return ", ".join(said) + f" of the size away; E_RMS of the files as reported, {figures['e_rms']:.3g}"


#: Files hold float32; USD holds scales as half floats.
EXACT = {".glb": 2e-5, ".fbx": 2e-5, ".usdc": 2e-5}
#: Blender's glTF exporter takes matrices of float32 apart: small errors add up along a chain of bones.
CHAIN = {".glb": 1e-4, ".fbx": 2e-5, ".usdc": 2e-5}
HALF = {".glb": 2e-5, ".fbx": 2e-5, ".usdc": 4e-3}


def _test(objects, rounding, **settings):
    original = harness.play(objects, range(bpy.context.scene.frame_start, bpy.context.scene.frame_end + 1))
    harness.settings(effort="fast", **settings)
    harness.select(*objects)
    bpy.ops.bonesmith.deformation_to_bones()
    return exported(original, harness.results(objects)[0], bpy.context.view_layer.objects.active, rounding)


def test_export_of_rigid_bones():
    return _test(scenes.shape_keys(), EXACT, goal="COUNT", bones=8, bone_kind="rigid")


def test_export_of_bones_with_scale():
    return _test(scenes.shape_keys(), HALF, goal="COUNT", bones=8, bone_kind="trs")


def test_export_of_affine_bones():
    return _test(scenes.shape_keys(), HALF, goal="COUNT", bones=8, bone_kind="affine")


def test_export_of_a_skeleton():
    return _test([scenes.arm()[2]], CHAIN, goal="COUNT", bones=8, skeleton=True)


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]
