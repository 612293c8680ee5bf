"""Pixar's own library as a judge: opens USD files, skins them, and compares with what we say they are.

usage: usd_check.py FOLDER...

Each NAME.usda, .usdc or .usdz with a file NAME.ENDING.json beside it (positions in the file's own axes, of some times;
"bones": joints that are bones, 0 for a point cache; "meshes": how many meshes there are, one after the other) is opened with usd-core. Checked are: the positions, skinned by
UsdSkel or sampled; up axis, unit and rate; joint indices in range, weights that sum to 1, array sizes, extents; and
what UsdValidation finds. Fails when any vertex is off by more than TOLERANCE of the model's size.
"""

import json
import sys
from pathlib import Path

import numpy as np
from pxr import Usd, UsdGeom, UsdSkel
from usd_judge import judge

TOLERANCE = 1e-4
# Findings that are not about the file: plug-ins that a bare usd-core lacks.
IGNORED = ()


def need(condition, text):
    if not condition:
        raise ValueError(text)


def the_meshes(stage, truth):
    meshes = [UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh)]
    names = truth.get("meshes")
    need(len(meshes) == len(names or [""]), f"{len(meshes)} meshes")
    for mesh, name in zip(meshes, names or []):
        pieces = name.startswith("piece_")
        need(not pieces or mesh.GetPrim().GetName() == name, f"{mesh.GetPrim().GetName()} should be {name}")
    return meshes


def check_layer(stage, truth):
    need(UsdGeom.GetStageUpAxis(stage) == truth["up"], f"up axis {UsdGeom.GetStageUpAxis(stage)}")
    unit = UsdGeom.GetStageMetersPerUnit(stage)
    need(abs(unit - truth["metres_per_unit"]) < 1e-9, f"metersPerUnit {unit}")
    need(abs(stage.GetTimeCodesPerSecond() - truth["fps"]) < 1e-6, f"{stage.GetTimeCodesPerSecond()} time codes a second")
    need(bool(stage.GetDefaultPrim()), "no default prim")


def check_faces(mesh, vertices):
    counts = np.array(mesh.GetFaceVertexCountsAttr().Get() or [], int)
    corners = np.array(mesh.GetFaceVertexIndicesAttr().Get() or [], int)
    need(counts.sum() == len(corners), "faces and corners do not fit")
    need(not len(corners) or (corners.min() >= 0 and corners.max() < vertices), "a corner names no vertex")
    sizes = {"constant": 1, "uniform": len(counts), "vertex": vertices, "varying": vertices, "faceVarying": len(corners)}
    for primvar in UsdGeom.PrimvarsAPI(mesh).GetPrimvarsWithValues():
        expected = sizes[primvar.GetInterpolation()] * primvar.GetElementSize()
        flat = primvar.ComputeFlattened()
        if primvar.GetName() == "primvars:skel:geomBindTransform":
            continue
        need(len(flat) == expected, f"{primvar.GetName()}: {len(flat)} values, {expected} expected")


def skinned(stage, mesh, truth):
    """A function from time codes to positions in the world, by UsdSkel's own evaluation."""
    root = UsdSkel.Root.Find(mesh.GetPrim())
    need(bool(root), "no SkelRoot")
    cache = UsdSkel.Cache()
    cache.Populate(root, Usd.PrimDefaultPredicate)
    skinning = cache.GetSkinningQuery(mesh.GetPrim())
    binding = UsdSkel.BindingAPI(mesh).GetInheritedSkeleton()
    skeleton = cache.GetSkelQuery(binding)
    need(bool(skeleton) and skinning.HasJointInfluences(), "no skeleton")
    need(skeleton.HasBindPose() and skeleton.HasRestPose(), "no bind or rest pose")
    valid, reason = skeleton.GetTopology().Validate()
    need(valid, f"the joints are no tree: {reason}")
    joints = len(skeleton.GetJointOrder())
    need(joints >= truth["bones"], f"{joints} joints")
    indices = np.array(skinning.GetJointIndicesPrimvar().Get()).reshape(-1, skinning.GetNumInfluencesPerComponent())
    weights = np.array(skinning.GetJointWeightsPrimvar().Get()).reshape(indices.shape)
    need(indices.min() >= 0 and indices.max() < joints, "a vertex names no joint")
    need(weights.min() >= 0 and abs(weights.sum(axis=1) - 1).max() < 1e-5, "weights do not sum to 1")
    names = list(skeleton.GetSkeleton().GetJointNamesAttr().Get() or [])
    need(len(names) == joints and len(set(names)) == joints, "names of joints")
    shapes = UsdSkel.BlendShapeQuery(UsdSkel.BindingAPI(mesh)) if skinning.HasBlendShapes() else None

    def positions(code):
        points = mesh.GetPointsAttr().Get(code)
        if shapes is not None:
            query = skeleton.GetAnimQuery()
            own = query.ComputeBlendShapeWeights(code)
            own = skinning.GetBlendShapeMapper().Remap(own) if skinning.GetBlendShapeMapper() else own
            own = own[0] if isinstance(own, tuple) else own
            sub = shapes.ComputeSubShapeWeights(own)
            shapes.ComputeDeformedPoints(*sub, shapes.ComputeBlendShapePointIndices(), shapes.ComputeSubShapePointOffsets(), points)
        transforms = skeleton.ComputeSkinningTransforms(code)
        need(skinning.ComputeSkinnedPoints(transforms, points, code), "UsdSkel does not skin it")
        world = np.array(UsdGeom.XformCache(code).GetLocalToWorldTransform(skeleton.GetPrim()))
        return np.array(points, float) @ world[:3, :3] + world[3, :3]

    return positions


def sampled(stage, mesh):
    def positions(code):
        points = np.array(mesh.GetPointsAttr().Get(code), float)
        low, high = np.array(mesh.GetExtentAttr().Get(code), float)
        size = np.linalg.norm(high - low)
        need(abs(points.min(axis=0) - low).max() <= 1e-6 * size, "the extent is not that of the points")
        need(abs(points.max(axis=0) - high).max() <= 1e-6 * size, "the extent is not that of the points")
        world = np.array(UsdGeom.XformCache(code).GetLocalToWorldTransform(mesh.GetPrim()))
        return points @ world[:3, :3] + world[3, :3]

    return positions


def validate(stage):
    """Errors that UsdValidation finds, where this usd-core has it."""
    try:
        from pxr import UsdValidation
    except ImportError:
        return []
    registry = UsdValidation.ValidationRegistry()
    validators = registry.GetOrLoadAllValidators()
    errors = UsdValidation.ValidationContext(validators).Validate(stage)
    return [f"{e.GetName()}: {e.GetMessage()}" for e in errors if e.GetName() not in IGNORED]


def check(path):
    truth = json.loads(Path(f"{path}.json").read_text())
    stage = Usd.Stage.Open(str(path))
    check_layer(stage, truth)
    meshes = the_meshes(stage, truth)
    rest = np.array(truth["rest"])
    size = float(np.linalg.norm(rest.max(axis=0) - rest.min(axis=0)))
    is_skinned = lambda mesh: bool(truth["bones"]) and mesh.GetPrim().HasAttribute("primvars:skel:jointIndices")
    need(bool(truth["bones"]) == any(map(is_skinned, meshes)), "no skinned mesh")
    for mesh in meshes:
        check_faces(mesh, len(mesh.GetPointsAttr().Get(Usd.TimeCode.EarliestTime())))
    parts = [skinned(stage, mesh, truth) if is_skinned(mesh) else sampled(stage, mesh) for mesh in meshes]
    positions = lambda code: np.concatenate([part(code) for part in parts])
    worst = moved = 0.0
    for frame in truth["frames"]:
        found = positions(Usd.TimeCode(frame["secs"] * stage.GetTimeCodesPerSecond()))
        expected = np.array(frame["positions"])
        need(found.shape == expected.shape, f"{len(found)} vertices")
        worst = max(worst, float(np.linalg.norm(found - expected, axis=1).max()))
        moved = max(moved, float(np.linalg.norm(expected - rest, axis=1).max()))
    found = validate(stage)
    need(not found, "; ".join(found[:4]))
    return worst / size, moved / size, len(truth["frames"])


if __name__ == "__main__":
    sys.exit(judge(sys.argv[1:], check, TOLERANCE))
