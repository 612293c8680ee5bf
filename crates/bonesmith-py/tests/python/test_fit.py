"""Arrays in, a rig out: the same as the program's."""

from __future__ import annotations

import hashlib
import pickle
import sys
from pathlib import Path
from typing import Callable

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Faces, Floats, cloth, grid

import bonesmith
from bonesmith import _native


def test_a_rig_of_arrays(verts: Floats, faces: Faces) -> None:
    rig = bonesmith.fit(verts, faces, bones=8, name="sheet", fps=30)
    assert type(rig) is bonesmith.Rig
    n, f, b = verts.shape[1], verts.shape[0], rig.bone_count
    assert b == 8 and rig.name == "sheet" and rig.vertex_count == n and rig.frame_count == f
    assert rig.rest.shape == (n, 3) and rig.rest.dtype == np.float32
    assert rig.faces.shape == faces.shape and (rig.faces == faces).all()
    assert rig.weights.shape == (n, b) and np.allclose(rig.weights.sum(axis=1), 1, atol=1e-5)
    assert rig.joint_indices.shape == rig.joint_weights.shape and rig.joint_indices.shape[1] <= 4
    assert rig.bones.shape == (f, b, 4, 4) and rig.bones.dtype == np.float64
    assert (rig.bones[:, :, 3] == [0, 0, 0, 1]).all()
    assert rig.parents.shape == (b,) and len(rig.names) == b
    assert np.allclose(rig.times, np.arange(f) / 30)
    metrics = rig.metrics
    assert metrics is not None and 0 < metrics.e_rms < 20
    assert metrics.per_frame.shape == (f,) and metrics.per_vertex.shape == (n,)
    assert rig.record is not None and rig.record["command"] == "fit"
    assert rig.params is not None and rig.params["fit"]["bones"] == {"exact": 8}


def test_weights_and_bones_are_the_pose(verts: Floats, faces: Faces) -> None:
    rig = bonesmith.fit(verts, faces, bones=6)
    rest = np.concatenate([rig.rest.astype(np.float64), np.ones((rig.vertex_count, 1))], axis=1)
    blended = np.einsum("ij,tjrc,ic->tir", rig.weights.astype(np.float64), rig.bones, rest)[..., :3]
    posed = rig.pose(slice(None))
    assert np.abs(posed - blended).max() < 1e-5
    metrics = rig.metrics
    assert metrics is not None
    distance = np.linalg.norm(posed.astype(np.float64) - verts, axis=-1)
    assert distance.max() == pytest.approx(metrics.max_error_model_units, rel=1e-4)
    t, i = np.unravel_index(distance.argmax(), distance.shape)
    assert (int(t), int(i)) == metrics.max_error_at


def same(a: bonesmith.Rig, b: bonesmith.Rig) -> bool:
    return bool((a.bones == b.bones).all() and (a.weights == b.weights).all() and (a.rest == b.rest).all())


def test_memory_and_type_of_the_array_do_not_matter(verts: Floats, faces: Faces) -> None:
    plain = bonesmith.fit(verts, faces, bones=5)
    read_only = verts.copy()
    read_only.flags.writeable = False
    wide = np.zeros((verts.shape[0], verts.shape[1] * 2, 4), np.float32)
    wide[:, ::2, :3] = verts
    odd = np.frombuffer(b"\0" + verts.tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(verts.shape)
    others: list[npt.ArrayLike] = [
        verts.astype(np.float64),
        verts.astype(">f4"),
        verts.astype(">f8"),
        np.asfortranarray(verts),
        wide[:, ::2, :3],
        odd,
        read_only,
        verts.tolist(),
    ]
    for other in others:
        assert same(plain, bonesmith.fit(other, faces, bones=5))
    assert same(plain, bonesmith.fit(verts, faces.astype(np.uint8), bones=5))
    assert same(plain, bonesmith.fit(verts, faces.tolist(), bones=5))
    assert same(plain, bonesmith.fit(bonesmith.Animation(verts, faces), bones=5))


def test_float32_is_not_copied(verts: Floats, faces: Faces) -> None:
    handle = _native.animation(verts, faces, None, None, None, "a", False)
    assert np.shares_memory(handle.frame(3), verts)
    for other in (verts.astype(np.float64), np.asfortranarray(verts)):
        assert not np.shares_memory(_native.animation(other, faces, None, None, None, "a", False).frame(3), other)
    kept = bonesmith.Animation(verts, faces)
    assert not np.shares_memory(kept.frame(3), verts)
    # The rig keeps the array until it is asked to drop it, and nothing else does.
    before = sys.getrefcount(verts)
    rig = bonesmith.fit(verts, faces, bones=2)
    assert sys.getrefcount(verts) == before + 1
    metrics = rig.metrics
    rig.drop_animation()
    assert sys.getrefcount(verts) == before and rig.metrics is metrics
    rig = bonesmith.fit(verts, faces, bones=2)
    rig.drop_animation()
    assert rig.metrics is None
    rig = bonesmith.fit(verts, faces, bones=2)
    del rig
    assert sys.getrefcount(verts) == before


def test_an_array_that_changes_after_the_fit_is_noticed(verts: Floats, faces: Faces) -> None:
    rig = bonesmith.fit(verts, faces, bones=4)
    verts[2, 5, 1] += 1
    with pytest.raises(bonesmith.ParameterError, match="changed since the fit"):
        _ = rig.metrics
    assert bonesmith.evaluate(rig, verts, faces).e_rms > 1
    measured = bonesmith.fit(verts, faces, bones=4)
    first = measured.metrics
    verts[2, 5, 1] -= 1
    assert measured.metrics is first


def test_the_file_has_the_bytes_of_the_program(run: Callable[..., str], verts: Floats, faces: Faces, tmp_path: Path) -> None:
    times = np.arange(len(verts)) / 25
    source = tmp_path / "sheet.npz"
    bonesmith.Animation(verts, faces, times=times, name="sheet").save(source)
    for ending in ("glb", "npz", "usda"):
        theirs, ours = tmp_path / f"theirs.{ending}", tmp_path / f"ours.{ending}"
        run("fit", source, "--bones", 7, "--seed", 3, "-o", theirs, "--quiet")
        bonesmith.fit(verts, faces, bones=7, seed=3, times=times, name="sheet").save(ours)
        assert digest(ours) == digest(theirs), ending
        bonesmith.fit(bonesmith.load(source), bones=7, seed=3, threads=1).save(ours)
        assert digest(ours) == digest(theirs), ending


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_options_reach_the_fit(verts: Floats, faces: Faces) -> None:
    affine = bonesmith.fit(verts, faces, bones=4, bone_kind="affine", influences="all", effort="fast")
    assert affine.bone_kind == "affine"
    assert bonesmith.fit(verts, faces, bones=4, influences=1).influences == 1
    kept = bonesmith.fit(verts, faces, verts[4], bones=4, keep_rest=True)
    assert (kept.rest == verts[4]).all()
    shaped = bonesmith.fit(verts, faces, bones=3, eigenskin=2)
    assert isinstance(shaped, bonesmith.CorrectiveRig)
    assert shaped.shapes.shape == (2, verts.shape[1], 3) and shaped.shape_weights().shape == (len(verts), 2)
    basis = bonesmith.fit(verts, faces, bones=3, method="svd")
    assert isinstance(basis, bonesmith.Basis) and basis.metrics is not None
    heavy = np.zeros(verts.shape[1])
    heavy[:40] = 1
    weighed = bonesmith.fit(verts, faces, bones=4, importance=heavy).metrics
    plain = bonesmith.fit(verts, faces, bones=4).metrics
    assert weighed is not None and plain is not None
    assert weighed.per_vertex[:40].mean() < plain.per_vertex[:40].mean()
    skeleton = bonesmith.fit(verts, faces, bones=4, skeleton=True, detail=2.0)
    assert (skeleton.parents >= 0).sum() == skeleton.bone_count - 1
    seconds = bonesmith.fit(verts, faces, bones=16, max_seconds=0.001, effort="best")
    assert seconds.record is not None and seconds.record["stop"] == "max-seconds"


def test_clips_share_weights(verts: Floats, faces: Faces) -> None:
    clips = [bonesmith.Animation(verts, faces, name="walk"), bonesmith.Animation(cloth(seed=2), faces, name="run")]
    rig = bonesmith.fit(clips, bones=6)
    assert [clip.name for clip in rig.clips] == ["walk", "run"]
    assert rig.transforms("run").shape == (12, 6, 4, 4)
    assert rig.metrics is not None and len(rig.metrics.per_frame) == 24
    assert rig.pose(3, clip="run").shape == verts[0].shape


def test_all_clips_are_measured(verts: Floats, faces: Faces, tmp_path: Path) -> None:
    clips = [bonesmith.Animation(verts, faces, name="walk"), bonesmith.Animation(cloth(seed=2), faces, name="run")]
    rig = bonesmith.fit(clips, bones=6)
    light = bonesmith.reduce(rig, influences=2)
    assert light.metrics is not None and len(light.metrics.per_frame) == 24
    assert pickle.loads(pickle.dumps(light)).metrics.e_rms == pytest.approx(light.metrics.e_rms)
    light.report(tmp_path / "light.html")
    rig.save(tmp_path / "two.glb")
    again = bonesmith.load_animation(tmp_path / "two.glb")
    assert bonesmith.evaluate(rig, again).e_rms < 1e-2
    refitted = bonesmith.refit(rig, again, solve="weights")
    assert [clip.name for clip in refitted.clips] == ["walk", "run"]


def test_warnings_are_pythons(verts: Floats, faces: Faces, tmp_path: Path) -> None:
    with pytest.warns(bonesmith.BonesmithWarning) as caught:
        bonesmith.fit(verts[:1].repeat(3, axis=0), faces, bones=2)
    assert [(w.message.kind, w.filename) for w in caught if isinstance(w.message, bonesmith.BonesmithWarning)] == [
        ("no-motion", __file__)
    ]
    with pytest.warns(bonesmith.BonesmithWarning, match="influences") as caught:
        bonesmith.fit(verts, faces, bones=8, influences=6).save(tmp_path / "many.glb")
    assert caught[0].filename == __file__
    shown = caught[0].message
    assert isinstance(shown, bonesmith.BonesmithWarning) and shown.data["common"] == 4


def test_the_drop_in_has_the_shapes_of_dem_bones(verts: Floats, faces: Faces) -> None:
    weights, transforms = bonesmith.solve(verts[0], verts, 6, faces=faces)
    assert weights.shape == (6, verts.shape[1]) and transforms.shape == (len(verts), 6, 4, 4)
    rest = np.concatenate([verts[0], np.ones((verts.shape[1], 1), np.float32)], axis=1)
    posed = np.einsum("ji,tjrc,ic->tir", weights, transforms, rest)[..., :3]
    assert np.sqrt(((posed - verts) ** 2).mean()) < 0.02
    without_faces = bonesmith.solve(verts[0], verts, 3)
    assert without_faces.weights.shape == (3, verts.shape[1])


def test_a_grid_of_quads_and_mixed_faces() -> None:
    mixed = [[0, 1, 17, 16], [1, 2, 18], *grid(16, 16)[3:].tolist()]
    rig = bonesmith.fit(cloth(), mixed, bones=2)
    assert rig.faces.shape[1] == 3 and [len(face) for face in rig.polygons[:3]] == [4, 3, 4]
