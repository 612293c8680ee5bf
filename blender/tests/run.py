"""Tests of the Blender extension, headless.

    .venv-blender/bin/python blender/tests/run.py EXTENSION.zip [--only TEXT]

Installs the zip into an empty folder of user files and runs every operator.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import harness  # noqa: E402  (before bpy: it sets the folder of user files)
import bpy  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zip", type=Path)
    parser.add_argument("--only", default=None)
    arguments = parser.parse_args()
    print(f"Blender {bpy.app.version_string}, Python {sys.version.split()[0]}", flush=True)
    harness.install(arguments.zip.resolve())
    import test_export
    import test_fit
    import test_life
    import test_rigs

    tests = test_fit.TESTS + test_rigs.TESTS + test_life.TESTS + test_export.TESTS
    return harness.run(tests, arguments.only)


if __name__ == "__main__":
    status = main()
    harness.USER.cleanup()
    sys.stdout.flush()
    # bpy 4.2 crashes while Python unloads it as soon as any add-on has a property with an update function; four lines without ours show it.
    os._exit(status)
