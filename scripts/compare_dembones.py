"""Dem Bones and Bonesmith on the same sequences in the same run: error, normals, time.

Every row (sequence, number of bones) is solved by Dem Bones and then at once by Bonesmith, so that both meet the same
load of the machine. Only the solving is timed: reading, writing and measuring are not.

Dem Bones runs with its best-accuracy settings (no weight smoothing, no translation affinity), at most 4 influences, and
the stop rule of its command line. Its rest pose stays as it is: it has no option to move it. Its result is
measured in float64 as the solver holds it, ours as read back from the written file. The measures of both are taken
by the same code, `rig_measures.py`, and ours must agree with what Bonesmith says of itself.

Index letters: f frames, n vertices, b bones, t triangles.
"""

import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from rig_measures import load_sequence, measure

ROOT = pathlib.Path(__file__).resolve().parent.parent

# sequence -> {bones: E_RMS of Dem Bones' C++ core with these settings, as recorded when the project began}
ROWS = {
    "cat-poses": {10: 10.4, 15: 7.59, 20: 5.78, 25: 4.31},
    "chickenCrossing": {10: 95.5, 20: 92.8, 28: 91.6},
    "face-poses": {9: 27.8, 27: 27.8},
    "horse-collapse": {3: 22.6, 10: 8.33, 20: 5.25},
    "horse-gallop": {10: 9.69, 20: 4.42, 30: 3.16, 33: 2.64},
    "horse-poses": {10: 142, 20: 142, 30: 142},
    "lion-poses": {10: 11.2, 21: 5.87},
    "pcow": {10: 11.5, 24: 5.38},
    "pdance": {10: 4.67, 24: 1.26},
    "samba": {20: 5.30},
}
# The recorded figures have three digits; a wrapper used wrongly is off by far more.
RECORDED_TOLERANCE = 0.02
# Bonesmith's own figures and ours of its file differ by rounding only.
JUDGE_TOLERANCE = 1e-3

# Best accuracy at 4 influences; `nIters`, `tolerance` and `patience` are the defaults of Dem Bones' command line.
SETTINGS = {"nnz": 4, "weightsSmooth": 0.0, "transAffine": 0.0, "nIters": 100, "tolerance": 1e-3, "patience": 3}


class RowError(Exception):
    """One side of a row has no result; the others go on."""


# --- Dem Bones ---


def solve_dembones(sequence, bones):
    """A solved `DemBones` object and how it went; only the solving is timed."""
    from py_dem_bones import DemBones

    verts, rest = sequence["verts"], sequence["rest"]
    f, n, _ = verts.shape
    solver = DemBones()
    solver.nV, solver.nB, solver.nS, solver.nF = n, bones, 1, f
    solver.fStart = np.array([0, f], dtype=np.int32)
    solver.subjectID = np.zeros(f, dtype=np.int32)
    solver.u = rest.T.astype(np.float64)
    solver.v = verts.transpose(0, 2, 1).reshape(3 * f, n).astype(np.float64)
    solver.fv = sequence["faces"].tolist()
    solver.nnz = SETTINGS["nnz"]
    solver.weightsSmooth, solver.transAffine = SETTINGS["weightsSmooth"], SETTINGS["transAffine"]

    wall, cpu = time.perf_counter(), time.process_time()
    solver.init()
    iterations = iterate(solver)
    return solver, {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "iterations": iterations,
    }


def iterate(solver):
    """Dem Bones' `compute` with the stop rule of its command line, which the Python module leaves out.

    It stops when the error fell by less than `tolerance`, relatively, in `patience` rounds in a row; a rise starts the count anew.
    """
    previous, patience = -1.0, SETTINGS["patience"]
    for iteration in range(1, SETTINGS["nIters"] + 1):
        solver.computeTranformations()  # [sic]
        solver.computeWeights()
        error = solver.rmse()
        if error < previous * (1 + solver.weightEps) and previous - error < SETTINGS["tolerance"] * previous:
            patience -= 1
            if patience == 0:
                return iteration
        else:
            patience = SETTINGS["patience"]
        previous = error
    return SETTINGS["nIters"]


def dembones_worker(path, bones):
    """One row, in a process of its own because a crash of the solver must not end the run. Prints JSON."""
    import py_dem_bones

    sequence = load_sequence(path)
    solver, result = solve_dembones(sequence, bones)
    f, n, b = solver.nF, solver.nV, solver.nB
    weights = np.asarray(solver.get_weights()).reshape(b, n).T
    motion = np.asarray(solver.m).reshape(f, 4, b, 4).transpose(0, 2, 1, 3)[:, :, :3]
    result |= measure(sequence, sequence["rest"].astype(np.float64), weights, motion)
    # The solver's own RMSE has no factor 3: if this differs, weights or bones were read wrongly.
    own = 1000 * solver.rmse() / math.sqrt(3) / result["radius_model_units"]
    if abs(own - result["e_rms"]) > 1e-6 * own:
        raise RowError(f"Dem Bones says E_RMS {own:.6g}, its weights and bones give {result['e_rms']:.6g}")
    result |= {"bones": b, "influences": int((weights != 0).sum(1).max())}
    result |= {"core": py_dem_bones.__dem_bones_version__, "module": py_dem_bones.__version__}
    print(json.dumps(result))


def run_dembones(path, bones, threads):
    command = [sys.executable, "-B", __file__, "--worker", str(path), str(bones)]
    # Its loops are OpenMP; the other two concern numpy's measuring only.
    env = os.environ | {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
    return run_json(command, env)


# --- Bonesmith ---


def stored_normals(rig, vertices):
    """[n,3] rest normals of the file: of every vertex the one that its corners name. None where a vertex has several."""
    if "normal_values" not in rig:
        return None
    corners = (rig["face_indices"] if "face_indices" in rig else rig["faces"]).ravel()
    values, indices = rig["normal_values"], rig["normal_indices"]
    normals = np.full((vertices, 3), np.nan)
    normals[corners] = values[indices]
    if (normals[corners] != values[indices]).any():
        return None
    return np.nan_to_num(normals)


def run_bonesmith(binary, path, bones, threads, effort):
    """Fits, reads the file back and measures it with the code that measures Dem Bones."""
    with tempfile.TemporaryDirectory() as folder:
        rig_path = pathlib.Path(folder) / "rig.npz"
        command = [binary, "fit", path, "--bones", bones, "--threads", threads, "--effort", effort, "-o", rig_path, "--json", "-"]
        before = children_cpu()
        said = run_json([str(part) for part in command], os.environ)
        cpu = children_cpu() - before
        with np.load(rig_path, allow_pickle=False) as rig:
            rest, motion = rig["rest"].astype(np.float64), rig["bones"].astype(np.float64)
            slots, values = rig["joint_indices"].astype(np.int64), rig["joint_weights"].astype(np.float64)
            normals = stored_normals(rig, len(rest))
    weights = np.zeros((len(rest), motion.shape[1]))
    np.add.at(weights, (np.arange(len(rest))[:, None], np.where(values == 0, 0, slots)), values)
    judged = measure(load_sequence(path), rest, weights, motion, normals)
    said["skinned_degrees"] = (said["skinned_normals"] or {}).get("degrees")
    for key in ("e_rms", "rmse_percent", "max_error", "normal_degrees", "skinned_degrees"):
        if abs(judged[key] - said[key]) > JUDGE_TOLERANCE * judged[key]:
            raise RowError(f"Bonesmith says {key} {said[key]:.6g}, its file gives {judged[key]:.6g}")
    if said["bones"] != bones:
        raise RowError(f"Bonesmith delivered {said['bones']} bones of {bones}")
    if (values > 0).sum(1).max() > SETTINGS["nnz"]:
        raise RowError(f"Bonesmith used {(values > 0).sum(1).max()} influences of {SETTINGS['nnz']}")
    kept = ("bones", "influences", "e_rms", "rmse_percent", "max_error", "normal_degrees", "skinned_degrees", "iterations", "version")
    stages = said["seconds"]
    seconds = stages["prepare"] + stages["fit"]
    # The processor time of the stages cannot be separated: they get the whole process's share of a core.
    share = min(threads, cpu / (stages["total"] + stages["evaluate"]))
    result = {key: said[key] for key in kept} | {"stages": stages}
    return result | {"seconds": seconds, "cpu_seconds": seconds * share}


def children_cpu():
    """Processor seconds of all ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def find_bonesmith(given):
    """The binary to compare; the default one is built when it is not there."""
    binary = pathlib.Path(given) if given else ROOT / "target/release/bonesmith"
    if not binary.exists() and not given:
        print("building target/release/bonesmith", file=sys.stderr)
        subprocess.run(["cargo", "build", "--release", "-p", "bonesmith-cli"], cwd=ROOT, check=True)
    if not binary.exists():
        sys.exit(f"there is no {binary}")
    return binary.resolve()


def run_json(command, env):
    """Standard output of a command as JSON; its last line of complaint when it fails."""
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        complaint = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RowError(f"exit {done.returncode}: {complaint}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise RowError(f"its output is not JSON: {error}") from error


# --- The comparison ---


class Cache:
    """Results of Dem Bones by row, valid for the same sequence, settings and threads only."""

    def __init__(self, path, reuse):
        self.path, self.reuse = path, reuse
        self.rows = json.loads(path.read_text()) if path.exists() else {}

    def get(self, label, key):
        row = self.rows.get(label)
        return row["result"] if self.reuse and row and row["key"] == key else None

    def put(self, label, key, result):
        self.rows[label] = {"key": key, "result": result}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n")


def compare_row(args, cache, sequence, bones):
    """Both sides of one row; what failed has an `error` and no figures."""
    path, label = args.sequences / f"{sequence}.npz", f"{sequence} {bones}"
    row = {"sequence": sequence, "bones": bones}

    def dembones():
        key = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "threads": args.threads} | SETTINGS
        result = cache.get(label, key)
        if result and "skinned_degrees" in result:
            return result | {"reused": True}
        result = run_dembones(path, bones, args.threads)
        result["measured"] = datetime.datetime.now().isoformat(timespec="seconds")
        cache.put(label, key, result)
        return result

    sides = {"dembones": dembones}
    if args.bonesmith:
        sides["bonesmith"] = lambda: run_bonesmith(args.bonesmith, path, bones, args.threads, args.effort)
    for side, run in sides.items():
        try:
            row[side] = run()
        except (RowError, OSError, KeyError, TypeError) as error:
            row[side] = {"error": f"{type(error).__name__ if not isinstance(error, RowError) else side}: {error}"}
    dem, ours, recorded = row["dembones"], row.get("bonesmith"), ROWS[sequence][bones]
    if "error" not in dem and abs(dem["e_rms"] / recorded - 1) > RECORDED_TOLERANCE:
        row["note"] = f"Dem Bones' recorded E_RMS is {recorded:g}, now {dem['e_rms']:.3g}"
    if ours and "error" not in dem and "error" not in ours:
        row["error_ratio"] = ours["e_rms"] / dem["e_rms"]
        row["normals_ratio"] = ours["normal_degrees"] / dem["normal_degrees"]
        row["skinned_ratio"] = ours["skinned_degrees"] / dem["skinned_degrees"]
        row["speedup"] = dem["seconds"] / ours["seconds"]
        row["cpu_speedup"] = dem["cpu_seconds"] / ours["cpu_seconds"]
    return row


HEAD = (
    "| sequence | bones | Dem Bones: bones | E_RMS | normals ° | skinned ° | s | Bonesmith: E_RMS | normals ° | skinned ° | s | error ratio | skinned ratio | times faster |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
)


def table_line(row):
    def figures(side):
        if side is None:
            return ["-"] * 4
        if "error" in side:
            return ["failed"] * 4
        return [f"{side[key]:.3g}" for key in ("e_rms", "normal_degrees", "skinned_degrees", "seconds")]

    dem = row["dembones"]
    ratios = [f"{row['error_ratio']:.3f}", f"{row['skinned_ratio']:.3f}", f"{row['speedup']:.3g}"] if "speedup" in row else ["-"] * 3
    cells = [row["sequence"], str(row["bones"]), str(dem.get("bones", "-")), *figures(dem)]
    return "| " + " | ".join([*cells, *figures(row.get("bonesmith")), *ratios]) + " |"


def geometric_means(rows):
    mean = lambda key: math.exp(sum(math.log(row[key]) for row in rows) / len(rows))
    return {"rows": len(rows)} | {key: mean(key) for key in ("error_ratio", "normals_ratio", "skinned_ratio", "speedup", "cpu_speedup")}


def conclude(rows):
    """Geometric means, and the lines that go below the table."""
    done = [row for row in rows if "speedup" in row]
    full = [row for row in done if row["dembones"]["bones"] == row["bones"]]
    groups = {"all rows": done, "rows where Dem Bones delivered the bones asked for": full}
    means = {name: geometric_means(group) for name, group in groups.items() if group}
    lines = []
    for name, mean in means.items():
        ratios = f"error {mean['error_ratio']:.3f} x, normals {mean['normals_ratio']:.3f} x, skinned normals {mean['skinned_ratio']:.3f} x"
        speed = f"{mean['speedup']:.1f} times faster ({mean['cpu_speedup']:.1f} by processor time)"
        lines.append(f"- Geometric mean, {name} ({mean['rows']}): {ratios}, {speed}")
    for key, what in (("error_ratio", "Error"), ("normals_ratio", "Normals"), ("skinned_ratio", "Skinned normals")):
        worse = [f"{row['sequence']} {row['bones']} ({row[key]:.2f} x)" for row in done if row[key] >= 1]
        if done:
            lines.append(f"- {what} not below Dem Bones': {', '.join(worse) or 'nowhere'}")
    for row in rows:
        complaints = [row[side]["error"] for side in ("dembones", "bonesmith") if "error" in row.get(side, {})]
        lines += [f"- {row['sequence']} {row['bones']}: {text}" for text in [*complaints, row.get("note")] if text]
    lines += busy_line(rows)
    if any(row["dembones"].get("reused") for row in rows):
        lines.append("- Some of Dem Bones' figures are from an earlier run: times are comparable only on the same quiet machine")
    return means, lines


def busy_line(rows):
    """A warning when others had the processor: a long solve then waits more than a short one, which flatters us."""
    solved = [row["dembones"] for row in rows if "error" not in row["dembones"]]
    wall, cpu = (sum(dem[key] for dem in solved) for key in ("seconds", "cpu_seconds"))
    if cpu >= 0.9 * wall:
        return []
    return [f"- The machine was busy: Dem Bones waited {100 - 100 * cpu / wall:.0f} % of its time. Go by processor time, or run again"]


def parse_arguments():
    data = pathlib.Path(os.environ.get("BONESMITH_DATA", ROOT.parent / "shared/data"))
    parser = argparse.ArgumentParser(prog="compare-dembones", description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=pathlib.Path, default=data / "sequences", metavar="DIR",
                        help="folder of the npz sequences [default: $BONESMITH_DATA/sequences or ../shared/data/sequences]")
    parser.add_argument("--only", metavar="PATTERN", help='rows whose name contains this, like "horse-gallop 20"')
    parser.add_argument("--bonesmith", metavar="PATH", help="binary to compare [default: target/release/bonesmith, built when absent]")
    parser.add_argument("--dembones-only", action="store_true", help="leave Bonesmith out")
    parser.add_argument("--reuse-dembones", action="store_true", help="take Dem Bones' results from the cache where they are there")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target/dembones.json", metavar="FILE",
                        help="where Dem Bones' results are kept [default: target/dembones.json]")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the table to a file too")
    parser.add_argument("--effort", default="balanced", choices=("fast", "balanced", "best"), help="of Bonesmith [default: balanced]")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of both solvers [default: 1]")
    args = parser.parse_args()
    if not args.sequences.is_dir():
        sys.exit(f"skipped: there is no folder {args.sequences}")
    pairs = [(sequence, bones) for sequence, counts in ROWS.items() for bones in counts]
    args.pairs = [pair for pair in pairs if not args.only or args.only in "{} {}".format(*pair)]
    if not args.pairs:
        sys.exit(f'no row contains {args.only!r}; rows are named like "horse-gallop 20"')
    # Last, because it may build for minutes.
    args.bonesmith = None if args.dembones_only else find_bonesmith(args.bonesmith)
    return args


def main():
    if sys.argv[1:2] == ["--worker"]:
        return dembones_worker(sys.argv[2], int(sys.argv[3]))
    args = parse_arguments()
    cache = Cache(args.cache, args.reuse_dembones)
    lines, rows = [*HEAD], []
    print("\n".join(lines), flush=True)
    for sequence, bones in args.pairs:
        rows.append(compare_row(args, cache, sequence, bones))
        lines.append(table_line(rows[-1]))
        print(lines[-1], flush=True)
    means, below = conclude(rows)
    print("\n" + "\n".join(below))
    if args.markdown:
        args.markdown.write_text("\n".join([*lines, "", *below]) + "\n")
    if args.json:
        setup = {"settings": SETTINGS, "threads": args.threads, "machine": platform.processor() or platform.machine()}
        args.json.write_text(json.dumps(setup | {"means": means, "rows": rows}, indent=1) + "\n")
    return int(any("error" in row[side] for row in rows for side in ("dembones", "bonesmith") if side in row))


if __name__ == "__main__":
    sys.exit(main())
