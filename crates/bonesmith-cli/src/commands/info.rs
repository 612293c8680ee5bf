//! `bonesmith info`: what a file holds.

use bonesmith::targets::{Finding, Severity};
use bonesmith::{BasisInfo, DdmInfo, EngineInfo, Info, LayerInfo, RigInfo, Times};
use serde_json::json;

use crate::args::InfoArgs;
use crate::errors::Outcome;
use crate::output::{Table, count, figure, print, write_json};
use crate::session::Session;
use crate::settings::{self, JsonTarget};

pub fn run(args: InfoArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let mut input = settings::input(args.inputs, Default::default())?;
    (input.fps, input.mesh) = (settings::fps(args.fps)?, args.mesh);
    let json_target = settings::json(args.json)?;
    session.claim(&input.files(), &[], json_target.as_ref(), None)?;
    session.read_in_blocks();
    let info = session.take(input.info()?);
    session.check_outputs()?;
    session.finish_progress();
    if let Some(target) = &json_target {
        write_json(target, &session.with_losses(json!(info)))?;
    }
    if json_target != Some(JsonTarget::Stdout) {
        print(&table(&info))?;
    }
    Ok(Outcome::Done)
}

fn table(info: &Info) -> String {
    let mut table = Table::new(format!("{}: {} ({})", info.name, info.holds, info.format));
    let parts = match info.components {
        1 => "in one piece".to_owned(),
        n => format!("in {n} pieces"),
    };
    table.row("vertices", format!("{}, {parts}", info.vertices));
    if info.isolated_vertices > 0 {
        table.row("", format!("{} in no face", info.isolated_vertices));
    }
    let corners = [(info.triangles, "triangle"), (info.quads, "quad"), (info.polygons, "polygon")];
    let corners: Vec<String> = corners.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n, what)).collect();
    table.row(
        "faces",
        format!("{} ({})", info.faces, if corners.is_empty() { "a point cloud".into() } else { corners.join(", ") }),
    );
    let point = |p: [f32; 3]| p.map(|x| figure(f64::from(x))).join(" ");
    table.row("bounds", format!("{}  to  {}", point(info.bounds.min), point(info.bounds.max)));
    table.row("radius", figure(info.sphere_radius));
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    if let Some(text) = space_text(&info.space) {
        table.row("space", text);
    }
    if info.meshes.len() > 1 {
        let meshes = info.meshes.iter().map(|mesh| format!("{} ({})", mesh.name, mesh.vertices));
        table.row("meshes", meshes.collect::<Vec<_>>().join(", "));
        for mesh in info.meshes.iter().filter(|mesh| !mesh.parents.is_empty() || !mesh.materials.is_empty()) {
            let path: Vec<&str> = mesh.parents.iter().chain([&mesh.name]).map(String::as_str).collect();
            let materials =
                if mesh.materials.is_empty() { "no material".to_owned() } else { mesh.materials.join(", ") };
            table.row("", format!("{}: {materials}", path.join(" / ")));
        }
    }
    table.row("UV sets", list(&info.uv_sets));
    table.row("materials", list(&info.materials));
    match &info.rig {
        Some(rig) => rig_rows(rig, &mut table),
        None => table.row("frames", frames_text(info.frames, info.times.as_ref())),
    }
    for clip in &info.clips {
        table.row("clip", format!("{}: {}", clip.name, frames_text(clip.frames, clip.times.as_ref())));
    }
    if let Some(BasisInfo { clusters, columns, bytes, .. }) = &info.basis {
        let (clusters, columns) = (count(*clusters, "cluster"), count(*columns, "column"));
        table.row("basis", format!("{clusters} of {columns}, {}", crate::output::bytes(*bytes as u64)));
    }
    for (at, EngineInfo { name, findings, .. }) in info.engines.iter().enumerate() {
        let word = |finding: &Finding| if finding.severity == Severity::Limit { "limit" } else { "advice" };
        let objection = |finding: &Finding| format!("{}: {} ({})", finding.limit, finding.value, word(finding));
        let text = match findings.is_empty() {
            true => "nothing to object to".to_owned(),
            false => findings.iter().map(objection).collect::<Vec<_>>().join("; "),
        };
        table.row(if at == 0 { "engines" } else { "" }, format!("{name}: {text}"));
    }
    table.to_string()
}

fn rig_rows(rig: &RigInfo, table: &mut Table) {
    let kind = format!("{:?}", rig.bone_kind).to_lowercase();
    let unused = match rig.unused_bones {
        0 => String::new(),
        n => format!(", {n} move nothing"),
    };
    table.row("bones", format!("{} {kind}, {}{unused}", rig.bones, count(rig.roots, "root")));
    if let Some(LayerInfo { virtual_bones, master_influences, blends_per_vertex, .. }) = &rig.layers {
        let cost = figure(*blends_per_vertex);
        let text = format!("{virtual_bones} of at most {master_influences} bones, {cost} blends per vertex");
        table.row("virtual bones", text);
    }
    if let Some(DdmInfo { variant, multi_weights, numbers, virtual_bones, bytes, .. }) = &rig.ddm {
        let size = crate::output::bytes(*bytes as u64);
        let text = match virtual_bones {
            0 => format!("variant {variant}, {multi_weights} multi-weights of {numbers} numbers, {size}"),
            count => format!("compressed, {count} virtual bones, {multi_weights} multi-weights, {size}"),
        };
        table.row("Delta Mush", text);
    }
    if !rig.shapes.is_empty() {
        table.row("shapes", rig.shapes.join(", "));
    }
    let pairs = rig.influence_histogram.iter().enumerate().filter(|(_, n)| **n > 0);
    table.row("influences", pairs.map(|(k, n)| format!("{k}: {n}")).collect::<Vec<_>>().join("  "));
    for clip in &rig.clips {
        table.row("animation", format!("{}: {}", clip.name, frames_text(clip.frames, clip.times.as_ref())));
    }
}

/// "y up, 1 unit = 0.01 m"; `None` where the file states nothing.
fn space_text(space: &bonesmith::core::Space) -> Option<String> {
    let up = space.up.map(|up| match up {
        bonesmith::core::UpAxis::Y => "y up".to_owned(),
        bonesmith::core::UpAxis::Z => "z up".to_owned(),
    });
    let unit = space.metres_per_unit.map(|metres| format!("1 unit = {} m", figure(metres)));
    let parts: Vec<String> = up.into_iter().chain(unit).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn frames_text(frames: usize, times: Option<&Times>) -> String {
    let mut text = count(frames, "frame");
    if let Some(Times { start, end, fps, .. }) = times {
        text += &format!(", {} to {} s", figure(*start), figure(*end));
        if let Some(fps) = fps {
            text += &format!(", {} per second", figure(*fps));
        }
    }
    text
}
