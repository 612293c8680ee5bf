"""Small files in readers that decode them: three.js, Babylon.js, gltf-transform, gltfpack; vertices compared with Bonesmith's.

    python3 tests/clients/compact_check.py BONESMITH FOLDER

Of each .glb in the folder three frames are compared as in differential.py. gltf-transform and gltfpack decode, three.js poses what they decoded: gltfpack keeps
numbers as floats (-noq) and the times of keys (-af 0). Readers without KHR_meshopt_compression must refuse such a file; every other reader must agree within
TOLERANCE.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from differential import HERE, ROOT, TOLERANCE, by_program, difference, ours

# Rotations have 12 bits otherwise.
GLTFPACK = [str(HERE / "node_modules/.bin/gltfpack"), "-noq", "-af", "0", "-ar", "16", "-at", "24"]
# Of the size: gltfpack stores weights in 8 bits with all options.
AFTER_GLTFPACK = 3e-3
THREE, BABYLON = ["node", str(HERE / "positions_three.mjs")], ["node", str(HERE / "positions_babylon.mjs")]
WITHOUT_KHR = {"Babylon.js"}


def decoded(command, path):
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, cwd=ROOT)
    return done.stderr.strip()[-200:] if done.returncode else None


def main(bonesmith, source):
    passed = failed = 0
    files = sorted(Path(source).glob("*.glb"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in files:
            own, refusal = ours(bonesmith, path, folder)
            if own is None:
                print(f"{path.name}: {refusal} FAIL")
                failed += 1
                continue
            is_khr = b"KHR_meshopt_compression" in path.read_bytes()
            by_transform, by_pack = folder / f"transform-{path.name}", folder / f"pack-{path.name}"
            problems = {
                by_transform: decoded(["node", str(HERE / "decode.mjs"), str(path)], by_transform),
                by_pack: decoded([*GLTFPACK, "-i", str(path), "-o"], by_pack),
            }
            job = lambda file: {"path": str(file), "times": own["times"], "clip": own["clip"]}
            readers = {"three.js": (THREE, path), "Babylon.js": (BABYLON, path), "gltf-transform": (THREE, by_transform), "gltfpack": (THREE, by_pack)}
            for reader, (command, file) in readers.items():
                found = problems.get(file) or by_program(command, [job(file)], folder)[str(file)]
                if isinstance(found, str):
                    is_fine = is_khr and reader in WITHOUT_KHR and "KHR_meshopt_compression" in found
                    text = f"refused: {found}"
                else:
                    off = difference(own["positions"], found)
                    is_fine = off <= (AFTER_GLTFPACK if reader == "gltfpack" else TOLERANCE)
                    text = f"{off:.1e}"
                print(f"{path.name}  {reader}  {text}{'' if is_fine else ' FAIL'}")
                passed, failed = passed + is_fine, failed + (not is_fine)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
