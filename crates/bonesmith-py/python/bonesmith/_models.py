"""Models: animations, rigs of all kinds, bases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, Mapping, NamedTuple, Sequence, Union, overload

from bonesmith import _native

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    PathLike = Union[str, os.PathLike[str]]
    ArrayLike = npt.ArrayLike
    Floats = npt.NDArray[np.float32]
    Doubles = npt.NDArray[np.float64]

#: Size of a page in a notebook at most, in megabytes.
INLINE_MB = 8.0


def file_to_write(path: PathLike) -> str:
    """A file to write."""
    name = os.fspath(path)
    if os.path.isdir(name):
        import errno

        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    return name


class Metrics:
    """How well a model reproduces an animation. Distances are in thousandths of the radius of the rest pose's smallest sphere.

    Attributes
    ----------
    e_rms : float
        Root mean square error per coordinate; below about 2 it is hard to see.
    max_error : float
        The largest distance of any vertex in any frame.
    max_error_model_units : float
        The same in the unit of the coordinates.
    max_error_at : tuple of int
        Where it is: (frame, vertex).
    p999_error : float
        The distance that 99.9 % of all vertices and frames stay below.
    rmse_percent : float
        Root mean square distance in percent of the diagonal of the bounding box.
    normal_degrees : float or None
        Mean angle between normals computed from positions.
    shading_degrees : float or None
        Mean angle of the stored normals, deformed as engines do.
    kg_error : float or None
        Error over the extent of the frames in percent, as papers on compression give it.
    velocity_error : float or None
        Error of the steps between frames.
    sted : dict or None
        Changes of edge lengths in space and time.
    contacts : dict or None
        How far vertices move that rest in the original.
    verdict : dict
        What a viewer notices, and where.
    radius : float
        The unit of the distances, in the unit of the coordinates.
    per_frame : numpy.ndarray
        [F] ``e_rms`` of each frame alone.
    per_vertex : numpy.ndarray
        [N] ``e_rms`` of each vertex alone.
    """

    e_rms: float
    max_error: float
    max_error_model_units: float
    max_error_at: tuple[int, int]
    p999_error: float
    rmse_percent: float
    normal_degrees: float | None
    shading_degrees: float | None
    kg_error: float | None
    velocity_error: float | None
    sted: dict[str, Any] | None
    contacts: dict[str, Any] | None
    verdict: dict[str, Any]
    radius: float
    per_frame: Doubles
    per_vertex: Doubles

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        frame, vertex = data["max_error_at"]
        normals = data["skinned_normals"]
        self.max_error_at = (frame, vertex)
        self.shading_degrees = None if normals is None else normals["degrees"]
        self.radius = data["radius_model_units"]
        for name in (
            "e_rms",
            "max_error",
            "max_error_model_units",
            "p999_error",
            "rmse_percent",
            "normal_degrees",
            "kg_error",
            "velocity_error",
            "sted",
            "contacts",
            "verdict",
            "per_frame",
            "per_vertex",
        ):
            setattr(self, name, data[name])

    def as_dict(self) -> dict[str, Any]:
        """All figures by name, with the names that the command line's JSON has."""
        return dict(self._data)

    def __repr__(self) -> str:
        frame, vertex = self.max_error_at
        return f"<Metrics: E_RMS {self.e_rms:.4g}, max error {self.max_error:.4g} (frame {frame}, vertex {vertex})>"


class Clip(NamedTuple):
    """One animation of a model."""

    #: Its name.
    name: str
    #: [F] seconds of its frames.
    times: Doubles

    @property
    def frame_count(self) -> int:
        """F."""
        return len(self.times)


class View:
    """A report that a notebook shows."""

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        self.height = height

    def _repr_html_(self) -> str:
        import html

        source = html.escape(self.page, quote=True)
        style = f"width:100%;height:{int(self.height)}px;border:0"
        return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{source}"></iframe>'

    def __repr__(self) -> str:
        return f"<View: a page of {len(self.page) / 1e6:.1f} MB; notebooks show it>"


class Model:
    """Whatever a file holds; the base class of all kinds. Arrays of it are read-only."""

    _kinds: tuple[str, ...] = ()

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is made by load, fit and other functions")

    _handle: _native.Handle
    _metrics: Metrics | None

    @property
    def name(self) -> str:
        """Short name, for outputs."""
        return self._handle.name()

    @property
    def kind(self) -> str:
        """The kind, as the command line's JSON names it."""
        return self._handle.kind()

    @property
    def rest(self) -> Floats:
        """[N, 3] float32 rest pose in model units: a view, not a copy."""
        return self._handle.rest()

    @property
    def faces(self) -> npt.NDArray[np.uint32]:
        """[M, corners] uint32 faces; [T, 3] triangles where faces have different numbers of corners."""
        corners, counts = self._handle.faces()
        if len(counts) == 0:
            return self._handle.triangles()
        first = int(counts[0])
        return corners.reshape(-1, first) if bool((counts == first).all()) else self._handle.triangles()

    @property
    def polygons(self) -> list[npt.NDArray[np.uint32]]:
        """Faces as arrays of their corners."""
        corners, counts = self._handle.faces()
        found: list[npt.NDArray[np.uint32]] = []
        start = 0
        for count in counts:
            found.append(corners[start : start + int(count)])
            start += int(count)
        return found

    @property
    def normals(self) -> Floats | None:
        """[C, 3] float32 stored normals of the rest pose, one for each corner of each face in the order of `polygons`; ``None`` where there are
        none."""
        return self._handle.normals()

    @property
    def uvs(self) -> Floats | None:
        """[C, 2] float32 texture coordinates of the corners, of the first set; the origin is the lower left corner. ``None`` where there are none."""
        sets = self._handle.uv_sets()
        return sets[0] if sets else None

    @property
    def vertex_count(self) -> int:
        """N."""
        return self._handle.vertex_count()

    @property
    def frame_count(self) -> int:
        """F of the first clip; 0 where nothing moves."""
        clips = self._handle.clips()
        return clips[0][1] if clips else 0

    @property
    def times(self) -> Doubles:
        """[F] seconds of the frames of the first clip."""
        return self._handle.times(0)

    @property
    def clips(self) -> list[Clip]:
        """All clips: name and times."""
        return [Clip(name, self._handle.times(at)) for at, (name, _) in enumerate(self._handle.clips())]

    @property
    def nbytes(self) -> int:
        """Bytes at run time, with the motion of all clips: float32, 16-bit indices."""
        return self._handle.nbytes()

    @property
    def params(self) -> dict[str, Any] | None:
        """The parameters that made it, as files store them; ``None`` where they are not known."""
        params: dict[str, Any] | None = self._handle.params()
        return params

    @property
    def record(self) -> dict[str, Any] | None:
        """How it was made: seconds, rounds, errors by round; ``None`` for a model that was loaded."""
        record: dict[str, Any] | None = self._handle.record()
        return record

    @property
    def metrics(self) -> Metrics | None:
        """The figures against the animation that it was made from, measured at the first use; ``None`` for a model that was loaded.

        The animation is kept for this and for reports; an array that was fitted without a copy, too. If its numbers have changed meanwhile,
        this raises; `evaluate` measures against any animation.
        """
        if self._metrics is None:
            data = _native.metrics(self._handle)
            self._metrics = None if data is None else Metrics(data)
        return self._metrics

    def drop_animation(self) -> None:
        """Drops the animation that it was made from, and with it an array that was fitted without a copy. Metrics that were read stay."""
        self._handle.drop_animation()

    def _clip(self, clip: int | str) -> int:
        clips = self._handle.clips()
        if isinstance(clip, str):
            names = [name for name, _ in clips]
            if clip not in names:
                raise KeyError(f"there is no clip {clip!r}; there are {', '.join(names) or 'none'}")
            return names.index(clip)
        if not -len(clips) <= clip < len(clips):
            raise IndexError(f"clip {clip} of {len(clips)}")
        return clip % len(clips)

    def _frames(self, frames: Any, clip: int) -> tuple[list[int], bool]:
        """Numbers of frames, and whether one alone is meant."""
        count = self._handle.clips()[clip][1]
        if isinstance(frames, slice):
            return list(range(*frames.indices(count))), False
        alone = not hasattr(frames, "__iter__")
        numbers: list[int] = []
        for frame in [frames] if alone else frames:
            number = frame.__index__()
            if not -count <= number < count:
                raise IndexError(f"frame {number} of {count} (0 to {count - 1})")
            numbers.append(number % count)
        return numbers, alone

    def pose(self, frame: int | slice | Sequence[int], *, clip: int | str = 0) -> Floats:
        """Positions in a frame, or in several.

        Parameters
        ----------
        frame : int, slice or sequence of int
            The frames, counted from 0.
        clip : int or str, default: 0
            The clip, by number or name.

        Returns
        -------
        numpy.ndarray
            [N, 3] float32 for one frame, [K, N, 3] for several.
        """
        at = self._clip(clip)
        numbers, alone = self._frames(frame, at)
        posed = _native.pose(self._handle, numbers, at)
        return posed[0] if alone else posed

    def bake(self, clip: int | str | None = None) -> Animation:
        """The animation that it makes.

        Parameters
        ----------
        clip : int, str or None, default: None
            One clip; ``None``: all, one after the other.
        """
        handle = self._handle.bake(None if clip is None else self._clip(clip))
        return _wrapped_as(Animation, handle)

    def save(
        self,
        path: PathLike,
        *,
        shape: str | None = None,
        max_joints: int | None = None,
        pieces: str = "skin",
        compact: bool | float | str = False,
    ) -> None:
        """Writes a file, completely or not at all; the extension chooses the format.

        Parameters
        ----------
        path : path-like
            The file: ``.glb``, ``.gltf``, ``.usda``, ``.usdc``, ``.fbx``, ``.npz``, and ``.abc`` for animations.
        shape : {"baked", "runtime"} or None, default: None
            Of a rig with two layers or multi-weights: virtual bones as joints with baked motion, or the model itself. ``None``: as the
            command line chooses, two layers baked except in ``.npz``.
        max_joints : int or None, default: None
            Joints of a skin, at most: a rig with more bones is written as several skins.
        pieces : {"skin", "nodes"}, default: "skin"
            Rigid pieces as bones of a skin, or as nodes with a mesh each.
        compact : bool, float or str, default: False
            A small file (``.glb``, ``.gltf``), as `bonesmith.compact` writes it: ``True``, an additional E_RMS such as 0.05, or the words of the
            command line such as ``"5%"``, ``"plain"``, ``"plain,0.05"``.

        Warns
        -----
        BonesmithWarning
            Data that the format does not preserve.
        """
        if pieces not in ("skin", "nodes"):
            from bonesmith._errors import ParameterError

            raise ParameterError(f"pieces is {pieces!r}; it must be skin or nodes", option="pieces", value=pieces)
        words = None if compact is False else "" if compact is True else str(compact)
        _native.save(self._handle, file_to_write(path), shape, max_joints, pieces == "nodes", words)

    def report(self, path: PathLike, *, against: Model | None = None, report_max_mb: float = 25) -> None:
        """Writes a report: one html file with a viewer, plots and figures.

        Parameters
        ----------
        path : path-like
            The file, ``.html``.
        against : Model or None, default: None
            The animation to compare with. ``None``: the one that it was made from, where there is one (see `metrics`).
        report_max_mb : float, default: 25
            Maximum size of the report in MB; frames are left out evenly where all would be too much.
        """
        other = None if against is None else against._handle
        _native.report(self._handle, other, file_to_write(path), report_max_mb)

    def view(self, *, against: Model | None = None, height: int = 640, report_max_mb: float = INLINE_MB) -> View:
        """The report, shown in a notebook.

        Parameters
        ----------
        against : Model or None, default: None
            As for `report`.
        height : int, default: 640
            Height in pixels.
        report_max_mb : float, default: 8
            As for `report`.
        """
        other = None if against is None else against._handle
        return View(_native.page(self._handle, other, report_max_mb), height)

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()

    def __repr__(self) -> str:
        handle = self._handle
        parts = [f"{handle.vertex_count()} vertices"]
        if handle.bone_count():
            parts.append(f"{handle.bone_count()} {handle.bone_kind()} bones")
        if handle.virtual_bone_count():
            parts.append(f"{handle.virtual_bone_count()} virtual bones")
        clips = handle.clips()
        frames = f"{sum(count for _, count in clips)} frames"
        parts.append(frames if len(clips) <= 1 else f"{len(clips)} clips of {frames}")
        return f"<{type(self).__name__} {handle.name()!r}: {', '.join(parts)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        metrics = self.metrics
        state = (_native.pickled(self._handle), self.kind, self.name, None if metrics is None else metrics.as_dict())
        return (_unpickled, state)

    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self


class Animation(Model):
    """Positions of one mesh in every frame.

    Parameters
    ----------
    verts : array_like
        [F, N, 3] positions; copied.
    faces : array_like or None, default: None
        [M, corners] vertices of each face, or lists of them.
    rest : array_like or None, default: None
        [N, 3] rest pose; ``None``: the first frame.
    times : array_like or None, default: None
        [F] seconds, rising.
    fps : float or None, default: None
        Frames per second where there are no times; ``None``: 24.
    name : str, default: "animation"
        Short name, for outputs.
    """

    _kinds: tuple[str, ...] = ("sequence",)

    def __init__(
        self,
        verts: ArrayLike,
        faces: ArrayLike | Sequence[Sequence[int]] | None = None,
        rest: ArrayLike | None = None,
        *,
        times: ArrayLike | None = None,
        fps: float | None = None,
        name: str = "animation",
    ) -> None:
        self._handle = _native.animation(verts, faces, rest, times, fps, name, True)
        self._metrics = None

    @property
    def verts(self) -> Floats:
        """[F, N, 3] float32 positions: a copy. `frame` does not copy."""
        return self.pose(slice(None))

    def frame(self, t: int) -> Floats:
        """[N, 3] float32 positions of a frame: a view, not a copy."""
        (number,), _ = self._frames(t, 0)
        return self._handle.frame(number)

    def __len__(self) -> int:
        return self.frame_count

    def __getitem__(self, t: int) -> Floats:
        return self.frame(t)

    def __iter__(self) -> Iterator[Floats]:
        return (self._handle.frame(t) for t in range(self.frame_count))


class Basis(Model):
    """Trajectories that vertices mix, without bones: the methods ``cpca`` and ``svd``."""

    _kinds: tuple[str, ...] = ("basis",)


class Rig(Model):
    """Bones, weights, a rest pose, and bone motion. Arrays are copied and checked.

    Parameters
    ----------
    rest : array_like
        [N, 3] rest pose.
    faces : array_like or None, default: None
        [M, corners] vertices of each face, or lists of them.
    bones : array_like or None, default: None
        [F, B, 4, 4] transforms of the bones in each frame: ``posed = bones[t, j] @ [rest, 1]``. ``None``: a rig without motion, or with `clips`.
    weights : array_like or None, default: None
        [N, B] weights; this, or `joint_indices` and `joint_weights`.
    joint_indices : array_like or None, default: None
        [N, K] bones of each vertex. Where the weight is 0 any number may stand.
    joint_weights : array_like or None, default: None
        [N, K] their weights.
    parents : array_like or None, default: None
        [B] parent of each bone; -1 for a root. ``None``: all are roots.
    binds : array_like or None, default: None
        [B, 4, 4] place and orientation of each bone in the rest pose. ``None``: at the origin.
    tips : array_like or None, default: None
        [B, 3] end of each leaf of a skeleton in the rest pose; NaN for bones that have none.
    names : sequence of str or None, default: None
        [B] names, all different. ``None``: bone_0, bone_1, ...
    bone_kind : {"rigid", "trs", "affine"} or None, default: None
        What the transforms may do; ``None``: the narrowest kind that holds all.
    times : array_like or None, default: None
        [F] seconds of the frames of `bones`, rising.
    fps : float or None, default: None
        Frames per second where there are no times; ``None``: 24.
    clips : mapping or None, default: None
        Several clips by name, in place of `bones`: transforms [F, B, 4, 4], or a tuple of transforms and times.
    normals : array_like or None, default: None
        [N, 3] normals of the rest pose at vertices, or [C, 3] at the corners of all faces; where N and C are equal, corners are meant.
    uvs : array_like or None, default: None
        [N, 2] or [C, 2] texture coordinates; the origin is the lower left corner.
    normalise : bool, default: False
        Accept weights that are negative or do not sum to 1, and correct them. Sums within 0.001 of 1 are always corrected.
    name : str, default: "rig"
        Short name, for outputs; the clip of `bones` has it, too.

    Raises
    ------
    InputError
        Arrays that are no rig, with `.frame`, `.vertex` and `.value` where it is about one.
    """

    _kinds: tuple[str, ...] = ("lbs",)

    def __init__(
        self,
        rest: ArrayLike,
        faces: ArrayLike | Sequence[Sequence[int]] | None = None,
        *,
        bones: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        joint_indices: ArrayLike | None = None,
        joint_weights: ArrayLike | None = None,
        parents: ArrayLike | None = None,
        binds: ArrayLike | None = None,
        tips: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        bone_kind: str | None = None,
        times: ArrayLike | None = None,
        fps: float | None = None,
        clips: Mapping[str, Any] | None = None,
        normals: ArrayLike | None = None,
        uvs: ArrayLike | None = None,
        normalise: bool = False,
        name: str = "rig",
    ) -> None:
        if self._kinds != Rig._kinds:
            # Layers, multi-weights and shapes come from functions.
            Model.__init__(self)
        if clips is not None and (bones is not None or times is not None):
            raise TypeError("bones and times are those of one clip: clips has its own")
        if bones is None and times is not None:
            raise TypeError("times belongs to bones")
        if clips is not None:
            motion = [(word, *clip) if isinstance(clip, tuple) else (word, clip, None) for word, clip in clips.items()]
            if any(len(clip) != 3 for clip in motion):
                raise TypeError("a clip is an array of transforms, or a tuple of transforms and times")
        else:
            motion = [] if bones is None else [(name, bones, times)]
        self._handle = _native.rig(
            {
                "name": name,
                "rest": rest,
                "faces": faces,
                "weights": weights,
                "joint_indices": joint_indices,
                "joint_weights": joint_weights,
                "clips": motion,
                "fps": fps,
                "parents": parents,
                "binds": binds,
                "tips": tips,
                "names": None if names is None else [str(word) for word in names],
                "bone_kind": bone_kind,
                "normals": normals,
                "uvs": uvs,
                "normalise": normalise,
            }
        )
        self._metrics = None

    @property
    def bone_count(self) -> int:
        """B."""
        return self._handle.bone_count()

    @property
    def influences(self) -> int:
        """Most bones, or virtual bones, of a vertex."""
        return self._handle.max_influences()

    @property
    def bone_kind(self) -> str:
        """What the bones' transforms may do: ``"rigid"``, ``"trs"`` or ``"affine"``."""
        return self._handle.bone_kind()

    @property
    def weights(self) -> Floats:
        """[N, B] float32 dense weights, through all layers: made at each use."""
        return self._handle.dense_weights()

    def sparse_weights(self) -> Any:
        """[N, B] weights as ``scipy.sparse.csr_matrix``; needs SciPy."""
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped, import-not-found, unused-ignore]

        starts, bones, weights = self._handle.sparse_weights()
        return csr_matrix((weights, bones, starts), shape=(self.vertex_count, self.bone_count))

    @property
    def joint_indices(self) -> npt.NDArray[np.uint16]:
        """[N, K] uint16 bones, or virtual bones, of each vertex, with falling weights: a view, not a copy."""
        return self._handle.joint_indices()

    @property
    def joint_weights(self) -> Floats:
        """[N, K] float32 weights of `joint_indices`; unused slots are 0: a view, not a copy."""
        return self._handle.joint_weights()

    @property
    def bones(self) -> Doubles:
        """[F, B, 4, 4] float64 transforms of the first clip: ``posed = bones[t, j] @ [rest, 1]``."""
        return self.transforms(0)

    def transforms(self, clip: int | str = 0) -> Doubles:
        """[F, B, 4, 4] float64 transforms of a clip."""
        return self._handle.transforms(self._clip(clip))

    @property
    def binds(self) -> Doubles:
        """[B, 4, 4] float64 place and orientation of each bone in the rest pose."""
        return self._handle.binds()

    @property
    def tips(self) -> Doubles:
        """[B, 3] float64 end of each leaf of a skeleton in the rest pose; NaN for other bones and where it is not known."""
        return self._handle.tips()

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        """[B] int32 parent of each bone; -1 for a root."""
        return self._handle.parents()

    @property
    def names(self) -> list[str]:
        """Names of the bones."""
        return self._handle.names()

    def pose(self, frame: int | slice | Sequence[int] | ArrayLike, *, clip: int | str = 0) -> Floats:
        """Positions in frames, or with bones of your own.

        Parameters
        ----------
        frame : int, slice, sequence of int, or array_like
            Frames of a clip, counted from 0; or transforms [B, 4, 4], or [K, B, 4, 4] for K poses. Corrective shapes are those of
            frames: transforms move the rest pose without them.
        clip : int or str, default: 0
            The clip of the frames, by number or name.

        Returns
        -------
        numpy.ndarray
            [N, 3] float32 for one frame or pose, [K, N, 3] for several.
        """
        depth = getattr(frame, "ndim", None)
        if depth is None and isinstance(frame, (list, tuple)) and frame and hasattr(frame[0], "__len__"):
            import numpy

            frame = numpy.asarray(frame)
            depth = frame.ndim
        if depth is not None and depth >= 2:
            array: Any = frame
            posed = _native.pose_matrices(self._handle, array[None] if depth == 3 else array)
            return posed[0] if depth == 3 else posed
        frames: Any = frame
        return super().pose(frames, clip=clip)


class TwoLayerRig(Rig):
    """A rig whose vertices blend virtual bones, which blend bones. `joint_indices` and `joint_weights` are those of virtual bones."""

    _kinds: tuple[str, ...] = ("two_layer",)

    @property
    def virtual_bone_count(self) -> int:
        """M."""
        return self._handle.virtual_bone_count()

    @property
    def blend_indices(self) -> npt.NDArray[np.uint16]:
        """[M, C] uint16 bones of each virtual bone: a view, not a copy."""
        return self._handle.blends()[0]

    @property
    def blend_weights(self) -> Floats:
        """[M, C] float32 weights of `blend_indices`: a view, not a copy."""
        return self._handle.blends()[1]


class DdmRig(Rig):
    """A rig with multi-weights: Direct Delta Mush, compressed or not."""

    _kinds: tuple[str, ...] = ("ddm", "compressed_ddm")

    @property
    def virtual_bone_count(self) -> int:
        """M of a compressed rig; 0 otherwise."""
        return self._handle.virtual_bone_count()

    @property
    def variant(self) -> int:
        """How a vertex is moved: 0 (best) to 5 (linear blending)."""
        return self._handle.variant()


class CorrectiveRig(Rig):
    """A rig with corrective shapes."""

    _kinds: tuple[str, ...] = ("shaped",)

    @property
    def shapes(self) -> Floats:
        """[R, N, 3] float32 displacements of the rest pose."""
        return self._handle.shapes()

    def shape_weights(self, clip: int | str = 0) -> Floats:
        """[F, R] float32 weights of the shapes in a clip."""
        return self._handle.shape_weights(self._clip(clip))


class ShapeBones(Rig):
    """Bones that follow the weights of shapes: ``T_j(c) = I + sum_s c_s N_js``. The first clip has each shape alone in a frame of its own."""

    _kinds: tuple[str, ...] = ("shape_bones",)

    @property
    def shape_names(self) -> list[str]:
        """[S] names of the shapes."""
        return self._handle.shape_names()

    @property
    def number_count(self) -> int:
        """Stored numbers of all shapes."""
        return self._handle.number_count()

    def shape_transforms(self, weights: Sequence[float]) -> npt.NDArray[np.float64]:
        """[B, 4, 4] transforms of the bones for [S] weights of the shapes; driven shapes follow their rules."""
        return self._handle.shape_transforms([float(weight) for weight in weights])

    def pose_shapes(self, weights: Sequence[float]) -> Floats:
        """[N, 3] float32 positions for [S] weights of the shapes; driven shapes follow their rules."""
        posed: Floats = self._handle.pose_shapes([float(weight) for weight in weights])[0]
        return posed


_CLASSES: tuple[type[Model], ...] = (Animation, Basis, Rig, TwoLayerRig, DdmRig, CorrectiveRig, ShapeBones)


def wrapped(handle: _native.Handle) -> Any:
    """The object of a handle, in the class of its kind."""
    kind = handle.kind()
    for cls in _CLASSES:
        if kind in cls._kinds:
            return _wrapped_as(cls, handle)
    raise AssertionError(f"the kind {kind!r} has no class")


@overload
def _wrapped_as(cls: type[Animation], handle: _native.Handle) -> Animation: ...
@overload
def _wrapped_as(cls: type[Model], handle: _native.Handle) -> Model: ...
def _wrapped_as(cls: type[Model], handle: _native.Handle) -> Model:
    model = cls.__new__(cls)
    model._handle = handle
    model._metrics = None
    return model


def _unpickled(data: bytes, kind: str, name: str, metrics: dict[str, Any] | None) -> Model:
    model: Model = wrapped(_native.unpickled(data, kind, name))
    model._metrics = None if metrics is None else Metrics(metrics)
    return model


def handle_of(value: Any, faces: Any = None, rest: Any = None, times: Any = None, fps: Any = None, name: Any = None) -> _native.Handle:
    """The handle of an animation: of a model as it is, or of arrays, without a copy where they are float32."""
    if isinstance(value, Model):
        given = [word for word, given in (("faces", faces), ("rest", rest), ("times", times), ("fps", fps)) if given is not None]
        if given:
            raise TypeError(f"{given[0]} belongs to arrays; {value!r} has its own")
        return value._handle
    if isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{value!r} is a path: use bonesmith.load")
    return _native.animation(value, faces, rest, times, fps, "animation" if name is None else name, False)


def rig_handle(value: Any) -> _native.Handle:
    """The handle of a rig."""
    if isinstance(value, Rig):
        return value._handle
    raise TypeError(f"a Rig is needed, not {type(value).__name__}")
