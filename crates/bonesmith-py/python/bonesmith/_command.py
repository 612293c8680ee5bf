"""The console command ``bonesmith``: the command line of the binary, in this process."""

from __future__ import annotations

import sys

from bonesmith import _native


def main() -> int:
    """Runs the command line with ``sys.argv``; returns its exit code."""
    # Benches start the same command in other processes.
    return _native.command_line(["bonesmith", *sys.argv[1:]], [sys.executable, "-m", "bonesmith"])


if __name__ == "__main__":
    sys.exit(main())
