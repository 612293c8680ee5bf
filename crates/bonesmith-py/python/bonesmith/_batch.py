"""Many animations in one run: on this machine, or on a Ray cluster.

``python -m bonesmith._batch JOBS.toml`` is what ``bonesmith batch --engine ray`` starts.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator

from bonesmith import _native
from bonesmith._errors import Cancelled, ParameterError, UnsupportedError

if TYPE_CHECKING:
    from typing import Union

    PathLike = Union[str, os.PathLike[str]]
    Jobs = Union[PathLike, dict[str, Any]]

#: Exit code of a worker that used more memory than its limit.
_MEMORY_EXIT = 3
#: Seconds that a worker has to stop by itself.
_GRACE = 10.0
#: Tasks in flight for each processor of the cluster: enough to keep it busy, few enough for any number of jobs.
_TASKS_PER_CPU = 4
#: What is kept of the words of a worker, in bytes.
_LOG_BYTES = 1 << 17


class Batch:
    """Results of a batch.

    Attributes
    ----------
    jobs : list of dict
        One for each job, in the order of the file: `name`, `status`, `error`, `e_rms`, `max_error`, `bones`, `file_bytes`, `seconds`,
        `gates`, `output` and more, as in `results.json`.
    counts : dict
        How many jobs there are (`jobs`), are `done`, `missed` a limit of quality, `failed`, are `waiting`.
    page : pathlib.Path
        The page with all results.
    """

    def __init__(self, data: dict[str, Any], folder: Path) -> None:
        self.jobs: list[dict[str, Any]] = data["jobs"]
        self.counts: dict[str, int] = data["counts"]
        self.page = folder / "index.html"

    @property
    def ok(self) -> bool:
        """Whether every job is done and keeps its limits of quality."""
        return self.counts["done"] == self.counts["jobs"] and self.counts["missed"] == 0

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"<Batch: {counts}>"


def batch(
    jobs: Jobs,
    *,
    engine: str = "local",
    address: str | None = None,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
    progress: bool = False,
) -> Batch:
    """Fits many animations, each in a process of its own, and writes one page with all results.

    A job that fails is part of the result; the others go on.

    Parameters
    ----------
    jobs : path or dict
        A job file, or the same as a dictionary; its paths are then relative to the current folder.
    engine : str
        `local`: processes of this machine. `ray`: one task for each job on a Ray cluster, which has to see the same files under the same paths and
        to have this package installed.
    address : str, optional
        Of the Ray cluster, as `ray.init` takes it; by default a cluster that is connected already, else one on this machine.
    resume : bool
        Skip jobs that are done: same content of the inputs, same options, same version.
    shard : (int, int), optional
        Only a part of the jobs: (i, n) is every n-th from the i-th, i from 1 to n.
    progress : bool
        Print a line for each job that ends.

    Returns
    -------
    Batch
        Results of all jobs of the file, also of those from earlier runs.
    """
    if engine not in ("local", "ray"):
        raise ParameterError(f"engine is {engine!r}; it must be local or ray", option="engine", value=engine)
    if address is not None and engine == "local":
        raise ParameterError("address is that of a Ray cluster: engine must be ray", option="address", value=address)
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ParameterError(f"shard is {shard}; it must be (i, n) with i from 1 to n", option="shard", value=shard)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bonesmith-") as folder:
        path = Path(folder) / "jobs.json"
        if isinstance(jobs, dict):
            path.write_text(json.dumps({"folder": os.getcwd(), **jobs}), encoding="utf-8")
        else:
            path = Path(jobs)
            if not path.exists():
                raise FileNotFoundError(errno.ENOENT, "No such file; a job file is needed, .toml or .json", str(path))
        plan = _native.BatchPlan(os.fspath(path))
        if engine == "ray":
            data = _run_on_ray(plan, address, resume, shard, progress)
        else:
            data = _run_here(plan, path, resume, shard, progress)
    return Batch(data, Path(plan.output))


def _written(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; ``None`` where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns)


def _run_here(
    plan: _native.BatchPlan, path: Path, resume: bool, shard: tuple[int, int] | None, progress: bool
) -> dict[str, Any]:
    import subprocess

    words = [sys.executable, "-m", "bonesmith", "batch", os.fspath(path)]
    if resume:
        words.append("--resume")
    if shard is not None:
        words += ["--shard", f"{shard[0]}/{shard[1]}"]
    if not progress:
        words.append("--quiet")
    stderr = None if progress else subprocess.PIPE
    results = Path(plan.output) / "results.json"
    before = _written(results)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
    if done.returncode == 130:
        raise Cancelled("cancelled")
    # 2: a job failed, which is a result, or the file is wrong, which is none: results of an earlier run stay then.
    if done.returncode not in (0, 1, 2) or _written(results) in (None, before):
        text = (done.stderr or b"").decode(errors="replace").strip()
        raise ParameterError(text.replace("error: ", "", 1) or f"the batch ended with code {done.returncode}")
    data: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    return data


def _run_job(job: dict[str, Any], threads: int) -> dict[str, Any]:
    """One job, in a process of its own, on whatever machine this runs: a crash of it is a result here."""
    started = time.monotonic()
    attempt = 0
    while True:
        attempt += 1
        code, late, log = _run_worker(job, threads, attempt)
        try:
            Path(job["log"]).write_bytes(log)
        except OSError:
            pass
        lines = log.decode(errors="replace").splitlines()
        why = next((line[len("error: ") :] for line in reversed(lines) if line.startswith("error: ")), "")
        done = {"code": code, "attempts": attempt, "seconds": time.monotonic() - started}
        if code in (0, 1):
            return {**done, "status": "done", "why": ""}
        if late:
            return {**done, "code": None, "status": "time-limit", "why": f"not done after {job['seconds']} s (limits.seconds)"}
        if code == 2:
            return {**done, "status": "failed", "why": why or "refused"}
        if code == _MEMORY_EXIT:
            return {**done, "status": "memory-limit", "why": why}
        if attempt > job["retries"]:
            how = f"signal: {-code}" if code < 0 else f"it ended with code {code}"
            return {**done, "code": None, "status": "crashed", "why": f"{how}: {why}" if why else how}


def _run_worker(job: dict[str, Any], threads: int, attempt: int) -> tuple[int, bool, bytes]:
    """Exit code, whether it was ended because of its time, and what it said."""
    import subprocess
    import threading

    words = job["arguments"]
    task = json.dumps({**job["task"], "attempt": attempt})
    command = [sys.executable, "-m", "bonesmith", words[0], "--threads", str(threads), "--worker", task, *words[1:]]
    # The worker stops when its standard input ends, so also when this process is killed.
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, cwd=job["folder"], **pipes)
    assert child.stdin is not None and child.stderr is not None
    log = bytearray()

    def listen(stream: Any) -> None:
        for line in stream:
            log.extend(line)
            if len(log) > _LOG_BYTES:
                del log[: len(log) - _LOG_BYTES]

    listener = threading.Thread(target=listen, args=(child.stderr,))
    listener.start()
    late = False
    try:
        child.wait(job["seconds"])
    except subprocess.TimeoutExpired:
        late = True
    finally:
        if child.poll() is None:
            child.stdin.close()
            try:
                child.wait(_GRACE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        listener.join()
        child.stdin.close()
        child.stderr.close()
    return child.returncode, late, bytes(log)


def _run_on_ray(
    plan: _native.BatchPlan, address: str | None, resume: bool, shard: tuple[int, int] | None, progress: bool
) -> dict[str, Any]:
    import importlib

    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise UnsupportedError("engine ray needs the package ray: pip install bonesmith[ray]") from error
    if address is not None or not ray.is_initialized():
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level=30)
    # Lost nodes and killed processes of Ray are tried again, on another node; what a job answers is an answer.
    remote = ray.remote(max_retries=max(3, plan.retries), retry_exceptions=False)(_run_job)
    selected = (at for at in range(len(plan)) if shard is None or at % shard[1] == shard[0] - 1)
    todo: Iterator[int] = (at for at in selected if not (resume and plan.is_done(at)))
    limit = max(8, int(_TASKS_PER_CPU * ray.cluster_resources().get("CPU", 1)))
    flight: dict[Any, tuple[int, float]] = {}
    ended = 0
    more = True
    try:
        while more or flight:
            while more and len(flight) < limit:
                at = next(todo, None)
                if at is None:
                    more = False
                    break
                plan.prepare(at)
                job = plan.job(at)
                threads = job["threads"] or 1
                needs: dict[str, Any] = {"num_cpus": threads, "name": job["name"]}
                if job["memory"] is not None:
                    needs["memory"] = job["memory"]
                flight[remote.options(**needs).remote(job, threads)] = (at, time.monotonic())
            if not flight:
                continue
            ready, _ = ray.wait(list(flight), num_returns=1, timeout=1.0)
            for task in ready:
                at, since = flight.pop(task)
                words = _take(plan, at, since, ray, task)
                ended += 1
                if progress:
                    print(f"{ended} {plan.job(at)['name']}: {words}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        for task in flight:
            ray.cancel(task, force=False)
        plan.write_results()
        raise
    return plan.write_results()


def _take(plan: _native.BatchPlan, at: int, since: float, ray: Any, task: Any) -> str:
    """The result of a task into the records; in words."""
    try:
        result = ray.get(task)
    except ray.exceptions.RayError as error:
        text = str(error).strip().splitlines()
        why = f"{type(error).__name__}: {text[0] if text else ''}"
        result = {"status": "crashed", "code": None, "attempts": 1, "why": why, "seconds": time.monotonic() - since}
    if result["status"] == "done" and not plan.has_record(at):
        why = "it left no record: do all nodes see the same files?"
        result = {**result, "status": "crashed", "why": why}
    if result["status"] != "done":
        plan.clean(at)
        plan.failed(at, result["status"], result["code"], result["attempts"], result["why"], result["seconds"])
    return f"{result['status']} {result['why']}".strip()


def main(words: list[str]) -> int:
    """The part of ``bonesmith batch --engine ray`` that is Python."""
    import argparse

    parser = argparse.ArgumentParser(prog="bonesmith batch --engine ray")
    parser.add_argument("jobs")
    parser.add_argument("--address")
    parser.add_argument("--shard")
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args(words)
    shard = None
    if given.shard:
        index, count = given.shard.split("/")
        shard = (int(index), int(count))
    try:
        done = batch(given.jobs, engine="ray", address=given.address, resume=given.resume, shard=shard, progress=True)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001: one line, as the program does it
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows = [row for at, row in enumerate(done.jobs) if shard is None or at % shard[1] == shard[0] - 1]
    good = [row for row in rows if row["status"] == "done"]
    missed = sum(any(not gate["passed"] for gate in row["gates"]) for row in good)
    print(f"{len(rows)} jobs: {len(good)} done, {missed} of them miss a limit of quality\n  results  {done.page}")
    if len(good) < len(rows):
        return 2
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
