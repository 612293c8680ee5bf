//! Bones driven by the shapes of a face.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bonesmith_core::fit::{BoneCount, FitInfo};
use bonesmith_core::metrics::Metrics;
use bonesmith_core::model::shape_bones::{Driver, ShapeKind};
use bonesmith_core::shapes::{self, Numbers, ShapesParams};
use bonesmith_core::{MeshSequence, Model, ModelRef, Observer, ShapeBones, Stage};
use bonesmith_io::{Between, IoError, RawFace};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::distance::Distance;
use crate::error::Error;
use crate::fit::TARGET_SLACK;
use crate::input::Input;
use crate::mask::VertexMask;
use crate::memory::Memory;
use crate::saved::{Layout, Saved};
use crate::summary::{FitPart, Summary};
use crate::warning::{Noted, Warning};

/// A neutral and shapes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Face {
    /// The rest pose is the neutral, frame `s` the neutral with shape `s` at weight 1.
    pub shapes: MeshSequence,
    /// [S] names of the shapes.
    pub names: Vec<String>,
    /// In-betweens of the file: shapes that follow others.
    pub drivers: Vec<DriverRule>,
}

impl Face {
    /// Shapes as frames, and their names.
    pub fn new(shapes: MeshSequence, names: Vec<String>) -> Self {
        Self { shapes, names, drivers: Vec::new() }
    }
}

impl Input {
    /// Reads a face: morph targets, blend shapes, an npz with `shapes`, or meshes with a neutral.
    pub fn face(&self) -> Result<Noted<Face>, Error> {
        Noted::collect(|| {
            let RawFace { shapes, betweens } = bonesmith_io::load_face(&self.paths, &self.load_options())?;
            let raw = self.pick(shapes)?;
            let names: Vec<String> = raw.frames.iter().map(|frame| frame.label.clone()).collect();
            // Frames that were not picked drive nothing.
            let is_there = |between: &Between| names.contains(&between.shape) && names.contains(&between.of);
            let drivers = betweens.into_iter().filter(is_there).map(DriverRule::from).collect();
            let path = || self.paths.first().cloned().unwrap_or_default();
            let shapes = MeshSequence::try_from(raw).map_err(|source| IoError::Sequence { path: path(), source })?;
            Ok(Face { shapes, names, drivers })
        })
    }

    /// Reads what a model is measured against: an animation, or the shapes of a face for the first clip of bones that shapes drive.
    pub fn reference(&self, model: ModelRef<'_>, clip: Option<&str>) -> Result<Noted<MeshSequence>, Error> {
        match model {
            ModelRef::ShapeBones(_) if clip.is_none() => {
                let Noted { value, warnings } = self.face()?;
                Ok(Noted { value: value.shapes, warnings })
            }
            _ => self.animation(),
        }
    }
}

/// How bones are fitted to shapes. `Default` is the same as that of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ShapesOptions {
    /// Bones, influences, numbers.
    pub params: ShapesParams,
    /// A length that vertices may be off by in the root mean square: takes the place of [`ShapesParams::numbers`].
    pub target_distance: Option<Distance>,
    /// How much each vertex counts: takes the place of [`ShapesParams::importance`].
    pub importance: VertexMask,
    /// Shapes whose weights follow from others, by name.
    pub drivers: Vec<DriverRule>,
}

/// A shape whose weight follows from others: a combination (corrective) or an in-between.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DriverRule {
    /// The shape.
    pub shape: String,
    /// A combination: the shapes whose weights are multiplied.
    #[serde(default)]
    pub product: Vec<String>,
    /// An in-between: the shape whose weight it follows.
    #[serde(default)]
    pub between: Option<String>,
    /// Weights of that shape where an in-between begins, is 1, and ends.
    #[serde(default)]
    pub range: Option<[f32; 3]>,
}

impl From<Between> for DriverRule {
    fn from(between: Between) -> Self {
        Self { shape: between.shape, product: Vec::new(), between: Some(between.of), range: Some(between.range) }
    }
}

impl DriverRule {
    /// Rules of a file: a JSON list of `{"shape": NAME, "product": [NAMES]}` or `{"shape": NAME, "between": NAME, "range": [FROM, PEAK, TO]}`.
    pub fn read(path: &Path) -> Result<Vec<Self>, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::unsupported(format!("{}: {error}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| Error::unsupported(format!("{}: a list of rules is expected: {error}", path.display())))
    }

    /// The rule with shapes by number.
    fn resolved(&self, numbers: &HashMap<&str, usize>) -> Result<(usize, Driver), Error> {
        let own = &self.shape;
        let find = |name: &String| {
            let found = numbers.get(name.as_str()).copied();
            found.ok_or_else(|| Error::unsupported(format!("drivers: {own:?}: there is no shape {name:?}")))
        };
        let driver = match (self.product.as_slice(), &self.between, self.range) {
            ([_, ..], None, None) => Driver::Product { of: self.product.iter().map(find).collect::<Result<_, _>>()? },
            ([], Some(of), range) => {
                let [from, peak, to] = range.unwrap_or([0.0, 0.5, 1.0]);
                Driver::Between { of: find(of)?, from, peak, to }
            }
            _ => {
                let what = format!("drivers: {own:?} needs either `product`, or `between` and `range`");
                return Err(Error::unsupported(what));
            }
        };
        Ok((find(own)?, driver))
    }
}

/// Bones driven by shapes, and the record of the fit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShapesFit {
    /// A [`Model::ShapeBones`], with the options stored in it.
    pub model: Model,
    /// The record.
    pub info: FitInfo,
    /// The options.
    pub options: ShapesOptions,
    /// Seconds of all of it.
    pub wall_secs: f64,
    /// Memory of the process after the fit.
    pub memory: Option<Memory>,
}

/// Fits bones to the shapes of a face, as the options say.
pub fn shapes(face: &Face, options: &ShapesOptions, observer: &mut dyn Observer) -> Result<ShapesFit, Error> {
    options.params.validate()?;
    let started = Instant::now();
    Error::unless_cancelled(observer, Stage::Prepare)?;
    let mut options = options.clone();
    if let Some(distance) = options.target_distance
        && let BoneCount::TargetError(target) = distance.target(&face.shapes)
    {
        options.params.numbers = Numbers::TargetError(target);
    }
    let (surface, vertices) = (face.shapes.surface(), face.shapes.vertex_count());
    let mut params = options.params.clone();
    if let Some(values) = options.importance.values("importance", surface, vertices)? {
        params.importance = Some(Arc::new(values));
    }
    let numbers = face.names.iter().enumerate().map(|(s, name)| (name.as_str(), s)).collect();
    // Rules that are given come after those of the file, and replace them.
    let rules = face.drivers.iter().chain(&options.drivers);
    let drivers: Vec<_> = rules.map(|rule| rule.resolved(&numbers)).collect::<Result<_, _>>()?;
    let fitted = shapes::fit(&face.shapes, &face.names, &params, observer)?;
    let mut model = fitted.model;
    for (s, driver) in drivers {
        model.shapes[s].driver = driver;
    }
    model.check().map_err(|error| Error::unsupported(format!("drivers: {error}")))?;
    model.rig.params_json = json!({ "version": crate::VERSION, "shapes": options.params }).to_string();
    let (wall_secs, memory) = (started.elapsed().as_secs_f64(), Memory::so_far());
    Ok(ShapesFit { model: model.into(), info: fitted.info, options, wall_secs, memory })
}

impl ShapesFit {
    /// Writes the model and reads the file back; the extension chooses the format. Formats without bones driven by shapes hold the rig, with
    /// a clip of all shapes.
    pub fn save(&self, path: impl AsRef<Path>, observer: &mut dyn Observer) -> Result<Saved, Error> {
        let path = path.as_ref();
        let Noted { value, warnings } = crate::convert::simplified_for(self.model.clone(), path);
        let mut saved = Saved::write(&value, path, Layout::Skin, observer)?;
        saved.warnings.extend(warnings);
        Ok(saved)
    }

    /// Measures the file against the shapes.
    pub fn summary(&self, saved: &Saved, face: &Face) -> Result<Summary, Error> {
        let started = Instant::now();
        let mut summary = Summary::of_shapes(saved.model.view(), face.names.clone(), &face.shapes)?;
        summary.command = "shapes";
        summary.against = "the shapes";
        // A format without bones driven by shapes holds their rig: the numbers are those of the fit.
        let holder = if matches!(saved.model, Model::ShapeBones(_)) { &saved.model } else { &self.model };
        if let Model::ShapeBones(model) = holder {
            summary.shape_bones = Some(ShapeBonesPart::new(model, &face.shapes, summary.metrics.as_ref()));
        }
        let seconds = &mut summary.seconds;
        (seconds.prepare, seconds.fit) = (self.info.prepare_secs, self.info.fit_secs);
        (seconds.export, seconds.total) = (saved.export_secs, self.wall_secs + saved.export_secs);
        seconds.evaluate = saved.read_secs + started.elapsed().as_secs_f64();
        summary.warnings = self.warnings(&summary);
        summary.warnings.extend(saved.warnings.iter().cloned());
        summary.fit = Some(FitPart {
            params: json!(self.options.params),
            method: "bonesmith",
            info: self.info.clone(),
            skeleton: None,
            memory: self.memory,
        });
        summary.set_output(saved);
        Ok(summary)
    }

    /// What counts is the file.
    fn warnings(&self, summary: &Summary) -> Vec<Warning> {
        use bonesmith_core::fit::Warning as Fit;
        let mut warnings = self.info.warnings.clone();
        if let Numbers::TargetError(target) = self.options.params.numbers {
            let (reached, bones) = (summary.e_rms().unwrap_or(0.0), summary.bones);
            warnings.retain(|warning| !matches!(warning, Fit::TargetMissed { .. }));
            if reached > target * (1.0 + TARGET_SLACK) {
                warnings.push(Fit::TargetMissed { target, reached, bones });
            }
        }
        warnings.into_iter().map(Warning::from).collect()
    }
}

/// The figures of one shape. Errors are in model units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapeFigures {
    /// Its name.
    pub name: String,
    /// Numbers that it stores.
    pub numbers: usize,
    /// Root mean square distance of a vertex.
    pub rms_distance: f64,
    /// Largest distance of a vertex.
    pub max_distance: f64,
    /// Mean angle of the normals as engines compute them; `None` without faces.
    pub shading_degrees: Option<f64>,
}

/// The figures of bones driven by shapes. Errors are in model units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapeBonesPart {
    /// S.
    pub shapes: usize,
    /// Stored numbers.
    pub numbers: usize,
    /// Numbers if all were stored.
    pub all_numbers: usize,
    /// What a shape may store for a bone.
    pub kind: ShapeKind,
    /// Mean absolute error of a coordinate.
    pub mean_absolute_error: f64,
    /// Root mean square distance of a vertex.
    pub rms_distance: f64,
    /// Largest distance of a vertex.
    pub max_distance: f64,
    /// Weights and numbers at run time.
    pub bytes: usize,
    /// Offsets of all vertices in all shapes as float32.
    pub dense_bytes: usize,
    /// Offsets of those vertices that a shape moves, each with a 32-bit index.
    pub sparse_bytes: usize,
    /// Each shape.
    pub per_shape: Vec<ShapeFigures>,
}

impl ShapeBonesPart {
    /// Of a model against the shapes; angles are those that were measured.
    pub fn new(model: &ShapeBones, shapes: &MeshSequence, metrics: Option<&Metrics>) -> Self {
        let (mut sum, mut squares, mut largest, mut moved) = (0.0, 0.0, 0f64, 0usize);
        let shading = metrics.map_or(&[][..], |metrics| &metrics.shading_per_frame);
        let mut per_shape = Vec::with_capacity(shapes.frame_count());
        for s in 0..shapes.frame_count() {
            let posed = bonesmith_core::deform::posed((&model.rig).into(), 0, s);
            let (mut own_squares, mut own_largest) = (0.0, 0f64);
            for ((posed, shape), rest) in posed.iter().zip(shapes.frame(s).iter()).zip(shapes.rest()) {
                let off = posed.as_dvec3() - shape.as_dvec3();
                sum += off.abs().element_sum();
                own_squares += off.length_squared();
                own_largest = own_largest.max(off.length());
                moved += usize::from(shape != rest);
            }
            squares += own_squares;
            largest = largest.max(own_largest);
            per_shape.push(ShapeFigures {
                name: model.shapes.get(s).map(|shape| shape.name.clone()).unwrap_or_default(),
                numbers: model.shapes.get(s).map_or(0, |shape| shape.numbers.len()),
                rms_distance: (own_squares / shapes.vertex_count() as f64).sqrt(),
                max_distance: own_largest,
                shading_degrees: shading.get(s).copied(),
            });
        }
        let positions = (shapes.frame_count() * shapes.vertex_count()) as f64;
        let all = |numbers: usize| numbers * model.rig.bone_count() * model.shapes.len();
        let weights = 6 * shapes.vertex_count() * model.rig.weights.max_influences();
        Self {
            shapes: model.shapes.len(),
            numbers: model.number_count(),
            all_numbers: all(model.kind.numbers()),
            kind: model.kind,
            mean_absolute_error: sum / positions / 3.0,
            rms_distance: (squares / positions).sqrt(),
            max_distance: largest,
            bytes: weights + model.number_bytes(),
            dense_bytes: 12 * shapes.frame_count() * shapes.vertex_count(),
            sparse_bytes: 16 * moved,
            per_shape,
        }
    }
}
