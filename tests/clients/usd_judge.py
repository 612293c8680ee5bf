"""What the judges of USD files share: which files, and what is said of them."""

from pathlib import Path

ENDINGS = (".usda", ".usdc", ".usdz")


def judge(folders, check, tolerance):
    """Runs check(path) -> (largest error, largest motion, frames) on every file with a .json beside it; returns an exit code."""
    inside = (path for folder in folders for path in sorted(Path(folder).iterdir()) if path.suffix in ENDINGS)
    paths = [path for path in inside if Path(f"{path}.json").exists()]
    if not paths:
        print(f"no USD file with a .json beside it in {folders}")
        return 2
    failed = 0
    for path in paths:
        try:
            error, moved, frames = check(path)
            passed = error <= tolerance
            text = f"largest error {error:.2e} of the size over {frames} frames (it moves by {moved:.2f})"
        except Exception as problem:  # a file that the judge refuses is a failure like any other
            passed, text = False, f"{type(problem).__name__}: {problem}"
        failed += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {path.name}: {text}", flush=True)
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 0 if failed == 0 else 1
