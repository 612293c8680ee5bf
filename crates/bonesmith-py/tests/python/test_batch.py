"""Many jobs: on this machine, and on a Ray cluster of which a node is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest
from conftest import cloth, grid

import bonesmith

COUNT = 18


@pytest.fixture
def shots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small animations, which is the current one."""
    quads = grid(16, 16).astype(np.int32)
    triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    for n in range(COUNT):
        np.savez(tmp_path / f"shot_{n:02}.npz", verts=cloth(seed=n), faces=triangles)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def jobs(output: str, **more: Any) -> dict[str, Any]:
    defaults = {"bones": 3, "effort": "fast", "max_iterations": 2, "threads": 1}
    return {"output": output, "defaults": defaults, "jobs": [{"input": "shot_*.npz"}], **more}


def rigs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.glb"))}


def test_a_batch_here(shots: Path) -> None:
    (shots / "shot_03.npz").write_text("no npz")
    done = bonesmith.batch(jobs("here", gates={"max_e_rms": 1e-6}))
    assert done.counts == {"jobs": COUNT, "done": COUNT - 1, "missed": COUNT - 1, "failed": 1, "waiting": 0}
    assert not done.ok and done.page == shots / "here" / "index.html" and done.page.is_file()
    assert done.jobs[3]["status"] == "failed" and "shot_03" in done.jobs[3]["error"]
    assert len(rigs(shots / "here")) == COUNT - 1
    again = bonesmith.batch(jobs("here"), resume=True, shard=(1, 2))
    assert again.counts["missed"] == 0 and again.counts["done"] == COUNT - 1


def test_a_bad_job_file_does_not_give_old_results(shots: Path) -> None:
    first = bonesmith.batch({**jobs("here"), "jobs": [{"input": "shot_00.npz"}]})
    assert first.ok
    with pytest.raises(bonesmith.ParameterError, match="many"):
        bonesmith.batch({**jobs("here", defaults={"bones": "many"}), "jobs": [{"input": "shot_00.npz"}]})
    assert json.loads((shots / "here" / "results.json").read_text())["counts"]["done"] == 1, "the old results stay"


def test_bad_arguments(shots: Path) -> None:
    with pytest.raises(bonesmith.ParameterError, match="engine is 'grid'"):
        bonesmith.batch(jobs("x"), engine="grid")
    with pytest.raises(bonesmith.ParameterError, match="address is that of a Ray cluster"):
        bonesmith.batch(jobs("x"), address="auto")
    with pytest.raises(bonesmith.ParameterError, match=r"shard is \(3, 2\)"):
        bonesmith.batch(jobs("x"), shard=(3, 2))
    with pytest.raises(bonesmith.ParameterError, match="wokers is no key"):
        bonesmith.batch(jobs("x", wokers=2))
    with pytest.raises(FileNotFoundError):
        bonesmith.batch("nothing.toml")


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three nodes, each a process of its own with one processor."""
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError:
        pytest.skip("SKIPPED: the package ray is not installed: no batch ran on a cluster")
    small = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}
    made: Any = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 1})
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_node_of_the_cluster_is_lost(shots: Path, cluster: Any) -> None:
    """All results are there and are those of this machine; a job that is refused is not tried again."""
    import threading

    nodes = [cluster.add_node(num_cpus=1, object_store_memory=80 * 1024 * 1024) for _ in range(2)]
    cluster.wait_for_nodes()
    (shots / "shot_05.npz").write_text("no npz")
    records = shots / "there" / "records"

    def lose() -> None:
        while len(list(records.glob("*.json"))) < 4:
            time.sleep(0.02)
        cluster.remove_node(nodes[0], allow_graceful=False)

    killer = threading.Thread(target=lose, daemon=True)
    killer.start()
    there = bonesmith.batch(jobs("there"), engine="ray", address=cluster.address)
    killer.join(30)
    assert not killer.is_alive()
    assert there.counts == {"jobs": COUNT, "done": COUNT - 1, "missed": 0, "failed": 1, "waiting": 0}, there.jobs
    assert there.jobs[5]["attempts"] == 1 and "shot_05" in there.jobs[5]["error"]
    here = bonesmith.batch(jobs("here"))
    assert rigs(shots / "there") == rigs(shots / "here") and len(rigs(shots / "here")) == COUNT - 1
    assert not [path for path in (shots / "there").rglob(".bonesmith-*")]
    assert here.counts == there.counts
    # What Ray has done is done.
    (shots / "shot_05.npz").write_bytes((shots / "shot_06.npz").read_bytes())
    times = {path.name: path.stat().st_mtime_ns for path in (shots / "there").glob("*.glb")}
    again = bonesmith.batch(jobs("there"), engine="ray", resume=True)
    assert again.ok
    kept = {path.name: path.stat().st_mtime_ns for path in (shots / "there").glob("*.glb") if path.name in times}
    assert kept == times


def test_the_program_hands_over_to_ray(shots: Path, cluster: Any, binary: Path) -> None:
    (shots / "jobs.json").write_text(json.dumps({**jobs("there"), "jobs": [{"input": "shot_0[0-3].npz"}]}))
    words = [binary, "batch", "jobs.json", "--engine", "ray", "--address", cluster.address, "--python", sys.executable]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 jobs: 4 done" in done.stdout
    assert len(rigs(shots / "there")) == 4
