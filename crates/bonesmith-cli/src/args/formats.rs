//! Help texts that list formats, from the table of formats.

use bonesmith::ModelKind;
use bonesmith::io::Format;
use bonesmith::options::COMPACT;

/// "The rig: .glb .gltf ..."
pub fn rig_input() -> String {
    format!("The rig: {}", rigs_read())
}

/// A rig, or a cage.
pub fn rig_or_cage() -> String {
    format!("The rig: {}, or a cage as .npz with `weights` and `controls`", rigs_read())
}

/// Of `--rig`.
pub fn existing_rig() -> String {
    format!("Start from this rig ({}): its bones, names, tree, bind pose and rest pose stay", rigs_read())
}

/// Of `-o` where a rig is written.
pub fn rig_output() -> String {
    let endings = Format::ending_list(&Format::writing(ModelKind::Rig));
    format!("The rig to write; the extension chooses the format: {endings}")
}

/// Of `shapes -o`.
pub fn shapes_output() -> String {
    let list = |kind| Format::ending_list(&Format::writing(kind));
    let (own, rigs) = (list(ModelKind::ShapeBones), list(ModelKind::Rig));
    format!(
        "The file to write; the extension chooses the format: {own}; {rigs} hold the rig with each shape as a frame"
    )
}

/// Of `ddm -o`.
pub fn ddm_output() -> String {
    let list = |kind| Format::ending_list(&Format::writing(kind));
    let (own, baked, frames) = (list(ModelKind::Ddm), list(ModelKind::Rig), list(ModelKind::Sequence));
    format!(
        "The file to write; the extension chooses the format: {own}; with --compress and --shape baked {baked}; with --delta-mush {frames}"
    )
}

/// Of `--pieces`.
pub fn pieces() -> String {
    let endings = Format::ending_list(&Format::writing_nodes());
    format!(
        "How rigid pieces are written: bones of a skin, or nodes with a mesh each, and a skin for soft parts only ({endings})"
    )
}

/// Of `--max-joints`.
pub fn max_joints() -> String {
    let endings = Format::ending_list(&Format::writing_skins());
    format!(
        "Joints of a skin, at most: a rig with more bones is written as several skins, with a mesh each ({endings})"
    )
}

/// Of `--compact`, whose words are the options of [`COMPACT`].
pub fn compact() -> String {
    let mut text =
        "Write a small file (.glb, .gltf, USD, .fbx): fewer keys, rounded numbers; glTF: quantised arrays, EXT_meshopt_compression.".to_owned();
    for option in COMPACT {
        let word = if option.name == "error" { "E" } else { option.name };
        let default = option.default_text().map_or(String::new(), |default| format!(" [default: {default}]"));
        text += &format!(" {word}: {}{default}.", option.help);
    }
    text + " Several: --compact=plain,0.05"
}

/// Of `--eigenskin`.
pub fn eigenskin() -> String {
    let endings = Format::ending_list(&Format::writing(ModelKind::Corrective));
    format!(
        "Add R shapes that correct the residual of the bones (EigenSkin), 1 to 256: animated morph targets ({endings})"
    )
}

fn rigs_read() -> String {
    Format::ending_list(&Format::reading(ModelKind::Rig))
}
