"""Measuring models against animations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from bonesmith import _native
from bonesmith._models import Metrics, Model, handle_of

if TYPE_CHECKING:
    from typing import Union

    from numpy.typing import ArrayLike

    PathLike = Union[str, os.PathLike[str]]


def evaluate(
    model: Model,
    animation: ArrayLike | Model,
    faces: ArrayLike | Sequence[Sequence[int]] | None = None,
    rest: ArrayLike | None = None,
    *,
    clip: str | None = None,
    threads: int | None = None,
) -> Metrics:
    """Measure a model against a mesh animation.

    Parameters
    ----------
    model : Model
        A model of any kind.
    animation : array_like or Model
        [F, N, 3] positions, or an animation.
    faces, rest : array_like or None, default: None
        Of arrays: see `fit`. Distances are in thousandths of the radius of the rest pose.
    clip : str or None, default: None
        Which of the model's clips. ``None``: the first with as many frames as the animation, else the first.
    threads : int or None, default: None
        Threads to use; ``None``: all cores.

    Returns
    -------
    Metrics
        All figures.
    """
    how = {"threads": threads, "progress": None}
    return Metrics(_native.evaluate(model._handle, handle_of(animation, faces, rest), clip, how))


def compare(
    models: Mapping[str, Model] | Sequence[Model],
    against: ArrayLike | Model,
    *,
    report: PathLike | None = None,
    report_max_mb: float = 25,
    threads: int | None = None,
) -> dict[str, Metrics]:
    """Measure several models of one mesh against one mesh animation.

    Parameters
    ----------
    models : mapping of str to Model, or sequence of Model
        The models; a sequence is named by the models' own names, with a number where they repeat.
    against : array_like or Model
        [F, N, 3] positions, or an animation.
    report : path-like or None, default: None
        Write a report with all models side by side, ``.html``.
    report_max_mb : float, default: 25
        Maximum size of the report in MB; frames are left out evenly where all would be too much.
    threads : int or None, default: None
        Threads to use; ``None``: all cores.

    Returns
    -------
    dict of str to Metrics
        In the order of the models.
    """
    named: dict[str, Model] = dict(models) if isinstance(models, Mapping) else {}
    if not isinstance(models, Mapping):
        for model in models:
            name, number = model.name, 2
            while name in named:
                name, number = f"{model.name}_{number}", number + 1
            named[name] = model
    target = None if report is None else (os.fspath(report), report_max_mb)
    how: dict[str, Any] = {"threads": threads, "progress": None}
    handles = [(name, model._handle) for name, model in named.items()]
    found = _native.compare(handles, handle_of(against), target, how)
    return {name: Metrics(data) for name, data in zip(named, found)}
