"""Scenes in Blender: what goes in comes out. scene_check.py BONESMITH [FILES]

Writes a scene of its own (two meshes below a node, one of them with morph targets, one that stands still, two clips of different lengths), converts it with BONESMITH to glb, usda
and fbx, and on from one to the next, and compares each with the source: names of objects, what they hang on, materials, clips and their
lengths, and where every vertex is at several times of every clip. So are two scenes of `instanced_scene`, in which objects must share their meshes as before. With FILES, a folder, the scenes
in it too. Then the other way round: objects below each other that Blender writes as Alembic come back from a glb.
"""

import json
import math
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import bpy
import numpy as np
from mathutils.kdtree import KDTree

import instanced_scene

# Of the size of the model.
NEAR = 1e-4
FPS = 24
# Files compared.
COUNTED = [0]


def own_scene(path):
    """A body and a hat with two morph targets on two joints below `actor`, a floor of its own; clips `walk` and `wave`."""
    blob, views, accessors = bytearray(), [], []

    def accessor(values, kind, component, target=None, bounds=False):
        array = np.asarray(values, {5126: np.float32, 5123: np.uint16, 5121: np.uint8}[component])
        while len(blob) % 4:
            blob.append(0)
        view = {"buffer": 0, "byteOffset": len(blob), "byteLength": array.nbytes}
        views.append({**view, "target": target} if target else view)
        blob.extend(array.tobytes())
        entry = {"bufferView": len(views) - 1, "componentType": component, "count": len(array), "type": kind}
        if bounds:
            flat = array.reshape(len(array), -1)
            entry.update(min=flat.min(0).tolist(), max=flat.max(0).tolist())
        accessors.append(entry)
        return len(accessors) - 1

    def mesh(name, at, material, joints, targets=()):
        # A tube of rings, so that there is something to bend.
        rings = [(math.cos(a), y / 4, math.sin(a)) for y in range(9) for a in np.linspace(0, 2 * math.pi, 8, endpoint=False)]
        points = np.array(rings) * [0.3, 1.0, 0.3] + at
        faces = [
            corner
            for y in range(8)
            for a in range(8)
            for corner in (
                8 * y + a, 8 * y + 8 + a, 8 * y + (a + 1) % 8, 8 * y + (a + 1) % 8, 8 * y + 8 + a, 8 * y + 8 + (a + 1) % 8,
            )
        ]
        attributes = {"POSITION": accessor(points, "VEC3", 5126, 34962, True)}
        if joints:
            share = np.clip((points[:, 1] - at[1]) / 2, 0, 1)
            weights = np.stack([1 - share, share, 0 * share, 0 * share], 1)
            attributes["JOINTS_0"] = accessor([[0, 1, 0, 0]] * len(points), "VEC4", 5121, 34962)
            attributes["WEIGHTS_0"] = accessor(weights, "VEC4", 5126, 34962)
        primitive = {"attributes": attributes, "indices": accessor(faces, "SCALAR", 5123, 34963), "material": material}
        entry = {"name": name, "primitives": [primitive]}
        if targets:
            moved = {"wide": (points - at) * [1, 0, 1], "tall": np.maximum(points - at - [0, 1, 0], 0) * [0, 1, 0]}
            primitive["targets"] = [{"POSITION": accessor(moved[name], "VEC3", 5126, bounds=True)} for name in targets]
            entry |= {"weights": [0] * len(targets), "extras": {"targetNames": list(targets)}}
        return entry

    meshes = [
        mesh("body_mesh", [0, 0, 0], 0, True),
        mesh("hat", [0, 2, 0], 1, True, ("wide", "tall")),
        mesh("floor_mesh", [0, 0, 0], 0, False),
    ]

    def clip(name, fps, frames, amount):
        times = accessor([[t / fps] for t in range(frames)], "SCALAR", 5126, bounds=True)
        angles = [amount * math.sin(3 * t / fps) for t in range(frames)]
        turns = lambda axis: [[*(math.sin(a / 2) * np.array(axis)), math.cos(a / 2)] for a in angles]
        samplers = [
            {"input": times, "output": accessor(turns(axis), "VEC4", 5126), "interpolation": "LINEAR"}
            for axis in ([0, 0, 1], [1, 0, 0])
        ]
        channels = [{"sampler": s, "target": {"node": 4 + s, "path": "rotation"}} for s in range(2)]
        weights = [[w] for t in range(frames) for w in (amount * t / frames, (1 - amount / 2) * (1 - t / frames))]
        samplers.append({"input": times, "output": accessor(weights, "SCALAR", 5126), "interpolation": "LINEAR"})
        channels.append({"sampler": 2, "target": {"node": 3, "path": "weights"}})
        return {"name": name, "samplers": samplers, "channels": channels}

    binds = np.stack([np.eye(4), np.eye(4)])
    binds[1, 3, 1] = -1.0
    root = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [
            {"name": "stage", "children": [1, 6]},
            {"name": "actor", "children": [2, 3, 4]},
            {"name": "body", "mesh": 0, "skin": 0},
            {"name": "hat", "mesh": 1, "skin": 0},
            {"name": "hip", "children": [5]},
            {"name": "head", "translation": [0, 1, 0]},
            {"name": "props", "translation": [0, 0, 3], "children": [7]},
            {"name": "floor", "mesh": 2, "rotation": [0, 0, math.sin(0.4), math.cos(0.4)], "scale": [2, 1, 0.5]},
        ],
        "meshes": meshes,
        "materials": [
            {"name": "red", "pbrMetallicRoughness": {"baseColorFactor": [1, 0, 0, 1]}},
            {"name": "blue", "pbrMetallicRoughness": {"baseColorFactor": [0, 0, 1, 1]}},
        ],
        "skins": [
            {"joints": [4, 5], "skeleton": 4, "inverseBindMatrices": accessor(binds.reshape(2, 16), "MAT4", 5126)}
        ],
        "animations": [clip("walk", 24, 25, 0.6), clip("wave", 30, 16, 1.0)],
        "accessors": accessors,
        "bufferViews": views,
    }
    root["buffers"] = [{"byteLength": len(blob)}]
    text = json.dumps(root).encode()
    text += b" " * (-len(text) % 4)
    blob.extend(b"\0" * (-len(blob) % 4))
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(blob), 0x004E4942) + bytes(blob)
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)


def load(path):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.fps, scene.render.fps_base = FPS, 1.0
    ending = path.suffix.lower()
    if ending == ".glb":
        bpy.ops.import_scene.gltf(filepath=str(path))
    elif ending == ".fbx":
        bpy.ops.import_scene.fbx(filepath=str(path), anim_offset=0.0)
    else:
        bpy.ops.wm.usd_import(filepath=str(path))
        # Frames are time codes.
        rate = re.search(r"timeCodesPerSecond = ([0-9.]+)", path.read_text())
        scene.render.fps, scene.render.fps_base = 1000, 1000 / float(rate[1])


def play(clip):
    """Plays the clip on everything that it moves; returns its length in seconds."""
    rate = bpy.context.scene.render.fps / bpy.context.scene.render.fps_base
    lengths = []
    for owner in (*bpy.data.objects, *bpy.data.shape_keys):
        data = owner.animation_data
        if data is None:
            continue
        for track in data.nla_tracks:
            track.mute = True
        strips = [strip.action for track in data.nla_tracks if track.name == clip for strip in track.strips]
        own = [(action, slot) for action in strips or named(clip) if (slot := slot_of(action, owner)) is not None]
        possible = [action for action in bpy.data.actions if slot_of(action, owner) is not None]
        if not own and data.action is not None and len(possible) == 1:
            own = [(data.action, slot_of(data.action, owner))]
        # Another clip's.
        data.action = None
        # Importers of FBX make an action for each.
        own.sort(key=lambda pair: not pair[0].name.startswith(f"{owner.name}|"))
        if own:
            data.action, data.action_slot = own[0]
            lengths.append((own[0][0].frame_range[1] - own[0][0].frame_range[0]) / rate)
    return max(lengths, default=None)


def named(clip):
    """Actions of a clip: importers put the names of what it moves before it, and those of layers after it. Names are cut off at 63 letters."""
    return [action for action in bpy.data.actions if f"|{clip}|" in f"|{action.name}|" or action.name.endswith(f"|{clip}"[:40])]


def slot_of(action, owner):
    """The part of an action that is for this object or these shape keys."""
    slots = [slot for slot in action.slots if slot.target_id_type == owner.id_type]
    own = [slot for slot in slots if slot.name_display == owner.name]
    # A file with one object of this kind that moves calls it as it likes.
    return (own or (slots if len(slots) == 1 else [None]))[0]


def shown():
    return [obj for obj in bpy.context.scene.objects if obj.type == "MESH" and not obj.name.startswith("Icosphere")]


def outline():
    """Each mesh: its materials. Bonesmith writes one without a name where the source has none; Blender calls it Material_0."""
    named = lambda slot: slot.material and slot.material.name != "Material_0"
    return {
        plain(obj.name): sorted(plain(slot.material.name) for slot in obj.material_slots if named(slot))
        for obj in shown()
    }


def plain(name):
    """Without the number that Blender adds to a name that something else has."""
    return name.rsplit(".", 1)[0] if name.rsplit(".", 1)[-1].isdigit() else name


def parents():
    """Each mesh: all that it hangs on, the nearest first. Importers make one object of a skeleton and what holds it, which has the name of either."""

    def above(obj):
        return [plain(obj.parent.name), *above(obj.parent)] if obj.parent else []

    return {plain(obj.name): above(obj) for obj in shown()}


def positions(secs):
    scene = bpy.context.scene
    frame = secs * scene.render.fps / scene.render.fps_base
    scene.frame_set(int(frame // 1), subframe=frame % 1)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    out = {}
    for obj in shown():
        # Blender 4.5 puts what hangs on a bone of RobotExpressive.glb at the other end of the bone; three.js and the specification at its start.
        if obj.parent_type == "BONE":
            continue
        source = obj.evaluated_get(depsgraph)
        points = np.empty(3 * len(source.data.vertices))
        source.data.vertices.foreach_get("co", points)
        world = np.array(source.matrix_world)
        out[plain(obj.name)] = points.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3]
    return out


def farthest(a, b):
    """Largest distance from a point of either to the nearest of the other: importers split and merge vertices."""
    worst = 0.0
    for one, other in ((a, b), (b, a)):
        tree = KDTree(len(other))
        for at, point in enumerate(other):
            tree.insert(point, at)
        tree.balance()
        worst = max([worst, *(tree.find(point)[2] for point in one)])
    return worst


def look(path, clips):
    """Everything to compare, at the start, the middle and the end of each clip."""
    poses, lengths = {}, {}
    for clip, times in clips.items():
        # Anew: what a clip does not move would stay as the one before has left it.
        load(path)
        lengths[clip] = play(clip)
        for secs in times:
            poses[clip, secs] = positions(secs)
    return {"outline": outline(), "parents": parents(), "shapes": shapes(), "poses": poses, "lengths": lengths}


def shapes():
    """Names of the shapes of each mesh that move a vertex: Blender leaves others out of a USD file."""

    def points(block):
        found = np.empty(3 * len(block.data), np.float32)
        block.data.foreach_get("co", found)
        return found

    def moving(key):
        rest = points(key.key_blocks[0])
        return [block.name for block in key.key_blocks[1:] if np.abs(points(block) - rest).max() > 0]

    keys = {plain(obj.name): obj.data.shape_keys for obj in shown()}
    return {name: moving(key) for name, key in keys.items() if key}


def clips_of(path):
    """Name and times of the animations of a glb: the first and the last key, and two between them. Only keys: elsewhere programs interpolate differently."""
    data = path.read_bytes()
    length = struct.unpack("<I", data[12:16])[0]
    root, blob = json.loads(data[20 : 20 + length]), data[28 + length :]
    found = {}
    most = max((len(animation["channels"]) for animation in root.get("animations", [])), default=0)
    for animation in root.get("animations", []):
        # Blender leaves bones without keys as another clip has them (Idle of RobotExpressive.glb, 0.3 % of the size): only clips that move most of them.
        if 2 * len(animation["channels"]) < most:
            continue
        keys = []
        for accessor in (root["accessors"][sampler["input"]] for sampler in animation["samplers"]):
            view = root["bufferViews"][accessor["bufferView"]]
            start = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
            keys.append(np.frombuffer(blob, np.float32, accessor["count"], start))
        own = max(keys, key=len)
        ends = [min(k[0] for k in keys), max(k[-1] for k in keys)]
        # Curves with other keys would be interpolated in between.
        between = [own[len(own) // 3], own[2 * len(own) // 3]] if all(set(k) <= set(own) and len(k) in (1, len(own)) for k in keys) else []
        found[animation["name"]] = sorted({float(t) for t in [*ends, *between]})
    return found


def compare(what, truth, found, tolerance, failures, groups=()):
    COUNTED[0] += 1
    usd = lambda names: {name.replace(".", "_"): value for name, value in names.items()}
    if "-> usda" in what:
        truth = {**truth, "outline": usd(truth["outline"]), "shapes": usd(truth["shapes"]), "poses": {k: usd(v) for k, v in truth["poses"].items()}}
    size = max(np.ptp(np.concatenate(list(pose.values())), axis=0).max() for pose in truth["poses"].values())
    worst = 0.0
    if truth["outline"] != found["outline"]:
        failures.append(f"{what}: objects and materials {found['outline']}, expected {truth['outline']}")
        return
    if truth["shapes"] != found["shapes"]:
        failures.append(f"{what}: shapes {found['shapes']}, expected {truth['shapes']}")
    # Of the nodes of the source: writers and importers add some of their own.
    known = lambda chains: {name.replace(".", "_"): [above for above in chain if above in groups] for name, chain in chains.items()}
    if known(truth["parents"]) != known(found["parents"]):
        failures.append(f"{what}: parents {found['parents']}, expected {truth['parents']}")
    for clip, length in found["lengths"].items():
        if clip and (length is None or abs(length - truth["lengths"][clip]) > 1e-3):
            failures.append(f"{what}: clip {clip} is {length} s long, expected {truth['lengths'][clip]}")
    for key, pose in found["poses"].items():
        for name, points in pose.items():
            if name not in truth["poses"][key]:
                continue
            worst = max(worst, farthest(points, truth["poses"][key][name]) / size)
    if not worst <= tolerance:
        failures.append(f"{what}: vertices are off by {worst:.1e} of the size")
    count = sum(map(len, found["shapes"].values()))
    print(f"{what}: {len(found['outline'])} meshes, {count} shapes, {len(found['lengths'])} clips, off by {worst:.1e} of the size")


def groups_of(path):
    """Nodes of a glb that are neither meshes nor bones, nor hold bones: those are one object with them in Blender."""
    data = path.read_bytes()
    root = json.loads(data[20 : 20 + struct.unpack("<I", data[12:16])[0]])
    joints = {joint for skin in root.get("skins", []) for joint in skin["joints"]}
    holds = lambda node: any(child in joints for child in node.get("children", []))
    return {node["name"] for n, node in enumerate(root["nodes"]) if n not in joints and "mesh" not in node and not holds(node)}


def shared(path):
    """Groups of objects that show one mesh. After a look at the file: what Blender has loaded is asked for those of FBX."""
    groups = {}
    if path.suffix == ".glb":
        data = path.read_bytes()
        root = json.loads(data[20 : 20 + struct.unpack("<I", data[12:16])[0]])
        for node in root["nodes"]:
            if "mesh" in node:
                groups.setdefault(node["mesh"], []).append(node["name"])
    elif path.suffix == ".fbx":
        for obj in shown():
            groups.setdefault(obj.data.name, []).append(plain(obj.name))
    else:
        for name, entries in re.findall(r'def Mesh "(\w+)" \((.*?)\n\s*\)\n', path.read_text(), re.S):
            source = re.search(r"references = <.*/(\w+)>", entries)
            groups.setdefault(source[1] if source else name, []).append(name)
    return sorted(tuple(sorted(names)) for names in groups.values() if len(names) > 1)


def check_shared(what, source, out, failures):
    """Objects share meshes as in the source. In FBX a skin belongs to a mesh: flags, which bend, have one each."""
    if source.stem not in ("flags", "nodes"):
        return
    COUNTED[0] += 1
    bends = out.suffix == ".fbx" or source.stem == "nodes"
    expected = sorted(names for names in instanced_scene.SHARED if not (bends and names[0].startswith("flag")))
    if shared(out) != expected:
        failures.append(f"{what}: objects that share meshes {shared(out)}, expected {expected}")


def alembic(bonesmith, folder, failures):
    """A ball that is stretched, and a box that moves, below an object that turns."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.fps, scene.frame_start, scene.frame_end = FPS, 0, 12
    bpy.ops.object.empty_add()
    stage = bpy.context.object
    stage.name = "stage"
    bpy.ops.mesh.primitive_uv_sphere_add(segments=12, ring_count=8)
    ball = bpy.context.object
    bpy.ops.mesh.primitive_cube_add(location=(3, 0, 0))
    box = bpy.context.object
    ball.name, box.name = "ball", "box"
    ball.shape_key_add(name="Basis")
    key = ball.shape_key_add(name="long")
    for vertex in key.data:
        vertex.co.z *= 2
    for obj in (ball, box):
        obj.parent = stage
    for frame, amount in ((0, 0.0), (12, 1.0)):
        stage.rotation_euler.z, box.location.y, key.value = amount, 2 * amount, amount
        stage.keyframe_insert("rotation_euler", frame=frame)
        box.keyframe_insert("location", frame=frame)
        key.keyframe_insert("value", frame=frame)
    times = [0.0, 5 / FPS, 12 / FPS]
    truth = {secs: positions(secs) for secs in times}
    bpy.ops.wm.alembic_export(filepath=str(folder / "own.abc"), start=0, end=12)
    run = subprocess.run([bonesmith, "convert", "-q", folder / "own.abc", folder / "own_abc.glb"], capture_output=True, text=True)
    COUNTED[0] += 1
    if run.returncode:
        failures.append(f"own.abc -> glb: {run.stderr}")
        return
    load(folder / "own_abc.glb")
    if parents() != {"ball": ["stage"], "box": ["stage"]}:
        failures.append(f"own.abc -> glb: objects {parents()}")
        return
    worst = max(farthest(points, truth[secs][name]) for secs in times for name, points in positions(secs).items())
    print(f"own.abc -> glb: 2 meshes, off by {worst:.1e}")
    if not worst <= 5 * NEAR:
        failures.append(f"own.abc -> glb: vertices are off by {worst:.1e}")


def main():
    bonesmith = Path(sys.argv[1]).resolve()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        sources = [folder / "own.glb"]
        own_scene(sources[0])
        for name in ("flags", "nodes"):
            sources.append(folder / f"{name}.glb")
            instanced_scene.write(sources[-1], name == "flags")
        for name in ("Soldier.glb", "RobotExpressive.glb", "gears.glb", "facecap.glb"):
            path = Path(sys.argv[2]) / "scenes" / name if len(sys.argv) > 2 else None
            if path and path.exists() and b"EXT_meshopt_compression" in path.read_bytes():
                # Blender reads no meshopt: from our own copy on.
                sources.append(folder / name)
                subprocess.run([bonesmith, "convert", "-q", path, sources[-1]], check=True)
            elif path and path.exists():
                sources.append(path)
            elif path:
                print(f"SKIPPED: {path} is not there")
        for source in sources:
            # Four clips are enough of a file that has many.
            times = dict(list(clips_of(source).items())[:4]) or {"": [0.0]}
            # Blender hangs skinned meshes of a glb on the skeleton: what our own copy hangs on says nothing of the source.
            truth, groups = look(source, times), () if source.name == "facecap.glb" else groups_of(source)
            previous = source
            for ending in ("glb", "usda", "fbx", "glb"):
                out = folder / f"{source.stem}_{previous.suffix[1:]}.{ending}"
                run = subprocess.run([bonesmith, "convert", "-q", previous, out], capture_output=True, text=True)
                if run.returncode:
                    failures.append(f"{source.name} -> {ending}: {run.stderr}")
                    break
                what = f"{source.name}: {previous.suffix[1:]} -> {ending}"
                if ending != "usda":
                    compare(what, truth, look(out, times), NEAR, failures, groups)
                check_shared(what, source, out, failures)
                # Blender plays the one animation of a USD file that is bound: a file for each clip.
                for clip in times if ending == "usda" else ():
                    single = folder / f"{source.stem}_{clip}.usda"
                    only = ["--clip", clip] if clip else []
                    subprocess.run([bonesmith, "convert", "-q", *only, previous, single], check=True)
                    compare(f"{what}, clip {clip}", truth, look(single, {clip: times[clip]}), NEAR, failures, groups)
                previous = out
        alembic(bonesmith, folder, failures)
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{max(COUNTED[0] - len(failures), 0)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
