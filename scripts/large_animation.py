#!/usr/bin/env python3
"""Writes a large animation, frame by frame: a cloth of about VERTICES vertices that waves and twists for FRAMES frames.

    scripts/large_animation.py 1000000 1000 large.npz [--deflate]
"""

import sys
import zipfile

import numpy as np

vertices, frames, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
method = zipfile.ZIP_DEFLATED if "--deflate" in sys.argv else zipfile.ZIP_STORED
side = int(round(vertices**0.5))
x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij"))


def frame(t: int) -> np.ndarray:
    phase = 2 * np.pi * t / 100
    z = 0.25 * np.sin(3 * x + phase) + 0.15 * np.sin(5 * y - 0.7 * phase) * x + 0.01 * np.sin(40 * x * y + phase)
    twist = 0.6 * np.sin(0.3 * phase) * x
    return np.stack([x + 0.05 * np.sin(4 * y + phase), y * np.cos(twist) - z * np.sin(twist), y * np.sin(twist) + z * np.cos(twist)], axis=1)


def write(archive: zipfile.ZipFile, name: str, shape: tuple, kind: str, parts) -> None:
    entry = zipfile.ZipInfo(name + ".npy")
    entry.compress_type = method
    with archive.open(entry, "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype=kind).tobytes())


corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)[None, :]).ravel()
faces = np.stack([corner, corner + side, corner + side + 1, corner, corner + side + 1, corner + 1], axis=1).reshape(-1, 3)
with zipfile.ZipFile(path, "w") as archive:
    write(archive, "faces", faces.shape, "<i4", [faces])
    write(archive, "verts", (frames, side * side, 3), "<f4", (frame(t) for t in range(frames)))
print(f"{side * side} vertices, {frames} frames, {12 * side * side * frames / 1e9:.2f} GB of positions")
