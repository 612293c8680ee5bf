"""Faults at every system call that changes files, put in by strace: write_faults.py BONESMITH [FOLDER]

For each such call of a command, in turn: it fails (full disk, no permission), or the process is killed before it. Afterwards every output is the old
file or the new one, a .gltf belongs to its buffer, and there is no other file; where the command says that it succeeded, all are new. A process that was killed, or may not remove files, leaves temporaries
(.bonesmith-*).
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

CALLS = "openat,open,creat,write,pwrite64,writev,ftruncate,fallocate,fsync,fdatasync,fchmod,chmod,rename,renameat,renameat2,link,linkat,unlink,unlinkat"
COMMANDS = {
    "fit walk.npz --bones 2 --effort fast --max-iterations 2 -o out.gltf --json out.json": ["out.gltf", "out.bin", "out.json"],
    "convert walk.npz out.abc": ["out.abc"],
    "fit walk.npz --bones 2 --effort fast --max-iterations 2 -o out.fbx --report out.html": ["out.fbx", "out.html"],
}


def animation(path, turn):
    side = np.linspace(0, 1, 5)
    x, y = (a.ravel() for a in np.meshgrid(side, side))
    angles = turn * np.linspace(0, 1, 4)
    frames = [np.stack([x, y * np.cos(a * x), y * np.sin(a * x)], 1) for a in angles]
    i = (np.arange(4)[:, None] * 5 + np.arange(4)).ravel()
    np.savez(path, verts=np.array(frames, np.float32), faces=np.stack([i, i + 1, i + 6, i + 5], 1)[:, :3].astype(np.int32))


def run(program, folder, line, inject=None):
    trace = folder.parent / "trace"
    extra = ["-e", f"inject={inject}"] if inject else []
    words = ["strace", "-f", "-qq", "-y", "-o", str(trace), "-e", f"trace={CALLS}", *extra, program, *line.split(), "-q", "--threads", "1"]
    code = subprocess.run(words, cwd=folder, capture_output=True).returncode
    return code, trace.read_text(errors="replace").splitlines()


def state(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "walk.npz"}


# Seconds and bytes of memory are different in every run.
def plain(data):
    return re.sub(rb'"[a-z_]*(secs|seconds|bytes)":\s*(\{[^}]*\}|[-0-9.e+]+)|[0-9.]+ m?s\b', b"", data)


def check(found, old, new, outputs, temporaries, code):
    if code == 0:
        old = new  # It said that everything is written.
    strays = set(found) - set(outputs)
    for name in outputs:
        data = found.get(name)
        if name.endswith(".gltf") and data is not None:
            tree = json.loads(data)
            buffer = tree["buffers"][0].pop("uri")
            strays.discard(buffer)
            sides = []
            for side in (old, new):
                own = json.loads(side[name])
                own_buffer = own["buffers"][0].pop("uri")
                sides.append(own == tree and found.get(buffer) == side[own_buffer])
            if not any(sides):
                return f"{name} with {buffer} is neither the old pair nor the new one"
        elif name.endswith(".bin"):
            continue
        elif data is None or plain(data) not in (plain(old[name]), plain(new[name])):
            return f"{name} is neither the old file nor the new one"
    strays = {name for name in strays if not (temporaries and name.startswith(".bonesmith-"))}
    return f"left over: {sorted(strays)}" if strays else None


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    root = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    failures, runs = [], 0
    for line, outputs in COMMANDS.items():
        folder = root / "work"
        folder.mkdir()
        animation(folder / "walk.npz", 0.5)
        code, _ = run(program, folder, line)
        old = state(folder)
        if code != 0 or set(outputs) - set(old):
            sys.exit(f"{line}: ended with {code} without a fault, and wrote {sorted(old)}")
        animation(folder / "walk.npz", 1.0)
        # Calls that touch this folder, by name: the numbers that strace counts them by.
        code, trace = run(program, folder, line)
        new = state(folder)
        if code != 0 or set(outputs) - set(new) or all(plain(old[name]) == plain(new[name]) for name in outputs):
            sys.exit(f"{line}: ended with {code} without a fault, and wrote {sorted(new)}; files must differ from those before")
        steps, counts = [], {}
        for entry in trace:
            found = re.match(r"(\d+) +(\w+)\(", entry)
            if not found:
                continue
            # strace counts the calls of each thread by themselves.
            name = found[2]
            counts[found[1], name] = number = counts.get((found[1], name), 0) + 1
            changes = "O_CREAT" in entry or "O_WRONLY" in entry or "O_RDWR" in entry or not name.startswith("open")
            if changes and (str(folder) in entry or ".bonesmith-" in entry) and (name, number) not in steps:
                steps.append((name, number))
        if not steps:
            sys.exit(f"{line}: no call that changes files was seen")
        for call, number in steps:
            for fault in ("error=ENOSPC", "error=EACCES", "signal=KILL"):
                for path in folder.iterdir():
                    if path.name != "walk.npz":
                        path.unlink()
                for name, data in old.items():
                    (folder / name).write_bytes(data)
                code, _ = run(program, folder, line, f"{call}:{fault}:when={number}")
                runs += 1
                wrong = check(state(folder), old, new, outputs, "KILL" in fault or call.startswith("unlink"), code)
                if wrong:
                    failures.append(f"{line}: {call} {number}, {fault}: {wrong} (code {code})")
        print(f"{line}: {len(steps)} calls, each with 3 faults", flush=True)
        shutil.rmtree(folder)
    shutil.rmtree(root)
    print(*failures, sep="\n")
    print(f"{runs - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
