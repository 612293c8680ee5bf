"""Functions with the options of the command line. Made from the library's tables by `tests/api.rs`; not to be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Sequence, Union, cast, overload

from bonesmith import _native
from bonesmith._files import clips_of, read
from bonesmith._models import Animation, Basis, DdmRig, Model, Rig, ShapeBones, TwoLayerRig, file_to_write, handle_of, rig_handle, wrapped
from bonesmith._sweep import Sweep

if TYPE_CHECKING:
    import os
    from typing import Mapping

    from numpy.typing import ArrayLike

    PathLike = Union[str, os.PathLike[str]]

#: What a progress function is like; ``False`` cancels.
Progress = Callable[[str, int, Optional[int], Optional[float]], Optional[bool]]

BoneKind = Literal["rigid", "trs", "affine"]
FitMethod = Literal["bonesmith", "fsd", "ssdr", "sma", "sad", "lssp", "cpca", "svd"]
RigMethod = Literal["bonesmith", "fsd", "ssdr", "sma", "sad", "lssp"]
BasisMethod = Literal["cpca", "svd"]
Effort = Literal["fast", "balanced", "best"]
SkeletonMethod = Literal["multipass", "schaefer", "deaguiar", "hasler"]
Solve = Literal["weights", "motion", "both"]
Align = Literal["check", "auto", "off"]
RootMotion = Literal["none", "plane", "full"]
UpAxis = Literal["y", "z"]
ReduceMethod = Literal["bonesmith", "k-largest", "smooth", "geometric", "geometric-eq37", "poisson"]
Laplacian = Literal["cotangent", "uniform"]
ShapeKind = Literal["affine", "rigid", "translation"]
Axis = Literal["x", "y", "z"]


def load(
    path: PathLike | Sequence[PathLike],
    *,
    rest: int | PathLike | None = None,
    fps: float | None = None,
    frames: slice | range | None = None,
    mesh: str | None = None,
    clips: Sequence[str] = (),
    normalise: bool = False,
) -> Model:
    """Read a file: a rig of any kind where there is one, else an animation.

    The format is detected from the content, then from the extension. See `load_animation` and `load_rig`.

    Parameters
    ----------
    path : PathLike | Sequence[PathLike]
        A file, a folder or pattern of OBJ or PLY files, or a list such as a point cache and its OBJ.
    rest : int | PathLike | None, default: None
        Rest pose: first frame, the most symmetric one, a frame by number, or a file; by default the file's own, else
        first.
    fps : float | None, default: None
        Frames per second: of files without times, and to bake skinned or morph animation at.
    frames : slice | range | None, default: None
        Only these frames, counted from 0.
    mesh : str | None, default: None
        Only the mesh of this name, or those of these names between commas, where a file holds several.
    clips : Sequence[str], default: ()
        Only the clips of these names, in this order, where a file holds several; all share one set of weights; by
        default all.
    normalise : bool, default: False
        Accept weights of an npz that are negative or do not sum to 1, and correct them.

    Returns
    -------
    Model
        `Animation`, `Rig`, `TwoLayerRig`, `DdmRig`, `CorrectiveRig`, `ShapeBones` or `Basis`.
    """
    return read(path, {
        "rest": rest,
        "fps": fps,
        "frames": frames,
        "mesh": mesh,
        "clips": clips,
    }, bake=False, normalise=normalise)


def load_animation(
    path: PathLike | Sequence[PathLike],
    *,
    rest: int | PathLike | None = None,
    fps: float | None = None,
    frames: slice | range | None = None,
    mesh: str | None = None,
    clips: Sequence[str] = (),
) -> Animation:
    """Read a file as an animation: rigs and morph targets are baked.

    Parameters
    ----------
    path : PathLike | Sequence[PathLike]
        As for `load`.
    rest : int | PathLike | None, default: None
        Rest pose: first frame, the most symmetric one, a frame by number, or a file; by default the file's own, else
        first.
    fps : float | None, default: None
        Frames per second: of files without times, and to bake skinned or morph animation at.
    frames : slice | range | None, default: None
        Only these frames, counted from 0.
    mesh : str | None, default: None
        Only the mesh of this name, or those of these names between commas, where a file holds several.
    clips : Sequence[str], default: ()
        Only the clips of these names, in this order, where a file holds several; all share one set of weights; by
        default all.

    Returns
    -------
    Animation
    """
    found = read(path, {
        "rest": rest,
        "fps": fps,
        "frames": frames,
        "mesh": mesh,
        "clips": clips,
    }, bake=True, normalise=False)
    assert isinstance(found, Animation)
    return found


@overload
def fit(
    verts: ArrayLike | Model | Sequence[Model],
    faces: ArrayLike | Sequence[Sequence[int]] | None = None,
    rest: ArrayLike | None = None,
    *,
    bones: int | Literal["auto"] = "auto",
    target_error: float | str | None = None,
    influences: int | Literal["all"] = 4,
    bone_kind: BoneKind = "rigid",
    smooth: float = 0,
    prune: float = 0.005,
    shading: float = 0.4,
    norm: float | Literal["max"] = 2,
    importance: ArrayLike | PathLike | None = None,
    area: bool = False,
    keep_rest: bool = False,
    method: RigMethod = "bonesmith",
    bandwidth: float | None = None,
    effort: Effort = "balanced",
    seed: int = 0,
    max_seconds: float | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    eigenskin: int | None = None,
    skeleton: bool = False,
    detail: float = 1,
    root: str | Sequence[float] | None = None,
    skeleton_method: SkeletonMethod = "multipass",
    skeleton_start: int = 64,
    no_symmetry: bool = False,
    others: Literal["drop", "keep"] = "drop",
    root_motion: RootMotion = "none",
    up: UpAxis | None = None,
    in_place: bool = False,
    loop: bool = False,
    loop_clips: Sequence[str] = (),
    times: ArrayLike | None = None,
    fps: float | None = None,
    name: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Rig: ...
@overload
def fit(
    verts: ArrayLike | Model | Sequence[Model],
    faces: ArrayLike | Sequence[Sequence[int]] | None = None,
    rest: ArrayLike | None = None,
    *,
    bones: int | Literal["auto"] = "auto",
    target_error: float | str | None = None,
    influences: int | Literal["all"] = 4,
    bone_kind: BoneKind = "rigid",
    smooth: float = 0,
    prune: float = 0.005,
    shading: float = 0.4,
    norm: float | Literal["max"] = 2,
    importance: ArrayLike | PathLike | None = None,
    area: bool = False,
    keep_rest: bool = False,
    method: BasisMethod,
    bandwidth: float | None = None,
    effort: Effort = "balanced",
    seed: int = 0,
    max_seconds: float | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    eigenskin: int | None = None,
    skeleton: bool = False,
    detail: float = 1,
    root: str | Sequence[float] | None = None,
    skeleton_method: SkeletonMethod = "multipass",
    skeleton_start: int = 64,
    no_symmetry: bool = False,
    others: Literal["drop", "keep"] = "drop",
    root_motion: RootMotion = "none",
    up: UpAxis | None = None,
    in_place: bool = False,
    loop: bool = False,
    loop_clips: Sequence[str] = (),
    times: ArrayLike | None = None,
    fps: float | None = None,
    name: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Basis: ...
def fit(
    verts: ArrayLike | Model | Sequence[Model],
    faces: ArrayLike | Sequence[Sequence[int]] | None = None,
    rest: ArrayLike | None = None,
    *,
    bones: int | Literal["auto"] = "auto",
    target_error: float | str | None = None,
    influences: int | Literal["all"] = 4,
    bone_kind: BoneKind = "rigid",
    smooth: float = 0,
    prune: float = 0.005,
    shading: float = 0.4,
    norm: float | Literal["max"] = 2,
    importance: ArrayLike | PathLike | None = None,
    area: bool = False,
    keep_rest: bool = False,
    method: FitMethod = "bonesmith",
    bandwidth: float | None = None,
    effort: Effort = "balanced",
    seed: int = 0,
    max_seconds: float | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    eigenskin: int | None = None,
    skeleton: bool = False,
    detail: float = 1,
    root: str | Sequence[float] | None = None,
    skeleton_method: SkeletonMethod = "multipass",
    skeleton_start: int = 64,
    no_symmetry: bool = False,
    others: Literal["drop", "keep"] = "drop",
    root_motion: RootMotion = "none",
    up: UpAxis | None = None,
    in_place: bool = False,
    loop: bool = False,
    loop_clips: Sequence[str] = (),
    times: ArrayLike | None = None,
    fps: float | None = None,
    name: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Rig | Basis:
    """Fit bones, weights and bone motion to a mesh animation.

    Parameters
    ----------
    verts : ArrayLike | Model | Sequence[Model]
        [F, N, 3] positions, or an animation. A float32 array that is contiguous is not copied: it must not change
        during the call. A list of animations: clips of one mesh.
    faces : ArrayLike | Sequence[Sequence[int]] | None, default: None
        [M, corners] vertices of each face, or lists of them. Without faces there are no normals.
    rest : ArrayLike | None, default: None
        [N, 3] rest pose; None: the first frame.
    bones : int | Literal["auto"], default: "auto"
        Number of bones, or auto: enough for an E_RMS of 2, at most 100.
    target_error : float | str | None, default: None
        Find the fewest bones that reach this E_RMS (thousandths of the model's radius), or this root mean square
        distance: 1mm, 0.2cm, 0.01m, 3u (model units); instead of `bones`.
    influences : int | Literal["all"], default: 4
        Maximum number of bones per vertex, 1 to 16, or all.
    bone_kind : BoneKind, default: "rigid"
        Kind of the bones: what their transforms may do; by default rigid; affine with `method` fsd, sma and sad.
    smooth : float, default: 0
        Smoothness of the weights, 0 (off) to about 1.
    prune : float, default: 0.005
        Share by which the error may rise for fewer influences, 0 (off) to 1.
    shading : float, default: 0.4
        How much shading counts: the normals that an engine computes from the stored ones and the bones; 0 (off) to
        about 1.
    norm : float | Literal["max"], default: 2
        Which errors count most: 2 for the mean of squares, up to 16 for large ones, max for the largest (E_RMS rises by
        at most a quarter).
    importance : ArrayLike | PathLike | None, default: None
        How much each vertex counts, 0 or more: color for the red of the input's vertex colours, an npz with `mask`, a
        text file with a number for every vertex, or a mesh with vertex colours.
    area : bool, default: False
        Vertices count by the area of their faces, for meshes that are dense in some parts.
    keep_rest : bool, default: False
        Leave the rest pose as it is; otherwise its vertices move to where they fit best.
    method : FitMethod, default: "bonesmith"
        Method of the fit: ours, or a published one for comparison.
    bandwidth : float | None, default: None
        Bandwidth of the method sma: mean difference of rotation matrices' entries; by default 0.05, or wider for the
        `bones` asked for.
    effort : Effort, default: "balanced"
        Amount of work: more of it finds lower errors.
    seed : int, default: 0
        Seed of all random choices; the same seed gives the same bytes.
    max_seconds : float | None, default: None
        Stop after this many seconds with the present result.
    max_iterations : int | None, default: None
        Maximum number of rounds over weights and bones; by default by `effort`; 15 with `method` fsd.
    tolerance : float | None, default: None
        Stop when rounds lower the error by less than this fraction; by default 0.001, 1e-5 with `effort` best, 0 with
        `method` fsd.
    eigenskin : int | None, default: None
        Add R shapes that correct the residual of the bones (EigenSkin), 1 to 256: animated morph targets.
    skeleton : bool, default: False
        A hierarchical rig: a tree of bones that turn about fixed joints, instead of free bones. `bones` sets the
        maximum.
    detail : float, default: 1
        Amount of detail, 0.1 to 10: larger values give more bones. A bone stays if the error of everything, or that of
        its own part, is too large without it.
    root : str | Sequence[float] | None, default: None
        The root: a bone's name as a run without `root` gives it, or a place X,Y,Z; by default nearest the middle.
    skeleton_method : SkeletonMethod, default: "multipass"
        Method of the search for a skeleton: ours, or a published one for comparison.
    skeleton_start : int, default: 64
        Rigid parts that the search starts from, 2 to 256; on purpose more than the bones wanted.
    no_symmetry : bool, default: False
        Do not name mirror pairs of a symmetric model _l and _r.
    others : Literal["drop", "keep"], default: "drop"
        Where `mesh` picks from a file: whether the other meshes are dropped, or kept as they are there, with their
        bones and motion.
    root_motion : RootMotion, default: "none"
        Put the common motion of the model into one root bone: plane takes translation in the ground plane and rotation
        about the up axis, full all of it.
    up : UpAxis | None, default: None
        The axis that points up, for `root_motion`; by default the file's own, else y.
    in_place : bool, default: False
        With `root_motion`: write clips in which the root bone stands still.
    loop : bool, default: False
        Make the last pose equal the first: a small difference is spread over frames near both ends; a clip whose first
        frame follows its last gets a closing frame. With `root_motion` the root goes on.
    loop_clips : Sequence[str], default: ()
        With `loop`: only these clips, separated by commas; by default all.
    times : ArrayLike | None, default: None
        [F] seconds of the frames, rising.
    fps : float | None, default: None
        Frames per second where there are no times; None: 24.
    name : str | None, default: None
        Short name, for outputs.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    Rig | Basis
        A `Rig`; a `CorrectiveRig` with `eigenskin`; a `Basis` with the methods cpca and svd.
    """
    options: dict[str, Any] = {
        "bones": bones,
        "target_error": target_error,
        "influences": influences,
        "bone_kind": bone_kind,
        "smooth": smooth,
        "prune": prune,
        "shading": shading,
        "norm": norm,
        "importance": importance,
        "area": area,
        "keep_rest": keep_rest,
        "method": method,
        "bandwidth": bandwidth,
        "effort": effort,
        "seed": seed,
        "max_seconds": max_seconds,
        "max_iterations": max_iterations,
        "tolerance": tolerance,
        "eigenskin": eigenskin,
        "skeleton": skeleton,
        "detail": detail,
        "root": root,
        "skeleton_method": skeleton_method,
        "skeleton_start": skeleton_start,
        "no_symmetry": no_symmetry,
        "others": others,
        "root_motion": root_motion,
        "up": up,
        "in_place": in_place,
        "loop": loop,
        "loop_clips": loop_clips,
    }
    how = {"threads": threads, "progress": progress}
    clips = clips_of(verts)
    if clips is not None:
        return cast(Rig, wrapped(_native.fit_clips(clips, options, how)))
    return cast(Rig, wrapped(_native.fit(handle_of(verts, faces, rest, times, fps, name), options, how)))


def sweep(
    verts: ArrayLike | Model | Sequence[Model],
    faces: ArrayLike | Sequence[Sequence[int]] | None = None,
    rest: ArrayLike | None = None,
    *,
    counts: Sequence[int] = (),
    influences: int | Literal["all"] = 4,
    bone_kind: BoneKind = "rigid",
    smooth: float = 0,
    prune: float = 0.005,
    shading: float = 0.4,
    norm: float | Literal["max"] = 2,
    importance: ArrayLike | PathLike | None = None,
    area: bool = False,
    keep_rest: bool = False,
    method: FitMethod = "bonesmith",
    bandwidth: float | None = None,
    effort: Effort = "balanced",
    seed: int = 0,
    max_seconds: float | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    times: ArrayLike | None = None,
    fps: float | None = None,
    name: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Error against the number of bones, in one run.

    Parameters
    ----------
    verts : ArrayLike | Model | Sequence[Model]
        [F, N, 3] positions, or an animation. A float32 array that is contiguous is not copied: it must not change
        during the call. A list of animations: clips of one mesh.
    faces : ArrayLike | Sequence[Sequence[int]] | None, default: None
        [M, corners] vertices of each face, or lists of them. Without faces there are no normals.
    rest : ArrayLike | None, default: None
        [N, 3] rest pose; None: the first frame.
    counts : Sequence[int], default: ()
        Numbers of bones to try; by default 1 to 64.
    influences : int | Literal["all"], default: 4
        Maximum number of bones per vertex, 1 to 16, or all.
    bone_kind : BoneKind, default: "rigid"
        Kind of the bones: what their transforms may do; by default rigid; affine with `method` fsd, sma and sad.
    smooth : float, default: 0
        Smoothness of the weights, 0 (off) to about 1.
    prune : float, default: 0.005
        Share by which the error may rise for fewer influences, 0 (off) to 1.
    shading : float, default: 0.4
        How much shading counts: the normals that an engine computes from the stored ones and the bones; 0 (off) to
        about 1.
    norm : float | Literal["max"], default: 2
        Which errors count most: 2 for the mean of squares, up to 16 for large ones, max for the largest (E_RMS rises by
        at most a quarter).
    importance : ArrayLike | PathLike | None, default: None
        How much each vertex counts, 0 or more: color for the red of the input's vertex colours, an npz with `mask`, a
        text file with a number for every vertex, or a mesh with vertex colours.
    area : bool, default: False
        Vertices count by the area of their faces, for meshes that are dense in some parts.
    keep_rest : bool, default: False
        Leave the rest pose as it is; otherwise its vertices move to where they fit best.
    method : FitMethod, default: "bonesmith"
        Method of the fit: ours, or a published one for comparison.
    bandwidth : float | None, default: None
        Bandwidth of the method sma: mean difference of rotation matrices' entries; by default 0.05, or wider for the
        `bones` asked for.
    effort : Effort, default: "balanced"
        Amount of work: more of it finds lower errors.
    seed : int, default: 0
        Seed of all random choices; the same seed gives the same bytes.
    max_seconds : float | None, default: None
        Stop after this many seconds with the present result.
    max_iterations : int | None, default: None
        Maximum number of rounds over weights and bones; by default by `effort`; 15 with `method` fsd.
    tolerance : float | None, default: None
        Stop when rounds lower the error by less than this fraction; by default 0.001, 1e-5 with `effort` best, 0 with
        `method` fsd.
    times : ArrayLike | None, default: None
        [F] seconds of the frames, rising.
    fps : float | None, default: None
        Frames per second where there are no times; None: 24.
    name : str | None, default: None
        Short name, for outputs.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    Sweep
        The errors, and the number of bones beyond which more buy less.
    """
    options: dict[str, Any] = {
        "counts": counts,
        "influences": influences,
        "bone_kind": bone_kind,
        "smooth": smooth,
        "prune": prune,
        "shading": shading,
        "norm": norm,
        "importance": importance,
        "area": area,
        "keep_rest": keep_rest,
        "method": method,
        "bandwidth": bandwidth,
        "effort": effort,
        "seed": seed,
        "max_seconds": max_seconds,
        "max_iterations": max_iterations,
        "tolerance": tolerance,
    }
    numbers = [int(count) for count in options.pop("counts")]
    handle = handle_of(verts, faces, rest, times, fps, name)
    return Sweep(_native.sweep(handle, numbers, options, {"threads": threads, "progress": progress}))


def shapes(
    shapes: ArrayLike | Model,
    neutral: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    faces: ArrayLike | Sequence[Sequence[int]] | None = None,
    *,
    bones: int = 40,
    influences: int = 8,
    kind: ShapeKind = "affine",
    numbers: int | None = None,
    target_error: float | str | None = None,
    mirror: Axis | None = None,
    pieces: bool = False,
    shading: float = 0.4,
    norm: float | Literal["max"] = 2,
    importance: ArrayLike | PathLike | None = None,
    area: bool = False,
    drivers: PathLike | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
    name: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ShapeBones:
    """Fit bones to the shapes of a face: transforms that are linear in the weights of the shapes, with few numbers.

    Parameters
    ----------
    shapes : ArrayLike | Model
        [S, N, 3] positions with each shape at weight 1, or an animation with a frame for each shape.
    neutral : ArrayLike | None, default: None
        [N, 3] the face that no shape moves; None: that of the animation.
    names : Sequence[str] | None, default: None
        [S] names of the shapes, all different; None: shape_0, shape_1, ...
    faces : ArrayLike | Sequence[Sequence[int]] | None, default: None
        [M, corners] vertices of each face, or lists of them. Without faces there are no normals.
    bones : int, default: 40
        Number of bones.
    influences : int, default: 8
        Maximum number of bones per vertex, 1 to 16.
    kind : ShapeKind, default: "affine"
        What a shape may store for a bone: any matrix (12 numbers), translation and linearised rotation (6), translation
        (3).
    numbers : int | None, default: None
        Numbers to store in all: those that lower the error most, with all others solved again; by default all.
    target_error : float | str | None, default: None
        Find the fewest numbers that reach this E_RMS (thousandths of the model's radius), or this root mean square
        distance: 1mm, 0.2cm, 0.01m, 3u (model units); instead of `numbers`.
    mirror : Axis | None, default: None
        Bones, weights and numbers in mirrored pairs across this axis, where the face is symmetric; what is not is
        reported.
    pieces : bool, default: False
        Parts that every shape moves rigidly (eyeballs, teeth) have a bone of their own, and their vertices no other.
    shading : float, default: 0.4
        How much shading counts: the normals that an engine computes from the stored ones and the bones; 0 (off) to
        about 1.
    norm : float | Literal["max"], default: 2
        Which errors count most: 2 for the mean of squares, up to 16 for large ones, max for the largest (E_RMS rises by
        at most a quarter).
    importance : ArrayLike | PathLike | None, default: None
        How much each vertex counts, 0 or more: color for the red of the input's vertex colours, an npz with `mask`, a
        text file with a number for every vertex, or a mesh with vertex colours.
    area : bool, default: False
        Vertices count by the area of their faces, for meshes that are dense in some parts.
    drivers : PathLike | None, default: None
        Shapes whose weights follow from others, a JSON list: {"shape": NAME, "product": [NAMES]} for combinations,
        {"shape": NAME, "between": NAME, "range": [FROM, PEAK, TO]} for in-betweens.
    seed : int, default: 0
        Seed of all random choices; the same seed gives the same bytes.
    max_seconds : float | None, default: None
        Stop after this many seconds with the present result.
    name : str | None, default: None
        Short name, for outputs.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    ShapeBones
        The bones that the shapes drive.
    """
    if neutral is None and not isinstance(shapes, Model):
        raise TypeError("neutral is needed where shapes are an array")
    handle = handle_of(shapes, faces, neutral, None, None, name)
    words = None if names is None else [str(word) for word in names]
    return cast(ShapeBones, wrapped(_native.shapes(handle, words, {
        "bones": bones,
        "influences": influences,
        "kind": kind,
        "numbers": numbers,
        "target_error": target_error,
        "mirror": mirror,
        "pieces": pieces,
        "shading": shading,
        "norm": norm,
        "importance": importance,
        "area": area,
        "drivers": drivers,
        "seed": seed,
        "max_seconds": max_seconds,
    }, {"threads": threads, "progress": progress})))


def refit(
    rig: Rig,
    animation: ArrayLike | Model | Sequence[Model],
    *,
    solve: Solve | None = None,
    lock_bones: Sequence[str] = (),
    lock_vertices: ArrayLike | PathLike | None = None,
    add_bones: int | None = None,
    free_translation: bool = False,
    keep_normals: bool = False,
    rig_clip: Sequence[str] = (),
    align: Align = "check",
    input_scale: float | None = None,
    input_axes: str | None = None,
    frame_offset: int | None = None,
    influences: int | None = None,
    bone_kind: BoneKind | None = None,
    smooth: float = 0,
    max_seconds: float | None = None,
    max_iterations: int | None = None,
    tolerance: float = 0.001,
    root_motion: RootMotion = "none",
    up: UpAxis | None = None,
    in_place: bool = False,
    loop: bool = False,
    loop_clips: Sequence[str] = (),
    threads: int | None = None,
    progress: Progress | None = None,
) -> Rig:
    """Fit weights, motion or both of a rig to animations of its mesh. Bones, names, tree and rest pose stay.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    animation : ArrayLike | Model | Sequence[Model]
        The animation of the rig's mesh: [F, N, 3] positions, a model, or a list of clips.
    solve : Solve | None, default: None
        What is fitted; the rest stays as the rig has it; by default both; weights with `add_bones`.
    lock_bones : Sequence[str], default: ()
        Bones whose motion stays to the bit: names or patterns such as spine*, separated by commas.
    lock_vertices : ArrayLike | PathLike | None, default: None
        Vertices whose weights stay: an npz with `mask` [N], a file with vertex colours, or color for the rig's own
        (red). 1 keeps, 0 fits, between blends.
    add_bones : int | None, default: None
        Add N bones where the error is largest: helper_001, ... each a child of the bone it follows best.
    free_translation : bool, default: False
        Where only the motion is solved: let bones move away from their parents. Otherwise joints that only rotate in
        the rig's animations keep bone lengths.
    keep_normals : bool, default: False
        Keep the rig's rest normals instead of solving for those that shade best in the animation.
    rig_clip : Sequence[str], default: ()
        Which of the rig's animations each input is, in order; none: as if the rig had none; by default by name, else
        order.
    align : Align, default: "check"
        When rig and input disagree in units, axes or frames: check refuses and names the options that correct it, auto
        applies the correction, off compares nothing.
    input_scale : float | None, default: None
        Multiply the input's coordinates by this to bring them into the rig's units.
    input_axes : str | None, default: None
        Which axis of the input is the rig's x, y and z: x,z,-y makes Z up into Y up, -x,y,z mirrors.
    frame_offset : int | None, default: None
        Frame of the rig's animation that the input starts at; what the rig does not cover is cut off.
    influences : int | None, default: None
        Maximum number of bones per fitted vertex, 1 to 16; by default 4, or as many as the rig has if that is 5 to 8.
    bone_kind : BoneKind | None, default: None
        Kind of the bones whose motion is fitted: what their transforms may do; by default the rig's.
    smooth : float, default: 0
        Smoothness of the weights, 0 (off) to about 1.
    max_seconds : float | None, default: None
        Stop after this many seconds with the present result.
    max_iterations : int | None, default: None
        Maximum number of rounds over weights and motion; by default 12, or 24 with new bones.
    tolerance : float, default: 0.001
        Stop when a round lowers the error by less than this fraction.
    root_motion : RootMotion, default: "none"
        Put the common motion of the model into one root bone: plane takes translation in the ground plane and rotation
        about the up axis, full all of it.
    up : UpAxis | None, default: None
        The axis that points up, for `root_motion`; by default the file's own, else y.
    in_place : bool, default: False
        With `root_motion`: write clips in which the root bone stands still.
    loop : bool, default: False
        Make the last pose equal the first: a small difference is spread over frames near both ends; a clip whose first
        frame follows its last gets a closing frame. With `root_motion` the root goes on.
    loop_clips : Sequence[str], default: ()
        With `loop`: only these clips, separated by commas; by default all.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    Rig
        The rig with new weights, motion or both.
    """
    handles = clips_of(animation) or [handle_of(animation, name=rig.name)]
    return cast(Rig, wrapped(_native.refit(rig_handle(rig), handles, {
        "solve": solve,
        "lock_bones": lock_bones,
        "lock_vertices": lock_vertices,
        "add_bones": add_bones,
        "free_translation": free_translation,
        "keep_normals": keep_normals,
        "rig_clip": rig_clip,
        "align": align,
        "input_scale": input_scale,
        "input_axes": input_axes,
        "frame_offset": frame_offset,
        "influences": influences,
        "bone_kind": bone_kind,
        "smooth": smooth,
        "max_seconds": max_seconds,
        "max_iterations": max_iterations,
        "tolerance": tolerance,
        "root_motion": root_motion,
        "up": up,
        "in_place": in_place,
        "loop": loop,
        "loop_clips": loop_clips,
    }, {"threads": threads, "progress": progress})))


def add_bones(
    rig: Rig,
    animation: ArrayLike | Model | Sequence[Model],
    count: int,
    *,
    solve: Solve | None = None,
    lock_bones: Sequence[str] = (),
    lock_vertices: ArrayLike | PathLike | None = None,
    free_translation: bool = False,
    keep_normals: bool = False,
    rig_clip: Sequence[str] = (),
    align: Align = "check",
    input_scale: float | None = None,
    input_axes: str | None = None,
    frame_offset: int | None = None,
    influences: int | None = None,
    bone_kind: BoneKind | None = None,
    smooth: float = 0,
    max_seconds: float | None = None,
    max_iterations: int | None = None,
    tolerance: float = 0.001,
    root_motion: RootMotion = "none",
    up: UpAxis | None = None,
    in_place: bool = False,
    loop: bool = False,
    loop_clips: Sequence[str] = (),
    threads: int | None = None,
    progress: Progress | None = None,
) -> Rig:
    """Add bones to a rig where the error is largest: helper_001, ... each a child of the bone it follows best.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    animation : ArrayLike | Model | Sequence[Model]
        The animation of the rig's mesh: [F, N, 3] positions, a model, or a list of clips.
    count : int
        Number of new bones, 1 or more.
    solve : Solve | None, default: None
        What is fitted; the rest stays as the rig has it; by default both; weights with `add_bones`.
    lock_bones : Sequence[str], default: ()
        Bones whose motion stays to the bit: names or patterns such as spine*, separated by commas.
    lock_vertices : ArrayLike | PathLike | None, default: None
        Vertices whose weights stay: an npz with `mask` [N], a file with vertex colours, or color for the rig's own
        (red). 1 keeps, 0 fits, between blends.
    free_translation : bool, default: False
        Where only the motion is solved: let bones move away from their parents. Otherwise joints that only rotate in
        the rig's animations keep bone lengths.
    keep_normals : bool, default: False
        Keep the rig's rest normals instead of solving for those that shade best in the animation.
    rig_clip : Sequence[str], default: ()
        Which of the rig's animations each input is, in order; none: as if the rig had none; by default by name, else
        order.
    align : Align, default: "check"
        When rig and input disagree in units, axes or frames: check refuses and names the options that correct it, auto
        applies the correction, off compares nothing.
    input_scale : float | None, default: None
        Multiply the input's coordinates by this to bring them into the rig's units.
    input_axes : str | None, default: None
        Which axis of the input is the rig's x, y and z: x,z,-y makes Z up into Y up, -x,y,z mirrors.
    frame_offset : int | None, default: None
        Frame of the rig's animation that the input starts at; what the rig does not cover is cut off.
    influences : int | None, default: None
        Maximum number of bones per fitted vertex, 1 to 16; by default 4, or as many as the rig has if that is 5 to 8.
    bone_kind : BoneKind | None, default: None
        Kind of the bones whose motion is fitted: what their transforms may do; by default the rig's.
    smooth : float, default: 0
        Smoothness of the weights, 0 (off) to about 1.
    max_seconds : float | None, default: None
        Stop after this many seconds with the present result.
    max_iterations : int | None, default: None
        Maximum number of rounds over weights and motion; by default 12, or 24 with new bones.
    tolerance : float, default: 0.001
        Stop when a round lowers the error by less than this fraction.
    root_motion : RootMotion, default: "none"
        Put the common motion of the model into one root bone: plane takes translation in the ground plane and rotation
        about the up axis, full all of it.
    up : UpAxis | None, default: None
        The axis that points up, for `root_motion`; by default the file's own, else y.
    in_place : bool, default: False
        With `root_motion`: write clips in which the root bone stands still.
    loop : bool, default: False
        Make the last pose equal the first: a small difference is spread over frames near both ends; a clip whose first
        frame follows its last gets a closing frame. With `root_motion` the root goes on.
    loop_clips : Sequence[str], default: ()
        With `loop`: only these clips, separated by commas; by default all.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    Rig
        The rig with new bones and weights.
    """
    handles = clips_of(animation) or [handle_of(animation, name=rig.name)]
    options: dict[str, Any] = {
        "solve": solve,
        "lock_bones": lock_bones,
        "lock_vertices": lock_vertices,
        "free_translation": free_translation,
        "keep_normals": keep_normals,
        "rig_clip": rig_clip,
        "align": align,
        "input_scale": input_scale,
        "input_axes": input_axes,
        "frame_offset": frame_offset,
        "influences": influences,
        "bone_kind": bone_kind,
        "smooth": smooth,
        "max_seconds": max_seconds,
        "max_iterations": max_iterations,
        "tolerance": tolerance,
        "root_motion": root_motion,
        "up": up,
        "in_place": in_place,
        "loop": loop,
        "loop_clips": loop_clips,
    }
    options["add_bones"] = count
    return cast(Rig, wrapped(_native.refit(rig_handle(rig), handles, options, {"threads": threads, "progress": progress})))


def reduce(
    rig: Rig,
    examples: ArrayLike | Model | None = None,
    *,
    influences: int = 4,
    method: ReduceMethod = "bonesmith",
    smooth: float = 3,
    refit_motion: bool = False,
    laplacian: Laplacian = "cotangent",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Rig:
    """Remove influences: fewer bones per vertex, the same bones.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    examples : ArrayLike | Model | None, default: None
        Poses to keep: the animation, frame by frame as in all clips of the rig or in one of them; None: the rig's own
        poses.
    influences : int, default: 4
        Most bones that move one vertex.
    method : ReduceMethod, default: "bonesmith"
        Method of the reduction: ours, or a published one for comparison.
    smooth : float, default: 3
        Bonesmith's method: how similar the errors of neighbours are, 0 to about 10; raised: better normals.
    refit_motion : bool, default: False
        Bonesmith's method: fit the bones' motion to the fewer weights too. For free bones that a fit made, not for
        skeletons.
    laplacian : Laplacian, default: "cotangent"
        Smooth and Poisson reduction: weights of the mesh edges.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    Rig
        The rig with fewer influences.
    """
    handle = None if examples is None else handle_of(examples)
    return cast(Rig, wrapped(_native.reduce(rig_handle(rig), handle, {
        "influences": influences,
        "method": method,
        "smooth": smooth,
        "refit_motion": refit_motion,
        "laplacian": laplacian,
    }, {"threads": threads, "progress": progress})))


def lod(
    rig: Rig,
    examples: ArrayLike | Model | None = None,
    *,
    bones: Sequence[int] = (60, 30, 15),
    influences: Sequence[int] = (4, 2, 1),
    refit_motion: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[Rig]:
    """Levels of detail: nested subsets of bones that one animation drives.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    examples : ArrayLike | Model | None, default: None
        Poses to keep: the animation, frame by frame as in all clips of the rig or in one of them; None: the rig's own
        poses.
    bones : Sequence[int], default: (60, 30, 15)
        Bones of each level, finest first: a coarser level uses bones of the finer one; by default 60,30,15.
    influences : Sequence[int], default: (4, 2, 1)
        Maximum number of bones per vertex of each level; by default 4,2,1; the last one counts for levels without.
    refit_motion : bool, default: False
        Fit the bones' motion to all levels at once. For free bones that a fit made; the bones of a skeleton keep their
        motion.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    list[Rig]
        The levels, finest first; each has its own bones and weights, and the motion of all.
    """
    handle = None if examples is None else handle_of(examples)
    made = _native.lod(rig_handle(rig), handle, {
        "bones": bones,
        "influences": influences,
        "refit_motion": refit_motion,
    }, {"threads": threads, "progress": progress})
    return [cast(Rig, wrapped(level)) for level in made]


def compress(
    rig: Rig,
    examples: ArrayLike | Model | None = None,
    *,
    influences_equivalent: float | None = None,
    virtual_bones: int | None = None,
    target_error: float | None = None,
    layer_influences: int = 2,
    master_influences: int | None = None,
    weights_only: bool = False,
    keep_motion: bool = False,
    keep_rest: bool = False,
    force: bool = False,
    thorough: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> TwoLayerRig:
    """Compress weights to two layers: few influences with the quality of many.

    Start from a rig with many influences: ``fit(..., influences="all")``.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    examples : ArrayLike | Model | None, default: None
        Poses to keep: the animation, frame by frame as in all clips of the rig or in one of them; None: the rig's own
        poses.
    influences_equivalent : float | None, default: None
        As many virtual bones as cost no more than this many influences per vertex; by default 4.
    virtual_bones : int | None, default: None
        This many virtual bones.
    target_error : float | None, default: None
        As few virtual bones as reach this error: E_RMS on the examples or the rig's own animation; with `weights_only`
        the root mean square change of the weights in thousandths.
    layer_influences : int, default: 2
        Virtual bones that a vertex blends, 1 to 4.
    master_influences : int | None, default: None
        Bones that a virtual bone blends; by default one more than a vertex of the rig has, at most 16 with poses.
    weights_only : bool, default: False
        Without examples: use the weights alone, as published, and not the rig's own animation.
    keep_motion : bool, default: False
        Leave the motion of the bones as it is; otherwise free bones move to suit the two layers. The bones of a
        skeleton always keep their motion.
    keep_rest : bool, default: False
        Leave the rest pose as it is; otherwise its vertices move a little to suit the two layers.
    force : bool, default: False
        Compress a rig too that has so few influences that two layers do not make its weights smaller.
    thorough : bool, default: False
        More rounds: a few percent less error for several times the work. Always on with examples.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    TwoLayerRig
        The rig with virtual bones.
    """
    handle = None if examples is None else handle_of(examples)
    return cast(TwoLayerRig, wrapped(_native.compress(rig_handle(rig), handle, {
        "influences_equivalent": influences_equivalent,
        "virtual_bones": virtual_bones,
        "target_error": target_error,
        "layer_influences": layer_influences,
        "master_influences": master_influences,
        "weights_only": weights_only,
        "keep_motion": keep_motion,
        "keep_rest": keep_rest,
        "force": force,
        "thorough": thorough,
    }, {"threads": threads, "progress": progress})))


def compact(
    rig: Rig,
    path: PathLike,
    *,
    error: float | str | None = None,
    plain: bool = False,
    khr: bool = False,
    unnumbered: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a small file: fewer keys, quantised arrays, EXT_meshopt_compression, within a bound on the additional error.

    The error is that of the file, read back, against the animation that the rig was made from; against the rig itself
    where there is none.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    path : PathLike
        The file: .glb or .gltf.
    error : float | str | None, default: None
        Additional E_RMS of the file, such as 0.05, or 5% of the model's own; by default 2% of the model's own; 0.02
        where there is no animation to compare with.
    plain : bool, default: False
        Without EXT_meshopt_compression, which some readers lack.
    khr : bool, default: False
        With KHR_meshopt_compression instead, which is shorter and which fewer readers have.
    unnumbered : bool, default: False
        Without the input's numbers of vertices, which are written in another order.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    dict[str, Any]
        Figures of the file and of one that loses nothing: bytes and bytes_before, e_rms and e_rms_before, bound, max,
        contacts, parts and more.
    """
    return _native.compact(rig_handle(rig), file_to_write(path), {
        "error": error,
        "plain": plain,
        "khr": khr,
        "unnumbered": unnumbered,
    }, {"threads": threads, "progress": progress})


def ddm(
    rig: Rig,
    *,
    rigid_bind: bool = False,
    variant: int = 0,
    rotation_smooth: float | None = None,
    translation_smooth: float | None = None,
    alpha: float = 0.8,
    steps: int = 8,
    maps: PathLike | Mapping[str, ArrayLike] | None = None,
    laplacian: Laplacian = "cotangent",
    threshold: float = 0.0001,
    max_influences: int = 32,
    no_weld: bool = False,
    compress: int | None = None,
    layer_influences: int = 4,
    master_influences: int = 24,
    range_of_motion: float | PathLike | None = None,
    translation_range: float = 0,
    without: Sequence[str] = (),
    smooth: float = 0.01,
    max_rounds: int = 12,
    threads: int | None = None,
    progress: Progress | None = None,
) -> DdmRig:
    """Direct Delta Mush: smooth joints from a rigid bind; and its compression.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    rigid_bind : bool, default: False
        Bind each vertex to the bone of its largest weight first: the smoothing does the rest.
    variant : int, default: 0
        How a vertex is moved: 0 (best) to 5 (linear blending); each stores and computes less.
    rotation_smooth : float | None, default: None
        lambda: how far rotations are smoothed; a reach of sqrt(L x steps) edges; by default 0.12 of the model's radius.
    translation_smooth : float | None, default: None
        kappa: how far translations are smoothed; more of it lets the skin slide; by default an eighth of lambda.
    alpha : float, default: 0.8
        Share of the translation smoothing: 0 is Delta Mush, more of it pulls less in at joints.
    steps : int, default: 8
        Implicit smoothing steps.
    maps : PathLike | Mapping[str, ArrayLike] | None, default: None
        Parameters per vertex: an npz with any of rotation_smooth, translation_smooth, alpha, steps, each [N].
    laplacian : Laplacian, default: "cotangent"
        Weights of the mesh edges.
    threshold : float, default: 0.0001
        Influences below this are dropped.
    max_influences : int, default: 32
        Maximum number of bones per vertex.
    no_weld : bool, default: False
        Treat vertices at one place as separate: seams may open.
    compress : int | None, default: None
        Compress to this many virtual bones.
    layer_influences : int, default: 4
        Maximum number of virtual bones per vertex, 1 to 8.
    master_influences : int, default: 24
        Maximum number of bones per virtual bone.
    range_of_motion : float | PathLike | None, default: None
        How far joints turn: degrees for all alike, or an npz with an array range_of_motion, [B] in degrees or [B, 2]
        with units; by default measured in the rig's animations.
    translation_range : float, default: 0
        How far joints move, in model units, with `range_of_motion` in degrees.
    without : Sequence[str], default: ()
        Leave maps out, for comparison.
    smooth : float, default: 0.01
        How much neighbours should have like weights.
    max_rounds : int, default: 12
        Maximum number of rounds over both layers.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    DdmRig
        The rig with multi-weights. Its metrics are against variant 0 in float64.
    """
    return cast(DdmRig, wrapped(_native.ddm(rig_handle(rig), {
        "rigid_bind": rigid_bind,
        "variant": variant,
        "rotation_smooth": rotation_smooth,
        "translation_smooth": translation_smooth,
        "alpha": alpha,
        "steps": steps,
        "maps": maps,
        "laplacian": laplacian,
        "threshold": threshold,
        "max_influences": max_influences,
        "no_weld": no_weld,
        "compress": compress,
        "layer_influences": layer_influences,
        "master_influences": master_influences,
        "range_of_motion": range_of_motion,
        "translation_range": translation_range,
        "without": without,
        "smooth": smooth,
        "max_rounds": max_rounds,
    }, {"threads": threads, "progress": progress})))


def delta_mush(
    rig: Rig,
    *,
    rigid_bind: bool = False,
    rotation_smooth: float | None = None,
    translation_smooth: float | None = None,
    alpha: float = 0.8,
    steps: int = 8,
    maps: PathLike | Mapping[str, ArrayLike] | None = None,
    laplacian: Laplacian = "cotangent",
    threshold: float = 0.0001,
    max_influences: int = 32,
    no_weld: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Animation:
    """Classic Delta Mush of every frame of a rig's clips.

    Parameters
    ----------
    rig : Rig
        The rig; it is not changed.
    rigid_bind : bool, default: False
        Bind each vertex to the bone of its largest weight first: the smoothing does the rest.
    rotation_smooth : float | None, default: None
        lambda: how far rotations are smoothed; a reach of sqrt(L x steps) edges; by default 0.12 of the model's radius.
    translation_smooth : float | None, default: None
        kappa: how far translations are smoothed; more of it lets the skin slide; by default an eighth of lambda.
    alpha : float, default: 0.8
        Share of the translation smoothing: 0 is Delta Mush, more of it pulls less in at joints.
    steps : int, default: 8
        Implicit smoothing steps.
    maps : PathLike | Mapping[str, ArrayLike] | None, default: None
        Parameters per vertex: an npz with any of rotation_smooth, translation_smooth, alpha, steps, each [N].
    laplacian : Laplacian, default: "cotangent"
        Weights of the mesh edges.
    threshold : float, default: 0.0001
        Influences below this are dropped.
    max_influences : int, default: 32
        Maximum number of bones per vertex.
    no_weld : bool, default: False
        Treat vertices at one place as separate: seams may open.
    threads : int | None, default: None
        Threads to use, 1 to 1024; None: all cores. The result does not depend on it.
    progress : Progress | None, default: None
        Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and
        error may be None. If it returns False, the work ends with `Cancelled`; what it raises ends the work, too.

    Returns
    -------
    Animation
        The smoothed frames.
    """
    return cast(Animation, wrapped(_native.delta_mush(rig_handle(rig), {
        "rigid_bind": rigid_bind,
        "rotation_smooth": rotation_smooth,
        "translation_smooth": translation_smooth,
        "alpha": alpha,
        "steps": steps,
        "maps": maps,
        "laplacian": laplacian,
        "threshold": threshold,
        "max_influences": max_influences,
        "no_weld": no_weld,
    }, {"threads": threads, "progress": progress})))
