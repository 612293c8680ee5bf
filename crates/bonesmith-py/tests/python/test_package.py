"""The package: import, console command, examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

import bonesmith
from bonesmith import _native

HERE = Path(__file__).resolve().parents[2]


def python(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_import_needs_few_modules_and_no_numpy() -> None:
    """What an import costs are the modules that it loads."""
    code = "import sys; before = set(sys.modules); import bonesmith; print(*sorted(set(sys.modules) - before))"
    run = python("-c", code)
    assert run.returncode == 0, run.stderr
    loaded = run.stdout.split()
    assert not {"numpy", "scipy", "asyncio", "email", "http", "multiprocessing", "unittest"} & set(loaded), loaded
    assert len(loaded) < 60, loaded


def test_the_console_command_is_the_program(run: Callable[..., str], tmp_path: Path) -> None:
    assert python("-m", "bonesmith", "--version").stdout == run("--version")
    assert bonesmith.__version__ in run("--version")
    # Lines are as wide as the terminal.
    assert python("-m", "bonesmith", "help", "fit").stdout.split() == run("help", "fit").split()
    demo = python("-m", "bonesmith", "demo", "--quiet", "--bones", 4, "-o", tmp_path / "ours")
    assert demo.returncode == 0, demo.stderr
    run("demo", "--quiet", "--bones", 4, "-o", tmp_path / "theirs")
    ours, theirs = (tmp_path / folder / "demo.glb" for folder in ("ours", "theirs"))
    assert ours.read_bytes() == theirs.read_bytes()
    bad = python("-m", "bonesmith", "fit", tmp_path / "nothing.npz", "-o", tmp_path / "x.glb")
    assert bad.returncode == 2 and "no such file" in bad.stderr
    script = Path(sys.executable).with_name("bonesmith")
    if script.is_file():
        assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == run("--version")


@pytest.mark.parametrize("name", ["cloth_to_glb.py", "compare_seeds.py", "many_sequences.py"])
def test_examples_run(name: str, tmp_path: Path) -> None:
    done = python(HERE / "examples" / name, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


@pytest.mark.parametrize("quick", [False, True])
def test_a_bug_is_an_exception_that_asks_for_a_report(quick: bool) -> None:
    with pytest.raises(bonesmith.InternalError, match="please report it with the input: as asked for"):
        _native.panic_for_tests(quick)
