"""Exceptions and warnings. Errors of files are Python's own: ``FileNotFoundError``, ``IsADirectoryError``, ``PermissionError``..."""

from __future__ import annotations

from typing import Any


class BonesmithError(Exception):
    """Base class of all errors of this package.

    Attributes
    ----------
    frame : int or None
        The frame that the error is about, counted from 0.
    vertex : int or None
        The vertex that it is about.
    path : str or None
        The file that it is about.
    value : object
        The value that was refused.
    option : str or None
        The argument that it is about.
    """

    def __init__(
        self,
        message: str = "",
        *,
        frame: int | None = None,
        vertex: int | None = None,
        path: str | None = None,
        value: Any = None,
        option: str | None = None,
    ) -> None:
        super().__init__(message)
        self.frame = frame
        self.vertex = vertex
        self.path = path
        self.value = value
        self.option = option

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self.args, self.__dict__)


class InputError(BonesmithError, ValueError):
    """Arrays or files that are no animation: wrong shapes, numbers that are not finite, faces that name no vertex."""


class DtypeError(BonesmithError, TypeError):
    """An array of things that are no numbers."""


class ParameterError(BonesmithError, ValueError):
    """An argument with a value that it cannot have, or a combination that has no meaning."""


class MismatchError(BonesmithError, ValueError):
    """A model and an animation that do not belong together."""


class SolveError(BonesmithError, ValueError):
    """A model that a stage cannot work on."""


class FormatError(BonesmithError, ValueError):
    """A file that is broken, or not what it claims to be."""


class UnsupportedError(BonesmithError, ValueError):
    """A sound file, or a format, that cannot be read or written."""


class ReportError(BonesmithError, ValueError):
    """A report that cannot be made."""


class Cancelled(BonesmithError):
    """The progress function returned ``False``."""


class InternalError(BonesmithError, RuntimeError):
    """A bug of bonesmith. Please report it, with the input."""


class BonesmithWarning(UserWarning):
    """Something that should be known about a result.

    Attributes
    ----------
    kind : str
        What it is about, such as ``"target-missed"``.
    data : dict
        Its numbers and its words.
    """

    kind: str = ""
    data: dict[str, Any] = {}
