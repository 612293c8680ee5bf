//! The table of formats against the readers and writers.

use bonesmith_core::compress::{TwoLayerParams, compress};
use bonesmith_core::corrective::eigenskin;
use bonesmith_core::ddm::compress::{DdmCompressParams, compress as compress_ddm};
use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute};
use bonesmith_core::fit::{BoneCount, FitParams, Method};
use bonesmith_core::methods::represent;
use bonesmith_core::shapes::{self, Numbers, ShapesParams};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, Model, ModelKind, Silent};
use bonesmith_io::{FORMATS, Format, LoadOptions, Needs, load_model, markdown_table, save_model, save_pieces};

/// A model of every kind, of one small animation.
fn models() -> Vec<Model> {
    let params = PosedRigParams { bones: 5, influences: 4, kind: BoneKind::Rigid, frames: 6, softness: 0.4, detail: 2 };
    let made = posed_rig(3, &params);
    let sequence = MeshSequence::try_from(made.sequence).unwrap();
    let rig = made.rig;
    let two = compress(&rig, None, &TwoLayerParams { allow_larger: true, ..TwoLayerParams::default() }, &mut Silent)
        .unwrap()
        .rig;
    let ddm = precompute(&rig, &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap();
    let small = DdmCompressParams { virtual_bones: 12, max_rounds: 1, ..DdmCompressParams::default() };
    let compressed = compress_ddm(&ddm, &small, &mut Silent).unwrap().0;
    // The rig without its motion is off, so that shapes have something to correct.
    let mut stiff = rig.clone();
    let still = stiff.clips[0].frame(0).to_vec();
    stiff.clips[0].posed_from_rest = (0..6).flat_map(|_| still.clone()).collect();
    let shaped = eigenskin(&stiff, &sequence, 2, &mut Silent).unwrap();
    let svd = FitParams { bones: BoneCount::Exact(2), ..FitParams::of_method(Method::Svd) };
    let basis = represent(&sequence, &svd, &mut Silent).unwrap().basis;
    let names: Vec<String> = (0..6).map(|s| format!("shape_{s}")).collect();
    let few = ShapesParams { bones: 4, influences: 3, numbers: Numbers::Count(90), ..ShapesParams::default() };
    let face = shapes::fit(&sequence, &names, &few, &mut Silent).unwrap().model;
    let models: Vec<Model> = vec![
        sequence.into(),
        rig.into(),
        two.into(),
        ddm.into(),
        compressed.into(),
        shaped.into(),
        face.into(),
        basis.into(),
    ];
    let kinds: Vec<ModelKind> = models.iter().map(|model| model.view().kind()).collect();
    use ModelKind::*;
    assert_eq!(kinds, [Sequence, Rig, TwoLayer, Ddm, CompressedDdm, Corrective, ShapeBones, Basis]);
    models
}

#[test]
fn writers_hold_what_the_table_says_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for model in models() {
        let kind = model.view().kind();
        for row in FORMATS {
            let path = folder.path().join(format!("{kind:?}.{}", row.extensions[0]));
            let written = save_model(&model, &path);
            assert_eq!(written.is_ok(), row.writes.contains(&kind), "{kind:?} as {}: {written:?}", row.name);
            assert_eq!(Format::to_write(&path, Needs::of(kind)).is_ok(), written.is_ok());
            if written.is_err() {
                assert!(!path.exists());
                continue;
            }
            let side = row.side_file.map(|ending| path.with_extension(ending));
            assert!(side.is_none_or(|side| side.is_file()), "{}", row.name);
            // What a format writes and reads as a model comes back as the same kind.
            let read = load_model(&[path], &LoadOptions::default()).unwrap();
            if row.reads.contains(&kind) || kind == ModelKind::Sequence {
                assert_eq!(read.view().kind(), kind, "{kind:?} as {}", row.name);
            }
        }
    }
}

#[test]
fn pieces_are_nodes_where_the_table_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let params = PosedRigParams { bones: 3, influences: 1, frames: 4, detail: 2, ..PosedRigParams::default() };
    let rig = posed_rig(5, &params).rig;
    for row in FORMATS {
        let path = folder.path().join(format!("pieces.{}", row.extensions[0]));
        let written = save_pieces(&rig, &path);
        assert_eq!(written.is_ok(), row.writes_nodes, "{}: {written:?}", row.name);
    }
}

#[test]
fn influences_are_limited_where_the_table_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let params =
        PosedRigParams { bones: 12, influences: 12, frames: 4, detail: 2, softness: 2.0, ..PosedRigParams::default() };
    let rig = posed_rig(6, &params).rig;
    let influences = rig.weights.max_influences();
    assert!(influences > 8, "{influences}");
    for row in FORMATS.iter().filter(|row| row.writes.contains(&ModelKind::Rig)) {
        let path = folder.path().join(format!("dense.{}", row.extensions[0]));
        let fits = row.max_influences.is_none_or(|limit| influences <= limit);
        assert_eq!(save_model(&rig, &path).is_ok(), fits, "{}", row.name);
        let needs = Needs::of(ModelKind::Rig).influences(Some(influences));
        assert_eq!(Format::to_write(&path, needs).is_ok(), fits, "{}", row.name);
    }
}

/// The table in the documentation is the table of the program. `BONESMITH_BLESS=1` writes it.
#[test]
fn the_documentation_has_the_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- formats: begin -->\n", "<!-- formats: end -->");
    let (before, rest) = text.split_once(begin).expect("a mark for the table");
    let (table, after) = rest.split_once(end).expect("the end of the table");
    if std::env::var_os("BONESMITH_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, format!("{before}{begin}{}{end}{after}", markdown_table())).unwrap();
        return;
    }
    assert_eq!(table, markdown_table(), "BONESMITH_BLESS=1 cargo test -p bonesmith-io --test models formats writes it");
}
