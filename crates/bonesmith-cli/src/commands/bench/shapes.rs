//! `bonesmith bench shapes`: error, time and memory of bones driven by shapes against the count of numbers.

use bonesmith::core::model::ModelRef;
use bonesmith::core::shapes::Numbers;
use bonesmith::core::{ShapeBones, deform};
use bonesmith::{Face, Model, ShapesOptions};
use serde_json::json;

use super::report::show;
use crate::args::BenchShapesArgs;
use crate::errors::Outcome;
use crate::output::{bytes, write_json};
use crate::session::Session;
use crate::settings;
use crate::sheet::Sheet;

/// Root mean square and largest distance.
struct Errors {
    mean_absolute: f64,
    rms: f64,
    most: f64,
}

impl Errors {
    fn new(model: &ShapeBones, face: &Face) -> Self {
        let (mut sum, mut squares, mut most) = (0.0, 0.0, 0f64);
        for s in 0..face.shapes.frame_count() {
            let posed = deform::posed(ModelRef::Rig(&model.rig), 0, s);
            for (a, b) in posed.iter().zip(face.shapes.frame(s).iter()) {
                let off = a.as_dvec3() - b.as_dvec3();
                sum += off.abs().element_sum();
                squares += off.length_squared();
                most = most.max(off.length());
            }
        }
        let count = (face.shapes.frame_count() * face.shapes.vertex_count()) as f64;
        Self { mean_absolute: sum / count / 3.0, rms: (squares / count).sqrt(), most }
    }
}

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
    let mut sheet = Sheet::new(
        format!(
            "{}: {} shapes, {} vertices, {} bones, 8 influences. Errors in model units. Thresholding: the largest numbers of the fit with all of them, as many as the same RMS distance takes.",
            face.shapes.name(),
            face.names.len(),
            face.shapes.vertex_count(),
            dense.rig.bone_count()
        ),
        &["numbers", "mean absolute", "RMS distance", "maximum", "s", "thresholding keeps", "numbers in memory"],
    );
    let mut rows = Vec::new();
    let mut row = |model: &ShapeBones, secs: f64, thresholded: Option<usize>| {
        let Errors { mean_absolute, rms, most } = Errors::new(model, &face);
        let count = model.number_count();
        sheet.row(vec![
            count.to_string(),
            format!("{mean_absolute:.5}"),
            format!("{rms:.5}"),
            format!("{most:.4}"),
            format!("{secs:.1}"),
            thresholded.map_or(String::new(), |count| count.to_string()),
            bytes(model.number_bytes() as u64),
        ]);
        rows.push(
            json!({ "numbers": count, "mean_absolute_error": mean_absolute, "rms_distance": rms, "max_distance": most,
            "seconds": secs, "thresholding": thresholded }),
        );
    };
    for count in args.numbers {
        session.check_cancelled()?;
        let (model, secs) = fit(Numbers::Count(count), session)?;
        let same = thresholding(&dense, &face, Errors::new(&model, &face).rms);
        row(&model, secs, Some(same));
    }
    row(&dense, dense_secs, None);
    if let Some(target) = &json_target {
        write_json(target, &json!({ "version": env!("CARGO_PKG_VERSION"), "rows": rows }))?;
    }
    show(vec![sheet], json_target.as_ref(), session)?;
    Ok(Outcome::Done)
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
        if Errors::new(&kept, face).rms <= rms {
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
