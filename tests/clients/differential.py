"""Reads every file of some folders with Bonesmith and with other programs, and compares where the vertices are.

    .venv-usd/bin/python tests/clients/differential.py BONESMITH FOLDER...

Blender (.venv-blender) and three.js (viewer/node_modules) run as programs of their own, usd-core in this one. For each file
three frames of its first animation are compared, after a turn between Y up and Z up and a change of unit that stay the same
in all frames: largest distance from a sample of one set of vertices to the nearest of the other, both ways, as a share of
the size. Prints a table. Other programs differ among themselves too: a file fails where none of them agrees with Bonesmith
within TOLERANCE. Files that Bonesmith refuses are listed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOLERANCE = 1e-4
SAMPLE = 400
BLENDER = {".glb", ".gltf", ".fbx", ".abc", ".usd", ".usda", ".usdc", ".usdz", ".obj", ".ply"}
THREE = {".glb", ".gltf", ".fbx"}
USD = {".usd", ".usda", ".usdc", ".usdz"}
# Rotations between Y up and Z up, and none.
TURNS = [np.eye(3), np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]]), np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])]


def ours(bonesmith, path, folder):
    """Times and positions of three frames, the name of the clip, or a refusal."""
    info = subprocess.run([bonesmith, "info", "-q", path, "--json", "-"], capture_output=True, text=True)
    if info.returncode != 0:
        return None, info.stderr.strip().removeprefix("error: ")[:100]
    info = json.loads(info.stdout)
    clips = [clip["name"] for clip in info.get("clips", []) if clip["frames"] > 0]
    out = folder / f"{path.name}.npz"
    command = [bonesmith, "convert", "-q", path, out, "--bake"]
    if len(clips) > 1:
        command += ["--clips", clips[0]]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().removeprefix("error: ")[:100]
    arrays = np.load(out)
    times, verts = arrays["times"], arrays["verts"]
    frames = sorted({0, len(times) // 2, len(times) - 1})
    clip = clips[0] if len(clips) > 1 else None
    return {"times": [float(times[t]) for t in frames], "positions": [verts[t].astype(float) for t in frames], "clip": clip}, None


def by_program(command, jobs, folder):
    """Positions by another program: {path: [positions at each time]} or a message."""
    asked, answer = folder / "asked.json", folder / "answer.json"
    answer.unlink(missing_ok=True)
    asked.write_text(json.dumps(jobs))
    run = subprocess.run([*command, str(asked), str(answer)], capture_output=True, text=True, cwd=ROOT)
    if not answer.exists():
        return {job["path"]: f"ended with {run.returncode}: {run.stderr.strip()[-200:]}" for job in jobs}
    found = json.loads(answer.read_text())
    return {path: v if isinstance(v, str) else [np.array(p, float).reshape(-1, 3) for p in v] for path, v in found.items()}


def usd_positions(job):
    from pxr import Usd, UsdGeom, UsdSkel

    stage = Usd.Stage.Open(job["path"])
    for prim in stage.Traverse():
        if prim.IsA(UsdSkel.Root):
            UsdSkel.BakeSkinning(UsdSkel.Root(prim))
    frames = []
    for secs in job["times"]:
        code = secs * stage.GetTimeCodesPerSecond()
        cache, parts = UsdGeom.XformCache(code), []
        for prim in stage.Traverse():
            shown = prim.IsA(UsdGeom.Mesh) and UsdGeom.Imageable(prim).ComputeVisibility(code) != UsdGeom.Tokens.invisible
            points = UsdGeom.Mesh(prim).GetPointsAttr().Get(code) if shown else None
            if points:
                world = np.array(cache.GetLocalToWorldTransform(prim))
                parts.append(np.array(points, float) @ world[:3, :3] + world[3, :3])
        frames.append(np.concatenate(parts))
    return frames


def apart(a, b):
    """Largest distance from a sample of a to the nearest of b."""
    step = max(1, len(a) // SAMPLE)
    return max(np.sqrt(((b - p) ** 2).sum(axis=1).min()) for p in a[::step])


def difference(own, theirs):
    size = np.linalg.norm(np.ptp(own[0], axis=0))
    best = None
    for turn in TURNS:
        for scale in (1.0, 0.01, 100.0, size / max(np.linalg.norm(np.ptp(theirs[0], axis=0)), 1e-30)):
            placed = theirs[0] @ turn.T * scale
            off = apart(own[0], placed) / size
            if best is None or off < best[0]:
                best = (off, turn, scale)
    placed = [p @ best[1].T * best[2] for p in theirs]
    return max(max(apart(a, b), apart(b, a)) for a, b in zip(own, placed)) / size


def main(bonesmith, folders):
    files = sorted(path for folder in folders for path in Path(folder).rglob("*") if path.suffix.lower() in BLENDER)
    # A folder of meshes is one animation; a few of them are enough here.
    files = [path for path in files if path.suffix != ".obj" or path in sorted(path.parent.glob("*.obj"))[:2]]
    rows, passed, failed = [], 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        read = {str(path): ours(bonesmith, path, folder) for path in files}
        jobs = [{"path": path, "times": own["times"], "clip": own["clip"]} for path, (own, _) in read.items() if own]
        of = lambda endings: [job for job in jobs if Path(job["path"]).suffix.lower() in endings]
        answers = {"Blender": {}, "three.js": {}, "usd-core": {}}
        python = ROOT / ".venv-blender/bin/python"
        if python.exists():
            answers["Blender"] = by_program([str(python), str(HERE / "positions_blender.py")], of(BLENDER), folder)
        if (ROOT / "viewer/node_modules/three").exists():
            answers["three.js"] = by_program(["node", str(HERE / "positions_three.mjs")], of(THREE), folder)
        for job in of(USD):
            try:
                answers["usd-core"][job["path"]] = usd_positions(job)
            except Exception as problem:  # a refusal is an answer
                answers["usd-core"][job["path"]] = f"{type(problem).__name__}: {problem}"[:80]
        for path, (own, refusal) in read.items():
            cells, agree, differ = [], 0, 0
            for program in answers:
                theirs = answers[program].get(path)
                if own is None or theirs is None:
                    cells.append("-")
                elif isinstance(theirs, str):
                    cells.append("refused")
                    print(f"{program} on {Path(path).name}: {theirs}")
                else:
                    off = difference(own["positions"], theirs)
                    agree, differ = agree + (off <= TOLERANCE), differ + (off > TOLERANCE)
                    cells.append(f"{off:.1e}{'' if off <= TOLERANCE else ' differs'}")
            if agree + differ > 0:
                passed, failed = passed + (agree > 0), failed + (agree == 0)
                cells[-1] += "" if agree > 0 else " FAIL"
            rows.append([Path(path).name, *cells, refusal or ""])
    titles = ["file", *answers, "refused by Bonesmith"]
    widths = [max(len(str(row[c])) for row in [titles, *rows]) for c in range(len(titles))]
    for row in [titles, *rows]:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
