"""Small files: the bytes of the command line, figures, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from conftest import Faces, Floats, cloth, grid

import bonesmith

FIT: dict[str, Any] = {"bones": 6, "effort": "fast", "max_iterations": 3}


@pytest.fixture
def rig(verts: Floats, faces: Faces) -> bonesmith.Rig:
    return _fit(verts, faces)


def _fit(*arrays: Any) -> bonesmith.Rig:
    rig = bonesmith.fit(*arrays, **FIT)
    assert isinstance(rig, bonesmith.Rig)
    return rig


def test_a_small_file_keeps_its_bound(rig: bonesmith.Rig, tmp_path: Path) -> None:
    rig.save(tmp_path / "whole.glb")
    figures = bonesmith.compact(rig, tmp_path / "small.glb", error="5%")
    assert figures["bytes"] == (tmp_path / "small.glb").stat().st_size < (tmp_path / "whole.glb").stat().st_size
    assert figures["bytes_before"] == (tmp_path / "whole.glb").stat().st_size
    assert rig.metrics is not None
    assert figures["e_rms_before"] == pytest.approx(rig.metrics.e_rms, rel=1e-3)
    assert figures["e_rms"] <= figures["bound"] == pytest.approx(1.05 * figures["e_rms_before"])
    rig.save(tmp_path / "again.glb", compact="5%")
    assert (tmp_path / "again.glb").read_bytes() == (tmp_path / "small.glb").read_bytes()
    plain = bonesmith.compact(rig, tmp_path / "plain.glb", error=0.05, plain=True)
    assert not plain["compressed"] and plain["bound"] == pytest.approx(plain["e_rms_before"] + 0.05)
    rig.save(tmp_path / "words.glb", compact="plain,0.05")
    assert (tmp_path / "words.glb").read_bytes() == (tmp_path / "plain.glb").read_bytes()


def test_the_bytes_are_those_of_the_command_line(tmp_path: Path, run: Callable[..., str]) -> None:
    quads = grid(16, 16).astype(np.int32)
    triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    source, there, here = tmp_path / "sheet.npz", tmp_path / "there.glb", tmp_path / "here.glb"
    np.savez(source, verts=cloth(), faces=triangles)
    words = ["--bones", 6, "--effort", "fast", "--max-iterations", 3, "--compact"]
    run("fit", source, *words, "-o", there)
    _fit(bonesmith.load(source)).save(here, compact=True)
    assert here.read_bytes() == there.read_bytes()
    # A file that is read has nothing to compare with but itself.
    rigs = tmp_path / "rig.npz"
    _fit(bonesmith.load(source)).save(rigs)
    run("convert", rigs, there, "--compact=0.1")
    bonesmith.load_rig(rigs).save(here, compact=0.1)
    assert here.read_bytes() == there.read_bytes()


def test_what_is_refused_writes_nothing(rig: bonesmith.Rig, tmp_path: Path) -> None:
    with pytest.raises(bonesmith.UnsupportedError, match="small file; rigs in .glb, .gltf, USD and FBX are"):
        rig.save(tmp_path / "small.npz", compact=True)
    with pytest.raises(bonesmith.UnsupportedError, match="small file; rigs in .glb, .gltf, USD and FBX are"):
        rig.bake().save(tmp_path / "small.glb", compact=True)
    for bad in (0.0, -1.0, float("nan"), "small", "0%"):
        with pytest.raises(bonesmith.ParameterError):
            rig.save(tmp_path / "small.glb", compact=bad)
        with pytest.raises(bonesmith.ParameterError):
            bonesmith.compact(rig, tmp_path / "small.glb", error=bad)
    with pytest.raises(bonesmith.ParameterError, match="compact") as error:
        rig.save(tmp_path / "small.glb", compact=True, max_joints=3)
    assert error.value.option == "compact"
    with pytest.raises(bonesmith.Cancelled):
        bonesmith.compact(rig, tmp_path / "small.glb", progress=lambda *_: False)
    assert not list(tmp_path.iterdir())


def test_an_array_that_was_changed(verts: Floats, faces: Faces, tmp_path: Path) -> None:
    rig = _fit(verts, faces)
    verts += 1
    with pytest.raises(bonesmith.ParameterError, match="the array was changed since the fit"):
        rig.save(tmp_path / "small.glb", compact=True)
    rig.drop_animation()
    rig.save(tmp_path / "small.glb", compact=True)
