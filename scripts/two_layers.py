"""What the last rounds of `compress` do, as a Markdown table: E_RMS and processor seconds without them and with them.

usage: two_layers.py BONESMITH SEQUENCE:BONES... [-- OPTIONS of `compress`]

A SEQUENCE is a file that `fit` reads, BONES the number of affine bones of its dense rig. Every rig is compressed at the cost of 4 and of 8
influences, with the sequence as examples and on the rig's own poses; without the rounds (`--keep-motion --keep-rest`) and with them. All E_RMS are
measured on the sequence by `eval`: what is `given` by the dense rig is the least that its own poses can lead to. `added` is what the layers add
to it, in quadrature, without the rounds and with them: `sqrt(e^2 - given^2)`.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*line):
    """Standard output, and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in line], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime - before.ru_utime


def e_rms(bonesmith, rig, sequence):
    return json.loads(run(bonesmith, "eval", rig, sequence, "--json", "-")[0])["e_rms"]


def main(args):
    options = []
    if "--" in args:
        at = args.index("--")
        args, options = args[:at], args[at + 1 :]
    bonesmith, *rows = args
    os.environ["RAYON_NUM_THREADS"] = "1"
    print("| sequence | bones | influences | examples | given | without | with | lower by % | added: without, with, lower by % | seconds: without, with, ratio |")
    print("|---|--:|--:|---|--:|--:|--:|--:|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        dense, small = Path(folder) / "dense.npz", Path(folder) / "small.npz"
        for row in rows:
            path, bones = row.rsplit(":", 1)
            run(bonesmith, "fit", path, "--bones", bones, "--influences", "all", "--bone-kind", "affine", "-o", dense, "--quiet")
            given = e_rms(bonesmith, dense, path)
            for influences in (4, 8):
                for examples in (["--examples", path], []):
                    found = []
                    for keep in (["--keep-motion", "--keep-rest"], []):
                        line = ["compress", dense, *examples, "--influences-equivalent", influences, "-o", small, "--quiet"]
                        seconds = run(bonesmith, *line, *keep, *options)[1]
                        found.append((e_rms(bonesmith, small, path), seconds))
                    (before, slow), (after, more) = found
                    added = [max(e * e - given * given, 0.0) ** 0.5 for e in (before, after)]
                    lower = f"{100 * (1 - added[1] / added[0]):.0f}" if added[0] and not examples else ""
                    cells = [Path(path).stem, bones, influences, "yes" if examples else "no", f"{given:.3f}", f"{before:.3f}"]
                    cells += [f"{after:.3f}", f"{100 * (1 - after / before):.1f}"]
                    cells += ["" if examples else f"{added[0]:.3f}, {added[1]:.3f}, {lower}", f"{slow:.2f}, {more:.2f}, {more / slow:.2f}"]
                    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
