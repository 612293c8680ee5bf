"""The program resolves what is typed, the package what is passed: every option means the same in both. Files have the same bytes, parameters included."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from conftest import cloth, grid

import bonesmith

FEW = {"bones": 3, "effort": "fast", "max_iterations": 3}

# Command, arguments after its inputs, with values that are not their defaults.
FITS: list[dict[str, Any]] = [
    {"max_iterations": 2, "effort": "fast"},
    {**FEW, "influences": 2, "bone_kind": "affine", "smooth": 0.3, "prune": 0.1},
    {**FEW, "influences": "all", "bone_kind": "trs", "keep_rest": True, "shading": 0.0},
    {**FEW, "norm": "max"},
    {**FEW, "norm": 4, "area": True},
    {**FEW, "tolerance": 0.01, "seed": 5, "effort": "balanced"},
    {"target_error": 20.0, "effort": "fast", "max_iterations": 3},
    {"target_error": "0.05u", "effort": "fast", "max_iterations": 3},
    {"bones": 3, "method": "fsd"},
    {"bones": 3, "method": "ssdr", "max_iterations": 2},
    {"bones": 3, "method": "sma", "bandwidth": 0.5},
    {"bones": 2, "method": "svd"},
    {"bones": 4, "skeleton": True, "detail": 2.0, "no_symmetry": True},
    {"bones": 4, "skeleton": True, "skeleton_method": "hasler"},
    {**FEW, "eigenskin": 2},
    {**FEW, "root_motion": "full", "in_place": True},
    {**FEW, "root_motion": "plane", "up": "z", "loop": True},
]
REDUCTIONS: list[dict[str, Any]] = [
    {"influences": 2},
    {"influences": 2, "smooth": 1.0, "refit_motion": True},
    {"influences": 2, "method": "geometric"},
    {"influences": 2, "method": "poisson", "laplacian": "uniform"},
]
REFITS: list[dict[str, Any]] = [
    {"solve": "weights", "influences": 2},
    {"solve": "motion", "max_iterations": 2, "tolerance": 0.01},
    {"smooth": 0.3, "max_iterations": 2, "align": "off"},
]


def words(options: dict[str, Any]) -> list[str]:
    """As they are typed."""
    typed: list[str] = []
    for name, value in options.items():
        typed.append("--" + name.replace("_", "-"))
        if value is not True:
            typed.append(str(value))
    return typed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An animation, and a rig of it with four influences."""
    made = tmp_path_factory.mktemp("same")
    quads, verts = grid(9, 9).astype(np.int32), cloth(9, 9, 8)
    triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    np.savez(made / "sheet.npz", verts=verts, faces=triangles, rest=verts[0])
    bonesmith.fit(bonesmith.load(made / "sheet.npz"), bones=5, effort="fast", max_iterations=3).save(made / "rig.npz")
    return made


@pytest.mark.parametrize("options", FITS, ids=str)
def test_fits(options: dict[str, Any], folder: Path, run: Callable[..., str]) -> None:
    run("fit", folder / "sheet.npz", *words(options), "-q", "-o", folder / "there.npz")
    bonesmith.fit(bonesmith.load_animation(folder / "sheet.npz"), **options).save(folder / "here.npz")
    assert (folder / "here.npz").read_bytes() == (folder / "there.npz").read_bytes()


@pytest.mark.parametrize("options", REDUCTIONS, ids=str)
def test_reductions(options: dict[str, Any], folder: Path, run: Callable[..., str]) -> None:
    run("reduce", folder / "rig.npz", *words(options), "-q", "-o", folder / "there.npz")
    bonesmith.reduce(bonesmith.load_rig(folder / "rig.npz"), **options).save(folder / "here.npz")
    assert (folder / "here.npz").read_bytes() == (folder / "there.npz").read_bytes()


@pytest.mark.parametrize("options", REFITS, ids=str)
def test_refits(options: dict[str, Any], folder: Path, run: Callable[..., str]) -> None:
    run("fit", folder / "sheet.npz", "--rig", folder / "rig.npz", *words(options), "-q", "-o", folder / "there.npz")
    rig = bonesmith.load_rig(folder / "rig.npz")
    bonesmith.refit(rig, bonesmith.load_animation(folder / "sheet.npz"), **options).save(folder / "here.npz")
    assert (folder / "here.npz").read_bytes() == (folder / "there.npz").read_bytes()


def test_layers_levels_and_delta_mush(folder: Path, run: Callable[..., str]) -> None:
    rig = bonesmith.load_rig(folder / "rig.npz")

    def same() -> bool:
        return (folder / "here.npz").read_bytes() == (folder / "there.npz").read_bytes()

    options: dict[str, Any] = {"virtual_bones": 12, "force": True, "keep_rest": True}
    run("compress", folder / "rig.npz", *words(options), "-q", "-o", folder / "there.npz")
    bonesmith.compress(rig, **options).save(folder / "here.npz")
    assert same()
    options = {"rigid_bind": True, "alpha": 0.5, "steps": 6}
    run("ddm", folder / "rig.npz", *words(options), "-q", "-o", folder / "there.npz")
    bonesmith.ddm(rig, **options).save(folder / "here.npz")
    assert same()
    run("lod", folder / "rig.npz", "--bones", "3,2", "--influences", "2,1", "--separate", "-q", "-o", folder / "there.npz")
    levels = list(bonesmith.lod(rig, bones=[3, 2], influences=[2, 1]))
    assert len(levels) == len(list(folder.glob("there_lod*.npz"))) > 1
    for level, made in enumerate(levels):
        made.save(folder / "here.npz")
        assert (folder / "here.npz").read_bytes() == (folder / f"there_lod{level}.npz").read_bytes()
    options = {"bones": 3, "influences": 2, "numbers": 60}
    run("shapes", folder / "sheet.npz", *words(options), "-q", "-o", folder / "there.npz")
    bonesmith.shapes(bonesmith.load_animation(folder / "sheet.npz"), **options).save(folder / "here.npz")
    assert same()
