//! Options of fits out of values by name.

use bonesmith_core::clips::RootMotion;
use bonesmith_core::fit::{BoneCount, FitParams, Norm};
use bonesmith_core::refit::{RefitParams, Solve};
use bonesmith_core::skeleton::{Root, SkeletonParams};
use serde_json::Value;

use super::Values;
use crate::distance::Distance;
use crate::error::Error;
use crate::fit::FitOptions;
use crate::motion::MotionOptions;
use crate::refit::{Align, MAX_FRAME_OFFSET, RefitOptions};

impl FitOptions {
    /// Of the values of [`super::FIT`]. What is not given is the default of the method. Ranges are checked.
    pub fn from_values(values: &Values) -> Result<Self, Error> {
        let method = values.or("method", Default::default())?;
        let defaults = FitParams::of_method(method);
        let target = target(values)?;
        let bones = bones(values)?;
        if bones.is_some() && (target != (None, None)) {
            let what = "bones and target_error exclude each other: a target error finds the number of bones itself";
            return Err(Error::unsupported(what));
        }
        let params = FitParams {
            bones: bones.or(target.0).unwrap_or(defaults.bones),
            influences: influences(values)?.unwrap_or(defaults.influences),
            bone_kind: values.or("bone_kind", defaults.bone_kind)?,
            smooth: values.or("smooth", defaults.smooth)?,
            prune: values.or("prune", defaults.prune)?,
            keep_rest: values.or("keep_rest", defaults.keep_rest)?,
            shading: values.or("shading", defaults.shading)?,
            norm: norm(values)?.unwrap_or(defaults.norm),
            area: values.or("area", defaults.area)?,
            importance: None,
            effort: values.or("effort", defaults.effort)?,
            max_iterations: values.get("max_iterations")?.or(defaults.max_iterations),
            tolerance: values.get("tolerance")?.or(defaults.tolerance),
            max_seconds: values.get("max_seconds")?,
            seed: values.or("seed", defaults.seed)?,
            method,
            bandwidth: values.get("bandwidth")?,
        };
        let options = Self {
            params,
            skeleton: skeleton(values)?,
            eigenskin: values.get("eigenskin")?,
            target_distance: target.1,
            importance: values.mask("importance")?,
            motion: MotionOptions::from_values(values)?,
        };
        options.validate()?;
        Ok(options)
    }
}

impl Values {
    /// Whether the meshes of the file that were not picked are kept, of the values of [`super::FIT`].
    pub fn keep_others(&self) -> Result<bool, Error> {
        match self.text("others") {
            Some("keep") => Ok(true),
            None if !self.is_given("others") => Ok(false),
            _ => Err(self.refused("others")),
        }
    }
}

fn bones(values: &Values) -> Result<Option<BoneCount>, Error> {
    match values.get::<usize>("bones")? {
        Some(0) => Err(values.refused("bones")),
        bones => Ok(bones.map(BoneCount::Exact)),
    }
}

/// An E_RMS, or a length.
fn target(values: &Values) -> Result<(Option<BoneCount>, Option<Distance>), Error> {
    let Some(Value::String(length)) = values.value("target_error") else {
        return Ok((values.get("target_error")?.map(BoneCount::TargetError), None));
    };
    length.parse().map(|length| (None, Some(length))).map_err(|_| values.refused("target_error"))
}

/// `Some(None)`: no limit.
fn influences(values: &Values) -> Result<Option<Option<usize>>, Error> {
    match values.value("influences") {
        Some(Value::String(word)) if word == "all" => Ok(Some(None)),
        _ => Ok(values.get("influences")?.map(Some)),
    }
}

fn norm(values: &Values) -> Result<Option<Norm>, Error> {
    let text = match values.value("norm") {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    text.parse().map(Some).map_err(|_| values.refused("norm"))
}

fn skeleton(values: &Values) -> Result<Option<SkeletonParams>, Error> {
    if !values.or("skeleton", false)? {
        let alone = ["detail", "root", "skeleton_method", "skeleton_start", "no_symmetry"];
        return match alone.iter().find(|name| values.is_given(name)) {
            Some(name) => Err(Error::unsupported(format!("{name} is an option of a skeleton: skeleton must be true"))),
            None => Ok(None),
        };
    }
    let defaults = SkeletonParams::default();
    let root = match values.value("root") {
        None => Root::default(),
        Some(Value::String(name)) => Root::Named(name.clone()),
        Some(_) => Root::At(values.or("root", [0.0; 3])?),
    };
    Ok(Some(SkeletonParams {
        method: values.or("skeleton_method", defaults.method)?,
        detail: values.or("detail", defaults.detail)?,
        start: values.or("skeleton_start", defaults.start)?,
        root,
        symmetry: !values.or("no_symmetry", !defaults.symmetry)?,
    }))
}

impl RefitOptions {
    /// Of the values of [`super::REFIT`]. Ranges are checked.
    pub fn from_values(values: &Values) -> Result<Self, Error> {
        let defaults = RefitParams::default();
        let add_bones = values.get::<usize>("add_bones")?;
        if add_bones == Some(0) {
            return Err(values.refused("add_bones"));
        }
        let params = RefitParams {
            solve: values.or("solve", if add_bones.is_some() { Solve::Weights } else { Solve::Both })?,
            influences: values.get("influences")?,
            bone_kind: values.get("bone_kind")?,
            smooth: values.or("smooth", defaults.smooth)?,
            add_bones: add_bones.unwrap_or(0),
            max_iterations: values.get("max_iterations")?,
            tolerance: values.or("tolerance", defaults.tolerance)?,
            max_seconds: values.get("max_seconds")?,
            free_translation: values.or("free_translation", defaults.free_translation)?,
            keep_normals: values.or("keep_normals", defaults.keep_normals)?,
        };
        params.validate()?;
        let axes = values.get::<String>("input_axes")?.map(|text| text.parse()).transpose();
        let scale = values.get::<f64>("input_scale")?;
        if scale.is_some_and(|scale| !(scale > 0.0 && scale.is_finite())) {
            return Err(values.refused("input_scale"));
        }
        let frame_offset = values.get::<i64>("frame_offset")?;
        if frame_offset.is_some_and(|offset| offset.unsigned_abs() > MAX_FRAME_OFFSET) {
            return Err(values.refused("frame_offset"));
        }
        Ok(Self {
            params,
            align: match values.get::<String>("align")?.as_deref() {
                None | Some("check") => Align::Check,
                Some("auto") => Align::Auto,
                Some("off") => Align::Off,
                Some(_) => return Err(values.refused("align")),
            },
            scale,
            axes: axes.map_err(|_| values.refused("input_axes"))?,
            frame_offset,
            rig_clips: values.or("rig_clip", Vec::new())?,
            lock_bones: values.or("lock_bones", Vec::new())?,
            lock_vertices: values.mask("lock_vertices")?,
            motion: MotionOptions::from_values(values)?,
        })
    }
}

impl MotionOptions {
    /// Of the values of [`super::MOTION`]. Combinations are checked.
    pub fn from_values(values: &Values) -> Result<Self, Error> {
        let options = Self {
            root: values.or("root_motion", RootMotion::None)?,
            up: values.get("up")?,
            in_place: values.or("in_place", false)?,
            close: values.or("loop", false)?,
            loop_clips: values.or("loop_clips", Vec::new())?,
        };
        options.validate()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use bonesmith_core::fit::{Effort, Method};
    use bonesmith_core::model::rig::BoneKind;
    use serde_json::json;

    use super::super::{FIT, REFIT};
    use super::*;
    use crate::mask::VertexMask;

    fn fit(values: &[(&str, Value)]) -> Result<FitOptions, Error> {
        let given = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        FitOptions::from_values(&Values::new(FIT, given)?)
    }

    #[test]
    fn values_become_options() {
        let options = fit(&[
            ("bones", json!(24)),
            ("influences", json!("all")),
            ("bone_kind", json!("affine")),
            ("norm", json!("max")),
            ("effort", json!("best")),
            ("importance", json!([1.0, 0.5])),
        ]);
        let options = options.unwrap();
        assert_eq!(options.params.bones, BoneCount::Exact(24));
        assert_eq!((options.params.influences, options.params.bone_kind), (None, BoneKind::Affine));
        assert_eq!((options.params.norm, options.params.effort), (Norm::Max, Effort::Best));
        assert_eq!(options.importance, VertexMask::Values(vec![1.0, 0.5]));
        let skeleton = fit(&[("skeleton", json!(true)), ("root", json!([0, 1.5, 2]))]).unwrap().skeleton.unwrap();
        assert_eq!(skeleton.root, Root::At([0.0, 1.5, 2.0]));
        assert_eq!(fit(&[("target_error", json!("1mm"))]).unwrap().target_distance, Some(Distance::Metres(1e-3)));
        assert_eq!(fit(&[("target_error", json!(2))]).unwrap().params.bones, BoneCount::TargetError(2.0));
    }

    #[test]
    fn the_method_brings_its_own_defaults() {
        let options = fit(&[("method", json!("fsd")), ("bones", json!(4))]).unwrap();
        let own = FitParams::of_method(Method::Fsd);
        assert_eq!((options.params.bone_kind, options.params.max_iterations), (own.bone_kind, own.max_iterations));
    }

    #[test]
    fn values_without_meaning_name_their_option() {
        for (name, value) in [
            ("bones", json!(0)),
            ("bones", json!("many")),
            ("influences", json!(17)),
            ("smooth", json!(-1)),
            ("seed", json!(-1)),
            ("norm", json!(1)),
            ("target_error", json!("1km")),
            ("area", json!(3)),
        ] {
            let error = fit(&[(name, value.clone())]).unwrap_err();
            assert_eq!(error.option(), Some(name), "{name} {value}: {error}");
        }
        assert!(fit(&[("bones", json!(4)), ("target_error", json!(1))]).is_err());
        assert!(fit(&[("detail", json!(2))]).unwrap_err().to_string().contains("skeleton"));
        let scale = Values::new(REFIT, [("input_scale".to_owned(), json!(0))]).unwrap();
        assert_eq!(RefitOptions::from_values(&scale).unwrap_err().option(), Some("input_scale"));
    }
}
