//! `bonesmith bench shapes`: error, time and memory of bones driven by shapes against the count of numbers.

use bonesmith::core::model::ModelRef;
use bonesmith::core::shapes::Numbers;
use bonesmith::core::{ShapeBones, deform};
use bonesmith::{Face, Model, ShapeBonesPart, ShapesOptions};
use serde_json::json;

use super::report::show;
use crate::args::BenchShapesArgs;
use crate::errors::Outcome;
use crate::output::{bytes, write_json};
use crate::session::Session;
use crate::settings;
use crate::sheet::Sheet;

pub fn run(args: BenchShapesArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json_target = settings::json(args.json)?;
    let input = settings::input(vec![args.face], Default::default())?;
    let face = session.take(input.face()?);
    let fit = |numbers: Numbers, session: &mut Session| -> anyhow::Result<(ShapeBones, f64)> {
        let mut options = ShapesOptions::default();
        options.params.numbers = numbers;
        let fit = bonesmith::shapes(&face, &options, session)?;
        match fit.model {
            Model::ShapeBones(model) => Ok((model, fit.wall_secs)),
            _ => Err(anyhow::anyhow!("a fit to shapes without numbers")),
        }
    };
    let (dense, dense_secs) = fit(Numbers::All, session)?;
    let errors = |model: &ShapeBones| ShapeBonesPart::new(model, &face.shapes, None);
    let mut sheet = Sheet::new(
        format!(
            "{}: {} shapes, {} vertices, {} bones, 8 influences. Errors in model units. Thresholding: the largest numbers of the fit with all of them, as many as the same RMS distance takes.",
            face.shapes.name(),
            face.names.len(),
            face.shapes.vertex_count(),
            dense.rig.bone_count()
        ),
        &[
            "numbers",
            "mean absolute",
            "RMS distance",
            "maximum",
            "s",
            "thresholding keeps",
            "times as many",
            "numbers in memory",
        ],
    );
    let mut memory = Sheet::new(
        "Memory at run time: weights with 16-bit places and float32, numbers with 16-bit places and float32.",
        &["stored", "bytes", "of the offsets"],
    );
    let mut rows = Vec::new();
    let mut row = |model: &ShapeBones, part: &ShapeBonesPart, secs: f64, thresholded: Option<usize>| {
        let count = part.numbers;
        let text = |value: Option<String>| value.unwrap_or_default();
        sheet.row(vec![
            count.to_string(),
            format!("{:.5}", part.mean_absolute_error),
            format!("{:.5}", part.rms_distance),
            format!("{:.4}", part.max_distance),
            format!("{secs:.1}"),
            text(thresholded.map(|kept| kept.to_string())),
            text(thresholded.map(|kept| format!("{:.2}", kept as f64 / count.max(1) as f64))),
            bytes(model.number_bytes() as u64),
        ]);
        rows.push(json!({ "numbers": count, "mean_absolute_error": part.mean_absolute_error, "rms_distance": part.rms_distance,
            "max_distance": part.max_distance, "seconds": secs, "thresholding": thresholded, "bytes": part.bytes }));
    };
    let of_dense = errors(&dense);
    let mut stored = vec![
        ("offsets of all shapes, float32".to_owned(), of_dense.dense_bytes),
        ("offsets of moved vertices, with a 32-bit index".to_owned(), of_dense.sparse_bytes),
    ];
    for count in args.numbers {
        session.check_cancelled()?;
        let (model, secs) = fit(Numbers::Count(count), session)?;
        let part = errors(&model);
        let same = thresholding(&dense, &face, part.rms_distance);
        row(&model, &part, secs, Some(same));
        stored.push((format!("bones with {} numbers", part.numbers), part.bytes));
    }
    row(&dense, &of_dense, dense_secs, None);
    stored.push((format!("bones with {} numbers", of_dense.numbers), of_dense.bytes));
    for (what, size) in stored {
        let share = 100.0 * size as f64 / of_dense.dense_bytes.max(1) as f64;
        memory.row(vec![what, bytes(size as u64), format!("{share:.1} %")]);
    }
    if let Some(target) = &json_target {
        let (dense, sparse) = (of_dense.dense_bytes, of_dense.sparse_bytes);
        write_json(
            target,
            &json!({ "version": env!("CARGO_PKG_VERSION"), "rows": rows, "dense_bytes": dense, "sparse_bytes": sparse }),
        )?;
    }
    show(vec![sheet, memory], json_target.as_ref(), session)?;
    Ok(Outcome::Done)
}

/// Root mean square distance of a model from the shapes.
fn rms_distance(model: &ShapeBones, face: &Face) -> f64 {
    let of_shape = |s: usize| {
        let posed = deform::posed(ModelRef::Rig(&model.rig), 0, s);
        posed
            .iter()
            .zip(face.shapes.frame(s).iter())
            .map(|(a, b)| a.as_dvec3().distance_squared(b.as_dvec3()))
            .sum::<f64>()
    };
    let count = (face.shapes.frame_count() * face.shapes.vertex_count()) as f64;
    ((0..face.shapes.frame_count()).map(of_shape).sum::<f64>() / count).sqrt()
}

/// How many of the largest numbers reach an RMS distance. Numbers are compared by how far they move the vertices of their bone.
fn thresholding(dense: &ShapeBones, face: &Face, rms: f64) -> usize {
    let reach = reaches(dense);
    let mut sizes: Vec<f32> = dense.shapes.iter().flat_map(|shape| &shape.numbers).map(|x| size(x, &reach)).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let (mut low, mut high) = (1, sizes.len());
    while low < high {
        let middle = low.midpoint(high);
        let least = sizes[middle - 1];
        let mut kept = dense.clone();
        kept.shapes.iter_mut().for_each(|shape| shape.numbers.retain(|x| size(x, &reach) >= least));
        kept.set_first_clip();
        if rms_distance(&kept, face) <= rms {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

fn size(x: &bonesmith::core::model::shape_bones::ShapeNumber, reach: &[f32]) -> f32 {
    x.value.abs() * if x.component < 3 { 1.0 } else { reach[usize::from(x.bone)] }
}

/// [B] root mean square distance of a bone's vertices from its place.
fn reaches(model: &ShapeBones) -> Vec<f32> {
    let mut sums = vec![(0.0f32, 0.0f32); model.rig.bone_count()];
    for (i, p) in model.rig.rest.iter().enumerate() {
        for (j, w) in model.rig.weights.of(i) {
            let place = model.rig.bones[j].world_from_bind.translation.as_vec3();
            sums[j].0 += w * w * p.distance_squared(place);
            sums[j].1 += w * w;
        }
    }
    sums.iter().map(|(sum, weight)| (sum / weight.max(1e-20)).sqrt()).collect()
}
