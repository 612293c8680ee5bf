//! Tables of options: fits of animations, files, reports.

use super::OptionInfo;
use super::SHAPES;
use super::rig_tables::{COMPRESS, DDM, LOD, MOTION, REDUCE};

/// One row: name, type, default, what the default stands for, values, help.
pub(super) const fn option(
    name: &'static str,
    hint: &'static str,
    default: &'static str,
    default_note: &'static str,
    values: &'static str,
    help: &'static str,
) -> OptionInfo {
    OptionInfo { name, hint, default, default_note, values, help }
}

/// The tables by command of the command line; `fit` there has the options of [`super::REFIT`] as well.
pub const COMMANDS: &[(&str, &[OptionInfo])] = &[
    ("fit", FIT),
    ("sweep", SWEEP),
    ("lod", LOD),
    ("shapes", SHAPES),
    ("reduce", REDUCE),
    ("compress", COMPRESS),
    ("ddm", DDM),
];

/// Options of fits and of shapes alike.
pub(super) const SHADING: OptionInfo = option(
    "shading",
    "float",
    "0.4",
    "",
    "0 or more",
    "How much shading counts: the normals that an engine computes from the stored ones and the bones; 0 (off) to about 1",
);
pub(super) const NORM: OptionInfo = option(
    "norm",
    "float | Literal[\"max\"]",
    "2",
    "",
    "2 to 16, or max",
    "Which errors count most: 2 for the mean of squares, up to 16 for large ones, max for the largest (E_RMS rises by at most a quarter)",
);
pub(super) const IMPORTANCE: OptionInfo = option(
    "importance",
    "ArrayLike | PathLike | None",
    "null",
    "",
    "color, a file, or a number of 0 or more for every vertex",
    "How much each vertex counts, 0 or more: color for the red of the input's vertex colours, an npz with `mask`, a text file with a number for every vertex, or a mesh with vertex colours",
);
pub(super) const AREA: OptionInfo = option(
    "area",
    "bool",
    "false",
    "",
    "true or false",
    "Vertices count by the area of their faces, for meshes that are dense in some parts",
);

/// Of `fit`.
pub const FIT: &[OptionInfo] = &[
    option(
        "bones",
        "int | Literal[\"auto\"]",
        "\"auto\"",
        "",
        "1 or more, or auto",
        "Number of bones, or auto: enough for an E_RMS of 2, at most 100",
    ),
    option(
        "target_error",
        "float | str | None",
        "null",
        "",
        "above 0, or a length such as 1mm, 0.2cm, 0.01m or 3u (model units)",
        "Find the fewest bones that reach this E_RMS (thousandths of the model's radius), or this root mean square distance: 1mm, 0.2cm, 0.01m, 3u (model units); instead of `bones`",
    ),
    option(
        "influences",
        "int | Literal[\"all\"]",
        "4",
        "",
        "1 to 16, or all",
        "Maximum number of bones per vertex, 1 to 16, or all",
    ),
    option(
        "bone_kind",
        "BoneKind",
        "\"rigid\"",
        "rigid; affine with `method` fsd, sma and sad",
        "rigid, trs or affine",
        "Kind of the bones: what their transforms may do",
    ),
    option("smooth", "float", "0", "", "0 or more", "Smoothness of the weights, 0 (off) to about 1"),
    option(
        "prune",
        "float",
        "0.005",
        "",
        "0 to 1",
        "Share by which the error may rise for fewer influences, 0 (off) to 1",
    ),
    SHADING,
    NORM,
    IMPORTANCE,
    AREA,
    option(
        "keep_rest",
        "bool",
        "false",
        "",
        "true or false",
        "Leave the rest pose as it is; otherwise its vertices move to where they fit best",
    ),
    option(
        "method",
        "FitMethod",
        "\"bonesmith\"",
        "",
        "bonesmith, fsd, ssdr, sma, sad, lssp, cpca or svd",
        "Method of the fit: ours, or a published one for comparison",
    ),
    option(
        "bandwidth",
        "float | None",
        "null",
        "0.05, or wider for the `bones` asked for",
        "above 0",
        "Bandwidth of the method sma: mean difference of rotation matrices' entries",
    ),
    option(
        "effort",
        "Effort",
        "\"balanced\"",
        "",
        "fast, balanced or best",
        "Amount of work: more of it finds lower errors",
    ),
    option("seed", "int", "0", "", "0 or more", "Seed of all random choices; the same seed gives the same bytes"),
    option(
        "max_seconds",
        "float | None",
        "null",
        "",
        "above 0",
        "Stop after this many seconds with the present result",
    ),
    option(
        "max_iterations",
        "int | None",
        "null",
        "by `effort`; 15 with `method` fsd",
        "1 or more",
        "Maximum number of rounds over weights and bones",
    ),
    option(
        "tolerance",
        "float | None",
        "null",
        "0.001, 1e-5 with `effort` best, 0 with `method` fsd",
        "0 to 1",
        "Stop when rounds lower the error by less than this fraction",
    ),
    option(
        "eigenskin",
        "int | None",
        "null",
        "",
        "1 to 256",
        "Add R shapes that correct the residual of the bones (EigenSkin), 1 to 256: animated morph targets",
    ),
    option(
        "skeleton",
        "bool",
        "false",
        "",
        "true or false",
        "A hierarchical rig: a tree of bones that turn about fixed joints, instead of free bones. `bones` sets the maximum",
    ),
    option(
        "detail",
        "float",
        "1",
        "",
        "0.1 to 10",
        "Amount of detail, 0.1 to 10: larger values give more bones. A bone stays if the error of everything, or that of its own part, is too large without it",
    ),
    option(
        "root",
        "str | Sequence[float] | None",
        "null",
        "nearest the middle",
        "a bone's name, or three numbers",
        "The root: a bone's name as a run without `root` gives it, or a place X,Y,Z",
    ),
    option(
        "skeleton_method",
        "SkeletonMethod",
        "\"multipass\"",
        "",
        "multipass, schaefer, deaguiar or hasler",
        "Method of the search for a skeleton: ours, or a published one for comparison",
    ),
    option(
        "skeleton_start",
        "int",
        "64",
        "",
        "2 to 256",
        "Rigid parts that the search starts from, 2 to 256; on purpose more than the bones wanted",
    ),
    option(
        "no_symmetry",
        "bool",
        "false",
        "",
        "true or false",
        "Do not name mirror pairs of a symmetric model _l and _r",
    ),
    option(
        "others",
        "Literal[\"drop\", \"keep\"]",
        "\"drop\"",
        "",
        "drop or keep",
        "Where `mesh` picks from a file: whether the other meshes are dropped, or kept as they are there, with their bones and motion",
    ),
    MOTION[0],
    MOTION[1],
    MOTION[2],
    MOTION[3],
    MOTION[4],
];

/// Of `sweep`, beside those of a fit with free bones.
pub const SWEEP: &[OptionInfo] =
    &[option("counts", "Sequence[int]", "[]", "1 to 64", "a list of numbers of bones", "Numbers of bones to try")];

/// How a file is read.
pub const LOAD: &[OptionInfo] = &[
    option(
        "rest",
        "int | PathLike | None",
        "null",
        "the file's own, else first",
        "first, symmetric, a frame by number, or a file",
        "Rest pose: first frame, the most symmetric one, a frame by number, or a file",
    ),
    option(
        "fps",
        "float | None",
        "null",
        "",
        "above 0, at most 100000",
        "Frames per second: of files without times, and to bake skinned or morph animation at",
    ),
    option("frames", "slice | range | None", "null", "", "a range of frames", "Only these frames, counted from 0"),
    option(
        "mesh",
        "str | None",
        "null",
        "",
        "a name",
        "Only the mesh of this name, or those of these names between commas, where a file holds several",
    ),
    option(
        "clips",
        "Sequence[str]",
        "[]",
        "all",
        "names of clips",
        "Only the clips of these names, in this order, where a file holds several; all share one set of weights",
    ),
];

/// Of small files.
pub const COMPACT: &[OptionInfo] = &[
    option(
        "error",
        "float | str | None",
        "null",
        "2% of the model's own; 0.02 where there is no animation to compare with",
        "an E_RMS above 0, such as 0.05, or a share of the model's own, such as 5%",
        "Additional E_RMS of the file, such as 0.05, or 5% of the model's own",
    ),
    option("plain", "bool", "false", "", "true or false", "Without EXT_meshopt_compression, which some readers lack"),
    option(
        "khr",
        "bool",
        "false",
        "",
        "true or false",
        "With KHR_meshopt_compression instead, which is shorter and which fewer readers have",
    ),
    option(
        "unnumbered",
        "bool",
        "false",
        "",
        "true or false",
        "Without the input's numbers of vertices, which are written in another order",
    ),
];

/// Of reports.
pub const REPORT: &[OptionInfo] = &[option(
    "report_max_mb",
    "float",
    "25",
    "",
    "above 0",
    "Maximum size of the report in MB; frames are left out evenly where all would be too much",
)];
