//! Whatever files hold, as a [`Model`]. Each file is opened and parsed once.

use std::path::{Path, PathBuf};

use bonesmith_core::ddm::DdmMaps;
use bonesmith_core::mesh::sequence::DEFAULT_FPS;
use bonesmith_core::{MeshSequence, Model, ModelKind, RawFrame, RawSequence, Rig, SequenceError};

use crate::gltf::StoredSkins;
use crate::inputs::{self, Source};
use crate::weights::BadWeights;
use crate::{Format, IoError, alembic, detect, fbx, gltf, mesh, npz, pointcache, usd, warning};

/// How a file is read.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Frames per second: the rate at which skinned and morph animation is baked, and the clock of files without
    /// times. `None`: the file's own keys or rate where it has one, else 24.
    pub fps: Option<f64>,
    /// Only the mesh of this name, or those of these names between commas, where a file holds several. `None`: all, merged.
    pub mesh: Option<String>,
    /// Shapes beside bones or nodes stay shapes, animated or not: a rig with shapes instead of the positions that they make. Without a skin, those of
    /// an animation with as many shapes as frames are the frames themselves.
    pub keep_shapes: bool,
}

/// Whether `only`, a name or several between commas, names this mesh.
pub(crate) fn picks(only: &str, name: &str) -> bool {
    only == name || only.split(',').any(|one| one.trim() == name)
}

/// The first of the names in `only` that `found` says no to.
pub(crate) fn missing(only: &str, found: impl Fn(&str) -> bool) -> Option<&str> {
    if found(only) { None } else { only.split(',').map(str::trim).find(|one| !found(one)) }
}

/// One mesh of a file that may hold several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshEntry {
    /// What `LoadOptions::mesh` takes.
    pub name: String,
    /// Vertices it has.
    pub vertices: usize,
}

/// A model, and what is known about its file.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The model.
    pub model: Model,
    /// The format of the first input; `None` for a folder or a pattern.
    pub format: Option<Format>,
    /// The meshes of the file, in file order; empty for formats that hold one.
    pub meshes: Vec<MeshEntry>,
    /// Skins and weights as stored, where the format is glTF.
    pub stored: Option<StoredSkins>,
    /// Names that several nodes have, where the format is FBX.
    pub shared_names: Vec<String>,
}

/// What a reader is to return.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub options: &'a LoadOptions,
    /// A skinned mesh is a rig even if nothing animates it; a file without one is refused.
    pub rig: bool,
    pub bad_weights: BadWeights,
    /// Whether the meshes are listed.
    pub meshes: bool,
}

/// What a reader has found. An animation is not checked yet, so that frames can be chosen first.
#[allow(clippy::large_enum_variant, reason = "there is one per file")]
pub(crate) enum Content {
    Sequence(RawSequence),
    Model(Model),
}

impl Content {
    /// A model of one kind.
    pub fn model(model: impl Into<Model>) -> Self {
        Self::Model(model.into())
    }
}

/// Content and meshes of a file.
pub(crate) struct FileContent {
    pub content: Content,
    pub meshes: Vec<MeshEntry>,
    /// Of a glTF file, where meshes are listed.
    pub stored: Option<StoredSkins>,
    /// Of an FBX file, where meshes are listed: names that several nodes have.
    pub shared_names: Vec<String>,
}

impl<'a> Request<'a> {
    fn new(options: &'a LoadOptions) -> Self {
        Self { options, rig: false, bad_weights: BadWeights::Refuse, meshes: false }
    }

    /// The list of meshes, if it is requested.
    pub fn list(&self, meshes: impl FnOnce() -> Result<Vec<MeshEntry>, IoError>) -> Result<Vec<MeshEntry>, IoError> {
        if self.meshes { meshes() } else { Ok(Vec::new()) }
    }
}

/// Reads whatever the inputs hold: a rig of any kind where there is one, a basis, else an animation.
pub fn load_model(inputs: &[PathBuf], options: &LoadOptions) -> Result<Model, IoError> {
    load_model_with(inputs, options, |raw| checked(inputs, raw, MeshSequence::try_from))
}

/// As [`load_model`]; `check` makes the checked sequence of an animation, and may choose frames and a rest pose first.
pub fn load_model_with<E: From<IoError>>(
    inputs: &[PathBuf],
    options: &LoadOptions,
    check: impl FnOnce(RawSequence) -> Result<MeshSequence, E>,
) -> Result<Model, E> {
    match read(inputs::resolve(inputs)?, &Request::new(options))?.content {
        Content::Model(model) => Ok(model),
        Content::Sequence(raw) => Ok(Model::Sequence(check(raw)?)),
    }
}

/// As [`load_model`], with the format and the meshes of the file.
pub fn inspect(inputs: &[PathBuf], options: &LoadOptions) -> Result<Inspection, IoError> {
    let source = inputs::resolve(inputs)?;
    let format = match (&source, inputs.first()) {
        (Source::Single(_, format), _) => Some(*format),
        (_, Some(first)) if first.is_file() => Some(detect(first)?),
        _ => None,
    };
    let FileContent { content, meshes, stored, shared_names } =
        read(source, &Request { meshes: true, ..Request::new(options) })?;
    let model = match content {
        Content::Model(model) => model,
        Content::Sequence(raw) => Model::Sequence(checked(inputs, raw, MeshSequence::of_any_size)?),
    };
    Ok(Inspection { model, format, meshes, stored, shared_names })
}

/// Reads a rig of any kind, animated or not, or a basis; other files are refused.
pub fn load_rigged(path: &Path) -> Result<Model, IoError> {
    read_rigged(path, BadWeights::Refuse)
}

/// Reads a plain rig. One with two layers is baked to one, and so is a compressed one with multi-weights; of one that is
/// not compressed the plain weights are read. Corrective shapes are left out, with a warning.
pub fn load_rig(path: &Path) -> Result<Rig, IoError> {
    plain_rig(path, read_rigged(path, BadWeights::Refuse)?)
}

/// As [`load_rig`]; negative weights of an npz become 0, and the weights of each vertex are scaled to 1. (Those of
/// a glTF always are.)
pub fn load_rig_normalised(path: &Path) -> Result<Rig, IoError> {
    plain_rig(path, read_rigged(path, BadWeights::Normalise)?)
}

/// Reads a mesh animation from one file, or several (a directory, a glob, a list of OBJ/PLY files; a point cache
/// and the OBJ with its faces, in any order). Rigs and morph targets are baked.
///
/// Lists are put into natural order (2 before 10). An OBJ or PLY among others whose name starts with "rest" is the
/// rest pose.
pub fn load_sequence(inputs: &[PathBuf], options: &LoadOptions) -> Result<RawSequence, IoError> {
    let (path, format) = match inputs::resolve(inputs)? {
        Source::Single(path, format) => (path, format),
        several => return read_several(several, options),
    };
    match format {
        Format::Fbx => fbx::load_sequence(&path, options),
        Format::Usda | Format::Usdc | Format::Usdz => usd::load_sequence(&path, options),
        Format::Glb | Format::Gltf => gltf::load_sequence(&path, options),
        _ => match read_file(&path, format, &Request::new(options))?.content {
            Content::Sequence(raw) => Ok(raw),
            Content::Model(model) => {
                let baked = model.view().baked(None);
                let baked = baked.map(|raw| RawSequence { fps: options.fps.unwrap_or(DEFAULT_FPS), ..raw });
                baked.ok_or_else(|| IoError::unsupported(path, "the rig has no animation to make a sequence of"))
            }
        },
    }
}

/// Reads one pose, to be the rest pose of a sequence: an OBJ or PLY file, or the rest pose of anything else that
/// can be read (its first frame if it has none).
pub fn load_rest(path: &Path) -> Result<RawFrame, IoError> {
    let sequence = load_sequence(&[path.to_owned()], &LoadOptions::default())?;
    let mut pose = match sequence.rest {
        Some(rest) => rest,
        None => sequence.frames.into_iter().next().ok_or_else(|| IoError::malformed(path, "holds no pose"))?.loaded(),
    };
    if pose.label.is_empty() {
        pose.label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    Ok(pose)
}

/// Reads parameters of Direct Delta Mush per vertex: any of the arrays `rotation_smooth`, `translation_smooth`, `alpha`,
/// `steps` of an npz file.
pub fn load_ddm_maps(path: &Path) -> Result<DdmMaps, IoError> {
    match detect(path)? {
        Format::Npz => npz::load_ddm_maps(path),
        format => Err(IoError::unsupported(path, format!("{} files hold no maps; .npz can", format.name()))),
    }
}

/// Reads how far each joint moves: the array `range_of_motion` of an npz file, [B] degrees or [B, 2] degrees and model units;
/// as radians and units.
pub fn load_ranges(path: &Path) -> Result<Vec<(f64, f64)>, IoError> {
    match detect(path)? {
        Format::Npz => npz::load_ranges(path),
        format => Err(IoError::unsupported(path, format!("{} files hold no ranges; .npz can", format.name()))),
    }
}

/// The meshes of a file, in file order; empty for formats that hold one.
pub fn list_meshes(path: &Path) -> Result<Vec<MeshEntry>, IoError> {
    match path.is_file().then(|| detect(path)).transpose()? {
        Some(Format::Glb | Format::Gltf) => gltf::list_meshes(path),
        Some(Format::Alembic) => alembic::list_meshes(path),
        Some(Format::Fbx) => fbx::list_meshes(path),
        Some(Format::Usda | Format::Usdc | Format::Usdz) => usd::list_meshes(path),
        _ => Ok(Vec::new()),
    }
}

/// Content of one file, an animation not checked.
pub(crate) fn load_content(path: &Path) -> Result<Content, IoError> {
    Ok(read(inputs::resolve(&[path.to_owned()])?, &Request::new(&LoadOptions::default()))?.content)
}

fn checked(
    inputs: &[PathBuf],
    raw: RawSequence,
    check: impl FnOnce(RawSequence) -> Result<MeshSequence, SequenceError>,
) -> Result<MeshSequence, IoError> {
    let path = inputs.first().cloned().unwrap_or_default();
    check(raw).map_err(|source| IoError::Sequence { path, source })
}

fn read(source: Source, request: &Request<'_>) -> Result<FileContent, IoError> {
    match source {
        Source::Single(path, format) => read_file(&path, format, request),
        several => {
            let content = Content::Sequence(read_several(several, request.options)?);
            Ok(FileContent { content, meshes: Vec::new(), stored: None, shared_names: Vec::new() })
        }
    }
}

/// Formats that hold one mesh have no choice.
fn warn_of_choice(path: &Path, options: &LoadOptions) {
    if let Some(name) = &options.mesh {
        warning::left_out(path, format!("the choice of mesh {name:?}: this format holds one mesh without a name"));
    }
}

fn read_several(source: Source, options: &LoadOptions) -> Result<RawSequence, IoError> {
    match &source {
        Source::Meshes { files, .. } => files.first().into_iter().for_each(|path| warn_of_choice(path, options)),
        Source::Cache { cache, .. } => warn_of_choice(cache, options),
        Source::Single(..) => {}
    }
    match source {
        Source::Meshes { files, rest, format, name } => {
            mesh::read_sequence(&files, rest.as_deref(), format, name, options)
        }
        Source::Cache { cache, format, mesh } => pointcache::load(&cache, format, mesh.as_deref(), options),
        Source::Single(path, _) => load_sequence(&[path], options),
    }
}

fn read_file(path: &Path, format: Format, request: &Request<'_>) -> Result<FileContent, IoError> {
    match format {
        Format::Npz => {
            warn_of_choice(path, request.options);
            npz::load(path, request)
        }
        Format::Alembic => alembic::load(path, request),
        Format::Fbx => fbx::load(path, request),
        Format::Usda | Format::Usdc | Format::Usdz => usd::load(path, request),
        Format::Glb | Format::Gltf => gltf::load(path, request),
        Format::Obj | Format::Ply | Format::Pc2 | Format::Mdd => {
            Err(IoError::unsupported(path, format!("{} files are read as frames", format.name())))
        }
    }
}

fn read_rigged(path: &Path, bad_weights: BadWeights) -> Result<Model, IoError> {
    let format = detect(path)?;
    let none = || {
        let what =
            format!("{} files hold no rig; {} can", format.name(), Format::endings(&Format::reading(ModelKind::Rig)));
        IoError::unsupported(path, what)
    };
    if format.info().reads.is_empty() {
        return Err(none());
    }
    let options = LoadOptions::default();
    let request = Request { rig: true, bad_weights, ..Request::new(&options) };
    match read_file(path, format, &request)?.content {
        Content::Model(model) => Ok(model),
        Content::Sequence(_) => Err(none()),
    }
}

/// The plain rig with the same deformation; where there is none, the bones and weights alone, with a warning.
fn plain_rig(path: &Path, model: Model) -> Result<Rig, IoError> {
    match model {
        Model::Rig(rig) => Ok(rig),
        Model::TwoLayer(two) => Ok(two.bake()),
        Model::Ddm(ddm) => Ok(ddm.bake().unwrap_or_else(|| {
            warning::left_out(path, "multi-weights of Direct Delta Mush: the plain weights are taken");
            ddm.rig
        })),
        Model::Corrective(corrective) => {
            warning::shapes_of_rig(path, corrective.shapes.len(), true);
            Ok(corrective.rig)
        }
        other => Err(IoError::unsupported(path, format!("holds no rig, but {}", other.view().kind().text()))),
    }
}
