"""Bad input: the right exception, and no crash."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Faces, Floats

import bonesmith


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 2), (2, 4, 4), (1, 2, 4, 3)])
def test_wrong_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(bonesmith.InputError, match="shape"):
        bonesmith.fit(np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", [(0, 8, 3), (2, 0, 3), (2, 3, 3), (0, 0, 3)])
def test_empty_and_too_small(shape: tuple[int, ...]) -> None:
    with pytest.raises(bonesmith.InputError, match="no frames|at least 4"):
        bonesmith.fit(np.zeros(shape, np.float32))


@pytest.mark.parametrize("dtype", [object, complex, "U4", bool, "datetime64[s]", "V4"])
def test_wrong_dtypes(dtype: Any) -> None:
    with pytest.raises(bonesmith.DtypeError, match="dtype"):
        bonesmith.fit(np.zeros((2, 5, 3), dtype=dtype))
    with pytest.raises(TypeError):
        bonesmith.fit(np.zeros((2, 5, 3), dtype=dtype))


def test_lists_that_are_no_array() -> None:
    with pytest.raises(ValueError):
        bonesmith.fit([[[0, 0, 0], [1, 1]], [[0, 0, 0]]])
    with pytest.raises(TypeError):
        bonesmith.fit(None)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="bonesmith.load"):
        bonesmith.fit("walk.npz")


def test_numbers_that_are_not_finite(verts: Floats, faces: Faces) -> None:
    verts[3, 17, 1] = np.nan
    for array in (verts, verts.astype(np.float64)):
        with pytest.raises(bonesmith.InputError, match="frame 3, vertex 17: y is NaN") as caught:
            bonesmith.fit(array, faces)
        assert (caught.value.frame, caught.value.vertex) == (3, 17) and np.isnan(caught.value.value)
    verts[3, 17, 1] = 0
    rest = verts[0].copy()
    rest[2, 0] = np.inf
    with pytest.raises(bonesmith.InputError, match="rest pose, vertex 2: x is inf") as caught:
        bonesmith.fit(verts, faces, rest)
    assert (caught.value.frame, caught.value.vertex) == (None, 2)
    with pytest.raises(bonesmith.InputError, match="inf"):
        bonesmith.fit(verts.astype(np.float64) * 1e300, faces)
    with pytest.raises(bonesmith.InputError, match="too large"):
        bonesmith.fit(verts * np.float32(1e17), faces)


def test_faces_out_of_range(verts: Floats, faces: Faces) -> None:
    faces[7, 2] = 256
    with pytest.raises(bonesmith.InputError, match="face 7 names vertex 256") as caught:
        bonesmith.fit(verts, faces)
    assert caught.value.value == 256
    faces[7, 2] = -1
    with pytest.raises(bonesmith.InputError, match="face 7 names vertex -1"):
        bonesmith.fit(verts, faces)
    with pytest.raises(bonesmith.DtypeError):
        bonesmith.fit(verts, faces.astype(np.float32))
    with pytest.raises(bonesmith.InputError, match="shape"):
        bonesmith.fit(verts, np.arange(9))
    with pytest.raises(bonesmith.InputError, match="corners"):
        bonesmith.fit(verts, [[0, 1]])
    with pytest.raises(TypeError):
        bonesmith.fit(verts, [["a", "b", "c"], [1, 2, 3, 4]])  # type: ignore[arg-type]


def test_rest_and_times(verts: Floats, faces: Faces) -> None:
    with pytest.raises(bonesmith.InputError, match="rest pose has 255 vertices"):
        bonesmith.fit(verts, faces, verts[0, :-1])
    with pytest.raises(bonesmith.InputError, match="shape"):
        bonesmith.fit(verts, faces, verts)
    with pytest.raises(bonesmith.InputError, match="3 times for 12 frames"):
        bonesmith.fit(verts, faces, times=[0, 1, 2])
    with pytest.raises(bonesmith.InputError, match="frame 5") as caught:
        bonesmith.fit(verts, faces, times=[0, 1, 2, 3, 4, 4, 6, 7, 8, 9, 10, 11])
    assert caught.value.frame == 5
    for fps in (0, -1, float("nan"), float("inf")):
        with pytest.raises(bonesmith.ParameterError, match="fps"):
            bonesmith.fit(verts, faces, fps=fps)


@pytest.mark.parametrize(
    "option",
    [
        {"bones": 0},
        {"bones": -3},
        {"bones": "many"},
        {"bones": 1.5},
        {"influences": 17},
        {"influences": "some"},
        {"bone_kind": "soft"},
        {"effort": 3},
        {"smooth": float("nan")},
        {"smooth": -1},
        {"seed": -1},
        {"seed": 2**70},
        {"norm": 1},
        {"method": "magic"},
        {"keep_rest": "yes"},
        {"threads": 0},
        {"threads": 100000},
        {"max_seconds": -1},
        {"eigenskin": 0},
        {"target_error": "1km"},
        {"importance": [1.0, 2.0]},
    ],
)
def test_values_of_options(verts: Floats, faces: Faces, option: dict[str, Any]) -> None:
    with pytest.raises(bonesmith.ParameterError) as caught:
        bonesmith.fit(verts, faces, **option)
    assert caught.value.option == next(iter(option))
    assert isinstance(caught.value, ValueError)
    assert "--" not in str(caught.value)


def test_combinations(verts: Floats, faces: Faces) -> None:
    wrong: list[dict[str, Any]] = [{"bones": 4, "target_error": 1.0}, {"detail": 2.0}, {"bones": 10_000}]
    for options in wrong:
        with pytest.raises(bonesmith.ParameterError):
            bonesmith.fit(verts, faces, **options)
    with pytest.raises(TypeError):
        bonesmith.fit(verts, faces, bonse=4)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="progress"):
        bonesmith.fit(verts, faces, progress=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="has its own"):
        bonesmith.fit(bonesmith.Animation(verts), faces)
    with pytest.raises(TypeError, match="Rig is needed"):
        bonesmith.reduce(verts)  # type: ignore[arg-type]


def test_files(verts: Floats, faces: Faces, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        bonesmith.load(tmp_path / "nothing.glb")
    assert str(tmp_path / "nothing.glb") in str(missing.value.filename)
    broken = tmp_path / "broken.glb"
    broken.write_bytes(b"glTF\x02\0\0\0 and no more")
    with pytest.raises(bonesmith.FormatError) as caught:
        bonesmith.load(broken)
    assert caught.value.path == str(broken)
    with pytest.raises((bonesmith.BonesmithError, OSError)) as empty:
        bonesmith.load(tmp_path)
    assert str(tmp_path) in str(empty.value)
    rig = bonesmith.fit(verts, faces, bones=2)
    folder = tmp_path / "folder.glb"
    folder.mkdir()
    for write in (rig.save, rig.report):
        with pytest.raises(IsADirectoryError) as directory:
            write(folder)
        assert directory.value.filename == str(folder)
    with pytest.raises(FileNotFoundError):
        rig.save(tmp_path / "no" / "folder" / "x.glb")
    with pytest.raises(bonesmith.UnsupportedError):
        rig.save(tmp_path / "rig.xyz")
    with pytest.raises(bonesmith.ParameterError, match="shape"):
        rig.save(tmp_path / "rig.glb", shape="round")
    with pytest.raises(bonesmith.UnsupportedError, match="holds no rig, but an animation"):
        bonesmith.Animation(verts, faces).save(tmp_path / "frames.npz")
        bonesmith.load_rig(tmp_path / "frames.npz")
    closed = open(tmp_path / "frames.npz", "rb")
    closed.close()
    for no_path in (closed, 3, None):
        with pytest.raises(TypeError):
            bonesmith.load(no_path)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            rig.save(no_path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="frames"):
        bonesmith.load(tmp_path / "frames.npz", frames=4)  # type: ignore[arg-type]
    with pytest.raises(bonesmith.ParameterError, match="frames"):
        bonesmith.load(tmp_path / "frames.npz", frames=slice(4, 400))


def test_models_that_do_not_belong_together(verts: Floats, faces: Faces) -> None:
    rig = bonesmith.fit(verts, faces, bones=3)
    with pytest.raises(bonesmith.MismatchError):
        bonesmith.evaluate(rig, verts[:, :100])
    with pytest.raises(bonesmith.MismatchError):
        bonesmith.evaluate(rig, verts[:4])
    with pytest.raises(bonesmith.BonesmithError):
        bonesmith.refit(rig, verts[:, :100])
    with pytest.raises(IndexError):
        rig.pose(12)
    with pytest.raises(IndexError):
        rig.pose([0, -13])
    with pytest.raises(KeyError):
        rig.pose(0, clip="run")
    with pytest.raises(bonesmith.InputError, match="shape"):
        rig.pose(np.zeros((2, 4, 4)))
    bones = rig.bones[0].copy()
    bones[1, 3, 3] = 0.5
    with pytest.raises(bonesmith.InputError, match="matrices"):
        rig.pose(bones)
    bones[1, 3, 3] = np.nan
    with pytest.raises(bonesmith.InputError, match="matrices"):
        rig.pose(bones)


def test_views_cannot_be_written_to(verts: Floats, faces: Faces) -> None:
    rig = bonesmith.fit(verts, faces, bones=3)
    for array in (rig.rest, rig.joint_weights, rig.joint_indices):
        with pytest.raises(ValueError):
            array[0] = 1
    rest = rig.rest
    before = rest.copy()
    del rig
    assert (rest == before).all()


def test_exceptions_are_pickled_with_their_facts(verts: Floats) -> None:
    verts[1, 2, 0] = np.nan
    with pytest.raises(bonesmith.InputError) as caught:
        bonesmith.fit(verts)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.frame, copy.vertex, str(copy)) == (1, 2, str(caught.value))


def test_classes() -> None:
    for name in ("InputError", "ParameterError", "MismatchError", "FormatError", "UnsupportedError", "ReportError"):
        cls = getattr(bonesmith, name)
        assert issubclass(cls, bonesmith.BonesmithError) and issubclass(cls, ValueError)
    assert issubclass(bonesmith.InternalError, RuntimeError) and issubclass(bonesmith.BonesmithWarning, UserWarning)
    for cls in (bonesmith.Model, bonesmith.Basis):
        with pytest.raises(TypeError, match="is made by load"):
            cls()
