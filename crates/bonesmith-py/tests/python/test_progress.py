"""Progress, cancel, Ctrl-C, threads, memory."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from conftest import Faces, Floats, cloth, grid

import bonesmith


def long_fit(**more: Any) -> bonesmith.Rig:
    """A fit of several seconds, unless something ends it."""
    return bonesmith.fit(cloth(60, 60, 40), grid(60, 60), bones=60, effort="best", **more)  # type: ignore[no-any-return]


def test_progress_comes_from_the_calling_thread_and_not_too_often() -> None:
    seen: list[tuple[str, int, int | None, float | None]] = []
    threads: set[int] = set()

    def progress(stage: str, step: int, total: int | None, error: float | None) -> None:
        threads.add(threading.get_ident())
        seen.append((stage, step, total, error))

    started = time.perf_counter()
    bonesmith.fit(cloth(40, 40, 24), grid(40, 40), bones=24, progress=progress)
    seconds = time.perf_counter() - started
    assert threads == {threading.get_ident()}
    assert 1 <= len(seen) <= 30 * seconds + 1
    assert all(isinstance(stage, str) and step >= 0 for stage, step, _, _ in seen)
    assert any(error is not None for _, _, _, error in seen)


def test_false_cancels() -> None:
    started = time.perf_counter()
    with pytest.raises(bonesmith.Cancelled):
        long_fit(progress=lambda *_: False)
    assert time.perf_counter() - started < 2
    # Nothing else does.
    rig = bonesmith.fit(cloth(), bones=2, progress=lambda *_: None)
    assert bonesmith.fit(cloth(), bones=2, progress=lambda *_: 0).bone_count == rig.bone_count  # type: ignore[arg-type]


def test_what_the_function_raises_ends_the_work() -> None:
    def progress(*_: object) -> None:
        raise ZeroDivisionError("in the function")

    with pytest.raises(ZeroDivisionError, match="in the function"):
        long_fit(progress=progress)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("function", [None, lambda *_: None])
def test_ctrl_c_within_a_second(function: Any) -> None:
    sent: list[float] = []

    def interrupt() -> None:
        time.sleep(0.7)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        long_fit(progress=function)
        time.sleep(5)
    ended = time.perf_counter()
    thread.join()
    assert ended - sent[0] < 1.0


def test_other_threads_run_meanwhile() -> None:
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    bonesmith.fit(cloth(40, 40, 24), grid(40, 40), bones=24)
    stop.set()
    thread.join()
    assert counted > 10


def test_eight_threads_at_once_give_the_results_of_one_after_the_other() -> None:
    inputs = [cloth(20, 20, 10, seed) for seed in range(8)]
    faces = grid(20, 20)
    one_by_one = [bonesmith.fit(verts, faces, bones=6) for verts in inputs]
    at_once: list[Any] = [None] * 8

    def work(at: int) -> None:
        at_once[at] = bonesmith.fit(inputs[at], faces, bones=6, threads=None if at % 2 else 2)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for alone, together in zip(one_by_one, at_once):
        assert (alone.bones == together.bones).all() and (alone.weights == together.weights).all()


def test_threads_do_not_change_the_result(verts: Floats, faces: Faces) -> None:
    rigs = [bonesmith.fit(verts, faces, bones=6, threads=threads) for threads in (None, 1, 2, 3)]
    assert all((rig.bones == rigs[0].bones).all() for rig in rigs)


def test_an_array_that_changes_during_the_call_does_no_harm() -> None:
    """The result is one of mixed numbers, or an exception: never the end of the process."""
    verts, stop = cloth(30, 30, 12), threading.Event()

    def write() -> None:
        at = 0
        while not stop.is_set():
            verts[at % 12] = np.nan if at % 7 == 0 else 0.5
            at += 1

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(5):
        try:
            bonesmith.fit(verts, bones=4, max_seconds=2)
        except bonesmith.BonesmithError:
            pass
    stop.set()
    thread.join()


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory as Linux shows it")
def test_fits_leak_nothing() -> None:
    count = int(os.environ.get("BONESMITH_FITS", "150"))
    faces = grid(24, 24)

    def once(seed: int) -> None:
        verts = cloth(24, 24, 10, seed)
        rig = bonesmith.fit(verts, faces, bones=3, effort="fast", progress=lambda *_: None)
        assert rig.metrics is not None and rig.rest.shape == (576, 3)

    # Until allocators and thread pools have what they need.
    for seed in range(count // 3):
        once(seed)
    gc.collect()
    before = resident()
    for seed in range(count):
        once(seed)
    gc.collect()
    assert resident() < before * 1.05 + 1e6
