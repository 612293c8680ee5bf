"""Shape keys of Blender as faces: shapes_check.py BONESMITH

Builds a face with shape keys in Blender, exports it as glb, fbx, usdc and a folder of OBJ files, and runs `bonesmith shapes` on each. Names and
the offsets of every shape, as the result poses them, must be those of the shape keys.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import bpy
import numpy as np

SIDE = 15
# Of the largest offset.
NEAR = 0.02

KEYS = {
    "jawOpen": lambda p: bump(p, (0.0, -0.6), 0.5)[:, None] * [0.0, -0.3, 0.1],
    "smile_L": lambda p: bump(p, (0.5, -0.3), 0.35)[:, None] * [0.15, 0.2, 0.0],
    "smile_R": lambda p: bump(p, (-0.5, -0.3), 0.35)[:, None] * [-0.15, 0.2, 0.0],
    "browInnerUp": lambda p: bump(p, (0.0, 0.7), 0.4)[:, None] * [0.0, 0.15, 0.05],
}


def bump(points, centre, size):
    return np.exp(-np.sum((points[:, :2] - centre) ** 2, axis=1) / size**2)


def build():
    bpy.ops.wm.read_factory_settings(use_empty=True)
    x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE), indexing="ij")
    points = np.stack([x, y, 0.3 * (2 - x**2 - y**2)], axis=-1).reshape(-1, 3)
    faces = [
        (SIDE * i + j, SIDE * (i + 1) + j, SIDE * (i + 1) + j + 1, SIDE * i + j + 1) for i in range(SIDE - 1) for j in range(SIDE - 1)
    ]
    mesh = bpy.data.meshes.new("face")
    mesh.from_pydata(points.tolist(), [], faces)
    face = bpy.data.objects.new("face", mesh)
    bpy.context.scene.collection.objects.link(face)
    bpy.context.view_layer.objects.active = face
    face.select_set(True)
    face.shape_key_add(name="Basis")
    for name, offsets in KEYS.items():
        key = face.shape_key_add(name=name, from_mix=False)
        key.data.foreach_set("co", (points + offsets(points)).astype(np.float32).ravel())
    return face, points


def export(folder, face):
    bpy.ops.export_scene.gltf(filepath=str(folder / "face.glb"), export_format="GLB", export_morph=True)
    bpy.ops.export_scene.fbx(filepath=str(folder / "face.fbx"), object_types={"MESH"}, use_mesh_modifiers=False)
    bpy.ops.wm.usd_export(filepath=str(folder / "face.usdc"), export_shapekeys=True)
    objs = folder / "objs"
    objs.mkdir()
    for name in ["neutral", *KEYS]:
        for key in face.data.shape_keys.key_blocks[1:]:
            key.value = float(key.name == name)
        bpy.ops.wm.obj_export(filepath=str(objs / f"{name}.obj"), apply_modifiers=True, export_materials=False)


def offsets_of(model):
    """Offsets of each shape in a file of bones driven by shapes, from its own arrays."""
    data = np.load(model, allow_pickle=False)
    rest = np.asarray(data["rest"], np.float64)
    homogeneous = np.c_[rest, np.ones(len(rest))]
    names = [shape["name"] for shape in json.loads(str(data["shape_bones"]))["shapes"]]
    found = {}
    for name, bones in zip(names, data["bones"]):
        posed = np.einsum("nk,nkij,nj->ni", data["joint_weights"], bones[data["joint_indices"]], homogeneous)
        found[name] = posed - rest
    return rest, found


def compare(bonesmith, source, folder, points):
    out = folder / f"{source.stem}_{source.suffix.lstrip('.') or 'objs'}.npz"
    run = subprocess.run(
        [bonesmith, "shapes", str(source), "--bones", "16", "-o", str(out), "-q"], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        return run.stderr.strip().splitlines()[-1]
    rest, found = offsets_of(out)
    if sorted(found) != sorted(KEYS):
        return f"shapes {sorted(found)}"
    # Exporters turn axes and split vertices: lengths of offsets, by the nearest length of the source, are compared.
    for name, make in KEYS.items():
        wanted = np.sort(np.linalg.norm(make(points), axis=1))
        own = np.sort(np.linalg.norm(found[name], axis=1))
        wanted = np.interp(np.linspace(0, 1, len(own)), np.linspace(0, 1, len(wanted)), wanted)
        size = np.linalg.norm(rest.max(0) - rest.min(0)) / np.linalg.norm(points.max(0) - points.min(0))
        off = np.abs(own / size - wanted).max() / wanted.max()
        if off > NEAR:
            return f"{name} is off by {off:.3f} of its largest offset"
    return None


def main():
    bonesmith = sys.argv[1]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        face, points = build()
        export(folder, face)
        for source in ["face.glb", "face.fbx", "face.usdc", "objs"]:
            problem = compare(bonesmith, folder / source, folder, points)
            print(f"FAIL {source}: {problem}" if problem else f"ok   {source}: {len(KEYS)} shapes of Blender")
            passed, failed = passed + (not problem), failed + bool(problem)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
