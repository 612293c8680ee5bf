"""A scene whose meshes are shown several times, as a glb: wheels that move by their own nodes, posts that stand, flags that bend on joints of their own.

    instanced_scene.py OUT.glb [nodes]      `nodes`: without the flags, so that nodes alone move
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np

CLIPS = (("drive", 24, 25, 1.0), ("turn", 30, 16, -0.6))
# Objects that show one mesh.
SHARED = (("wheel_1", "wheel_2", "wheel_3"), ("post_1", "post_2"), ("flag_1", "flag_2"))


class Glb:
    """Accessors and their bytes."""

    def __init__(self):
        self.blob, self.views, self.accessors = bytearray(), [], []

    def add(self, values, kind, component=5126, bounds=False):
        array = np.asarray(values, {5126: np.float32, 5123: np.uint16, 5121: np.uint8}[component])
        self.blob.extend(b"\0" * (-len(self.blob) % 4))
        self.views.append({"buffer": 0, "byteOffset": len(self.blob), "byteLength": array.nbytes})
        self.blob.extend(array.tobytes())
        entry = {"bufferView": len(self.views) - 1, "componentType": component, "count": len(array), "type": kind}
        if bounds:
            flat = array.reshape(len(array), -1)
            entry |= {"min": flat.min(0).tolist(), "max": flat.max(0).tolist()}
        self.accessors.append(entry)
        return len(self.accessors) - 1

    def save(self, path, root):
        root |= {"asset": {"version": "2.0"}, "buffers": [{"byteLength": len(self.blob)}]}
        root |= {"accessors": self.accessors, "bufferViews": self.views}
        text = json.dumps(root).encode()
        text += b" " * (-len(text) % 4)
        self.blob.extend(b"\0" * (-len(self.blob) % 4))
        chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
        chunks += struct.pack("<II", len(self.blob), 0x004E4942) + bytes(self.blob)
        path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)


def tube(glb, name, material, radius, height, joints=False):
    """A tube of rings with a dent, so that a turn shows."""
    angles = np.linspace(0, 2 * math.pi, 10, endpoint=False)
    rings = [(math.cos(a) * (0.7 if a == 0 else 1), y / 4, math.sin(a)) for y in range(5) for a in angles]
    points = np.array(rings) * [radius, height, radius]
    corners = ((0, 0), (1, 0), (0, 1), (0, 1), (1, 0), (1, 1))
    faces = [10 * (y + up) + (a + on) % 10 for y in range(4) for a in range(10) for up, on in corners]
    normals = points * [1, 0, 1]
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    attributes = {"POSITION": glb.add(points, "VEC3", bounds=True), "NORMAL": glb.add(normals, "VEC3")}
    if joints:
        share = points[:, 1] / height
        attributes["JOINTS_0"] = glb.add([[0, 1, 0, 0]] * len(points), "VEC4", 5121)
        attributes["WEIGHTS_0"] = glb.add(np.stack([1 - share, share, 0 * share, 0 * share], 1), "VEC4")
    primitive = {"attributes": attributes, "indices": glb.add(faces, "SCALAR", 5123), "material": material}
    return {"name": name, "primitives": [primitive]}


def turn(axis, angle):
    return [*(math.sin(angle / 2) * np.array(axis)), math.cos(angle / 2)]


def write(path, flags=True):
    glb = Glb()
    meshes = [tube(glb, "body_mesh", 0, 1, 0.6), tube(glb, "wheel_mesh", 1, 0.4, 0.3), tube(glb, "post_mesh", 0, 0.1, 2)]
    side = turn([0, 0, 1], math.pi / 2)
    nodes = [
        {"name": "stage", "children": [1, 6, 7]},
        {"name": "car", "children": [2, 3, 4, 5]},
        {"name": "body", "mesh": 0, "translation": [0, 0.4, 0]},
        {"name": "wheel_1", "mesh": 1, "translation": [-1, 0.4, 1], "rotation": side},
        {"name": "wheel_2", "mesh": 1, "translation": [1.3, 0.4, 1], "rotation": side},
        {"name": "wheel_3", "mesh": 1, "translation": [0.1, 0.4, -1], "rotation": side, "scale": [1.5, 1.5, 1.5]},
        {"name": "post_1", "mesh": 2, "translation": [-3, 0, 2]},
        {"name": "post_2", "mesh": 2, "translation": [3, 0, 2], "rotation": turn([1, 0, 0], 0.3), "scale": [2, 1, 2]},
    ]
    skins = []
    if flags:
        meshes.append(tube(glb, "flag_mesh", 1, 0.2, 2, True))
        binds = np.stack([np.eye(4), np.eye(4)])
        binds[1, 3, 1] = -1.0
        binds = glb.add(binds.reshape(2, 16), "MAT4")
        for n, place in enumerate(([-3, 2, -2], [3, 2, -3])):
            first = len(nodes)
            nodes[0]["children"] += [first, first + 1]
            nodes += [
                {"name": f"flag_{n + 1}", "mesh": 3, "skin": n},
                {"name": f"pole_{n + 1}", "translation": place, "rotation": turn([0, 1, 0], n), "children": [first + 2]},
                {"name": f"tip_{n + 1}", "translation": [0, 1, 0]},
            ]
            skins.append({"joints": [first + 1, first + 2], "inverseBindMatrices": binds})
    materials = [{"name": name, "pbrMetallicRoughness": {"baseColorFactor": c}} for name, c in (("red", [1, 0, 0, 1]), ("grey", [0.3, 0.3, 0.3, 1]))]
    root = {"scene": 0, "scenes": [{"nodes": [0]}], "nodes": nodes, "meshes": meshes, "materials": materials}
    root["animations"] = [animation(glb, nodes, *clip) for clip in CLIPS]
    glb.save(path, root | ({"skins": skins} if skins else {}))


def animation(glb, nodes, name, fps, frames, amount):
    times = glb.add([[t / fps] for t in range(frames)], "SCALAR", bounds=True)
    secs = np.arange(frames) / fps
    samplers, channels = [], []

    def channel(node, path, values):
        samplers.append({"input": times, "output": glb.add(values, "VEC3" if path == "translation" else "VEC4")})
        channels.append({"sampler": len(samplers) - 1, "target": {"node": node, "path": path}})

    channel(1, "translation", [[0, 0, 2 * amount * s] for s in secs])
    channel(1, "rotation", [turn([0, 1, 0], 0.4 * amount * s) for s in secs])
    for n in (3, 4, 5):
        # About the axis of the wheel: y of the tube.
        own = [multiply(turn([0, 0, 1], math.pi / 2), turn([0, 1, 0], (3 + n) * amount * s)) for s in secs]
        channel(n, "rotation", own)
    for n, node in enumerate(nodes):
        if node["name"].startswith("tip_"):
            channel(n, "rotation", [turn([0, 0, 1], amount * math.sin(2 * s + n)) for s in secs])
    return {"name": name, "samplers": samplers, "channels": channels}


def multiply(p, q):
    (ax, ay, az, aw), (bx, by, bz, bw) = p, q
    return [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2:] != ["nodes"])
