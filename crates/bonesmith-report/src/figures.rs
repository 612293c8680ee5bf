//! Figures and parameters in plain words. The measures are those of `bonesmith_core::metrics`.

use bonesmith_core::ModelRef;
use bonesmith_core::metrics::{CONTACT_FRAMES, Metrics};
use serde_json::Value;

use crate::document::{Figure, Param, ShapeRow};
use crate::subject;

/// About four significant digits, without exponents for ordinary sizes.
pub fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if !(1e-4..1e6).contains(&v) => format!("{value:.3e}"),
        v => {
            let decimals = (3 - v.log10().floor() as i32).clamp(0, 7) as usize;
            format!("{value:.decimals$}")
        }
    }
}

impl Figure {
    /// A figure with its number as text.
    pub fn new(name: &'static str, value: f64, unit: &'static str, meaning: impl Into<String>) -> Self {
        Self { name, value, text: figure(value), unit, meaning: meaning.into() }
    }
}

/// What `metrics` measured; `shapes` are the frames of a face.
pub(crate) fn of_metrics(metrics: &Metrics, shapes: &[ShapeRow]) -> Vec<Figure> {
    let (frame, vertex) = metrics.max_error_at;
    let worst = shapes.get(frame).map_or_else(|| format!("frame {frame}"), |shape| shape.name.clone());
    let (unit, one) = if shapes.is_empty() { ("frames", "frame") } else { ("shapes", "shape") };
    let radius = figure(metrics.radius_model_units);
    let mut figures = vec![
        Figure::new(
            "E_RMS",
            metrics.e_rms,
            "‰ of the radius",
            format!(
                "Root mean square error per coordinate over all vertices and {unit}, in thousandths of the radius {radius} of the \
                 smallest sphere around the rest pose; below about 2 it is hard to see."
            ),
        ),
        Figure::new(
            "max error",
            metrics.max_error,
            "‰ of the radius",
            format!(
                "The largest distance of any vertex in any {one}, in the same unit: {} model units, in {worst} at vertex {vertex}.",
                figure(metrics.max_error_model_units)
            ),
        ),
        Figure::new(
            "RMSE",
            metrics.rmse_percent,
            "% of the diagonal",
            "Root mean square distance of the vertices in percent of the diagonal of the rest pose's bounding box, the measure of the \
             skeleton papers.",
        ),
    ];
    if let Some(degrees) = metrics.normal_degrees {
        let meaning = "Mean angle between the normals of original and model, both computed from positions.";
        figures.push(Figure::new("normals", degrees, "°", meaning));
    }
    if let Some(skinned) = metrics.skinned_normals {
        let meaning = "Mean angle between the normals of the original and the stored normals of the rig, deformed by its bones as engines do: \
                       what shading shows in three.js and most games.";
        figures.push(Figure::new("shading", skinned.degrees, "°", meaning));
    }
    if let Some(tangents) = metrics.skinned_tangents {
        let meaning = "The same for tangents, which normal maps need: those of the rest pose, deformed by the bones.";
        figures.push(Figure::new("tangents", tangents.degrees, "°", meaning));
    }
    figures.push(Figure::new(
        "99.9 %",
        metrics.p999_error,
        "‰ of the radius",
        format!("999 of 1000 distances, over all vertices and {unit}, are at most this."),
    ));
    if let Some(velocity) = metrics.velocity_error {
        let meaning = "Root mean square error of the steps from frame to frame, per coordinate: trembling and popping that single frames do not show.";
        figures.push(Figure::new("popping", velocity, "‰ of the radius per frame", meaning));
    }
    if let Some(contacts) = metrics.contacts {
        let meaning = format!(
            "Mean distance that vertices move which rest in the original for at least {CONTACT_FRAMES} frames: feet that slide, poles that wobble; at most {}.",
            figure(contacts.max_drift)
        );
        figures.push(Figure::new("drift", contacts.mean_drift, "‰ of the radius", meaning));
    }
    if let Some(sted) = metrics.sted {
        let meaning = match shapes.is_empty() {
            true => "How unevenly edges change their lengths, in space and in time: local stretching and trembling.",
            false => "How unevenly edges change their lengths: local stretching.",
        };
        figures.push(Figure::new("STED", sted.total, "", meaning));
    }
    if let Some(kg) = metrics.kg_error {
        figures.push(Figure::new(
            "KG error",
            kg,
            "%",
            format!("The error over the extent of the {unit}, as papers on compression give it."),
        ));
    }
    figures.push(Figure::new(
        "95 % of vertices",
        metrics.spread.percentiles.p95,
        "model units",
        match shapes.is_empty() {
            true => {
                "95 of 100 vertices have a root mean square error over the animation that is at most this distance."
            }
            false => "95 of 100 vertices have a root mean square error over the shapes that is at most this distance.",
        },
    ));
    figures
}

/// What a model is made of.
pub(crate) fn of_model(model: ModelRef<'_>, frames: usize, shapes: &[ShapeRow]) -> Vec<Figure> {
    let Some(rig) = model.rig() else { return Vec::new() };
    let counts = model.influence_histogram();
    let most = counts.len().saturating_sub(1);
    let total: usize = counts.iter().enumerate().map(|(k, count)| k * count).sum();
    let mean = figure(total as f64 / model.vertex_count().max(1) as f64);
    let kind = format!("{:?}", rig.kind).to_lowercase();
    let mut figures = vec![Figure::new(
        "bones",
        rig.bone_count() as f64,
        "",
        format!("Bones that carry the motion; they are {kind}."),
    )];
    if model.virtual_bone_count() > 0 {
        let meaning = "Blends of bones that are computed once per frame; vertices blend them instead of bones.";
        figures.push(Figure::new("virtual bones", model.virtual_bone_count() as f64, "", meaning));
    }
    if let ModelRef::Corrective(shaped) = model {
        let meaning = "Corrective shapes, added to the rest pose with a weight per frame before bones move it.";
        figures.push(Figure::new("shapes", shaped.shapes.len() as f64, "", meaning));
    }
    if let ModelRef::ShapeBones(face) = model {
        let meaning =
            "Numbers of bones and shapes that are stored: what the weights of the shapes are multiplied with.";
        figures.push(Figure::new("numbers", face.number_count() as f64, "", meaning));
    }
    let meaning = format!("The most that any vertex blends; {mean} on average. Four or fewer play everywhere.");
    figures.push(Figure::new("influences", most as f64, "per vertex", meaning));
    let before = 12 * model.vertex_count() * frames;
    let after: u64 = subject::storage(model, frames).iter().map(|row| row.bytes).sum();
    let meaning = match shapes.is_empty() {
        true => "The positions of all frames over the model with its motion, both as a run time holds them.",
        false => "The offsets of all vertices in all shapes over the model, both as a run time holds them.",
    };
    figures.push(Figure::new("smaller by", before as f64 / after.max(1) as f64, "times", meaning));
    // Whole numbers without decimals.
    figures.iter_mut().filter(|f| f.value.fract() == 0.0).for_each(|f| f.text = format!("{}", f.value));
    figures
}

/// What parameters mean, by the name that files store.
const PARAMS: &[(&str, &str)] = &[
    ("bones", "How many bones: a number, auto, or as many as a target error takes."),
    ("influences", "The most bones that move one vertex."),
    ("bone_kind", "What a bone may do: turn and move (rigid), scale too (trs), or any 3x4 matrix (affine)."),
    ("smooth", "How smooth weights or errors should be from vertex to vertex; 0 is off."),
    ("shading", "How much the normals counted that an engine computes from stored ones and bones; 0 is off."),
    (
        "prune",
        "Influences that change little were removed as long as the error rose by at most this fraction; 0 is off.",
    ),
    ("keep_rest", "Whether the rest pose stays as it is; otherwise its vertices move to where they fit best."),
    ("effort", "How much work was put in."),
    ("max_iterations", "The most rounds over weights and bones."),
    ("tolerance", "Rounds stop when they lower the error by less than this fraction."),
    ("max_seconds", "The fit stops after this long with what is there."),
    ("seed", "Seed of all random choices; the same seed gives the same bytes."),
    ("method", "The method: Bonesmith's own, or a published one."),
    ("detail", "How fine the skeleton is: more of it keeps more joints."),
    ("symmetry", "Whether mirror pairs of bones are looked for."),
    ("laplacian", "Weights of the mesh edges for smoothing."),
    ("refit_motion", "Whether bones moved to suit the fewer weights."),
    ("size", "How many virtual bones: a number, a cost in influences, or a target error."),
    ("master_influences", "The most bones that a virtual bone blends."),
    ("weights_only", "Whether only the weights counted, not the poses."),
    ("thorough", "Whether more rounds were spent for a few percent less error."),
    ("rotation_smooth", "How far rotations are smoothed over the surface."),
    ("translation_smooth", "How far translations are smoothed over the surface."),
    ("alpha", "How much of the volume that smoothing removes is restored, 0 to 1."),
    ("steps", "Smoothing steps."),
    ("threshold", "Multi-weights below this are dropped."),
    ("rigid_bind", "Whether each vertex was first bound to its one strongest bone."),
    ("variant", "Which variant of Direct Delta Mush: 0 is exact, 5 the cheapest."),
    ("solve", "What was solved for: weights, motion or both."),
    ("virtual_bones", "How many virtual bones."),
];

/// Parameters as rows, nested ones with dots between their names; what is not set is left out.
pub fn params(value: &Value) -> Vec<Param> {
    let mut rows = Vec::new();
    flatten("", value, &mut rows);
    rows
}

fn flatten(name: &str, value: &Value, rows: &mut Vec<Param>) {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    let text = match value {
        Value::Null => return,
        Value::Object(map) => return map.iter().for_each(|(key, value)| flatten(&below(key), value, rows)),
        Value::Array(list) if list.len() > 16 => format!("{} values", list.len()),
        Value::String(text) => text.clone(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    };
    // "bones.exact" is a kind of "bones".
    let meaning = name.rsplit('.').find_map(|part| PARAMS.iter().find(|(known, _)| *known == part));
    rows.push(Param { name: name.to_owned(), value: text, meaning: meaning.map(|(_, meaning)| *meaning) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_keep_four_digits() {
        let shown = [0.0, 0.00123456, 1.23456, 12.3456, 123.456, 12345.6, 2.5e-9].map(figure);
        assert_eq!(shown, ["0", "0.001235", "1.235", "12.35", "123.5", "12346", "2.500e-9"]);
    }

    #[test]
    fn parameters_are_rows_with_their_meaning() {
        let rows = params(&json!({ "bones": { "exact": 24 }, "influences": null, "keep_rest": false, "odd": [1, 2] }));
        let shown: Vec<(&str, &str)> = rows.iter().map(|row| (row.name.as_str(), row.value.as_str())).collect();
        assert_eq!(shown, [("bones.exact", "24"), ("keep_rest", "no"), ("odd", "[1,2]")]);
        assert!(rows[0].meaning.unwrap().starts_with("How many bones") && rows[2].meaning.is_none());
    }

    #[test]
    fn every_parameter_of_a_fit_is_explained() {
        let unset = ["max_iterations", "tolerance", "max_seconds"];
        let rows = params(&json!(bonesmith_core::fit::FitParams::default()));
        assert!(rows.len() > 6 && rows.iter().all(|row| row.meaning.is_some()), "{rows:?}");
        assert!(unset.iter().all(|name| PARAMS.iter().any(|(known, _)| known == name)));
    }
}
