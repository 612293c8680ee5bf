#!/usr/bin/env python3
"""A batch of many small jobs: its speed with two workers, what is left after kills and a full disk, memory of the batch, a Ray cluster that loses a node.

    scripts/batch_figures.py BONESMITH FOLDER speed --jobs 500
    scripts/batch_figures.py BONESMITH FOLDER kills --jobs 500
    scripts/batch_figures.py BONESMITH FOLDER memory --jobs 10000
    scripts/batch_figures.py BONESMITH FOLDER ray --jobs 500        (with a Python that has bonesmith[ray]; BONESMITH is not used)

Exit code 1 if a job is lost, done twice, or has other bytes than in an undisturbed run.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("bonesmith")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("what", choices=["speed", "kills", "memory", "ray"])
parser.add_argument("--jobs", type=int, default=500)
args = parser.parse_args()
args.folder.mkdir(parents=True, exist_ok=True)
args.bonesmith = os.path.abspath(args.bonesmith)
os.chdir(args.folder)


def shots(count: int, side: int, frames: int) -> None:
    """Waving cloths of side x side vertices, each another."""
    x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij"))
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)[None, :]).ravel()
    faces = np.stack([corner, corner + side, corner + side + 1, corner, corner + side + 1, corner + 1], axis=1)
    t = np.arange(frames)[:, None] / 8
    for n in range(count):
        z = 0.3 * np.sin(3 * x + t + n) + 0.1 * np.sin(5 * y - t)
        verts = np.stack([np.broadcast_to(x, z.shape), np.broadcast_to(y, z.shape), z], axis=-1).astype("<f4")
        np.savez(f"shot_{n:05}.npz", verts=verts, faces=faces.reshape(-1, 3).astype("<i4"))


def job_file(output: str, **defaults: object) -> str:
    path = f"{output}.json"
    jobs = {"output": output, "defaults": defaults, "jobs": [{"input": "shot_*.npz"}]}
    pathlib.Path(path).write_text(json.dumps(jobs))
    return path


def batch(*words: str, limit: int | None = None) -> subprocess.Popen[bytes]:
    """Starts a batch; `limit`: no file may be larger, as on a full disk."""

    def full() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen([args.bonesmith, "batch", "-q", *words], preexec_fn=full, stderr=subprocess.DEVNULL)


def rigs(output: str) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in pathlib.Path(output).glob("*.glb")}


def left_over(output: str) -> list[str]:
    return [path.name for path in pathlib.Path(output).rglob(".*")]


def check(what: str, right: bool) -> None:
    print(f"{'ok  ' if right else 'FAIL'} {what}", flush=True)
    if not right:
        sys.exit(1)


def speed() -> None:
    shots(args.jobs, 30, 32)
    path = job_file("speed", bones=12, effort="fast", threads=1)
    for workers in (1, 2):
        shutil.rmtree("speed", ignore_errors=True)
        started, before = time.monotonic(), others()
        process = batch(path, "--workers", str(workers))
        _, status, used = os.wait4(process.pid, 0)
        wall, own = time.monotonic() - started, used.ru_utime + used.ru_stime
        share = (others() - before - own) / wall
        print(
            f"| {workers} | {wall:.1f} s | {own:.1f} s | {1000 * own / args.jobs:.0f} ms | {share:.2f} | {used.ru_maxrss / 1000:.0f} MB |",
            flush=True,
        )
        check(f"all {args.jobs} are there", status == 0 and len(rigs("speed")) == args.jobs)


def others() -> float:
    """Processor seconds of the whole machine that were not idle."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def workers_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


def done_in(output: str) -> int:
    return len(list(pathlib.Path(output).glob("*.glb")))


def kills() -> None:
    shots(args.jobs, 20, 24)
    random.seed(7)
    options = {"bones": 8, "effort": "fast", "threads": 1}
    check("an undisturbed run", batch(job_file("calm", **options), "--workers", "2").wait() == 0)
    calm = rigs("calm")
    path = job_file("killed", **options)
    shutil.rmtree("killed", ignore_errors=True)
    # Workers are killed, and in the middle the batch itself.
    process, killed = batch(path, "--workers", "2"), 0
    while done_in("killed") < args.jobs // 3:
        time.sleep(random.uniform(0.05, 0.5))
        for worker in workers_of(process.pid)[:1]:
            try:
                os.kill(worker, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
    process.kill()
    process.wait()
    time.sleep(1)
    first = times("killed")
    print(f"{killed} workers were killed, then the batch, with {len(first)} of {args.jobs} done", flush=True)
    check("what is there has the right bytes", rigs("killed").items() <= calm.items())
    # A disk that is full for some time: no rig can be written.
    process = batch(path, "--resume", "--workers", "2", limit=2000)
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    process.wait()
    check("a full disk changes nothing", times("killed") == first)
    check("--resume ends well", batch(path, "--resume", "--workers", "2").wait() == 0)
    second = times("killed")
    check("nothing is lost", rigs("killed") == calm)
    check("nothing is done twice", all(second[name] == time for name, time in first.items()))
    check("no file is left over", left_over("killed") == [])
    results = json.loads(pathlib.Path("killed/results.json").read_text())
    check("the page has all of them", results["counts"]["done"] == args.jobs)


def times(output: str) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in pathlib.Path(output).glob("*.glb")}


def memory() -> None:
    shots(args.jobs, 4, 4)
    path = job_file("many", bones=1, effort="fast", picture=False, threads=1)
    shutil.rmtree("many", ignore_errors=True)
    process = batch(path, "--workers", "2")
    peak = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")))
        except (OSError, TypeError):
            pass
        time.sleep(0.2)
    print(f"{args.jobs} jobs: the batch itself has used {peak / 1000:.0f} MB", flush=True)
    check("all are done", process.returncode == 0 and done_in("many") == args.jobs)
    check("less than 300 MB", 0 < peak < 300_000)


def ray_cluster() -> None:
    import bonesmith
    import ray
    from ray.cluster_utils import Cluster

    shots(args.jobs, 20, 24)
    options = {"bones": 8, "effort": "fast", "threads": 1}
    here = bonesmith.batch(job_file("here", **options))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=80_000_000) for _ in range(2)]
    cluster.wait_for_nodes()
    shutil.rmtree("there", ignore_errors=True)
    lost = []

    def lose() -> None:
        while done_in("there") < args.jobs // 3:
            time.sleep(0.05)
        lost.append(done_in("there"))
        cluster.remove_node(nodes[0], allow_graceful=False)

    thread = threading.Thread(target=lose)
    thread.start()
    started = time.monotonic()
    there = bonesmith.batch(job_file("there", **options), engine="ray", address=cluster.address)
    thread.join()
    print(f"3 nodes; one was killed after {lost[0]} of {args.jobs}; {time.monotonic() - started:.0f} s", flush=True)
    check("all are done", there.counts["done"] == here.counts["done"] == args.jobs)
    check("the same bytes as here", rigs("there") == rigs("here"))
    check("no file is left over", left_over("there") == [])
    ray.shutdown()
    cluster.shutdown()


{"speed": speed, "kills": kills, "memory": memory, "ray": ray_cluster}[args.what]()
