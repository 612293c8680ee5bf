//! The tables themselves.

use super::OptionInfo;

/// One row: name, type, default, what the default stands for, values, help.
const fn option(
    name: &'static str,
    hint: &'static str,
    default: &'static str,
    default_note: &'static str,
    values: &'static str,
    help: &'static str,
) -> OptionInfo {
    OptionInfo { name, hint, default, default_note, values, help }
}

/// The tables by command of the command line; `fit` there has the options of [`REFIT`] as well.
pub const COMMANDS: &[(&str, &[OptionInfo])] = &[
    ("fit", FIT),
    ("sweep", SWEEP),
    ("reduce", REDUCE),
    ("compress", COMPRESS),
    ("ddm", DDM),
];

/// Of `fit`.
pub const FIT: &[OptionInfo] = &[
    option("bones", "int | Literal[\"auto\"]", "\"auto\"", "", "1 or more, or auto", "Number of bones, or auto: enough for an E_RMS of 2, at most 100"),
    option("target_error", "float | str | None", "null", "", "above 0, or a length such as 1mm, 0.2cm, 0.01m or 3u (model units)", "Find the fewest bones that reach this E_RMS (thousandths of the model's radius), or this root mean square distance: 1mm, 0.2cm, 0.01m, 3u (model units); instead of `bones`"),
    option("influences", "int | Literal[\"all\"]", "4", "", "1 to 16, or all", "Maximum number of bones per vertex, 1 to 16, or all"),
    option("bone_kind", "BoneKind", "\"rigid\"", "rigid; affine with `method` fsd, sma and sad", "rigid, trs or affine", "Kind of the bones: what their transforms may do"),
    option("smooth", "float", "0", "", "0 or more", "Smoothness of the weights, 0 (off) to about 1"),
    option("prune", "float", "0.005", "", "0 to 1", "Share by which the error may rise for fewer influences, 0 (off) to 1"),
    option("shading", "float", "0.2", "", "0 or more", "How much shading counts: the normals that an engine computes from the stored ones and the bones; 0 (off) to about 1"),
    option("norm", "float | Literal[\"max\"]", "2", "", "2 to 16, or max", "Which errors count most: 2 for the mean of squares, up to 16 for large ones, max for the largest (E_RMS rises by at most a quarter)"),
    option("importance", "ArrayLike | PathLike | None", "null", "", "color, a file, or a number of 0 or more for every vertex", "How much each vertex counts, 0 or more: color for the red of the input's vertex colours, an npz with `mask`, a text file with a number for every vertex, or a mesh with vertex colours"),
    option("area", "bool", "false", "", "true or false", "Vertices count by the area of their faces, for meshes that are dense in some parts"),
    option("keep_rest", "bool", "false", "", "true or false", "Leave the rest pose as it is; otherwise its vertices move to where they fit best"),
    option("method", "FitMethod", "\"bonesmith\"", "", "bonesmith, fsd, ssdr, sma, sad, lssp, cpca or svd", "Method of the fit: ours, or a published one for comparison"),
    option("bandwidth", "float | None", "null", "0.05, or wider for the `bones` asked for", "above 0", "Bandwidth of the method sma: mean difference of rotation matrices' entries"),
    option("effort", "Effort", "\"balanced\"", "", "fast, balanced or best", "Amount of work: more of it finds lower errors"),
    option("seed", "int", "0", "", "0 or more", "Seed of all random choices; the same seed gives the same bytes"),
    option("max_seconds", "float | None", "null", "", "above 0", "Stop after this many seconds with the present result"),
    option("max_iterations", "int | None", "null", "by `effort`; 15 with `method` fsd", "1 or more", "Maximum number of rounds over weights and bones"),
    option("tolerance", "float | None", "null", "0.001, 1e-5 with `effort` best, 0 with `method` fsd", "0 to 1", "Stop when rounds lower the error by less than this fraction"),
    option("eigenskin", "int | None", "null", "", "1 to 256", "Add R shapes that correct the residual of the bones (EigenSkin), 1 to 256: animated morph targets"),
    option("skeleton", "bool", "false", "", "true or false", "A hierarchical rig: a tree of bones that turn about fixed joints, instead of loose bones. `bones` sets the maximum"),
    option("detail", "float", "1", "", "0.1 to 10", "Amount of detail, 0.1 to 10: larger values give more bones"),
    option("root", "str | Sequence[float] | None", "null", "nearest the middle", "a bone's name, or three numbers", "The root: a bone's name as a run without `root` gives it, or a place X,Y,Z"),
    option("skeleton_method", "SkeletonMethod", "\"multipass\"", "", "multipass, schaefer, deaguiar or hasler", "Method of the search for a skeleton: ours, or a published one for comparison"),
    option("skeleton_start", "int", "64", "", "2 to 256", "Rigid parts that the search starts from, 2 to 256; on purpose more than the bones wanted"),
    option("no_symmetry", "bool", "false", "", "true or false", "Do not name mirror pairs of a symmetric model _l and _r"),
];

/// Of `sweep`, beside those of a fit with free bones.
pub const SWEEP: &[OptionInfo] = &[
    option("counts", "Sequence[int]", "[]", "1 to 64", "a list of numbers of bones", "Numbers of bones to try"),
];

/// Of a fit that starts from a rig: `fit` with an existing rig.
pub const REFIT: &[OptionInfo] = &[
    option("solve", "Solve | None", "null", "both; weights with `add_bones`", "weights, motion or both", "What is fitted; the rest stays as the rig has it"),
    option("lock_bones", "Sequence[str]", "[]", "", "a list of names or patterns", "Bones whose motion stays to the bit: names or patterns such as spine*, separated by commas"),
    option("lock_vertices", "ArrayLike | PathLike | None", "null", "", "color, a file, or a number of 0 to 1 for every vertex", "Vertices whose weights stay: an npz with `mask` [N], a file with vertex colours, or color for the rig's own (red). 1 keeps, 0 fits, between blends"),
    option("add_bones", "int | None", "null", "", "1 or more", "Add N bones where the error is largest: helper_001, ... each a child of the bone it follows best"),
    option("keep_normals", "bool", "false", "", "true or false", "Keep the rig's rest normals instead of solving for those that shade best in the animation"),
    option("rig_clip", "Sequence[str]", "[]", "by name, else order", "a list of names", "Which of the rig's animations each input is, in order; none: as if the rig had none"),
    option("align", "Align", "\"check\"", "", "check, auto or off", "When rig and input disagree in units, axes or frames: check refuses and names the options that correct it, auto applies the correction, off compares nothing"),
    option("input_scale", "float | None", "null", "", "above 0", "Multiply the input's coordinates by this to bring them into the rig's units"),
    option("input_axes", "str | None", "null", "", "three axes such as x,z,-y", "Which axis of the input is the rig's x, y and z: x,z,-y makes Z up into Y up, -x,y,z mirrors"),
    option("frame_offset", "int | None", "null", "", "a whole number", "Frame of the rig's animation that the input starts at; what the rig does not cover is cut off"),
    option("influences", "int | None", "null", "4, or as many as the rig has if that is 5 to 8", "1 to 16", "Maximum number of bones per fitted vertex, 1 to 16"),
    option("bone_kind", "BoneKind | None", "null", "the rig's", "rigid, trs or affine", "Kind of the bones whose motion is fitted: what their transforms may do"),
    option("smooth", "float", "0", "", "0 or more", "Smoothness of the weights, 0 (off) to about 1"),
    option("max_seconds", "float | None", "null", "", "above 0", "Stop after this many seconds with the present result"),
    option("max_iterations", "int | None", "null", "12, or 24 with new bones", "1 or more", "Maximum number of rounds over weights and motion"),
    option("tolerance", "float", "0.001", "", "0 to 1", "Stop when a round lowers the error by less than this fraction"),
];

/// Of `reduce`.
pub const REDUCE: &[OptionInfo] = &[
    option("influences", "int", "4", "", "1 or more", "Most bones that move one vertex"),
    option("method", "ReduceMethod", "\"bonesmith\"", "", "bonesmith, k-largest, smooth, geometric or poisson", "Method of the reduction: ours, or a published one for comparison"),
    option("smooth", "float", "3", "", "0 to 1000", "Bonesmith's method: how similar the errors of neighbours are, 0 to about 10; raised: better normals"),
    option("refit_motion", "bool", "false", "", "true or false", "Bonesmith's method: fit the bones' motion to the fewer weights too. For free bones that a fit made"),
    option("laplacian", "Laplacian", "\"cotangent\"", "", "cotangent or uniform", "Smooth and Poisson reduction: weights of the mesh edges"),
];

/// Of `compress`.
pub const COMPRESS: &[OptionInfo] = &[
    option("influences_equivalent", "float | None", "null", "4", "above `layer_influences`", "As many virtual bones as cost no more than this many influences per vertex"),
    option("virtual_bones", "int | None", "null", "", "1 to 65536", "This many virtual bones"),
    option("target_error", "float | None", "null", "", "above 0", "As few virtual bones as reach this error: E_RMS on the examples or the rig's own animation; with `weights_only` the root mean square change of the weights in thousandths"),
    option("layer_influences", "int", "2", "", "1 to 4", "Virtual bones that a vertex blends, 1 to 4"),
    option("master_influences", "int | None", "null", "one more than a vertex of the rig has, at most 16 with poses", "1 or more", "Bones that a virtual bone blends"),
    option("weights_only", "bool", "false", "", "true or false", "Without examples: use the weights alone, as published, and not the rig's own animation"),
    option("thorough", "bool", "false", "", "true or false", "More rounds: a few percent less error for several times the work. Always on with examples"),
];

/// Of `ddm`.
pub const DDM: &[OptionInfo] = &[
    option("rigid_bind", "bool", "false", "", "true or false", "Bind each vertex to the bone of its largest weight first: the smoothing does the rest"),
    option("variant", "int", "0", "", "0 to 5", "How a vertex is moved: 0 (best) to 5 (linear blending); each stores and computes less"),
    option("rotation_smooth", "float | None", "null", "0.12 of the model's radius", "0 to 10000", "lambda: how far rotations are smoothed; a reach of sqrt(L x steps) edges"),
    option("translation_smooth", "float | None", "null", "an eighth of lambda", "0 to 10000", "kappa: how far translations are smoothed; more of it lets the skin slide"),
    option("alpha", "float", "0.8", "", "0 to 1", "Share of the translation smoothing: 0 is Delta Mush, more of it pulls less in at joints"),
    option("steps", "int", "8", "", "1 to 1000", "Implicit smoothing steps"),
    option("maps", "PathLike | Mapping[str, ArrayLike] | None", "null", "", "a file, or numbers for every vertex by name: rotation_smooth, translation_smooth, alpha, steps", "Parameters per vertex: an npz with any of rotation_smooth, translation_smooth, alpha, steps, each [N]"),
    option("laplacian", "Laplacian", "\"cotangent\"", "", "cotangent or uniform", "Weights of the mesh edges"),
    option("threshold", "float", "0.0001", "", "0 to 0.1", "Influences below this are dropped"),
    option("max_influences", "int", "32", "", "1 to 256", "Maximum number of bones per vertex"),
    option("no_weld", "bool", "false", "", "true or false", "Treat vertices at one place as separate: seams may open"),
    option("compress", "int | None", "null", "", "1 to 65536", "Compress to this many virtual bones"),
    option("layer_influences", "int", "4", "", "1 to 8", "Maximum number of virtual bones per vertex, 1 to 8"),
    option("master_influences", "int", "24", "", "1 to 64", "Maximum number of bones per virtual bone"),
    option("range_of_motion", "float | PathLike | None", "null", "measured in the rig's animations", "degrees, or a file", "How far joints turn: degrees for all alike, or an npz with an array range_of_motion, [B] in degrees or [B, 2] with units"),
    option("translation_range", "float", "0", "", "0 or more", "How far joints move, in model units, with `range_of_motion` in degrees"),
    option("without", "Sequence[str]", "[]", "", "a list of linearisation, hierarchy, coordinates, sampling, multi-weights", "Leave maps out, for comparison"),
    option("smooth", "float", "0.01", "", "0 or more", "How much neighbours should have like weights"),
    option("max_rounds", "int", "12", "", "1 or more", "Maximum number of rounds over both layers"),
];

/// How a file is read.
pub const LOAD: &[OptionInfo] = &[
    option("rest", "int | PathLike | None", "null", "the file's own, else first", "first, a frame by number, or a file", "Rest pose: first frame, a frame by number, or a file"),
    option("fps", "float | None", "null", "", "above 0, at most 100000", "Frames per second: of files without times, and to bake skinned or morph animation at"),
    option("frames", "slice | range | None", "null", "", "a range of frames", "Only these frames, counted from 0"),
    option("mesh", "str | None", "null", "", "a name", "Only the mesh of this name, where a file holds several"),
];

/// Of reports.
pub const REPORT: &[OptionInfo] = &[
    option("report_max_mb", "float", "25", "", "above 0", "Maximum size of the report in MB; frames are left out evenly where all would be too much"),
];
