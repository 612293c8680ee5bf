"""For people who come from Dem Bones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from bonesmith import _native
from bonesmith._models import Rig, wrapped

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class SkinningResult(NamedTuple):
    """Weights and transforms, in the shapes of py-dem-bones."""

    #: [B, N] float32 weights.
    weights: npt.NDArray[np.float32]
    #: [F, B, 4, 4] float64 transforms for column vectors.
    transforms: npt.NDArray[np.float64]


def solve(
    rest: npt.ArrayLike,
    poses: npt.ArrayLike,
    bone_count: int,
    *,
    faces: npt.ArrayLike | Sequence[Sequence[int]] | None = None,
    max_influences: int = 4,
    iterations: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> SkinningResult:
    """Skinning weights and bone transforms in the shapes of py-dem-bones: a drop-in for its ``solve_skinning``.

    The rest pose stays as it is, bones are rigid. `fit` can do more, and returns a rig that can be saved.

    Parameters
    ----------
    rest : array_like
        [N, 3] rest pose.
    poses : array_like
        [F, N, 3] positions of all frames.
    bone_count : int
        Number of bones.
    faces : array_like or None, default: None
        [M, corners] vertices of each face; not required.
    max_influences : int, default: 4
        Maximum number of bones per vertex.
    iterations : int or None, default: None
        Maximum number of rounds over weights and bones; ``None``: as many as the usual effort.
    seed : int, default: 0
        Seed of all random choices.
    threads : int or None, default: None
        Threads to use; ``None``: all cores.

    Returns
    -------
    SkinningResult
        ``weights`` [B, N] and ``transforms`` [F, B, 4, 4]; unpacks as a tuple. A vertex is
        ``sum_j weights[j, i] * transforms[t, j] @ [rest[i], 1]``.
    """
    handle = _native.animation(poses, faces, rest, None, None, "animation", False)
    given: dict[str, Any] = {
        "bones": bone_count,
        "influences": max_influences,
        "keep_rest": True,
        "max_iterations": iterations,
        "seed": seed,
    }
    rig: Rig = wrapped(_native.fit(handle, given, {"threads": threads, "progress": None}))
    return SkinningResult(rig.weights.T, rig.bones)
