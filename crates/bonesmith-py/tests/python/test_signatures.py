"""Signatures, help texts and the library's defaults are one set of definitions."""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable

import pytest

import bonesmith
from bonesmith import _native

TABLES = {
    "fit": ["fit"],
    "refit": ["refit"],
    "reduce": ["reduce"],
    "compress": ["compress"],
    "compact": ["compact"],
    "lod": ["lod"],
    "shapes": ["shapes"],
    "ddm": ["ddm"],
    "sweep": ["sweep"],
    "load": ["load"],
}
#: Arguments that the command line has as files, or not at all.
OWN = {
    "verts", "faces", "rest", "rig", "animation", "examples", "path", "times", "fps", "name", "threads", "progress",
    "normalise", "count", "shapes", "neutral", "names",
}  # fmt: skip


def options(table: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in _native.options(table)}


@pytest.mark.parametrize("name", TABLES)
def test_signatures_have_the_names_and_defaults_of_the_tables(name: str) -> None:
    parameters = inspect.signature(getattr(bonesmith, name)).parameters
    for table in TABLES[name]:
        for option, row in options(table).items():
            default = parameters[option].default
            assert (list(default) if isinstance(default, tuple) else default) == row["default"], option
            assert parameters[option].annotation.replace("'", '"') == row["hint"], option
            assert parameters[option].kind is inspect.Parameter.KEYWORD_ONLY
    known = OWN | set(options(name)) | set(options("fit") if name == "sweep" else {})
    assert set(parameters) <= known


def test_arguments_of_the_issue() -> None:
    given = "bones influences bone_kind effort smooth keep_rest skeleton seed threads max_seconds progress".split()
    parameters = inspect.signature(bonesmith.fit).parameters
    assert list(parameters)[:3] == ["verts", "faces", "rest"]
    defaults = ["auto", 4, "rigid", "balanced", 0, False, False, 0, None, None, None]
    assert [parameters[name].default for name in given] == defaults


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", TABLES)
def test_docstrings_have_the_help_of_the_tables(name: str) -> None:
    documented = inspect.getdoc(getattr(bonesmith, name)) or ""
    for section in ("Parameters\n----------", "Returns\n-------"):
        assert section in documented
    for option, row in options(name).items():
        assert words(row["help"]) in words(documented), option
        assert re.search(rf"^{option} : ", documented, re.MULTILINE), option


def test_the_command_line_has_the_same_help_and_defaults(run: Callable[..., str]) -> None:
    """Read from the help text: what people see."""
    for command in ("fit", "reduce", "compress", "ddm", "sweep"):
        shown = words(run("help", command))
        for option, row in options(command).items():
            flag = "--" + option.replace("_", "-")
            assert re.search(rf"{flag}(?![\w-])", shown), (command, flag)
            if option != "eigenskin":
                # Options in backquotes are flags there.
                start = words(re.split("`", row["help"])[0])
                assert start in shown, (command, start)
            if isinstance(row["default"], (int, float)) and not isinstance(row["default"], bool):
                # Only numbers that the help has to state; others are chosen by clap.
                value = f"{row['default']:g}"
                assert f"[default: {value}]" in shown or f"[default: {row['default']}]" in shown, (command, option)


def test_defaults_are_those_of_the_library() -> None:
    """What a fit stores, with nothing chosen, are the parameters of `FitParams::default`."""
    from conftest import cloth

    rig = bonesmith.fit(cloth())
    assert rig.params is not None
    stored = rig.params["fit"]
    table = options("fit")
    for name in ("influences", "bone_kind", "smooth", "prune", "keep_rest", "shading", "effort", "seed", "method"):
        assert stored[name] == table[name]["default"], name
    assert stored["bones"] == table["bones"]["default"]
    for name in ("max_iterations", "tolerance", "max_seconds"):
        assert stored[name] is None and table[name]["default"] is None


def test_everything_public_is_documented() -> None:
    for name in bonesmith.__all__:
        found = getattr(bonesmith, name)
        if name == "__version__":
            continue
        assert inspect.getdoc(found), name
        if inspect.isclass(found) and issubclass(found, bonesmith.Model):
            for attribute, value in vars(found).items():
                if not attribute.startswith("_"):
                    assert inspect.getdoc(value), f"{name}.{attribute}"
