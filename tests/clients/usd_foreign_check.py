"""Pixar's own library as a writer: makes stages as other programs do, and looks at what bonesmith reads from them.

usage: usd_foreign_check.py BONESMITH

Each case is authored with usd-core, saved as text, binary and archive, read with `bonesmith convert ... out.npz`, and compared with
what usd-core itself computes: positions in the world, skinned by UsdSkel. Fails beyond TOLERANCE of the size. Then the other way round: a
file of several clips that bonesmith writes has a variant for each, and usd-core finds each clip's frames in it; instances refer to one prim, and move as in their source.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from pxr import Gf, Sdf, Ts, Usd, UsdGeom, UsdShade, UsdSkel, UsdUtils, Vt

import instanced_scene

TOLERANCE = 1e-5
CODES = [1.0, 2.0, 3.5, 7.0]


def points_at(rows, columns, wave):
    x, y = np.meshgrid(np.linspace(0, 2, columns), np.linspace(0, 1, rows))
    return np.stack([x, y, 0.3 * np.sin(3 * x + wave)], axis=-1).reshape(-1, 3).astype(np.float32)


def grid(stage, path, rows=12, columns=20):
    """A sheet of quads; enough of them that integers are compressed."""
    mesh = UsdGeom.Mesh.Define(stage, path)
    corner = lambda r, c: r * columns + c
    faces = [(corner(r, c), corner(r, c + 1), corner(r + 1, c + 1), corner(r + 1, c)) for r in range(rows - 1) for c in range(columns - 1)]
    mesh.CreateFaceVertexCountsAttr([4] * len(faces))
    mesh.CreateFaceVertexIndicesAttr([int(v) for face in faces for v in face])
    mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points_at(rows, columns, 0.0)))
    st = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.faceVarying)
    st.Set(Vt.Vec2fArray.FromNumpy(np.zeros((len(faces) * 4, 2), np.float32)))
    st.SetIndices(Vt.IntArray(list(range(len(faces) * 4))))
    return mesh


def cache(stage, folder):
    """Animated points below animated transforms."""
    root = UsdGeom.Xform.Define(stage, "/World")
    turn = root.AddRotateXYZOp()
    root.AddTransformOp(opSuffix="odd").Set(Gf.Matrix4d(1, 0, 0, 0, 0.2, 1, 0, 0, 0, 0, 1, 0, 3, 2, 1, 1))
    mesh = grid(stage, "/World/sheet")
    move = mesh.AddTranslateOp()
    for code in CODES:
        turn.Set(Gf.Vec3f(10 * code, 5, code), code)
        move.Set(Gf.Vec3d(code, 0, -code), code)
        mesh.GetPointsAttr().Set(Vt.Vec3fArray.FromNumpy(points_at(12, 20, code)), code)
    return [mesh]


def referenced(stage, folder):
    """The same asset twice, once later in time and moved."""
    asset = Usd.Stage.CreateNew(str(folder / "asset.usdc"))
    asset.SetDefaultPrim(UsdGeom.Xform.Define(asset, "/asset").GetPrim())
    mesh = grid(asset, "/asset/sheet")
    for code in (0.0, 2.0, 4.0):
        mesh.GetPointsAttr().Set(Vt.Vec3fArray.FromNumpy(points_at(12, 20, code)), code)
    asset.Save()
    stage.DefinePrim("/a", "Xform").GetReferences().AddReference("./asset.usdc", layerOffset=Sdf.LayerOffset(1.0, 0.5))
    other = UsdGeom.Xform.Define(stage, "/b")
    other.GetPrim().GetPayloads().AddPayload("./asset.usdc")
    other.AddScaleOp().Set(Gf.Vec3f(1, 2, 3))
    return [UsdGeom.Mesh(stage.GetPrimAtPath(path)) for path in ("/a/sheet", "/b/sheet")]


def skinned(stage, folder):
    """A chain of joints, some scaled, over a bind transform; joints of the mesh in their own order."""
    UsdSkel.Root.Define(stage, "/rig").AddTranslateOp().Set(Gf.Vec3d(0, 5, 0))
    skeleton = UsdSkel.Skeleton.Define(stage, "/rig/skeleton")
    joints = ["a", "a/b", "a/b/c"]
    binds = [Gf.Matrix4d(1).SetTranslate(Gf.Vec3d(0.7 * k, 0.1, 0)) for k in range(3)]
    skeleton.CreateJointsAttr(joints)
    skeleton.CreateBindTransformsAttr(binds)
    skeleton.CreateRestTransformsAttr([binds[0]] + [binds[k] * binds[k - 1].GetInverse() for k in (1, 2)])
    animation = UsdSkel.Animation.Define(stage, "/rig/anim")
    animation.CreateJointsAttr(["a/b", "a/b/c"])
    for code in CODES:
        turn = Gf.Rotation(Gf.Vec3d(0, 0.6, 0.8), 12 * code).GetQuat()
        animation.CreateTranslationsAttr().Set([(0.7, 0, 0.01 * code), (0.7, 0, 0)], code)
        animation.CreateRotationsAttr().Set([Gf.Quatf(turn), Gf.Quatf(turn.GetInverse())], code)
        animation.CreateScalesAttr().Set([Gf.Vec3h(1, 1.5, 1), Gf.Vec3h(0.75, 1, 1)], code)
    UsdSkel.BindingAPI.Apply(skeleton.GetPrim()).CreateAnimationSourceRel().SetTargets(["/rig/anim"])
    mesh = grid(stage, "/rig/sheet")
    binding = UsdSkel.BindingAPI.Apply(mesh.GetPrim())
    binding.CreateSkeletonRel().SetTargets(["/rig/skeleton"])
    binding.CreateJointsAttr(["a/b/c", "a", "a/b"])
    binding.CreateGeomBindTransformAttr(Gf.Matrix4d(1).SetTranslate(Gf.Vec3d(-0.1, 0, 0.2)))
    count = len(mesh.GetPointsAttr().Get())
    share = np.linspace(0, 1, count)
    binding.CreateJointIndicesPrimvar(False, 2).Set(Vt.IntArray([0, 1] * (count // 2) + [2, 0] * (count - count // 2)))
    weights = np.stack([share, 1 - share], axis=1).reshape(-1).astype(np.float32)
    binding.CreateJointWeightsPrimvar(False, 2).Set(Vt.FloatArray.FromNumpy(weights))
    return [mesh]


def clip_layer(path, first, codes):
    layer = Usd.Stage.CreateNew(str(path))
    points = UsdGeom.Mesh.Define(layer, "/asset/sheet").CreatePointsAttr()
    for code in codes:
        points.Set(Vt.Vec3fArray.FromNumpy(points_at(12, 20, first + code)), code)
    layer.Save()
    return Sdf.AssetPath(f"./{path.name}")


def value_clips(stage, folder):
    """Two layers of points one after the other, the second at half the speed; between samples at its start and end."""
    root = UsdGeom.Xform.Define(stage, "/World")
    mesh = grid(stage, "/World/sheet")
    mesh.GetPointsAttr().Clear()
    paths = [clip_layer(folder / f"asset.{k}.usdc", 2.0 * k, (0.0, 1.0, 2.0, 3.0)) for k in range(2)]
    clips = Usd.ClipsAPI(root.GetPrim())
    clips.SetClipAssetPaths(paths)
    clips.SetClipPrimPath("/asset")
    clips.SetClipActive([(0, 0), (4, 1)])
    clips.SetClipTimes([(0, 0), (4, 4), (4, 0.5), (9, 3)])
    clips.SetClipManifestAssetPath(paths[0])
    return [mesh]


def templated_clips(stage, folder):
    """A layer for every frame."""
    root = UsdGeom.Xform.Define(stage, "/World")
    mesh = grid(stage, "/World/sheet")
    mesh.GetPointsAttr().Clear()
    for code in range(1, 6):
        clip_layer(folder / f"asset.{code:03}.usda", 0.7 * code, (float(code),))
    clips = Usd.ClipsAPI(root.GetPrim())
    clips.SetClipTemplateAssetPath("./asset.###.usda")
    clips.SetClipTemplateStartTime(1)
    clips.SetClipTemplateEndTime(5)
    clips.SetClipTemplateStride(1)
    clips.SetClipPrimPath("/asset")
    clips.SetClipManifestAssetPath("./asset.001.usda")
    return [mesh]


def clips_of_a_stack(stage, folder):
    """A set of clips of which a sublayer has a part."""
    meshes = value_clips(stage, folder)
    weaker = Sdf.Layer.CreateNew(str(folder / "asset.weaker.usda"))
    weaker.timeCodesPerSecond = 10
    root = Sdf.CreatePrimInLayer(weaker, "/World")
    clips = dict(stage.GetPrimAtPath("/World").GetMetadata("clips")["default"])
    root.SetInfo("clips", {"default": {"times": clips.pop("times"), "active": Vt.Vec2dArray([(0, 1)]), "primPath": clips.pop("primPath")}})
    weaker.Save()
    stage.GetPrimAtPath("/World").SetMetadata("clips", {"default": clips})
    stage.GetRootLayer().subLayerPaths.append("./asset.weaker.usda")
    return meshes


def later_splines(stage, folder):
    """A curve that goes on outside its knots, in a reference that is earlier and slower."""
    stage.SetStartTimeCode(0)
    stage.SetEndTimeCode(30)
    asset = Usd.Stage.CreateNew(str(folder / "asset.spline.usda"))
    asset.SetTimeCodesPerSecond(10)
    mesh = grid(asset, "/sheet")
    asset.SetDefaultPrim(mesh.GetPrim())
    spline = Ts.Spline("double")
    for time, value in ((2.0, 0.0), (6.0, 3.0)):
        spline.SetKnot(Ts.Knot(typeName="double", time=time, value=value, nextInterp=Ts.InterpLinear))
    spline.SetPreExtrapolation(Ts.Extrapolation(Ts.ExtrapLinear))
    spline.SetPostExtrapolation(Ts.Extrapolation(Ts.ExtrapLinear))
    assert mesh.AddTranslateXOp().GetAttr().SetSpline(spline)
    asset.Save()
    stage.DefinePrim("/a", "Mesh").GetReferences().AddReference("./asset.spline.usda", layerOffset=Sdf.LayerOffset(-10.0, 2.0))
    return [UsdGeom.Mesh(stage.GetPrimAtPath("/a"))]


def splines(stage, folder):
    """Transforms by curves: Bezier with long tangents, Hermite, linear and held segments, extrapolation to the end of the stage."""
    stage.SetStartTimeCode(0)
    stage.SetEndTimeCode(30)
    mesh = grid(stage, "/sheet")

    def curve(attribute, kind, hermite, knots, mode):
        spline = Ts.Spline(kind)
        if hermite:
            spline.SetCurveType(Ts.CurveTypeHermite)
        for time, value, how, width, slope in knots:
            knot = Ts.Knot(typeName=kind, time=time, value=value, nextInterp=how, curveType=Ts.CurveTypeHermite if hermite else Ts.CurveTypeBezier)
            if not hermite:
                knot.SetPreTanWidth(width)
                knot.SetPostTanWidth(width)
            knot.SetPreTanSlope(slope)
            knot.SetPostTanSlope(slope)
            spline.SetKnot(knot)
        spline.SetPostExtrapolation(Ts.Extrapolation(mode))
        assert attribute.SetSpline(spline)

    bend, line, hold = Ts.InterpCurve, Ts.InterpLinear, Ts.InterpHeld
    curve(mesh.AddRotateZOp().GetAttr(), "float", False, [(1, 0, bend, 1.5, 20), (7, 50, bend, 2, -4), (12, 10, line, 1, 0), (16, 30, hold, 1, 0), (20, 5, hold, 1, 0)], Ts.ExtrapHeld)
    curve(mesh.AddTranslateXOp().GetAttr(), "double", True, [(1, 0, bend, 0, 1), (9, 3, bend, 0, -0.5), (20, 1, hold, 0, 0.25)], Ts.ExtrapLinear)
    curve(mesh.AddScaleYOp().GetAttr(), "float", False, [(1, 1, line, 0, 0), (5, 2, hold, 0, 0)], Ts.ExtrapLoopOscillate)
    return [mesh]


def long_tangents(stage, folder):
    """Widths 13 and 1 over a length of 10, then 1 and 40: longer than their segments."""
    mesh = grid(stage, "/sheet")
    spline = Ts.Spline("double")
    for time, value, width, slope in ((0, 0, 13, 2), (10, 4, 1, -3), (20, 1, 40, 1)):
        knot = Ts.Knot(typeName="double", time=time, value=value, nextInterp=Ts.InterpCurve)
        knot.SetPreTanWidth(width)
        knot.SetPostTanWidth(width)
        knot.SetPreTanSlope(slope)
        knot.SetPostTanSlope(slope)
        spline.SetKnot(knot)
    assert mesh.AddTranslateYOp().GetAttr().SetSpline(spline)
    return [mesh]


def variants(stage, folder):
    """Positions by a variant that is selected; another one is a second clip."""
    root = UsdGeom.Xform.Define(stage, "/World")
    mesh = grid(stage, "/World/sheet")
    mesh.GetPointsAttr().Clear()
    choices = root.GetPrim().GetVariantSets().AddVariantSet("animation")
    for name, first in (("run", 3.0), ("walk", 0.0)):
        choices.AddVariant(name)
        choices.SetVariantSelection(name)
        with choices.GetVariantEditContext():
            for code in (0.0, 1.0, 2.0):
                mesh.GetPointsAttr().Set(Vt.Vec3fArray.FromNumpy(points_at(12, 20, first + code)), code)
    return [mesh]


def instances(stage, folder):
    """One prim, and another that refers to it; both move."""
    UsdGeom.Xform.Define(stage, "/scene")
    first = grid(stage, "/scene/first")
    second = UsdGeom.Mesh.Define(stage, "/scene/second")
    second.GetPrim().GetReferences().AddInternalReference("/scene/first")
    for mesh, way in ((first, (1, 0, 0)), (second, (0, 2, 1))):
        move = UsdGeom.Xformable(mesh).AddTranslateOp(opSuffix=mesh.GetPrim().GetName())
        UsdGeom.Xformable(mesh).SetXformOpOrder([move])
        for code in CODES:
            move.Set(Gf.Vec3d(*way) * code, code)
    return [first, second]


def expected(stage, meshes, codes):
    """Positions in the world as usd-core has them."""
    frames = []
    for code in codes:
        parts = []
        for mesh in meshes:
            # Meshes below the root that no skeleton moves are there too.
            root = UsdSkel.Root.Find(mesh.GetPrim()) if mesh.GetPrim().HasAPI(UsdSkel.BindingAPI) else None
            points = mesh.GetPointsAttr().Get(code)
            frame = mesh.GetPrim()
            if root:
                cache = UsdSkel.Cache()
                cache.Populate(root, Usd.PrimDefaultPredicate)
                query = cache.GetSkelQuery(UsdSkel.BindingAPI(mesh).GetInheritedSkeleton())
                assert cache.GetSkinningQuery(mesh.GetPrim()).ComputeSkinnedPoints(query.ComputeSkinningTransforms(code), points, code)
                frame = query.GetPrim()
            world = np.array(UsdGeom.XformCache(code).GetLocalToWorldTransform(frame))
            parts.append(np.array(points, float) @ world[:3, :3] + world[3, :3])
        frames.append(np.concatenate(parts))
    return np.array(frames)


def check(bonesmith, make, ending):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        path = folder / f"stage.{'usdc' if ending == 'usdz' else ending}"
        stage = Usd.Stage.CreateNew(str(path))
        stage.SetTimeCodesPerSecond(10)
        meshes = make(stage, folder)
        stage.Save()
        if ending == "usdz":
            archive = folder / "stage.usdz"
            assert UsdUtils.CreateNewUsdzPackage(str(path), str(archive))
            path.unlink()
            for other in folder.glob("asset.*"):
                other.unlink()
            path = archive
        out = folder / "out.npz"
        subprocess.run([bonesmith, "convert", "--quiet", "--bake", str(path), str(out)], check=True)
        found = np.load(out)
        codes = found["times"] * 10
        if make is variants:
            assert found["verts"].shape[0] == 6, f"{found['verts'].shape[0]} frames of both clips"
            codes, found = codes[:3], {"verts": found["verts"][:3]}
        if make is later_splines:
            # From its first knot to the end of the stage.
            assert np.allclose((codes[0], codes[-1]), (-6, 30)), f"times {codes}"
        truth = expected(stage, meshes, codes)
        size = np.linalg.norm(np.ptp(truth[0], axis=0))
        assert found["verts"].shape == truth.shape, f"{found['verts'].shape}, {truth.shape} expected"
        assert len(codes) >= 3, f"times {codes}"
        return float(np.linalg.norm(found["verts"] - truth, axis=2).max() / size), len(codes)


def written_variants(bonesmith, ending):
    """Two animations of a skeleton, and their baked positions: each is a variant of what bonesmith writes."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        stage = Usd.Stage.CreateNew(str(folder / "stage.usda"))
        stage.SetTimeCodesPerSecond(10)
        mesh = skinned(stage, folder)[0]
        second = UsdSkel.Animation.Define(stage, "/rig/second")
        second.CreateJointsAttr(["a/b", "a/b/c"])
        for code in (0.0, 1.0, 2.0):
            turn = Gf.Rotation(Gf.Vec3d(1, 0, 0), 25 * code).GetQuat()
            second.CreateTranslationsAttr().Set([(0.7, 0, 0.0), (0.7, 0, 0)], code)
            second.CreateRotationsAttr().Set([Gf.Quatf(turn), Gf.Quatf(turn)], code)
            second.CreateScalesAttr().Set([Gf.Vec3h(1, 1, 1)] * 2, code)
        stage.Save()
        source = UsdSkel.BindingAPI(stage.GetPrimAtPath("/rig/skeleton")).GetAnimationSourceRel()
        truth = {}
        for name, codes in (("anim", CODES), ("second", [0.0, 1.0, 2.0])):
            source.SetTargets([f"/rig/{name}"])
            truth[name] = (codes, expected(stage, [mesh], codes))
        worst, counted = 0.0, 0
        for extra in ([], ["--bake"]):
            out = folder / f"out{len(extra)}.{ending}"
            subprocess.run([bonesmith, "convert", "--quiet", *extra, str(folder / "stage.usda"), str(out)], check=True)
            made = Usd.Stage.Open(str(out))
            choices = made.GetDefaultPrim().GetVariantSet("clip")
            assert sorted(choices.GetVariantNames()) == ["anim", "second"], choices.GetVariantNames()
            assert choices.GetVariantSelection() == "anim"
            for name, (codes, points) in truth.items():
                choices.SetVariantSelection(name)
                found = [UsdGeom.Mesh(prim) for prim in made.Traverse() if prim.IsA(UsdGeom.Mesh)]
                ratio = made.GetTimeCodesPerSecond() / 10
                if extra:
                    keys = found[0].GetPointsAttr().GetTimeSamples()
                else:
                    skeleton = UsdSkel.BindingAPI(found[0]).GetInheritedSkeleton()
                    animation = UsdSkel.BindingAPI(skeleton.GetPrim()).GetAnimationSource()
                    keys = UsdSkel.Animation(animation).GetTranslationsAttr().GetTimeSamples()
                assert np.allclose(np.array(keys) / ratio, codes), f"{name}: keys {keys}"
                size = np.linalg.norm(np.ptp(points[0], axis=0))
                apart = expected(made, found, [code * ratio for code in codes]) - points
                worst, counted = max(worst, float(np.linalg.norm(apart, axis=2).max() / size)), counted + len(codes)
            back = folder / "back.npz"
            subprocess.run([bonesmith, "convert", "--quiet", "--bake", str(out), str(back)], check=True)
            assert len(np.load(back)["times"]) == sum(len(codes) for codes, _ in truth.values())
        return worst, counted


def written_instances(bonesmith, ending):
    """Wheels, posts and flags, of each kind one prim to which the others refer, move as in the glb that they come from."""
    worst, counted = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        source = folder / "flags.glb"
        instanced_scene.write(source)
        for clip, *_ in instanced_scene.CLIPS:
            baked, out = folder / f"{clip}.npz", folder / f"{clip}.{ending}"
            for extra, to in ([], out), (["--bake"], baked):
                subprocess.run([bonesmith, "convert", "--quiet", *extra, "--clip", clip, "--", str(source), str(to)], check=True)
            made, truth = Usd.Stage.Open(str(out)), np.load(baked)
            meshes = [UsdGeom.Mesh(prim) for prim in made.Traverse() if prim.IsA(UsdGeom.Mesh)]
            refer = sorted(mesh.GetPrim().GetName() for mesh in meshes if mesh.GetPrim().HasAuthoredReferences())
            assert refer == sorted(name for names in instanced_scene.SHARED for name in names[1:]), refer
            bound = [UsdShade.MaterialBindingAPI(mesh).ComputeBoundMaterial()[0].GetPrim().GetName() for mesh in meshes]
            assert bound == ["red"] + ["grey"] * 3 + ["red"] * 2 + ["grey"] * 2, bound
            found = expected(made, meshes, truth["times"] * made.GetTimeCodesPerSecond())
            apart = np.linalg.norm(found - truth["verts"], axis=2).max()
            worst = max(worst, float(apart / np.linalg.norm(np.ptp(truth["verts"][0], axis=0))))
            counted += len(found)
    return worst, counted


def main(bonesmith):
    failed = passed = 0
    for make in (cache, referenced, skinned, value_clips, templated_clips, clips_of_a_stack, splines, long_tangents, later_splines, variants, instances, written_variants, written_instances):
        # Archives are packed without the layers of clips by usd-core.
        for ending in ("usda", "usdc") if make in (value_clips, templated_clips, clips_of_a_stack) else ("usda", "usdc", "usdz"):
            try:
                if make in (written_variants, written_instances):
                    # Scales are half floats.
                    error, frames = make(bonesmith, ending)
                    good = error <= 10 * TOLERANCE
                else:
                    error, frames = check(bonesmith, make, ending)
                    # Such a curve is nearly upright at one time, where small differences of width show.
                    good = error <= (50 * TOLERANCE if make is long_tangents else TOLERANCE)
                text = f"largest error {error:.2e} of the size over {frames} frames"
            except Exception as problem:  # a file that we refuse is a failure like any other
                good, text = False, f"{type(problem).__name__}: {problem}"
            failed, passed = failed + (not good), passed + good
            print(f"{'ok  ' if good else 'FAIL'} {make.__name__}.{ending}: {text}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
