//! From what was typed to what will be done: ranges, combinations and paths are checked here, before any work.

use std::path::{Path, PathBuf};

use bonesmith::core::Topology;
use bonesmith::core::skeleton::{Root, SkeletonParams};
use bonesmith::io::PartInput;
use bonesmith::io::{Format, Needs};
use bonesmith::refit::VertexMask;
use bonesmith::targets::{Rule, Target};
use bonesmith::{
    BoneCount, BoneKind, CompactOptions, Error, FitOptions, FitParams, FrameRange, Input, Layout, Method, ModelKind,
    MotionOptions, Rest, Shape,
};

use crate::args::{
    BoneKindArg, BonesArg, FramesArg, InfluencesArg, InputArgs, JsonArgs, MotionArgs, PiecesArg, ReportArgs, RestArg,
    RootArg, ShapeArg, SkeletonArgs, SolverArgs, TargetArg, TargetArgs,
};
use crate::errors::Usage;

/// Where the JSON summary goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonTarget {
    Stdout,
    File(PathBuf),
}

pub fn input(paths: Vec<PathBuf>, args: InputArgs) -> Result<Input, Usage> {
    paths.iter().try_for_each(|path| readable(path))?;
    if let Some(RestArg::File(path)) = &args.rest {
        readable(path)?;
    }
    if let Some(FramesArg { start, end: Some(end) }) = args.frames
        && start >= end
    {
        return Err(
            Usage::new(format!("--frames {start}..{end} is empty")).hint("A..B leaves frame B out; A..=B does not")
        );
    }
    let mut input = Input::from_paths(paths);
    (input.fps, input.mesh, input.clips) = (fps(args.fps)?, args.mesh, args.clips);
    input.rest = args.rest.map(Rest::from);
    input.frames = args.frames.map(FrameRange::from);
    Ok(input)
}

/// Objects of a scene, each with its own files.
pub fn parts(words: &[String]) -> Result<Vec<PartInput>, Usage> {
    let part = |word: &String| {
        let split = word.split_once('=').filter(|(name, files)| !name.is_empty() && !files.is_empty());
        let (name, files) = split.ok_or_else(|| {
            Usage::new(format!("--part {word}: a name and files are needed"))
                .hint("for example --part hat=hat.pc2,hat.obj")
        })?;
        let paths: Vec<PathBuf> = files.split(',').map(PathBuf::from).collect();
        paths.iter().try_for_each(|path| readable(path))?;
        Ok(PartInput { name: name.to_owned(), paths })
    };
    words.iter().map(part).collect()
}

/// The same choices of other files.
pub fn with_paths(input: &Input, paths: Vec<PathBuf>) -> Input {
    let mut other = input.clone();
    other.paths = paths;
    other
}

impl From<RestArg> for Rest {
    fn from(rest: RestArg) -> Self {
        match rest {
            RestArg::First => Self::First,
            RestArg::Symmetric => Self::Symmetric,
            RestArg::Frame(frame) => Self::Frame(frame),
            RestArg::File(path) => Self::File(path),
        }
    }
}

impl From<FramesArg> for FrameRange {
    fn from(FramesArg { start, end }: FramesArg) -> Self {
        Self { start, end }
    }
}

impl From<ShapeArg> for Shape {
    fn from(shape: ShapeArg) -> Self {
        match shape {
            ShapeArg::Baked => Self::Baked,
            ShapeArg::Runtime => Self::Runtime,
        }
    }
}

impl JsonTarget {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&PathBuf> {
        if let Self::File(path) = self { Some(path) } else { None }
    }
}

pub fn fps(fps: Option<f64>) -> Result<Option<f64>, Usage> {
    match fps {
        Some(f) if !(f > 0.0 && f <= 100_000.0) => {
            Err(Usage::new(format!("--fps is {f}; it must be above 0 and at most 100000")))
        }
        fps => Ok(fps),
    }
}

/// Says which file is missing before anything is read. Patterns are the reader's business.
fn readable(path: &Path) -> Result<(), Usage> {
    let pattern = path.to_string_lossy().contains(['*', '?', '[']);
    if pattern || path.exists() {
        return Ok(());
    }
    Err(Usage::new(format!("{}: no such file or folder", path.display())))
}

/// A file to write: its format holds what is needed, as far as that is known, and its place can be written to.
pub fn output(path: PathBuf, needs: Needs) -> Result<PathBuf, Usage> {
    Format::to_write(&path, needs).map_err(|error| {
        let too_many = Format::to_write(&path, needs.influences(None)).is_ok();
        let limit = Format::from_extension(&path).and_then(|format| format.info().max_influences);
        match limit.filter(|_| too_many) {
            Some(limit) => {
                Usage::new(error.to_string()).hint(format!("use --influences {limit} or fewer, or write .npz"))
            }
            None => Usage::new(error.to_string()),
        }
    })?;
    bonesmith::io::files_of(&path).iter().try_for_each(|file| writable(file))?;
    Ok(path)
}

/// A file to write in any format.
pub fn any_output(path: PathBuf) -> Result<PathBuf, Usage> {
    let formats = Format::writing_any();
    let kinds = Format::from_extension(&path).filter(|format| formats.contains(format));
    let Some(format) = kinds else {
        let ending = path.extension().map(|e| format!("the ending .{}", e.to_string_lossy().to_lowercase()));
        let what = ending.unwrap_or_else(|| "no ending".to_owned());
        let endings = Format::endings(&formats);
        return Err(Usage::new(format!("{} has {what}; {endings} can be written", path.display())));
    };
    let kind = format.info().writes.first().copied().unwrap_or(ModelKind::Rig);
    output(path, Needs::of(kind))
}

/// The folder a file lies in, also for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file of results: a file or nothing yet, where links lead to, and in a folder that can be written to.
pub fn writable(path: &Path) -> Result<(), Usage> {
    if path.is_dir() {
        return Err(Usage::new(format!("{} is a folder", path.display())));
    }
    let place = bonesmith::io::place_of(path).map_err(|error| Usage::new(error.to_string()))?;
    writable_folder(parent(&place))
}

/// Better to find out now than after a long fit.
fn writable_folder(folder: &Path) -> Result<(), Usage> {
    if !folder.is_dir() {
        return Err(Usage::new(format!("{}: no such folder to write to", folder.display())));
    }
    match tempfile::tempfile_in(folder) {
        Ok(_) => Ok(()),
        Err(e) => Err(Usage::new(format!("{}: cannot write there: {e}", folder.display()))),
    }
}

pub fn json(args: JsonArgs) -> Result<Option<JsonTarget>, Usage> {
    match args.json {
        None => Ok(None),
        Some(path) if path.as_os_str() == "-" => Ok(Some(JsonTarget::Stdout)),
        Some(path) => {
            writable(&path).map_err(|usage| usage.hint("--json - writes to standard output"))?;
            Ok(Some(JsonTarget::File(path)))
        }
    }
}

/// A report to write, and its size at most.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportTarget {
    pub path: PathBuf,
    pub max_bytes: u64,
}

/// The report of a command.
pub fn report(args: &ReportArgs) -> Result<Option<ReportTarget>, Usage> {
    let max_bytes = report_bytes(args.report_max_mb)?;
    let path = args.report.clone().map(report_path).transpose()?;
    Ok(path.map(|path| ReportTarget { path, max_bytes }))
}

/// The report of a bench: tables only, of any length.
pub fn bench_report(path: PathBuf) -> Result<ReportTarget, Usage> {
    Ok(ReportTarget { path: report_path(path)?, max_bytes: u64::MAX })
}

/// An html file to write.
pub fn report_path(path: PathBuf) -> Result<PathBuf, Usage> {
    if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("html")) {
        return Err(Usage::new(format!("{}: reports are written as .html", path.display())));
    }
    writable(&path)?;
    Ok(path)
}

/// A table to write.
pub fn sweep_output(path: PathBuf) -> Result<PathBuf, Usage> {
    if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) {
        return Err(Usage::new(format!("{}: the table of a sweep is written as .csv", path.display())));
    }
    writable(&path)?;
    Ok(path)
}

/// Refuses outputs that are read, or written by another part of the command: `inputs` are what the user named, folders and
/// patterns included, `outputs` all that will be written.
pub fn keep_apart(inputs: &[PathBuf], outputs: &[PathBuf]) -> Result<(), Usage> {
    let inputs: Vec<Place> = bonesmith::io::named_files(inputs).iter().filter_map(|path| Place::of(path)).collect();
    let mut taken: Vec<Place> = Vec::new();
    for path in outputs {
        let Some(place) = Place::of(path) else { continue };
        let shown = path.display();
        if inputs.contains(&place) {
            return Err(Usage::new(format!("{shown} is also the input; it would be overwritten")));
        }
        if taken.contains(&place) {
            return Err(Usage::new(format!("{shown} is also another file of this command: it would be written twice")));
        }
        taken.push(place);
    }
    Ok(())
}

/// A file that need not be there yet, whatever it is called: links are followed.
#[derive(PartialEq)]
struct Place(PathBuf, std::ffi::OsString);

impl Place {
    fn of(path: &Path) -> Option<Self> {
        let real = path.canonicalize().or_else(|_| bonesmith::io::place_of(path)).ok()?;
        Some(Self(parent(&real).canonicalize().ok()?, real.file_name()?.to_owned()))
    }
}

/// `--report-max-mb` in bytes.
pub fn report_bytes(megabytes: f64) -> Result<u64, Usage> {
    match megabytes > 0.0 && megabytes <= 1e6 {
        true => Ok((megabytes * 1e6) as u64),
        false => Err(Usage::new(format!("--report-max-mb is {megabytes}; it must be above 0 and at most 1000000"))),
    }
}

/// Parameters of the fit, checked as far as they can be without the animation.
pub fn solver(args: &SolverArgs) -> anyhow::Result<FitParams> {
    let method: Method = args.method.unwrap_or_default().into();
    let defaults = FitParams::of_method(method);
    let params = FitParams {
        bones: bones(args)?,
        influences: match args.influences {
            None => defaults.influences,
            Some(InfluencesArg::All) => None,
            Some(InfluencesArg::AtMost(k)) => Some(k),
        },
        bone_kind: args.bone_kind.map_or(defaults.bone_kind, Into::into),
        smooth: args.smooth.unwrap_or(defaults.smooth),
        prune: args.prune.unwrap_or(defaults.prune),
        keep_rest: args.keep_rest,
        shading: args.shading.unwrap_or(defaults.shading),
        norm: args.norm.unwrap_or_default(),
        area: args.area,
        // Found when the animation is there.
        importance: None,
        effort: args.effort.unwrap_or_default().into(),
        max_iterations: args.max_iterations.or(defaults.max_iterations),
        tolerance: args.tolerance,
        max_seconds: args.max_seconds,
        seed: args.seed.unwrap_or_default(),
        method,
        bandwidth: args.bandwidth,
    };
    params.validate().map_err(Error::from)?;
    if !method.makes_rigs() && (args.bone_kind.is_some() || args.influences.is_some()) {
        let message = format!("--method {} has no bones: --bone-kind and --influences mean nothing", method.name());
        return Err(Usage::new(message).into());
    }
    Ok(params)
}

/// Options of a fit.
pub fn fit_options(args: &SolverArgs) -> anyhow::Result<FitOptions> {
    let mut options = FitOptions::new(solver(args)?);
    options.importance = mask(args.importance.as_deref());
    options.target_distance = match args.target_error {
        Some(TargetArg::Distance(distance)) => Some(distance),
        _ => None,
    };
    Ok(options)
}

/// Values of vertices: colours, or a file.
pub fn mask(source: Option<&Path>) -> VertexMask {
    match source {
        None => VertexMask::None,
        Some(path) if path == Path::new("color") && !path.exists() => VertexMask::Colours,
        Some(path) => VertexMask::File(path.to_owned()),
    }
}

/// Refuses options that weigh errors, where the squared error of all vertices alike is what counts.
pub fn plain_errors(args: &SolverArgs, with: &str) -> Result<(), Usage> {
    let option = match args {
        SolverArgs { norm: Some(_), .. } => "--norm",
        SolverArgs { importance: Some(_), .. } => "--importance",
        SolverArgs { area: true, .. } => "--area",
        _ => return Ok(()),
    };
    Err(Usage::new(format!("{option} weighs the errors of a fit with free bones: it means nothing with {with}")))
}

/// What the file of a fit holds.
fn fit_needs(options: &FitOptions, layout: Layout) -> Needs {
    let influences = most_influences(&options.params);
    match (options.params.method.makes_rigs(), options.eigenskin) {
        (false, _) => Needs::of(ModelKind::Basis),
        (true, Some(_)) => Needs::of(ModelKind::Corrective).influences(influences),
        (true, None) if layout == Layout::Nodes => Needs::of(ModelKind::Rig).nodes().influences(influences),
        (true, None) if matches!(layout, Layout::Skins { .. }) => {
            Needs::of(ModelKind::Rig).skins().influences(influences)
        }
        (true, None) => Needs::of(ModelKind::Rig).influences(influences),
    }
}

/// The file of a fit: its format holds as many influences as the fit may give.
pub fn fit_output(path: PathBuf, options: &FitOptions, layout: Layout) -> Result<PathBuf, Usage> {
    let path = output(path, fit_needs(options, layout))?;
    let limit = Format::from_extension(&path).and_then(|format| format.info().max_influences);
    match limit.filter(|_| options.params.method.makes_rigs() && most_influences(&options.params).is_none()) {
        Some(limit) => Err(Usage::new(format!(
            "{}: at most {limit} influences per vertex are written there, and the fit may give more",
            path.display()
        ))
        .hint(format!("use --influences {limit} or fewer, or write .npz"))),
        None => Ok(path),
    }
}

/// Influences per vertex at most, where that is known before the fit.
fn most_influences(params: &FitParams) -> Option<usize> {
    params.influences.or(match params.bones {
        BoneCount::Exact(bones) => Some(bones),
        _ => None,
    })
}

/// How many corrective shapes.
pub fn eigenskin(rank: Option<usize>) -> Result<Option<usize>, Usage> {
    let most = bonesmith::core::corrective::MAX_RANK;
    match rank.filter(|rank| !(1..=most).contains(rank)) {
        Some(rank) => Err(Usage::new(format!("--eigenskin is {rank}; it must be 1 to {most}"))),
        None => Ok(rank),
    }
}

/// The engine that a fit is for: the format must be one that it imports, and influences are at most as many as it takes.
pub fn engine(args: &TargetArgs, output: &Path, solver: &mut SolverArgs) -> Result<Option<&'static Target>, Usage> {
    let Some(target) = args.target() else { return Ok(None) };
    imports(target, output)?;
    if let Some(most) = target.max_influences() {
        match solver.influences {
            None => {
                solver.influences =
                    Some(InfluencesArg::AtMost(most.min(FitParams::default().influences.unwrap_or(most))))
            }
            Some(InfluencesArg::AtMost(k)) => influences_for(target, Some(k))?,
            Some(InfluencesArg::All) => influences_for(target, None)?,
        }
    }
    if let Some(BonesArg::Exact(bones)) = solver.bones {
        target.check_bones(bones, output).map_err(|error| Usage::new(error.to_string()))?;
    }
    if target.limits.iter().any(|limit| limit.rule == Rule::NoScale) {
        match solver.bone_kind {
            None | Some(BoneKindArg::Rigid) => solver.bone_kind = Some(BoneKindArg::Rigid),
            Some(_) => {
                let message = format!("{} takes bones without scale", target.title);
                return Err(Usage::new(message).hint("use --bone-kind rigid, or leave it out"));
            }
        }
    }
    Ok(Some(target))
}

/// Refuses more influences than an engine takes with any of its settings; `None`: any number. Beyond its defaults there is advice (`check`).
pub fn influences_for(target: &Target, influences: Option<usize>) -> Result<(), Usage> {
    match target.influence_limit().filter(|most| influences.is_none_or(|k| k > *most)) {
        Some(most) => Err(Usage::new(format!("{} takes at most {most} influences per vertex", target.title))
            .hint(format!("use --influences {most}, or leave it out"))),
        None => Ok(()),
    }
}

/// Refuses a format that an engine does not import.
pub fn imports(target: &Target, output: &Path) -> Result<(), Usage> {
    match Format::from_extension(output).filter(|format| !target.files().contains(format)) {
        Some(format) => {
            let kinds = Format::endings(target.files());
            Err(Usage::new(format!("{} does not import {}; it takes {kinds}", target.title, format.name())))
        }
        None => Ok(()),
    }
}

/// What is done to clips.
pub fn motion(args: &MotionArgs) -> Result<MotionOptions, Usage> {
    let options = args.options();
    let message = match options.validate() {
        Ok(()) => return Ok(options),
        Err(_) if options.in_place => "--in-place needs --root-motion plane or full: there is no root to stand still",
        Err(_) if options.up.is_some() => "--up is for --root-motion plane or full",
        Err(_) => "--loop-clips is for --loop",
    };
    Err(Usage::new(message))
}

/// How a fit is written.
pub fn layout(pieces: PiecesArg, max_joints: Option<usize>, options: &FitOptions) -> Result<Layout, Usage> {
    match (pieces, max_joints, options.eigenskin) {
        (PiecesArg::Nodes, _, Some(_)) => {
            Err(Usage::new("--eigenskin corrects one skin of all vertices; with --pieces nodes there is none"))
        }
        (PiecesArg::Nodes, Some(_), _) => Err(Usage::new("--max-joints divides a skin: not with --pieces nodes")),
        (PiecesArg::Nodes, None, None) => Ok(Layout::Nodes),
        (PiecesArg::Skin, Some(_), Some(_)) => Err(Usage::new("--max-joints divides a skin: not with --eigenskin")),
        (PiecesArg::Skin, _, _) => skins(max_joints, options.params.influences.unwrap_or(1)),
    }
}

/// Small files have one skin.
pub fn one_skin(layout: Layout) -> Result<(), Usage> {
    match layout {
        Layout::Skin => Ok(()),
        _ => Err(Usage::new(
            "--compact writes one skin: not with --pieces nodes, nor where joints are divided into several skins",
        )),
    }
}

/// Refuses bones that an engine takes in several skins only, where one is written.
pub fn one_skin_for(target: &Target, bones: usize, why: &str) -> Result<(), Usage> {
    match target.max_joints().filter(|most| bones > *most) {
        Some(most) => {
            let message =
                format!("{} takes {most} joints per skin, and {bones} bones are asked for: {why}", target.title);
            Err(Usage::new(message).hint(format!("use --bones {most} or fewer")))
        }
        None => Ok(()),
    }
}

/// A word that is no file behind `--compact` is its value, which is written with `=`.
pub fn value_of_compact(paths: &[PathBuf], compact: Option<&CompactOptions>) -> Result<(), Usage> {
    let is_value = |path: &&PathBuf| {
        let word = path.to_string_lossy();
        !word.is_empty() && !path.exists() && word.parse::<CompactOptions>().is_ok()
    };
    match compact.and_then(|_| paths.iter().find(is_value)) {
        Some(path) => Err(Usage::new(format!("{}: no such file or folder", path.display()))
            .hint(format!("a value of --compact is written with =: --compact={}", path.display()))),
        None => Ok(()),
    }
}

/// Small files are skins in glTF, USD and FBX.
pub fn compact(
    compact: Option<CompactOptions>,
    layout: Layout,
    output: &Path,
) -> Result<Option<CompactOptions>, Usage> {
    let Some(options) = compact else { return Ok(None) };
    one_skin(layout)?;
    match Format::from_extension(output) {
        Some(Format::Glb | Format::Gltf | Format::Usda | Format::Usdc | Format::Usdz | Format::Fbx) => {
            Ok(Some(options))
        }
        _ => Err(Usage::new(format!("--compact writes .glb, .gltf, USD and FBX, not {}", output.display()))),
    }
}

/// One skin, or as many as `--max-joints` needs for vertices with so many influences.
pub fn skins(max_joints: Option<usize>, influences: usize) -> Result<Layout, Usage> {
    match max_joints {
        None => Ok(Layout::Skin),
        Some(0) => Err(Usage::new("--max-joints is 0; it must be 1 or more")),
        Some(max_joints) if max_joints < influences => {
            let message = format!("--max-joints is {max_joints}, but one vertex may have {influences} influences");
            Err(Usage::new(message).hint("--influences sets how many a vertex may have"))
        }
        Some(max_joints) => Ok(Layout::Skins { max_joints }),
    }
}

/// Refuses skins that a face may not fit into, before the fit. Faces of more than four corners rarely need joints of their own for each: they are refused when
/// they do.
pub fn faces_fit(layout: Layout, params: &FitParams, topology: &Topology) -> Result<(), Usage> {
    let (Layout::Skins { max_joints }, Some(influences)) = (layout, params.influences) else { return Ok(()) };
    let corners = topology.faces().map(<[u32]>::len).max().unwrap_or(1).min(4);
    let bones = if let BoneCount::Exact(bones) = params.bones { bones } else { usize::MAX };
    let needed = (corners * influences).min(bones);
    if needed <= max_joints {
        return Ok(());
    }
    let what = format!("a face with {corners} corners of {influences} influences may need {needed} joints");
    Err(Usage::new(format!("--max-joints is {max_joints}, but {what}")).hint(match max_joints / corners {
        0 => format!("use --max-joints {needed}"),
        fewer => format!("use --max-joints {needed}, or --influences {fewer}"),
    }))
}

/// What `compress` writes by default: both layers in an npz, a plain rig elsewhere.
pub fn compressed_shape(shape: Option<ShapeArg>, output: &Path) -> Shape {
    let own = Format::from_extension(output) == Some(Format::Npz);
    shape.map_or(if own { Shape::Runtime } else { Shape::Baked }, Shape::from)
}

/// What the skeleton should be like; `None` for free bones.
pub fn skeleton(args: &SkeletonArgs, fit: &FitParams) -> anyhow::Result<Option<SkeletonParams>> {
    if !args.skeleton {
        return Ok(None);
    }
    if fit.method != Method::Bonesmith {
        let message =
            format!("--skeleton has methods of its own (--skeleton-method), not --method {}", fit.method.name());
        return Err(Usage::new(message).into());
    }
    if fit.bone_kind != BoneKind::Rigid {
        return Err(Usage::new("--skeleton makes rigid bones only, not --bone-kind trs or affine").into());
    }
    if let BoneCount::TargetError(_) = fit.bones {
        let message = "--target-error is for bones without joints, not for --skeleton";
        return Err(Usage::new(message).hint("use --detail, or --bones as an upper limit").into());
    }
    let defaults = SkeletonParams::default();
    let params = SkeletonParams {
        method: args.skeleton_method.unwrap_or_default().into(),
        detail: args.detail.unwrap_or(defaults.detail),
        start: args.skeleton_start.unwrap_or(defaults.start),
        root: match &args.root {
            None => Root::Centre,
            Some(RootArg::Named(name)) => Root::Named(name.clone()),
            Some(RootArg::At(place)) => Root::At(*place),
        },
        symmetry: !args.no_symmetry,
    };
    bonesmith::core::skeleton::check(fit, &params).map_err(Error::from)?;
    Ok(Some(params))
}

/// A picture to write: an SVG in a folder that can be written to.
pub fn picture(path: Option<PathBuf>) -> Result<Option<PathBuf>, Usage> {
    if let Some(path) = &path {
        if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("svg")) {
            return Err(Usage::new(format!("{}: pictures are written as .svg", path.display())));
        }
        writable(path)?;
    }
    Ok(path)
}

fn bones(args: &SolverArgs) -> Result<BoneCount, Usage> {
    match (args.bones, args.target_error) {
        (Some(_), Some(_)) => Err(Usage::new("--bones and --target-error exclude each other")
            .hint("--target-error finds the number of bones itself")),
        (Some(BonesArg::Exact(0)), None) => Err(Usage::new("--bones is 0; it must be 1 or more, or auto")),
        (Some(BonesArg::Exact(n)), None) => Ok(BoneCount::Exact(n)),
        (None, Some(TargetArg::Error(e))) => Ok(BoneCount::TargetError(e)),
        // Known when the animation is there: `target_distance`.
        (None, Some(TargetArg::Distance(_))) => Ok(BoneCount::Auto),
        (Some(BonesArg::Auto) | None, None) => Ok(BoneCount::Auto),
    }
}

/// Size of the thread pool; `None` for one thread per core.
pub fn threads(threads: Option<usize>) -> Result<Option<usize>, Usage> {
    match threads {
        Some(n) if !(1..=1024).contains(&n) => Err(Usage::new(format!("--threads is {n}; it must be 1 to 1024"))),
        threads => Ok(threads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{BoneKindArg, MethodArg};

    #[test]
    fn combinations_without_meaning_are_refused() {
        let both = SolverArgs {
            bones: Some(BonesArg::Auto),
            target_error: Some(TargetArg::Error(1.0)),
            ..SolverArgs::default()
        };
        assert!(solver(&both).unwrap_err().to_string().contains("exclude"));
        let rigid_fsd =
            SolverArgs { method: Some(MethodArg::Fsd), bone_kind: Some(BoneKindArg::Rigid), ..SolverArgs::default() };
        assert!(solver(&rigid_fsd).unwrap_err().to_string().contains("affine bones only"));
    }

    #[test]
    fn the_published_method_has_its_own_defaults() {
        let params = solver(&SolverArgs { method: Some(MethodArg::Fsd), ..SolverArgs::default() }).unwrap();
        assert_eq!((params.bone_kind, params.max_iterations, params.tolerance), (BoneKind::Affine, Some(15), None));
        assert_eq!(solver(&SolverArgs::default()).unwrap(), FitParams::default());
    }

    #[test]
    fn more_influences_than_the_format_holds_are_refused_before_the_fit() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |name: &str, influences: Option<usize>| {
            let needs = Needs::of(ModelKind::Rig).influences(influences);
            output(folder.path().join(name), needs).err().map(|usage| usage.to_string())
        };
        assert!(refused("x.GLB", Some(12)).unwrap().contains("at most 8 influences per vertex, not 12"));
        assert_eq!(refused("x.npz", Some(12)), None);
        assert_eq!(refused("x.glb", FitParams::default().influences), None);
    }

    #[test]
    fn ranges_name_the_option_and_the_value() {
        let refused = |args: SolverArgs| solver(&args).unwrap_err().to_string();
        let zero = SolverArgs { bones: Some(BonesArg::Exact(0)), ..SolverArgs::default() };
        assert_eq!(refused(zero), "--bones is 0; it must be 1 or more, or auto");
        let many = SolverArgs { influences: Some(InfluencesArg::AtMost(17)), ..SolverArgs::default() };
        assert!(refused(many).starts_with("influences is 17"));
        let negative = SolverArgs { target_error: Some(TargetArg::Error(-1.0)), ..SolverArgs::default() };
        assert!(refused(negative).starts_with("target_error is -1"));
        assert!(fps(Some(f64::NAN)).is_err() && fps(Some(0.0)).is_err() && fps(Some(29.97)).is_ok());
    }
}
