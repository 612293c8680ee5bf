"""Blender as a judge: imports GLB, FBX and Alembic files and compares its evaluated vertices with what we say they are.

usage: blender_check.py FOLDER...

Each NAME.glb, NAME.fbx and NAME.abc of the folders is compared with what lies beside it, in glTF's axes (y up) and metres:
  NAME.json  {"fps", "rest": [[x,y,z]...], "frames": [{"frame", "positions"}...]}, and where the tree of bones matters
             "bones": [{"name", "parent": name or null, "head": [x,y,z]}...], "clips": [name...];
             "match": the frame by which vertices are identified, where that is not the rest pose (pieces that appear later), or
  NAME.npz   a rig as of docs/formats/npz.md, of which some frames are posed here.
A file named skeleton* is also looked at as one: an armature with the same tree, joints that only turn, and a joint
turned by hand that takes its limb along and nothing else.
Fails when any vertex of any frame is off by more than TOLERANCE of the model's size.
"""

import json
import sys
from pathlib import Path

import bpy
import numpy as np
from mathutils.kdtree import KDTree

TOLERANCE = 1e-4


def import_fresh(path, fps):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    # Blender puts keys at time x scene fps: the rate must be right before the import.
    bpy.context.scene.render.fps = fps
    bpy.context.scene.render.fps_base = 1.0
    # A format that Blender reads is one line here.
    {
        ".glb": lambda name: bpy.ops.import_scene.gltf(filepath=name),
        ".fbx": lambda name: bpy.ops.import_scene.fbx(filepath=name, anim_offset=0.0),
        ".abc": lambda name: bpy.ops.wm.alembic_import(filepath=name, as_background_job=False),
    }[path.suffix](str(path))


FORMATS = (".glb", ".fbx", ".abc")


def meshes():
    # The importer adds an icosphere as the bones' display shape; it is not part of the scene.
    return [o for o in bpy.context.scene.objects if o.type == "MESH" and not o.name.startswith("Icosphere")]


def positions(objects, evaluated):
    depsgraph = bpy.context.evaluated_depsgraph_get()
    parts = []
    for obj in objects:
        source = obj.evaluated_get(depsgraph) if evaluated else obj
        mesh = source.data
        points = np.empty(3 * len(mesh.vertices))
        mesh.vertices.foreach_get("co", points)
        world = np.array(source.matrix_world)
        points = points.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3]
        parts.append(np.stack([points[:, 0], points[:, 2], -points[:, 1]], axis=1))  # z up to y up
    return np.concatenate(parts)


def originals(rest, imported, size):
    """Which original vertex each imported one is: the nearest at rest. Test meshes have no two in one place."""
    tree = KDTree(len(rest))
    for index, point in enumerate(rest):
        tree.insert(point, index)
    tree.balance()
    found = [tree.find(point) for point in imported]
    worst = max(distance for _, _, distance in found)
    if worst > 1e-3 * size:
        raise ValueError(f"the rest pose is off by {worst:g}")
    nearest = np.array([index for _, index, _ in found])
    if len(set(nearest)) != len(rest):
        raise ValueError(f"{len(set(nearest))} of {len(rest)} vertices arrived")
    return nearest


def reference(path):
    """Frames per second, rest pose, and (frame, positions) of some frames."""
    if path.with_suffix(".json").exists():
        data = json.loads(path.with_suffix(".json").read_text())
        return data["fps"], np.array(data["rest"]), [(f["frame"], np.array(f["positions"])) for f in data["frames"]]
    data = np.load(path.with_suffix(".npz"))
    times, rest = data["times"], data["rest"].astype(float)
    weights, joints, points = data["joint_weights"], data["joint_indices"], np.c_[rest, np.ones(len(rest))]
    pose = lambda t: np.einsum("nk,nkij,nj->ni", weights, data["bones"][t][joints], points)
    fps = round(1 / (times[1] - times[0]))
    some = sorted({0, 1, len(times) // 3, len(times) // 2, len(times) - 1})
    return fps, rest, [(round(times[t] * fps), pose(t)) for t in some]


def expected_of(path):
    """What the reference says, where it is JSON."""
    return json.loads(path.with_suffix(".json").read_text()) if path.with_suffix(".json").exists() else {}


def check_bones(path, size):
    """Names, parents and places of the bones, and names of the animations, where the reference tells them."""
    expected = expected_of(path)
    if "bones" not in expected:
        return ""
    armature = next(o for o in bpy.context.scene.objects if o.type == "ARMATURE")
    found = {bone.name: bone for bone in armature.data.bones}
    if sorted(found) != sorted(bone["name"] for bone in expected["bones"]):
        raise ValueError(f"the bones are {sorted(found)}")
    for bone in expected["bones"]:
        parent = found[bone["name"]].parent
        if (parent.name if parent else None) != bone["parent"]:
            raise ValueError(f"{bone['name']} hangs on {parent}")
        head = armature.matrix_world @ found[bone["name"]].head_local
        off = float(np.linalg.norm(np.array([head.x, head.z, -head.y]) - bone["head"]))
        if off > TOLERANCE * size:
            raise ValueError(f"{bone['name']} is {off:g} from where it should be")
    actions = sorted(action.name for action in bpy.data.actions)
    lost = [clip for clip in expected["clips"] if not any(name == clip or name.startswith(clip + "_") for name in actions)]
    if lost:
        raise ValueError(f"no animation {lost}; there are {actions}")
    return f", {len(found)} bones by name, {len(expected['clips'])} clips"


def check(path):
    fps, rest, frames = reference(path)
    size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
    import_fresh(path, fps)
    tree = check_bones(path, size)
    objects = meshes()
    match = expected_of(path).get("match")
    if match is None:
        which = originals(rest, positions(objects, evaluated=False), size)
    else:
        bpy.context.scene.frame_set(match)
        which = originals(dict(frames)[match], positions(objects, evaluated=True), size)
    worst = 0.0
    moved = 0.0
    for frame, expected in frames:
        bpy.context.scene.frame_set(frame)
        found = positions(objects, evaluated=True)
        worst = max(worst, float(np.linalg.norm(found - expected[which], axis=1).max()))
        moved = max(moved, float(np.linalg.norm(expected - rest, axis=1).max()))
    return worst / size, moved / size, len(frames), tree


def tree_of(path):
    """Names, parents, joints and dense weights of a rig with a hierarchy."""
    data = np.load(path.with_suffix(".npz"))
    weights = np.zeros((len(data["rest"]), len(data["parents"])))
    np.add.at(weights, (np.arange(len(weights))[:, None], data["joint_indices"]), data["joint_weights"])
    return json.loads(str(data["bonesmith"]))["bone_names"], data["parents"], data["joint_positions"], weights


def check_skeleton(path, names, parents, joints, weights):
    """After check(): the file is still open in Blender."""
    armature = next(o for o in bpy.context.scene.objects if o.type == "ARMATURE")
    bones = armature.data.bones
    for name, parent in zip(names, parents):
        above = bones[name].parent
        expected = names[parent] if parent >= 0 else None
        assert (above.name if above else None) == expected, f"{name} hangs on {above}, not {expected}"
    moving = {curve.data_path for action in bpy.data.actions for curve in action.fcurves}
    for name, parent in zip(names, parents):
        bone_path = f'pose.bones["{name}"]'
        assert f"{bone_path}.scale" not in moving, f"{name} is scaled"
        assert parent < 0 or f"{bone_path}.location" not in moving, f"{name} is moved, not only turned"
    assert sum(p.endswith("rotation_quaternion") for p in moving) > 1
    # Turn the joint that takes the most vertices along, of those below the root.
    below = weights.copy()
    for j in range(len(parents) - 1, 0, -1):
        below[:, parents[j]] += below[:, j]
    limb = max((j for j in range(len(parents)) if parents[j] >= 0), key=lambda j: (below[:, j] > 0.999).sum())
    armature.animation_data_clear()
    for bone in armature.pose.bones:
        bone.matrix_basis.identity()
    bpy.context.view_layer.update()
    objects = meshes()
    rest = positions(objects, evaluated=True)
    armature.pose.bones[names[limb]].rotation_mode = "QUATERNION"
    armature.pose.bones[names[limb]].rotation_quaternion = (np.cos(0.4), np.sin(0.4), 0.0, 0.0)
    bpy.context.view_layer.update()
    turned = positions(objects, evaluated=True)
    which = originals(np.load(path.with_suffix(".npz"))["rest"], positions(objects, evaluated=False), 1e3)
    size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
    share = below[which, limb]
    moved = np.linalg.norm(turned - rest, axis=1)
    outside = moved[share < 1e-6]
    assert len(outside) and outside.max() < 1e-5 * size, f"turning {names[limb]} moves what is not its limb"
    # The limb turns about the joint: distances to it stay, and far vertices go far.
    inside = share > 0.999
    away = np.linalg.norm(rest[inside] - joints[limb], axis=1)
    again = np.linalg.norm(turned[inside] - joints[limb], axis=1)
    assert inside.sum() > 3 and abs(away - again).max() < 1e-4 * size, f"{names[limb]} does not turn about its joint"
    assert moved[inside].max() > 0.02 * size, f"turning {names[limb]} moves nothing"
    return f"; an armature of {len(names)} bones, {names[limb]} turned by hand moves its {inside.sum()} vertices"


def main(folders):
    judged = lambda path: path.with_suffix(".json").exists() or path.with_suffix(".npz").exists()
    inside = (path for folder in folders for path in sorted(Path(folder).iterdir()) if path.suffix in FORMATS)
    files = [path for path in inside if judged(path)]
    if not files:
        print(f"no {', '.join(FORMATS)} with a .json or .npz beside it in {folders}")
        return 2
    failed = 0
    for path in files:
        try:
            error, moved, frames, tree = check(path)
            passed = error <= TOLERANCE
            skeleton = check_skeleton(path, *tree_of(path)) if path.stem.startswith("skeleton") else ""
            text = f"largest error {error:.2e} of the size over {frames} frames (it moves by {moved:.2f}){tree}{skeleton}"
        except Exception as problem:  # a file that Blender refuses is a failure like any other
            passed, text = False, f"{type(problem).__name__}: {problem}"
        failed += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {path.name}: {text}", flush=True)
    print(f"{len(files) - failed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
