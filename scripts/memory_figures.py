#!/usr/bin/env python3
"""Processor time and peak memory of fits in memory and in blocks, as rows of a table; their bytes are compared.

    scripts/memory_figures.py BONESMITH FOLDER 125000 250000 500000:blocks 1000000:blocks

Animations of that many vertices and 1000 frames are made in FOLDER by large_animation.py if they are not there. `:blocks`: only in blocks,
with --memory. Options: --memory 3G, --bones 60, --effort fast, --threads 1, --frames 1000, --abc (as Alembic).
"""

import argparse
import filecmp
import os
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("bonesmith")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("sizes", nargs="+")
parser.add_argument("--memory", default="3G")
parser.add_argument("--bones", default="60")
parser.add_argument("--effort", default="fast")
parser.add_argument("--threads", default="1")
parser.add_argument("--frames", default="1000")
parser.add_argument("--abc", action="store_true")
args = parser.parse_args()


def run(*words: str) -> tuple[float, float]:
    """Processor time in seconds, user and system, and the largest resident size in MB."""
    process = subprocess.Popen([args.bonesmith, *words], env=os.environ | {"TMPDIR": str(args.folder)})
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(words)}: exit status {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def animation(vertices: str) -> pathlib.Path:
    path = args.folder / f"cloth-{vertices}-{args.frames}.npz"
    if not path.exists():
        maker = pathlib.Path(__file__).with_name("large_animation.py")
        subprocess.run([sys.executable, maker, vertices, args.frames, path], check=True)
    if not args.abc:
        return path
    abc = path.with_suffix(".abc")
    if not abc.exists():
        run("convert", str(path), str(abc), "-q", "--memory", args.memory)
    return abc


def row(vertices: str, blocks: bool) -> tuple[float, pathlib.Path]:
    path = animation(vertices)
    output = path.with_name(f"{path.stem}-{'blocks' if blocks else 'memory'}.glb")
    limit = ["--memory", args.memory] if blocks else []
    options = ["--bones", args.bones, "--effort", args.effort, "--threads", args.threads, *limit]
    seconds, peak = run("fit", str(path), *options, "-q", "-o", str(output))
    where = f"--memory {args.memory}" if blocks else "in memory"
    print(f"| {path.name}, {path.stat().st_size / 1e9:.1f} GB | {where} | {peak:.0f} MB | {seconds:.0f} s |", flush=True)
    return seconds, output


for size in args.sizes:
    vertices, _, only = size.partition(":")
    # Not both at once in a short folder: outputs stay for a comparison.
    whole = None if only else row(vertices, False)
    blocks = row(vertices, True)
    if whole:
        same = filecmp.cmp(whole[1], blocks[1], shallow=False)
        print(f"  in blocks: {blocks[0] / whole[0]:.2f} x the time, {'same bytes' if same else 'OTHER BYTES'}", flush=True)
        if not same:
            sys.exit(1)
