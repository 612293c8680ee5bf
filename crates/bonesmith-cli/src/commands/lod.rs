//! `bonesmith lod`: levels of detail.

use std::path::PathBuf;

use bonesmith::core::lod::LodParams;
use bonesmith::io::{Format, LoadOptions, Needs};
use bonesmith::{Levels, MeshSequence, ModelKind};
use bonesmith_core::Stage;
use serde_json::json;

use super::simplify;
use crate::args::LodArgs;
use crate::errors::{Outcome, Usage};
use crate::output::{Table, bytes, figure, print, write_json};
use crate::session::Session;
use crate::settings::{self, JsonTarget};

pub fn run(args: LodArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let params = LodParams::new(&args.bones, &args.influences, args.refit_motion);
    params.validate().map_err(bonesmith::Error::from)?;
    let most = params.levels.iter().map(|(_, k)| *k).max();
    let output = settings::output(args.output, Needs::of(ModelKind::Rig).influences(most))?;
    let json_target = settings::json(args.json)?;
    let examples = settings::input(args.examples, args.input)?;
    let meshes = settings::input(args.mesh_lod.clone(), Default::default())?;
    if args.mesh_lod.len() >= params.levels.len() {
        let message = format!("--mesh-lod has {} meshes for {} levels", args.mesh_lod.len(), params.levels.len());
        return Err(Usage::new(message).hint("the first level has the mesh of the rig").into());
    }
    let one_file = !args.separate && matches!(Format::from_extension(&output), Some(Format::Glb | Format::Gltf));
    let files = match one_file {
        true => vec![output.clone()],
        false => Levels::file_names(&output, params.levels.len()),
    };
    let inputs: Vec<PathBuf> = examples.files().into_iter().chain(meshes.files()).chain([args.rig.clone()]).collect();
    session.claim(&inputs, &files, json_target.as_ref(), None)?;

    let (source, load_secs) = simplify::read(args.rig, &examples, false, session)?;
    let mesh = |path: &PathBuf| -> anyhow::Result<MeshSequence> {
        let raw = bonesmith::io::load_sequence(std::slice::from_ref(path), &LoadOptions::default())?;
        Ok(MeshSequence::try_from(raw).map_err(bonesmith::Error::from)?)
    };
    let meshes: Vec<MeshSequence> = args.mesh_lod.iter().map(mesh).collect::<anyhow::Result<_>>()?;
    let mut levels = bonesmith::lod(&source, &params, &meshes, session)?;
    session.stage(Stage::Writing)?;
    let warnings = match one_file {
        true => levels.save(&output, session)?,
        false => levels.save_each(&output, &source, session)?,
    };
    session.finish_progress();
    warnings.iter().for_each(|warning| session.warn_of(warning));
    let size: u64 = files.iter().map(|file| bonesmith::io::file_bytes(file)).sum();
    if let Some(target) = &json_target {
        let value = json!({
            "version": bonesmith::VERSION,
            "command": "lod",
            "name": source.rig.name,
            "against": if source.examples.is_some() { "examples" } else { "the rig that was given" },
            "levels": levels.parts,
            "files": files,
            "file_bytes": size,
            "params": params,
            "seconds": { "load": load_secs, "fit": levels.wall_secs },
            "warnings": warnings.iter().map(|warning| warning.to_json()).collect::<Vec<_>>(),
        });
        write_json(target, &session.with_losses(value))?;
    }
    if json_target != Some(JsonTarget::Stdout) && !session.quiet {
        print(&table(&source.rig.name, &levels, &files, size))?;
    }
    Ok(Outcome::Done)
}

fn table(name: &str, levels: &Levels, files: &[PathBuf], size: u64) -> String {
    let mut table = Table::new(format!("{name}: {} levels", levels.parts.len()));
    for (at, part) in levels.parts.iter().enumerate() {
        let e_rms = part.file_e_rms.unwrap_or(part.e_rms);
        let beside = part.ratio().map(|ratio| format!(", {ratio:.2} x that of a fit of this size"));
        let what = format!(
            "{} bones, at most {} per vertex, {} vertices; E_RMS {}{}",
            part.bones,
            part.influences,
            part.vertices,
            figure(e_rms),
            beside.unwrap_or_default()
        );
        table.row("level", format!("{at}: {what}"));
    }
    table.row("seconds", format!("{:.2}", levels.wall_secs));
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    table.row("written", format!("{}, {}", names.join(", "), bytes(size)));
    table.to_string()
}
