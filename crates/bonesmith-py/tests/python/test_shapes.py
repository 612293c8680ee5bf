"""Bones driven by the shapes of a face."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import Floats

import bonesmith


def face() -> tuple[Floats, Floats]:
    """A grid that two shapes move, one on each side."""
    x, y = np.meshgrid(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12))
    neutral = np.stack([x, y, 0.3 * np.cos(2 * x)], axis=-1).reshape(-1, 3).astype(np.float32)
    shapes = np.stack([neutral] * 3)
    shapes[0, :, 2] += 0.3 * np.exp(-8 * (neutral[:, 0] - 0.6) ** 2)
    shapes[1, :, 1] += 0.2 * np.exp(-8 * (neutral[:, 0] + 0.6) ** 2)
    return neutral, shapes


def test_shapes_drive_bones() -> None:
    neutral, shapes = face()
    names = ["raise", "slide", "nothing"]
    made = bonesmith.shapes(shapes, neutral, names, bones=6, influences=4, numbers=30)
    assert isinstance(made, bonesmith.ShapeBones) and made.shape_names == names and made.number_count <= 30
    assert np.abs(made.pose_shapes([0, 0, 0]) - neutral).max() < 1e-6
    off = np.abs(made.pose_shapes([1, 0, 0]) - shapes[0]).max()
    assert off < 0.1, off
    both = made.pose_shapes([0.5, 0.5, 0]) - neutral
    parts = 0.5 * (made.pose_shapes([1, 0, 0]) - neutral) + 0.5 * (made.pose_shapes([0, 1, 0]) - neutral)
    assert np.abs(both - parts).max() < 1e-5
    assert made.shape_transforms([0, 0, 0]).shape == (6, 4, 4)
    with pytest.raises(bonesmith.BonesmithError, match="weights"):
        made.pose_shapes([0, 0])


def test_bad_faces(tmp_path: Path) -> None:
    neutral, shapes = face()
    with pytest.raises(TypeError, match="neutral"):
        bonesmith.shapes(shapes)
    with pytest.raises(bonesmith.BonesmithError, match="two shapes"):
        bonesmith.shapes(shapes, neutral, ["a", "a", "b"], bones=3)
    with pytest.raises(bonesmith.ParameterError, match="numbers"):
        bonesmith.shapes(shapes, neutral, bones=3, numbers=0)
    made = bonesmith.shapes(shapes, neutral, bones=3)
    made.save(tmp_path / "face.npz")
    back = bonesmith.load(tmp_path / "face.npz")
    assert isinstance(back, bonesmith.ShapeBones) and back.number_count == made.number_count
