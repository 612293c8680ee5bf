"""Rigs made of arrays: what comes out is what went in, and what is no rig is refused with its place."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Faces, Floats

import bonesmith


@pytest.fixture
def fitted(verts: Floats, faces: Faces) -> bonesmith.Rig:
    return bonesmith.fit(verts, faces, bones=5, effort="fast", max_iterations=2, fps=30, name="sheet")


def same(a: bonesmith.Rig, b: bonesmith.Rig) -> None:
    for name in ("rest", "faces", "weights", "bones", "parents", "binds", "times", "normals"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (a.names, a.bone_kind, a.name) == (b.names, b.bone_kind, b.name)
    np.testing.assert_array_equal(a.pose(slice(None)), b.pose(slice(None)))


def parts(rig: bonesmith.Rig) -> dict[str, Any]:
    return {
        "faces": rig.faces,
        "bones": rig.bones,
        "parents": rig.parents,
        "binds": rig.binds,
        "names": rig.names,
        "times": rig.times,
        "normals": rig.normals,
        "name": rig.name,
    }


def test_a_rig_of_its_own_arrays_is_the_same(fitted: bonesmith.Rig, tmp_path: Path) -> None:
    assert fitted.normals is not None and fitted.normals.shape == (fitted.faces.size, 3)
    tables = bonesmith.Rig(fitted.rest, joint_indices=fitted.joint_indices, joint_weights=fitted.joint_weights, **parts(fitted))
    same(tables, fitted)
    np.testing.assert_array_equal(tables.joint_indices, fitted.joint_indices)
    np.testing.assert_array_equal(tables.joint_weights, fitted.joint_weights)
    dense = bonesmith.Rig(fitted.rest, weights=fitted.weights, **parts(fitted))
    np.testing.assert_allclose(dense.weights, fitted.weights, atol=1e-7)
    # Files of it are those of the fit, but for the parameters.
    tables.save(tmp_path / "made.glb")
    same(bonesmith.load_rig(tmp_path / "made.glb"), bonesmith.load_rig(_saved(fitted, tmp_path / "fitted.glb")))
    same(pickle.loads(pickle.dumps(tables)), tables)
    assert bonesmith.evaluate(tables, fitted.bake()).max_error < 1e-3


def _saved(rig: bonesmith.Rig, path: Path) -> Path:
    rig.save(path)
    return path


def square() -> dict[str, Any]:
    """Two triangles, two bones, three frames."""
    bones = np.tile(np.eye(4), (3, 2, 1, 1))
    bones[:, 1, 0, 3] = [0, 1, 2]
    return {
        "rest": np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float64),
        "faces": [[0, 1, 2], [0, 2, 3]],
        "bones": bones,
        "weights": np.array([[1, 0], [0.5, 0.5], [0, 1], [0.25, 0.75]]),
    }


def test_a_rig_by_hand(tmp_path: Path) -> None:
    tips = np.array([[np.nan] * 3, [1, 2, 3]])
    rig = bonesmith.Rig(**square(), parents=[-1, 0], names=["a", "b"], tips=tips)
    assert repr(rig) == "<Rig 'rig': 4 vertices, 2 rigid bones, 3 frames>"
    np.testing.assert_allclose(rig.pose(2)[:, 0], [0, 2, 3, 1.5])
    np.testing.assert_allclose(rig.times, [0, 1 / 24, 2 / 24])
    np.testing.assert_array_equal(rig.tips, tips)
    assert rig.metrics is None and rig.normals is None and rig.uvs is None
    still = {**square(), "bones": None}
    assert bonesmith.Rig(**still).clips == []


def test_clips_have_names_and_times() -> None:
    given = square()
    walk = given.pop("bones")
    rig = bonesmith.Rig(**given, clips={"walk": walk, "run": (walk[:2], [0.0, 0.5])}, fps=10)
    assert [clip.name for clip in rig.clips] == ["walk", "run"]
    np.testing.assert_allclose(rig.clips[0].times, [0, 0.1, 0.2])
    np.testing.assert_allclose(rig.clips[1].times, [0, 0.5])
    np.testing.assert_array_equal(rig.transforms("run"), walk[:2])


def test_normals_and_texture_coordinates_of_vertices_and_of_corners(tmp_path: Path) -> None:
    normals = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, -1]], dtype=np.float32)
    corners = [0, 1, 2, 0, 2, 3]
    uvs = np.arange(12, dtype=np.float32).reshape(6, 2) / 12
    rig = bonesmith.Rig(**square(), normals=normals, uvs=uvs)
    assert rig.normals is not None and rig.uvs is not None
    np.testing.assert_array_equal(rig.normals, normals[corners])
    np.testing.assert_array_equal(rig.uvs, uvs)
    again = bonesmith.Rig(**square(), normals=rig.normals)
    np.testing.assert_array_equal(again.normals, rig.normals)
    # Corners with one normal stay one vertex of a file.
    again.save(tmp_path / "rig.glb")
    assert bonesmith.load_rig(tmp_path / "rig.glb").vertex_count == 4


def test_the_kind_is_the_narrowest() -> None:
    given = square()
    assert bonesmith.Rig(**given).bone_kind == "rigid"
    given["bones"][2, 1, 0, 0] = 2
    assert bonesmith.Rig(**given).bone_kind == "trs"
    given["bones"][2, 1, 0, 1] = 0.5
    assert bonesmith.Rig(**given).bone_kind == "affine"
    with pytest.raises(bonesmith.ParameterError, match="bone_kind is rigid; it must be affine") as error:
        bonesmith.Rig(**given, bone_kind="rigid")
    assert error.value.option == "bone_kind"


def changed(name: str, at: Any, value: Any) -> dict[str, Any]:
    given = square()
    given[name][at] = value
    return given


@pytest.mark.parametrize(
    ("given", "words", "frame", "vertex", "value"),
    [
        (changed("rest", (2, 1), np.inf), "rest, vertex 2", None, 2, np.inf),
        (changed("weights", (1, 0), -0.5), "vertex 1: weight of bone 0 is -0.5", None, 1, -0.5),
        (changed("weights", (1, 0), 0.25), "vertex 1: weights sum to 0.75", None, 1, 0.75),
        (changed("weights", (3, 0), np.nan), "vertex 3: weight of bone 0", None, 3, np.nan),
        (changed("bones", (1, 0, 2, 3), np.nan), r"bones\[1, 0\] is no transform", 1, None, np.nan),
        (changed("bones", (2, 1, 3, 0), 1.0), r"bones\[2, 1\] is no transform", 2, None, None),
        ({**square(), "times": [0.0, 0.2, 0.1]}, "frame 2 is at 0.1 s", 2, None, 0.1),
        ({**square(), "times": [0.0, 0.2]}, "2 times for 3 frames", None, None, None),
        ({**square(), "faces": [[0, 1, 9]]}, "9", None, 9, 9),
        ({**square(), "faces": [[0, 1, -1]]}, "face 0 names vertex -1", None, None, -1),
        ({**square(), "parents": [1, 0]}, "parent", None, None, 0),
        ({**square(), "parents": [-1, 5]}, "has the parent 5", None, None, 5),
        ({**square(), "names": ["a", "a"]}, 'two bones are named "a"', None, None, "a"),
        ({**square(), "names": ["a"]}, "1 names for 2 bones", None, None, None),
        ({**square(), "weights": np.ones((4, 3)) / 3}, r"weights has the shape \[4, 3\]", None, None, None),
        ({**square(), "weights": None}, "either weights, or joint_indices", None, None, None),
        ({**square(), "bones": np.eye(4)}, r"bones has the shape \[4, 4\]", None, None, None),
        ({**square(), "bones": np.zeros((0, 2, 4, 4))}, "has no frames", None, None, None),
        ({**square(), "binds": np.full((2, 4, 4), np.nan)}, r"binds\[0\] is no transform", None, None, np.nan),
        ({**square(), "normals": np.ones((5, 3))}, r"normals has the shape \[5, 3\]", None, None, None),
        ({**square(), "normals": np.full((4, 3), np.nan)}, "normals.*vertex 0: not finite", None, 0, np.nan),
        ({**square(), "rest": np.zeros((0, 3)), "faces": None}, "rest has no vertices", None, None, None),
    ],
)
def test_arrays_that_are_no_rig(given: dict[str, Any], words: str, frame: Any, vertex: Any, value: Any) -> None:
    with pytest.raises(bonesmith.InputError, match=words) as error:
        bonesmith.Rig(**given)
    found = error.value
    assert (found.frame, found.vertex) == (frame, vertex)
    assert found.value == value or (value != value and found.value != found.value)


def test_joints_that_are_no_bones() -> None:
    given = {**square(), "weights": None}
    tables: dict[str, Any] = {"joint_indices": np.array([[0], [1], [2], [0]]), "joint_weights": np.ones((4, 1))}
    with pytest.raises(bonesmith.InputError, match="vertex 2 names bone 2, but there are 2 bones") as error:
        bonesmith.Rig(**given, **tables)
    assert (error.value.vertex, error.value.value) == (2, 2)
    tables["joint_indices"] = tables["joint_indices"].astype(np.float64)
    with pytest.raises(bonesmith.DtypeError, match="whole numbers"):
        bonesmith.Rig(**given, **tables)
    unused: dict[str, Any] = {"joint_indices": np.array([[0, -1]] * 4), "joint_weights": np.array([[1.0, 0.0]] * 4)}
    assert bonesmith.Rig(**given, **unused).influences == 1


def test_weights_are_corrected_when_asked_for() -> None:
    given = changed("weights", (1, 0), 1.5)
    np.testing.assert_allclose(bonesmith.Rig(**given, normalise=True).weights[1], [0.75, 0.25])
    with pytest.raises(TypeError, match="clips has its own"):
        bonesmith.Rig(**square(), clips={})
    with pytest.raises(TypeError, match="TwoLayerRig is made by"):
        bonesmith.TwoLayerRig(**square())
