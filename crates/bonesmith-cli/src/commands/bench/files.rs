//! `bonesmith bench files`: how fast animations are read, from a file that the system has in memory already.

use std::time::Instant;

use bonesmith_io::LoadOptions;
use serde_json::json;

use super::report::show;
use crate::args::BenchFilesArgs;
use crate::errors::Outcome;
use crate::output::write_json;
use crate::session::Session;
use crate::settings;
use crate::sheet::Sheet;
use bonesmith::MeshSequence;

/// One file.
struct Row {
    name: String,
    megabytes: f64,
    frames: usize,
    vertices: usize,
    secs: f64,
}

pub fn run(args: BenchFilesArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json = settings::json(args.json)?;
    let input = settings::input(args.files, Default::default())?;
    let mut rows = Vec::new();
    for path in &input.paths {
        session.check_cancelled()?;
        let mut row = Row {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            megabytes: std::fs::metadata(path).map_or(0.0, |m| m.len() as f64 / 1e6),
            frames: 0,
            vertices: 0,
            secs: f64::INFINITY,
        };
        // One more than asked for: the first brings the file into memory.
        for _ in 0..=args.repeats.max(1) {
            let started = Instant::now();
            let raw = bonesmith_io::load_sequence(std::slice::from_ref(path), &LoadOptions::default())?;
            let sequence = MeshSequence::try_from(raw)?;
            row.secs = row.secs.min(started.elapsed().as_secs_f64());
            (row.frames, row.vertices) = (sequence.frame_count(), sequence.vertex_count());
        }
        rows.push(row);
    }
    if let Some(target) = &json {
        let row = |row: &Row| {
            json!({
                "file": row.name, "megabytes": row.megabytes, "frames": row.frames, "vertices": row.vertices,
                "seconds": row.secs, "megabytes_per_second": row.megabytes / row.secs,
            })
        };
        write_json(target, &json!({ "files": rows.iter().map(row).collect::<Vec<_>>() }))?;
    }
    show(vec![sheet(&rows)], json.as_ref(), session)?;
    Ok(Outcome::Done)
}

fn sheet(rows: &[Row]) -> Sheet {
    let mut sheet = Sheet::new("", &["file", "MB", "frames", "vertices", "ms", "MB/s"]);
    for Row { name, megabytes, frames, vertices, secs } in rows {
        let (ms, rate) = (secs * 1e3, megabytes / secs);
        let numbers = [
            format!("{megabytes:.2}"),
            frames.to_string(),
            vertices.to_string(),
            format!("{ms:.1}"),
            format!("{rate:.0}"),
        ];
        sheet.row(std::iter::once(name.clone()).chain(numbers).collect());
    }
    sheet
}
