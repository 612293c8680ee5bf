"""Reading files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bonesmith import _native
from bonesmith._models import Model, Rig, wrapped

if TYPE_CHECKING:
    from typing import Union

    PathLike = Union[str, os.PathLike[str]]


def _range(frames: Any) -> tuple[int, int | None] | None:
    """First frame, and the frame after the last."""
    if frames is None:
        return None
    if not isinstance(frames, (slice, range)):
        raise TypeError(f"frames is a {type(frames).__name__}; a slice or a range is needed, such as slice(0, 24)")
    start, step = frames.start, frames.step
    if step not in (None, 1) or (start or 0) < 0 or (frames.stop is not None and frames.stop < 0):
        from bonesmith._errors import ParameterError

        message = f"frames is {frames}; it must be a range of frames from 0 on, with a step of 1"
        raise ParameterError(message, option="frames", value=frames)
    return (start or 0, frames.stop)


def read(path: Any, options: dict[str, Any], *, bake: bool, normalise: bool) -> Model:
    """Reads one file, or several of one animation."""
    if hasattr(path, "read"):
        raise TypeError("a path is needed, not a file object")
    paths = [path] if isinstance(path, (str, os.PathLike)) or not hasattr(path, "__iter__") else list(path)
    rest = options["rest"]
    if rest is not None and not isinstance(rest, int):
        rest = os.fspath(rest)
    names = [os.fspath(part) for part in paths]
    model: Model = wrapped(
        _native.load(
            names,
            rest,
            options["fps"],
            _range(options["frames"]),
            options["mesh"],
            list(options["clips"]),
            bake,
            normalise,
        )
    )
    return model


def load_rig(path: PathLike, *, normalise: bool = False) -> Rig:
    """Read a rig of any kind.

    Parameters
    ----------
    path : path-like
        The file.
    normalise : bool, default: False
        Accept weights of an npz that are negative or do not sum to 1, and correct them.

    Returns
    -------
    Rig
        A `Rig`, `TwoLayerRig`, `DdmRig` or `CorrectiveRig`.

    Raises
    ------
    UnsupportedError
        The file holds no rig.
    """
    options: dict[str, Any] = {"rest": None, "fps": None, "frames": None, "mesh": None, "clips": []}
    model = read(path, options, bake=False, normalise=normalise)
    if isinstance(model, Rig):
        return model
    from bonesmith._errors import UnsupportedError

    name = os.fspath(path)
    raise UnsupportedError(f"{name}: holds no rig, but {model._handle.kind_text()}", path=name)


def clips_of(value: Any) -> list[_native.Handle] | None:
    """The handles of a list of animations; ``None`` for one animation or arrays."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, Model) for part in value):
        return [part._handle for part in value]
    return None


