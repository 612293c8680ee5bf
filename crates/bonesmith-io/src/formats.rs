//! The table of formats: what each reads, writes and limits. Everything that depends on a format asks this table: readers, writers,
//! checks before the work, help texts, and the table of the documentation.

use std::path::{Path, PathBuf};

use bonesmith_core::{ModelKind, ModelRef};

use crate::IoError;
use crate::detect::Format;

/// How a file is an animation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frames {
    /// One file holds all frames.
    InOneFile,
    /// One file per frame.
    OneFileEach,
    /// One file holds all positions; another one, OBJ or PLY, the faces.
    WithMeshFile,
}

/// What one format reads, writes and limits.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FormatInfo {
    /// Which format.
    pub format: Format,
    /// Name for messages.
    pub name: &'static str,
    /// Extensions without the dot; the first is the usual one.
    pub extensions: &'static [&'static str],
    /// How it is read as an animation. Rigs are baked.
    pub frames: Frames,
    /// Kinds of models that it is read as, beside animations.
    pub reads: &'static [ModelKind],
    /// Kinds of models that are written, with everything that belongs to their kind.
    pub writes: &'static [ModelKind],
    /// Whether rigid pieces are written as nodes, beside a skin for the soft rest.
    pub writes_nodes: bool,
    /// Whether a rig is written as several skins with few joints each.
    pub writes_skins: bool,
    /// Maximum number of influences of a vertex; `None`: no limit.
    pub max_influences: Option<usize>,
    /// Maximum number of bones.
    pub max_bones: usize,
    /// Extension of the second file that writing makes beside the first.
    pub side_file: Option<&'static str>,
    /// What is special about it, for the table of the documentation.
    pub remark: &'static str,
}

use ModelKind::{Basis, CompressedDdm, Corrective, Ddm, Rig, Sequence, ShapeBones, TwoLayer};

/// Indices of bones are 16-bit numbers.
const BONES: usize = 1 << 16;
const NONE: FormatInfo = FormatInfo {
    format: Format::Obj,
    name: "",
    extensions: &[],
    frames: Frames::InOneFile,
    reads: &[],
    writes: &[],
    writes_nodes: false,
    writes_skins: false,
    max_influences: None,
    max_bones: BONES,
    side_file: None,
    remark: "",
};
const GLTF: FormatInfo = FormatInfo {
    reads: &[Rig, TwoLayer, Ddm, CompressedDdm, Corrective, ShapeBones],
    writes: &[Sequence, Rig, TwoLayer, Ddm, CompressedDdm, Corrective, ShapeBones],
    writes_nodes: true,
    writes_skins: true,
    max_influences: Some(crate::gltf::MAX_INFLUENCES),
    ..NONE
};
const USD: FormatInfo = FormatInfo {
    reads: &[Rig, Corrective],
    writes: &[Sequence, Rig, Corrective],
    writes_nodes: true,
    remark: "UsdSkel, point caches",
    ..NONE
};

/// All formats, the usual ones first.
pub const FORMATS: &[FormatInfo] = &[
    FormatInfo { format: Format::Glb, name: "GLB", extensions: &["glb"], remark: "binary glTF", ..GLTF },
    FormatInfo {
        format: Format::Gltf,
        name: "glTF",
        extensions: &["gltf"],
        side_file: Some("bin"),
        remark: "glTF as JSON",
        ..GLTF
    },
    FormatInfo { format: Format::Usda, name: "USD text", extensions: &["usda"], ..USD },
    FormatInfo { format: Format::Usdc, name: "USD binary", extensions: &["usdc", "usd"], ..USD },
    FormatInfo { format: Format::Usdz, name: "USDZ", extensions: &["usdz"], ..USD },
    FormatInfo {
        format: Format::Fbx,
        name: "FBX",
        extensions: &["fbx"],
        reads: &[Rig, Corrective],
        writes: &[Sequence, Rig, Corrective],
        writes_nodes: true,
        remark: "binary and ascii",
        ..NONE
    },
    FormatInfo {
        format: Format::Npz,
        name: "npz",
        extensions: &["npz"],
        reads: &[Rig, TwoLayer, Ddm, CompressedDdm, Corrective, ShapeBones, Basis],
        writes: &[Sequence, Rig, TwoLayer, Ddm, CompressedDdm, Corrective, ShapeBones, Basis],
        remark: "NumPy; all that there is",
        ..NONE
    },
    FormatInfo {
        format: Format::Alembic,
        name: "Alembic",
        extensions: &["abc"],
        writes: &[Sequence],
        remark: "Ogawa",
        ..NONE
    },
    FormatInfo {
        format: Format::Obj,
        name: "OBJ",
        extensions: &["obj"],
        frames: Frames::OneFileEach,
        remark: "a folder, a pattern or a list; a file named `rest...` is the rest pose",
        ..NONE
    },
    FormatInfo {
        format: Format::Ply,
        name: "PLY",
        extensions: &["ply"],
        frames: Frames::OneFileEach,
        remark: "as OBJ",
        ..NONE
    },
    FormatInfo { format: Format::Pc2, name: "PC2", extensions: &["pc2"], frames: Frames::WithMeshFile, ..NONE },
    FormatInfo { format: Format::Mdd, name: "MDD", extensions: &["mdd"], frames: Frames::WithMeshFile, ..NONE },
];

/// What a file has to hold: as far as it is known before the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// Kind of the model.
    pub kind: ModelKind,
    /// Rigid pieces as nodes without a skin.
    pub nodes: bool,
    /// Several skins with few joints each.
    pub skins: bool,
    /// Influences of a vertex; `None`: not known yet.
    pub influences: Option<usize>,
    /// Bones; `None`: not known yet.
    pub bones: Option<usize>,
}

impl Needs {
    /// A model of this kind, of unknown size.
    pub fn of(kind: ModelKind) -> Self {
        Self { kind, nodes: false, skins: false, influences: None, bones: None }
    }

    /// A rig with at most so many influences per vertex.
    pub fn influences(self, influences: Option<usize>) -> Self {
        Self { influences, ..self }
    }

    /// Rigid pieces as nodes.
    pub fn nodes(self) -> Self {
        Self { nodes: true, ..self }
    }

    /// Several skins with few joints each.
    pub fn skins(self) -> Self {
        Self { skins: true, ..self }
    }
}

impl From<ModelRef<'_>> for Needs {
    fn from(model: ModelRef<'_>) -> Self {
        Self::of(model.kind())
    }
}

impl Format {
    /// Its row of the table.
    pub fn info(self) -> &'static FormatInfo {
        // A test checks that every format has a row.
        FORMATS.iter().find(|row| row.format == self).unwrap_or(&NONE)
    }

    /// Name for messages.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The usual ending of a file, without the dot.
    pub fn ending(self) -> &'static str {
        self.info().extensions.first().copied().unwrap_or_default()
    }

    /// Format that an extension stands for; also for files that are yet to be written.
    pub fn from_extension(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        FORMATS.iter().find(|row| row.extensions.contains(&ending.as_str())).map(|row| row.format)
    }

    /// Formats that a model of this kind is written as.
    pub fn writing(kind: ModelKind) -> Vec<Self> {
        FORMATS.iter().filter(|row| row.writes.contains(&kind)).map(|row| row.format).collect()
    }

    /// Formats that rigid pieces are written as nodes of.
    pub fn writing_nodes() -> Vec<Self> {
        FORMATS.iter().filter(|row| row.writes_nodes).map(|row| row.format).collect()
    }

    /// Formats that a rig is written as several skins of.
    pub fn writing_skins() -> Vec<Self> {
        FORMATS.iter().filter(|row| row.writes_skins).map(|row| row.format).collect()
    }

    /// Formats that anything is written as.
    pub fn writing_any() -> Vec<Self> {
        FORMATS.iter().filter(|row| !row.writes.is_empty()).map(|row| row.format).collect()
    }

    /// Formats that a model of this kind is read from.
    pub fn reading(kind: ModelKind) -> Vec<Self> {
        let reads = |row: &&FormatInfo| kind == Sequence || row.reads.contains(&kind);
        FORMATS.iter().filter(reads).map(|row| row.format).collect()
    }

    /// Whether a model of this kind is written.
    pub fn writes(self, kind: ModelKind) -> bool {
        self.info().writes.contains(&kind)
    }

    /// Endings for messages: ".glb, .gltf and .npz".
    pub fn endings(formats: &[Self]) -> String {
        let endings: Vec<String> = formats.iter().map(|format| format!(".{}", format.ending())).collect();
        match endings.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// Endings for help texts: ".glb .gltf .npz".
    pub fn ending_list(formats: &[Self]) -> String {
        formats.iter().map(|format| format!(".{}", format.ending())).collect::<Vec<_>>().join(" ")
    }

    /// The format of a file to be written, if it can hold what is needed. An extension that is not known is refused.
    pub fn to_write(path: &Path, needs: Needs) -> Result<Self, IoError> {
        let refused = |what: String| Err(IoError::unsupported(path, what));
        let (possible, what) = match needs {
            Needs { nodes: true, .. } => (Self::writing_nodes(), "pieces as nodes"),
            Needs { skins: true, .. } => (Self::writing_skins(), "several skins"),
            _ => (Self::writing(needs.kind), needs.kind.text()),
        };
        let endings = Self::endings(&possible);
        let Some(format) = Self::from_extension(path) else {
            let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
            let has = if ending.is_empty() { "no ending".to_owned() } else { format!("the ending .{ending}") };
            return refused(format!("has {has}; {what} can be written as {endings}"));
        };
        if !possible.contains(&format) {
            return refused(format!("{} holds no such model: {what} can be written as {endings}", format.name()));
        }
        let row = format.info();
        if let (Some(influences), Some(limit)) = (needs.influences, row.max_influences)
            && influences > limit
        {
            let what = format!("{} holds at most {limit} influences per vertex, not {influences}", row.name);
            return refused(format!("{what}; .npz holds any number"));
        }
        if let Some(bones) = needs.bones
            && bones > row.max_bones
        {
            return refused(format!("{} holds at most {} bones, not {bones}", row.name, row.max_bones));
        }
        Ok(format)
    }

    /// The files that a model of this name is written as: itself, and a side file where the format has one.
    pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
        let side = Self::from_extension(path).and_then(|format| format.info().side_file);
        std::iter::once(path.to_owned()).chain(side.map(|ending| path.with_extension(ending))).collect()
    }
}

/// The table of the documentation, in Markdown.
pub fn markdown_table() -> String {
    let kinds = [
        (Rig, "rig"),
        (Corrective, "corrective shapes"),
        (TwoLayer, "two layers"),
        (Ddm, "Direct Delta Mush"),
        (ShapeBones, "bones driven by shapes"),
        (Basis, "basis"),
    ];
    let names: Vec<&str> = kinds.iter().map(|(_, name)| *name).collect();
    let mut text = format!("| format | ending | animation | {} | influences | |\n", names.join(" | "));
    text += &format!("|---|---|---|{}---|---|\n", "---|".repeat(kinds.len()));
    for row in FORMATS {
        let cell = |reads: bool, writes: bool| match (reads, writes) {
            (true, true) => "read, write",
            (true, false) => "read",
            (false, true) => "write",
            (false, false) => "",
        };
        let animation = match (row.frames, row.writes.contains(&Sequence)) {
            (Frames::InOneFile, true) => "read, write",
            (Frames::InOneFile, false) => "read",
            (Frames::OneFileEach, _) => "read: one file per frame",
            (Frames::WithMeshFile, _) => "read: with an OBJ or PLY for the faces",
        };
        let cells: Vec<&str> =
            kinds.iter().map(|(kind, _)| cell(row.reads.contains(kind), row.writes.contains(kind))).collect();
        let endings: Vec<String> = row.extensions.iter().map(|ending| format!(".{ending}")).collect();
        let influences = match (row.max_influences, row.writes.contains(&Rig)) {
            (Some(limit), _) => format!("at most {limit}"),
            (None, true) => "any number".to_owned(),
            (None, false) => String::new(),
        };
        let endings = endings.join(", ");
        text += &format!(
            "| {} | {endings} | {animation} | {} | {influences} | {} |\n",
            row.name,
            cells.join(" | "),
            row.remark
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, needs: Needs) -> String {
        Format::to_write(Path::new(name), needs).unwrap_err().to_string()
    }

    #[test]
    fn every_format_has_one_row_and_endings_of_its_own() {
        use Format::*;
        for format in [Obj, Ply, Npz, Pc2, Mdd, Glb, Gltf, Alembic, Fbx, Usda, Usdc, Usdz] {
            assert_eq!(FORMATS.iter().filter(|row| row.format == format).count(), 1, "{format:?}");
            assert_eq!(Format::from_extension(Path::new(&format!("a.{}", format.ending()))), Some(format));
        }
        let mut endings: Vec<&str> = FORMATS.iter().flat_map(|row| row.extensions).copied().collect();
        let count = endings.len();
        endings.sort_unstable();
        endings.dedup();
        assert_eq!(endings.len(), count);
    }

    #[test]
    fn what_a_format_cannot_hold_is_refused() {
        assert_eq!(
            refused("x.fbx", Needs::of(Ddm)),
            "x.fbx: FBX holds no such model: a Direct Delta Mush rig can be written as .glb, .gltf and .npz"
        );
        assert!(refused("x.fbx", Needs::of(TwoLayer)).contains("a rig with two layers can be written as"));
        assert!(
            refused("x.GLB", Needs::of(Rig).influences(Some(12))).contains("at most 8 influences per vertex, not 12")
        );
        assert!(
            refused("x.npz", Needs::of(Rig).nodes()).contains("pieces as nodes can be written as .glb, .gltf, .usda")
        );
        assert!(Format::to_write(Path::new("x.npz"), Needs::of(Rig).influences(Some(12))).is_ok());
        assert_eq!(Format::to_write(Path::new("x.abc"), Needs::of(Sequence)).unwrap(), Format::Alembic);
    }

    #[test]
    fn an_unknown_extension_is_no_format() {
        for name in ["x.xyz", "x", "x.glbx", "glb"] {
            for kind in ModelKind::ALL {
                assert!(refused(name, Needs::of(kind)).contains("can be written as"), "{name}");
            }
        }
    }

    #[test]
    fn side_files_belong_to_their_format() {
        assert_eq!(Format::files(Path::new("a/x.GLTF")), [PathBuf::from("a/x.GLTF"), "a/x.bin".into()]);
        assert_eq!(Format::files(Path::new("x.glb")), [PathBuf::from("x.glb")]);
    }
}
