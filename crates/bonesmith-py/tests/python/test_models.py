"""All kinds of models: made, saved, loaded, posed, pickled, shown."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from conftest import Faces, Floats, cloth, grid

import bonesmith


@pytest.fixture(scope="module")
def animation() -> bonesmith.Animation:
    return bonesmith.Animation(cloth(), grid(16, 16), fps=30, name="sheet")


@pytest.fixture(scope="module")
def rig(animation: bonesmith.Animation) -> bonesmith.Rig:
    return bonesmith.fit(animation, bones=8)


@pytest.fixture(scope="module")
def kinds(animation: bonesmith.Animation, rig: bonesmith.Rig) -> dict[str, bonesmith.Model]:
    dense = bonesmith.fit(animation, bones=8, influences="all")
    return {
        "Animation": animation,
        "Rig": rig,
        "TwoLayerRig": bonesmith.compress(dense, animation, virtual_bones=20),
        "DdmRig": bonesmith.ddm(rig, rigid_bind=True),
        "compressed": bonesmith.ddm(rig, rigid_bind=True, compress=12),
        "CorrectiveRig": bonesmith.fit(animation, bones=4, eigenskin=2),
        "Basis": bonesmith.fit(animation, bones=4, method="cpca"),
    }


def test_every_kind_has_its_class(kinds: dict[str, bonesmith.Model]) -> None:
    found = {name: type(model).__name__ for name, model in kinds.items()}
    assert found == {**{name: name for name in kinds}, "compressed": "DdmRig"}
    two, ddm, compressed = kinds["TwoLayerRig"], kinds["DdmRig"], kinds["compressed"]
    assert isinstance(two, bonesmith.TwoLayerRig) and two.virtual_bone_count == 20
    assert two.blend_indices.shape == two.blend_weights.shape and two.blend_weights.shape[0] == 20
    assert two.joint_indices.max() < 20
    assert isinstance(ddm, bonesmith.DdmRig) and (ddm.variant, ddm.virtual_bone_count) == (0, 0)
    assert isinstance(compressed, bonesmith.DdmRig) and compressed.virtual_bone_count == 12


def test_files_hold_every_kind(kinds: dict[str, bonesmith.Model], tmp_path: Path) -> None:
    for name, model in kinds.items():
        path = tmp_path / f"{name}.npz"
        model.save(path)
        again = bonesmith.load(path)
        assert type(again) is type(model), name
        assert np.abs(again.pose(5) - model.pose(5)).max() < 1e-5, name
        assert again.metrics is None and again.record is None
    for name in ("Rig", "CorrectiveRig", "DdmRig"):
        kinds[name].save(tmp_path / f"{name}.glb")
        assert type(bonesmith.load(tmp_path / f"{name}.glb")).__name__ == name
    kinds["TwoLayerRig"].save(tmp_path / "baked.glb")
    assert type(bonesmith.load(tmp_path / "baked.glb")) is bonesmith.Rig
    kinds["TwoLayerRig"].save(tmp_path / "runtime.glb", shape="runtime")
    assert type(bonesmith.load(tmp_path / "runtime.glb")) is bonesmith.TwoLayerRig
    kinds["Animation"].save(tmp_path / "frames.abc")
    frames = bonesmith.load(tmp_path / "frames.abc", frames=slice(2, 7))
    assert isinstance(frames, bonesmith.Animation) and len(frames) == 5
    baked = bonesmith.load_animation(tmp_path / "Rig.glb")
    assert isinstance(baked, bonesmith.Animation) and len(baked) == 12
    assert isinstance(bonesmith.load_rig(tmp_path / "CorrectiveRig.glb"), bonesmith.CorrectiveRig)


def test_pickles_are_the_same_model(kinds: dict[str, bonesmith.Model]) -> None:
    for name, model in kinds.items():
        again: Any = pickle.loads(pickle.dumps(model))
        assert [type(again), again.name] == [type(model), model.name]
        assert (again.rest == model.rest).all() and (again.pose(slice(None)) == model.pose(slice(None))).all(), name
        assert (again.faces == model.faces).all() and (again.times == model.times).all()
        if model.metrics is not None:
            assert again.metrics.e_rms == model.metrics.e_rms
        if isinstance(model, bonesmith.Rig):
            assert (again.bones == model.bones).all() and (again.weights == model.weights).all()
            assert again.names == model.names and again.params == model.params
        assert copy.copy(model) is model and copy.deepcopy(model) is model


def test_poses(rig: bonesmith.Rig, kinds: dict[str, bonesmith.Model]) -> None:
    one, several = rig.pose(3), rig.pose([3, -1, 3])
    assert one.shape == (256, 3) and one.dtype == np.float32 and several.shape == (3, 256, 3)
    assert (several[0] == one).all() and (several[1] == rig.pose(11)).all()
    assert (rig.pose(slice(0, 4, 2))[1] == rig.pose(2)).all() and rig.pose(np.int64(3)).shape == (256, 3)
    assert np.abs(rig.pose(rig.bones[3]) - one).max() < 1e-6
    assert rig.pose(rig.bones).shape == (12, 256, 3) and rig.pose(rig.bones[:0]).shape == (0, 256, 3)
    assert np.abs(rig.pose(rig.bones.tolist()) - rig.pose(slice(None))).max() < 1e-6
    still = np.broadcast_to(np.eye(4), (8, 4, 4))
    assert np.abs(rig.pose(still) - rig.rest).max() < 1e-6
    for name in ("TwoLayerRig", "DdmRig", "compressed"):
        model = kinds[name]
        assert isinstance(model, bonesmith.Rig)
        assert np.abs(model.pose(model.bones[4]) - model.pose(4)).max() < 1e-5, name
    bake = rig.bake()
    assert isinstance(bake, bonesmith.Animation) and (bake.verts == rig.pose(slice(None))).all()
    assert [frame.shape for frame in bake] == [(256, 3)] * 12 and (bake[-1] == rig.pose(11)).all()


def test_weights_as_scipy_has_them(rig: bonesmith.Rig, kinds: dict[str, bonesmith.Model]) -> None:
    pytest.importorskip("scipy")
    for model in (rig, kinds["TwoLayerRig"]):
        assert isinstance(model, bonesmith.Rig)
        sparse = model.sparse_weights()
        assert sparse.shape == model.weights.shape and (sparse.toarray() == model.weights).all()


def test_stages(animation: bonesmith.Animation, rig: bonesmith.Rig, verts: Floats) -> None:
    light = bonesmith.reduce(rig, animation, influences=2)
    assert light.influences == 2 and light.metrics is not None and light.record is not None
    assert light.record["details"]["influences_before"] == rig.influences
    assert bonesmith.reduce(rig, influences=2, method="k-largest").influences == 2
    again = bonesmith.refit(rig, animation, solve="weights")
    assert again.names == rig.names and np.abs(again.bones - rig.bones).max() < 1e-9
    helped = bonesmith.add_bones(rig, verts, 3)
    assert helped.bone_count == 11 and helped.names[-1] == "helper_003"
    assert helped.metrics is not None and rig.metrics is not None and helped.metrics.e_rms < rig.metrics.e_rms
    locked = bonesmith.refit(rig, animation, lock_bones=["*"], lock_vertices=np.zeros(256))
    assert np.abs(locked.bones - rig.bones).max() < 1e-9
    mush = bonesmith.delta_mush(rig, rigid_bind=True)
    assert isinstance(mush, bonesmith.Animation) and len(mush) == 12
    wrong: list[dict[str, Any]] = [{"influences": 0}, {"method": "none"}, {"smooth": -1}]
    for options in wrong:
        with pytest.raises(bonesmith.ParameterError):
            bonesmith.reduce(rig, **options)


def test_sweeps(animation: bonesmith.Animation, tmp_path: Path) -> None:
    swept = bonesmith.sweep(animation, counts=[1, 2, 4, 8])
    assert [point.bones for point in swept.points] == [1, 2, 4, 8]
    assert swept.points[0].e_rms > swept.points[-1].e_rms and swept.csv().startswith("bones,")
    swept.save(tmp_path / "sweep.csv")
    swept.save(tmp_path / "sweep.html")
    assert "<svg" in (tmp_path / "sweep.html").read_text(encoding="utf-8") and "Sweep" in repr(swept)
    assert "<iframe" in swept._repr_html_()


def test_measures(animation: bonesmith.Animation, rig: bonesmith.Rig, kinds: dict[str, Any], tmp_path: Path) -> None:
    metrics = bonesmith.evaluate(rig, animation)
    assert rig.metrics is not None and metrics.e_rms == rig.metrics.e_rms
    assert bonesmith.evaluate(rig, animation.verts, animation.faces).e_rms == pytest.approx(metrics.e_rms, rel=1e-6)
    assert bonesmith.evaluate(animation, animation).e_rms == 0
    assert metrics.as_dict()["radius_model_units"] == metrics.radius and "E_RMS" in repr(metrics)
    page = tmp_path / "compare.html"
    compared = bonesmith.compare({"plain": rig, "layers": kinds["TwoLayerRig"]}, animation, report=page)
    assert list(compared) == ["plain", "layers"] and compared["plain"].e_rms == metrics.e_rms
    assert page.stat().st_size > 100_000
    assert list(bonesmith.compare([rig, rig], animation)) == ["sheet", "sheet_2"]


def test_words_and_pages(kinds: dict[str, bonesmith.Model], rig: bonesmith.Rig, tmp_path: Path) -> None:
    assert repr(rig) == "<Rig 'sheet': 256 vertices, 8 rigid bones, 12 frames>"
    assert repr(kinds["Animation"]) == "<Animation 'sheet': 256 vertices, 12 frames>"
    assert "20 virtual bones" in repr(kinds["TwoLayerRig"])
    for name, model in kinds.items():
        page = tmp_path / f"{name}.html"
        model.report(page)
        assert "<html" in page.read_text(encoding="utf-8")[:200], name
    shown = rig.view(height=300)
    assert "height:300px" in shown._repr_html_() and "srcdoc=" in rig._repr_html_() and "notebooks" in repr(shown)
    with pytest.raises(bonesmith.ParameterError, match="report_max_mb"):
        rig.report(tmp_path / "x.html", report_max_mb=0)


def test_animations(verts: Floats, faces: Faces) -> None:
    made = bonesmith.Animation(verts, faces, verts[2], times=np.arange(12) * 0.1)
    assert len(made) == 12 and (made.rest == verts[2]).all() and (made.verts == verts).all()
    assert np.shares_memory(made.frame(1), made[1]) and made.clips[0].frame_count == 12
    cloud = bonesmith.Animation(verts)
    assert cloud.faces.shape == (0, 3) and cloud.polygons == []


def test_other_meshes_of_a_file_are_kept(tmp_path: Path, run: Callable[..., str]) -> None:
    """As the command line keeps them: the same bytes; figures and reports are those of the mesh that was fitted."""
    for name, seed in (("body", 0), ("hat", 5)):
        quads = grid(16, 16).astype(np.int32)
        faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
        np.savez(tmp_path / f"{name}.npz", verts=cloth(seed=seed), faces=faces)
    scene, there, here = (tmp_path / name for name in ("scene.glb", "there.glb", "here.glb"))
    small = ["--effort", "fast", "--max-iterations", 2]
    run("fit", "--part", f"Body={tmp_path / 'body.npz'}", "--part", f"Hat={tmp_path / 'hat.npz'}", *small, "--bones", 6, "-o", scene)
    run("fit", scene, "--mesh", "Body", "--others", "keep", *small, "--bones", 4, "-o", there)
    body = bonesmith.load_animation(scene, mesh="Body")
    options: dict[str, Any] = {"bones": 4, "effort": "fast", "max_iterations": 2}
    rig = bonesmith.fit(body, others="keep", **options)
    rig.save(here)
    assert here.read_bytes() == there.read_bytes()
    assert rig.vertex_count == 512 and rig.bone_count > 4
    assert rig.metrics is not None and rig.metrics.per_vertex.shape == (256,)
    alone = bonesmith.fit(body, **options)
    assert alone.vertex_count == 256 and alone.metrics is not None
    assert rig.metrics.e_rms == alone.metrics.e_rms
    rig.report(tmp_path / "rig.html")
    assert pickle.loads(pickle.dumps(rig)).vertex_count == 512
    with pytest.raises(bonesmith.ParameterError, match="others"):
        rig.save(tmp_path / "small.glb", compact=True)
    with pytest.raises(bonesmith.ParameterError, match="load the animation with mesh") as error:
        bonesmith.fit(bonesmith.load_animation(scene), others="keep", **options)
    assert error.value.option == "others"
    with pytest.raises(bonesmith.ParameterError, match="drop or keep"):
        bonesmith.fit(body, others="some", **options)  # type: ignore[call-overload]


def test_frames_of_a_rig_are_not_picked(verts: Floats, tmp_path: Path) -> None:
    path = tmp_path / "rig.glb"
    bonesmith.fit(verts, bones=3, effort="fast", max_iterations=2).save(path)
    picks: list[dict[str, Any]] = [{"frames": slice(0, 4)}, {"rest": 2}]
    for pick in picks:
        with pytest.raises(bonesmith.ParameterError, match="is for animations, and .*rig.glb is a rig") as error:
            bonesmith.load(path, **pick)
        assert [error.value.option] == list(pick)
        assert bonesmith.load_animation(path, **pick).frame_count == (4 if "frames" in pick else 12)
