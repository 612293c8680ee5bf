"""Positions of objects in every frame, as Blender evaluates them: all modifiers, simulations, constraints, parents and drivers.

Arrays are filled by `foreach_get`, frame by frame, in one allocation [F, N, 3] of float32. Several objects lie one after the other along N.
Positions are in the space of one reference: the place of the active object in the first frame, with the axes and the unit of the scene.
"""

from typing import NamedTuple

import bpy
import numpy as np
from mathutils import Matrix

from .jobs import Progress, Refused

#: Types of objects that have faces once they are evaluated.
TYPES = {"MESH", "CURVE", "SURFACE", "FONT", "META"}

#: Modifiers that are computed from the frame before.
SIMULATIONS = {"CLOTH", "SOFT_BODY", "DYNAMIC_PAINT", "FLUID", "PARTICLE_SYSTEM"}

#: Modifiers that leave faces as they are, or refine them alike in every frame.
FIXED = {
    "ARMATURE", "CAST", "CLOTH", "COLLISION", "CORRECTIVE_SMOOTH", "CURVE", "DISPLACE", "HOOK", "LAPLACIANDEFORM", "LAPLACIANSMOOTH", "LATTICE",
    "MESH_CACHE", "MESH_DEFORM", "MULTIRES", "SHRINKWRAP", "SIMPLE_DEFORM", "SMOOTH", "SOFT_BODY", "SUBSURF", "SURFACE_DEFORM", "WARP", "WAVE",
}  # fmt: skip

STAGE = "reading"


class Part(NamedTuple):
    """One object of a recording."""

    #: Name of the object, which stays valid where pointers do not.
    name: str
    #: Its vertices are first to last of all.
    first: int
    last: int
    #: Number of its first corner among the corners of all.
    first_corner: int
    #: [C] vertex of each corner, counted in the object; [P] first corner of each face.
    corners: np.ndarray
    starts: np.ndarray
    #: Whether nothing can change the faces.
    fixed: bool


class Recording:
    """Positions of objects over frames."""

    def __init__(self, frames, parts, count, reference):
        self.frames = frames
        self.parts = parts
        #: [F, N, 3] in the space of the reference.
        self.positions = _allocate(len(frames), count)
        #: world_from_reference.
        self.reference = reference
        #: Copies of the evaluated meshes in the rest frame, by part.
        self.meshes = []
        self._corners, self._differs = np.empty(0, dtype=np.int32), np.empty(0, dtype=bool)

    @property
    def vertex_count(self):
        """N."""
        return self.positions.shape[1]

    def same_corners(self, part, evaluated):
        """Whether an evaluated mesh with as many corners has the same ones. New arrays for each frame would take longer than the comparison."""
        count = len(part.corners)
        if count > len(self._corners):
            self._corners, self._differs = np.empty(count, dtype=np.int32), np.empty(count, dtype=bool)
        found = evaluated.corners(self._corners[:count])
        return not np.not_equal(found, part.corners, out=self._differs[:count]).any()

    def corners_and_sizes(self):
        """[C] vertex of each corner over all vertices, and [P] corners of each face."""
        sizes = [np.diff(np.append(part.starts, len(part.corners))) for part in self.parts]
        return np.concatenate([part.corners + part.first for part in self.parts]), np.concatenate(sizes)

    def faces(self):
        """Faces over all vertices: an array where all have as many corners, else lists; `None` where there are none."""
        corners, sizes = self.corners_and_sizes()
        if len(sizes) == 0:
            return None
        if (sizes == sizes[0]).all():
            return corners.reshape(-1, int(sizes[0])).astype(np.uint32)
        flat, ends = corners.tolist(), np.cumsum(sizes).tolist()
        return [flat[end - size : end] for end, size in zip(ends, sizes.tolist())]

    def where(self, vertex):
        """Object and its own vertex of one of all vertices, for messages."""
        part = next(part for part in self.parts if vertex < part.last)
        return part.name, vertex - part.first

    def discard(self):
        """Removes the copies of meshes that nobody uses."""
        for mesh in self.meshes:
            if mesh.users == 0:
                bpy.data.meshes.remove(mesh)
        self.meshes = []


def _allocate(frames, vertices):
    try:
        return np.empty((frames, vertices, 3), dtype=np.float32)
    except MemoryError:
        size = frames * vertices * 12 / 1e9
        raise Refused(f"{frames} frames of {vertices} vertices need {size:.1f} GB for positions alone: choose fewer frames or a larger step")


class Evaluated:
    """The evaluated mesh of an object, for a `with` statement. Objects that are no meshes are converted for its duration."""

    def __init__(self, name, depsgraph):
        self.object = bpy.data.objects[name].evaluated_get(depsgraph)
        self.converted = self.object.type != "MESH"

    def __enter__(self):
        self.mesh = self.object.to_mesh() if self.converted else self.object.data
        return self

    def __exit__(self, *_):
        if self.converted:
            self.object.to_mesh_clear()

    def corners(self, found=None):
        """[C] vertex of each corner; into an array that is there, or a new one."""
        found = np.empty(len(self.mesh.loops), dtype=np.int32) if found is None else found
        if len(found):
            self.mesh.attributes[".corner_vert"].data.foreach_get("value", found)
        return found

    def starts(self):
        """[P] first corner of each face."""
        found = np.empty(len(self.mesh.polygons), dtype=np.int32)
        self.mesh.polygons.foreach_get("loop_start", found)
        return found

    def positions(self, target):
        """Fills [n, 3] with the positions in the object's space."""
        self.mesh.attributes["position"].data.foreach_get("vector", target.reshape(-1))


class Visible:
    """Shows hidden objects for the duration of a `with` statement: Blender does not evaluate what is hidden."""

    def __init__(self, names):
        self.names = names

    def __enter__(self):
        self.hidden = []
        for name in self.names:
            thing = bpy.data.objects[name]
            if thing.hide_viewport or thing.hide_get():
                self.hidden.append((name, thing.hide_viewport, thing.hide_get()))
                thing.hide_viewport = False
                thing.hide_set(False)
        return self

    def __exit__(self, *_):
        for name, viewport, eye in self.hidden:
            thing = bpy.data.objects.get(name)
            if thing is not None:
                thing.hide_viewport = viewport
                thing.hide_set(eye)


def simulation_start(scene):
    """The first frame of the scene's simulations, from which every frame has to be played in order; `None` where nothing is simulated.

    All objects count: one that is read may follow one that is simulated.
    """
    starts = []
    if scene.rigidbody_world is not None and scene.rigidbody_world.enabled:
        starts.append(scene.rigidbody_world.point_cache.frame_start)
    for thing in scene.objects:
        for modifier in thing.modifiers:
            cache = getattr(modifier, "point_cache", None)
            if modifier.type in SIMULATIONS and cache is not None:
                starts.append(cache.frame_start)
            elif modifier.type in SIMULATIONS or (modifier.type == "NODES" and _simulates(modifier.node_group)):
                starts.append(scene.frame_start)
    return min(starts) if starts else None


def _simulates(group):
    """Whether geometry nodes have a simulation zone."""
    if group is None:
        return False
    return any(node.bl_idname == "GeometryNodeSimulationOutput" or (node.bl_idname == "GeometryNodeGroup" and _simulates(node.node_tree)) for node in group.nodes)


def is_fixed(thing):
    """Whether an object has the same faces in every frame, whatever it does."""
    return thing.type == "MESH" and all(modifier.type in FIXED for modifier in thing.modifiers)


def check_objects(context, objects):
    """Refuses what cannot be read."""
    if not objects:
        raise Refused("select the objects that deform: meshes, curves, surfaces, texts or metaballs")
    # Objects that a script has just linked are not in its list yet.
    context.view_layer.update()
    in_layer = set(context.view_layer.objects)
    for thing in objects:
        if thing.type not in TYPES:
            raise Refused(f"{thing.name} has no surface: it is of the type {thing.type.lower()}")
        if thing not in in_layer:
            raise Refused(f"{thing.name} is not in the view layer {context.view_layer.name}: include its collection")


def record(context, objects, frames, rest=0, active=None, meshes=True, reference=None):
    """A generator that returns a `Recording` of the objects in frames; `rest` is the number of the rest frame among them.

    The scene's frame and what is hidden are as before afterwards. `meshes`: keep copies of the meshes in the rest frame. `reference`: a function
    of the evaluated scene that gives world_from_reference in each frame; by default that of the active object, see above.
    """
    check_objects(context, objects)
    scene = context.scene
    names = [thing.name for thing in objects]
    anchor = active.name if active is not None else names[0]
    before = scene.frame_current, scene.frame_subframe
    start = simulation_start(scene)
    played = frames[0] if start is None else min(start, frames[0])
    recording = None
    try:
        with Visible(names):
            for t, frame in enumerate(frames):
                # Simulations see every frame, and in order.
                for skipped in range(int(played), int(frame)) if start is not None else ():
                    _set_frame(scene, skipped)
                    yield Progress(STAGE, t, len(frames))
                played = frame + 1
                _set_frame(scene, frame)
                depsgraph = context.evaluated_depsgraph_get()
                if recording is None:
                    parts = _parts(names, depsgraph, frame)
                    recording = Recording(frames, parts, parts[-1].last, _place(anchor, depsgraph))
                space = np.array(recording.reference if reference is None else reference(depsgraph), dtype=np.float64)
                _read_frame(recording, t, depsgraph, np.linalg.inv(space))
                if t == rest and meshes:
                    recording.meshes = [_copy(name, depsgraph) for name in names]
                yield Progress(STAGE, t + 1, len(frames))
        return recording
    except BaseException:
        if recording is not None:
            recording.discard()
        raise
    finally:
        scene.frame_set(before[0], subframe=before[1])


def _set_frame(scene, frame):
    whole = int(np.floor(frame))
    scene.frame_set(whole, subframe=float(frame - whole))


def _parts(names, depsgraph, frame):
    parts, first, first_corner = [], 0, 0
    for name in names:
        with Evaluated(name, depsgraph) as evaluated:
            count = len(evaluated.mesh.vertices)
            if count == 0:
                raise Refused(f"{name} has no vertices in frame {frame:g}; instances of geometry nodes have to be realised")
            parts.append(Part(name, first, first + count, first_corner, evaluated.corners(), evaluated.starts(), is_fixed(bpy.data.objects[name])))
        first, first_corner = parts[-1].last, first_corner + len(parts[-1].corners)
    return parts


def _place(name, depsgraph):
    """The place of an object, without its rotation and scale: Z is up there, too."""
    return Matrix.Translation(bpy.data.objects[name].evaluated_get(depsgraph).matrix_world.translation)


def _copy(name, depsgraph):
    """A mesh of its own with all layers of the evaluated one."""
    evaluated = bpy.data.objects[name].evaluated_get(depsgraph)
    mesh = bpy.data.meshes.new_from_object(evaluated, preserve_all_data_layers=True, depsgraph=depsgraph)
    mesh.name = f"{name} rig"
    return mesh


def _read_frame(recording, t, depsgraph, reference_from_world):
    """All objects of frame t in the space of the reference."""
    for part in recording.parts:
        target = recording.positions[t, part.first : part.last]
        with Evaluated(part.name, depsgraph) as evaluated:
            mesh, frame = evaluated.mesh, recording.frames[t]
            found, expected = len(mesh.vertices), part.last - part.first
            if found != expected:
                raise Refused(
                    f"{part.name} has {found} vertices in frame {frame:g}, but {expected} in frame {recording.frames[0]:g}: "
                    "its topology must not change"
                )
            if len(mesh.loops) != len(part.corners) or not (part.fixed or recording.same_corners(part, evaluated)):
                raise Refused(f"{part.name} has other faces in frame {frame:g} than in frame {recording.frames[0]:g}: its topology must not change")
            evaluated.positions(target)
            # Matrices of Blender are float32: the product is in float64, so that objects far from the origin lose no digits.
            matrix = reference_from_world @ np.array(evaluated.object.matrix_world, dtype=np.float64)
        transform(target, matrix)


def transform(points, matrix):
    """Moves points [n, 3] of float32 in place."""
    if not np.allclose(matrix, np.eye(4), rtol=0, atol=1e-9):
        points[:] = points @ matrix[:3, :3].T.astype(np.float32) + matrix[:3, 3].astype(np.float32)
