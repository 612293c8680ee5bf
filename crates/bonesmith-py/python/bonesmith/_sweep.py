"""Errors against numbers of bones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import Union

    PathLike = Union[str, os.PathLike[str]]


class SweepPoint(NamedTuple):
    """A fit of a sweep."""

    #: Number of bones.
    bones: int
    #: Root mean square error, in thousandths of the radius.
    e_rms: float
    #: The largest distance, in thousandths of the radius.
    max_error: float


class Sweep:
    """Errors against numbers of bones, of one animation.

    Attributes
    ----------
    points : list of SweepPoint
        One for each number of bones.
    knee : int or None
        The number of bones beyond which more buy less.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.name: str = data["name"]
        self.points = [SweepPoint(*point) for point in data["points"]]
        self.knee: int | None = data["knee"]
        self._csv: str = data["csv"]
        self._page: str = data["page"]

    def csv(self) -> str:
        """As a table for spreadsheets."""
        return self._csv

    def save(self, path: PathLike) -> None:
        """Writes the table as ``.csv``, or a page with a plot as ``.html``."""
        text = self._page if os.fspath(path).lower().endswith((".html", ".htm")) else self._csv
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def _repr_html_(self) -> str:
        import html

        source = html.escape(self._page, quote=True)
        return f'<iframe sandbox style="width:100%;height:720px;border:0" srcdoc="{source}"></iframe>'

    def __repr__(self) -> str:
        knee = "" if self.knee is None else f", the knee at {self.knee} bones"
        return f"<Sweep of {self.name!r}: {len(self.points)} numbers of bones{knee}>"
