"""Work in small steps, so that Blender's interface stays alive.

A job is a generator. It yields a `Progress` after each small piece of work, and `WAITING` while a worker thread computes. `Job.step` runs
pieces until its budget is used up; the modal operator calls it on a timer, scripts and background mode in a loop. The same code runs in both.
"""

import threading
import time
from typing import NamedTuple, Optional

#: Seconds of work in one step. A piece that takes longer (one frame of Blender's own evaluation) is not interrupted.
BUDGET = 0.01

#: Yielded while a worker thread computes.
WAITING = object()


class Cancelled(Exception):
    """The user has cancelled."""


class Refused(Exception):
    """The scene or the settings do not allow the work; the message says why."""


class Progress(NamedTuple):
    """Where a job is."""

    #: What is done, in a few words.
    stage: str
    #: Pieces that are done, and all pieces; `None` where the number is not known.
    done: int = 0
    total: Optional[int] = None
    #: E_RMS, where there is one.
    error: Optional[float] = None

    @property
    def fraction(self):
        """Share of the stage that is done, 0 to 1; `None` where it is not known."""
        return min(self.done / self.total, 1.0) if self.total else None


class Control:
    """What a generator and its job share: the cancel, and the progress of a worker."""

    def __init__(self):
        self.cancel = threading.Event()
        self.progress = Progress("")

    def report(self, stage, done, total, error):
        """The progress function of the library, called from the worker's thread; `False` cancels."""
        self.progress = Progress(stage, done, total, error)
        return not self.cancel.is_set()


def to_the_end(work):
    """A generator: all of another one, which a cancel does not interrupt: objects of the scene are changed completely or not at all."""
    result = None
    try:
        step = next(work)
        while True:
            try:
                yield step
            except Cancelled:
                pass
            step = next(work)
    except StopIteration as end:
        result = end.value
    finally:
        work.close()
    return result


def in_worker(control, stage, function, *arguments, **options):
    """A generator: runs a function in a thread and returns its result. Exceptions of the function are raised here."""
    outcome = {}

    def run():
        try:
            outcome["result"] = function(*arguments, **options)
        except BaseException as problem:
            outcome["problem"] = problem

    control.progress = Progress(stage)
    thread = threading.Thread(target=run, name="bonesmith", daemon=True)
    thread.start()
    while thread.is_alive():
        yield WAITING
    thread.join()
    if "problem" in outcome:
        raise outcome["problem"]
    return outcome["result"]


class Job:
    """A generator that is run step by step."""

    def __init__(self, title, generator, control):
        self.title = title
        self.control = control
        self.state = "running"
        self.result = None
        self.problem = None
        #: Longest step in seconds, by stage.
        self.longest = {}
        self._generator = generator
        self._waiting = False
        self._stage_began = time.monotonic()

    @property
    def progress(self):
        """Where the job is."""
        return self.control.progress

    def cancel(self):
        """Ends the job soon: go on calling `step` until it says so."""
        self.control.cancel.set()

    def abandon(self):
        """Ends the job at once, without waiting for its worker: for the case that the scene goes away."""
        self.control.cancel.set()
        if self.state == "running":
            self.state = "cancelled"
            try:
                self._generator.close()
            except Exception as problem:
                # What it wanted to restore may be gone already.
                self.problem = problem

    def step(self, budget=BUDGET):
        """Works for about `budget` seconds. True when the job has ended."""
        if self.state != "running":
            return True
        began = time.perf_counter()
        stage = self.progress.stage
        while self._advance():
            if self._waiting or time.perf_counter() - began >= budget:
                break
        took = time.perf_counter() - began
        self.longest[stage] = max(took, self.longest.get(stage, 0.0))
        if self.progress.stage != stage:
            self._stage_began = time.monotonic()
        return self.state != "running"

    def _advance(self):
        """One piece of work. False when the job has ended."""
        try:
            # A worker ends by itself when its progress function returns `False`.
            if self.control.cancel.is_set() and not self._waiting:
                said = self._generator.throw(Cancelled())
            else:
                said = next(self._generator)
        except StopIteration as end:
            self.state, self.result = "done", end.value
        except Exception as problem:
            cancelled = isinstance(problem, Cancelled) or type(problem).__name__ == "Cancelled"
            self.state, self.problem = ("cancelled" if cancelled else "failed"), problem
        else:
            self._waiting = said is WAITING
            if not self._waiting:
                self.control.progress = said
        return self.state == "running"

    def pause(self):
        """Sleeps for a moment where a worker computes: a loop over steps takes nothing from it."""
        if self._waiting and self.state == "running":
            time.sleep(0.004)

    def finish(self):
        """All steps, one after the other."""
        while not self.step():
            self.pause()

    def run(self):
        """All steps, one after the other. What went wrong is raised."""
        self.finish()
        if self.problem is not None:
            raise self.problem
        return self.result

    def seconds_left(self):
        """Of the present stage, from its pace; `None` where that is not known."""
        fraction = self.progress.fraction
        if not fraction or fraction < 0.02:
            return None
        return (time.monotonic() - self._stage_began) * (1 - fraction) / fraction
