"""Animations made by arithmetic, and the binary to compare with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable

import numpy as np
import numpy.typing as npt
import pytest

Floats = npt.NDArray[np.float32]
Faces = npt.NDArray[np.int64]


def grid(columns: int, rows: int) -> Faces:
    """[M, 4] quads of a grid of vertices."""
    at = np.arange(columns * rows).reshape(rows, columns)
    return np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1]], axis=-1).reshape(-1, 4)


def cloth(columns: int = 16, rows: int = 16, frames: int = 12, seed: int = 0) -> Floats:
    """[F, N, 3] a sheet with waves."""
    u, v = np.meshgrid(np.linspace(0, 1, columns), np.linspace(0, 1, rows))
    phase = 0.7 * seed
    made = [
        np.stack([u, v, 0.15 * np.sin(5 * u + 0.5 * t + phase) * (0.4 + v)], axis=-1).reshape(-1, 3)
        for t in range(frames)
    ]
    return np.asarray(made, dtype=np.float32)


@pytest.fixture
def verts() -> Floats:
    """A sheet that waves."""
    return cloth()


@pytest.fixture
def faces() -> Faces:
    """Its faces."""
    return grid(16, 16)


@pytest.fixture(scope="session")
def binary() -> Path:
    """The program `bonesmith`, built from the same source."""
    root = Path(__file__).resolve().parents[4]
    path = Path(os.environ.get("BONESMITH_BINARY", root / "target" / "debug" / "bonesmith"))
    if not path.is_file():
        pytest.skip(f"SKIPPED: no program to compare with at {path}")
    return path


@pytest.fixture(scope="session")
def run(binary: Path) -> Callable[..., str]:
    """Runs the program; returns what it prints."""

    def run_binary(*arguments: object) -> str:
        command = [str(binary), *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run_binary
