//! Options of `shapes`: their table, and options out of values by name.

use bonesmith_core::fit::Norm;
use bonesmith_core::shapes::{Numbers, ShapesParams};
use serde_json::Value;

use super::tables::{AREA, IMPORTANCE, NORM, SHADING, option};
use super::{OptionInfo, Values};
use crate::error::Error;
use crate::shapes::{DriverRule, ShapesOptions};

/// Of `shapes`.
pub const SHAPES: &[OptionInfo] = &[
    option("bones", "int", "40", "", "1 to 512", "Number of bones"),
    option("influences", "int", "8", "", "1 to 16", "Maximum number of bones per vertex, 1 to 16"),
    option(
        "kind",
        "ShapeKind",
        "\"affine\"",
        "",
        "affine, rigid or translation",
        "What a shape may store for a bone: any matrix (12 numbers), translation and linearised rotation (6), translation (3)",
    ),
    option(
        "numbers",
        "int | None",
        "null",
        "all",
        "1 or more",
        "Numbers to store in all: those that lower the error most, with all others solved again",
    ),
    option(
        "target_error",
        "float | str | None",
        "null",
        "",
        "above 0, or a length such as 1mm, 0.2cm, 0.01m or 3u (model units)",
        "Find the fewest numbers that reach this E_RMS (thousandths of the model's radius), or this root mean square distance: 1mm, 0.2cm, 0.01m, 3u (model units); instead of `numbers`",
    ),
    option(
        "mirror",
        "Axis | None",
        "null",
        "",
        "x, y or z",
        "Bones, weights and numbers in mirrored pairs across this axis, where the face is symmetric; what is not is reported",
    ),
    option(
        "pieces",
        "bool",
        "false",
        "",
        "",
        "Parts that every shape moves rigidly (eyeballs, teeth) have a bone of their own, and their vertices no other",
    ),
    SHADING,
    NORM,
    IMPORTANCE,
    AREA,
    option(
        "drivers",
        "PathLike | None",
        "null",
        "",
        "a JSON file",
        "Shapes whose weights follow from others, a JSON list: {\"shape\": NAME, \"product\": [NAMES]} for combinations, {\"shape\": NAME, \"between\": NAME, \"range\": [FROM, PEAK, TO]} for in-betweens",
    ),
    option("seed", "int", "0", "", "0 or more", "Seed of all random choices; the same seed gives the same bytes"),
    option(
        "max_seconds",
        "float | None",
        "null",
        "",
        "above 0",
        "Stop after this many seconds with the present result",
    ),
];

impl ShapesOptions {
    /// Of the values of [`SHAPES`]. Ranges are checked; a file of drivers is read.
    pub fn from_values(values: &Values) -> Result<Self, Error> {
        let defaults = ShapesParams::default();
        let (count, target) = (values.get("numbers")?, values.value("target_error"));
        if count.is_some() && target.is_some() {
            let what = "numbers and target_error exclude each other: a target error finds the count of numbers itself";
            return Err(Error::unsupported(what));
        }
        let target_distance = match target {
            Some(Value::String(length)) => Some(length.parse().map_err(|_| values.refused("target_error"))?),
            _ => None,
        };
        let numbers = match (count, target) {
            (Some(count), _) => Numbers::Count(count),
            (None, Some(Value::Number(_))) => Numbers::TargetError(values.or("target_error", 0.0)?),
            (None, Some(Value::String(_)) | None) => defaults.numbers,
            _ => return Err(values.refused("target_error")),
        };
        let norm = match values.value("norm") {
            None => Norm::default(),
            Some(Value::String(text)) => text.parse().map_err(|_| values.refused("norm"))?,
            Some(value) => value.to_string().parse().map_err(|_| values.refused("norm"))?,
        };
        let params = ShapesParams {
            bones: values.or("bones", defaults.bones)?,
            influences: values.or("influences", defaults.influences)?,
            kind: values.or("kind", defaults.kind)?,
            numbers,
            mirror: values.get("mirror")?,
            pieces: values.or("pieces", defaults.pieces)?,
            shading: values.or("shading", defaults.shading)?,
            norm,
            importance: None,
            area: values.or("area", defaults.area)?,
            seed: values.or("seed", defaults.seed)?,
            max_seconds: values.get("max_seconds")?,
        };
        params.validate()?;
        let drivers = values.get::<std::path::PathBuf>("drivers")?;
        let drivers = drivers.map(|path| DriverRule::read(&path)).transpose()?.unwrap_or_default();
        Ok(Self { params, target_distance, importance: values.mask("importance")?, drivers })
    }
}

#[cfg(test)]
mod tests {
    use bonesmith_core::model::shape_bones::ShapeKind;
    use serde_json::json;

    use super::*;

    fn of(values: &[(&str, Value)]) -> Result<ShapesOptions, Error> {
        let given = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        ShapesOptions::from_values(&Values::new(SHAPES, given)?)
    }

    #[test]
    fn values_become_options() {
        let options = of(&[("bones", json!(12)), ("numbers", json!(300)), ("kind", json!("rigid"))]).unwrap();
        let ShapesParams { bones, numbers, kind, .. } = options.params;
        assert_eq!((bones, numbers, kind), (12, Numbers::Count(300), ShapeKind::Rigid));
        assert_eq!(of(&[("target_error", json!(2))]).unwrap().params.numbers, Numbers::TargetError(2.0));
        assert!(of(&[("target_error", json!("1mm"))]).unwrap().target_distance.is_some());
        for (name, value) in [
            ("bones", json!(0)),
            ("influences", json!(17)),
            ("numbers", json!(0)),
            ("kind", json!("soft")),
            ("target_error", json!("1km")),
            ("norm", json!(1)),
            ("shading", json!(-1)),
            ("mirror", json!("w")),
        ] {
            let error = of(&[(name, value.clone())]).unwrap_err();
            assert_eq!(error.option(), Some(name), "{name} {value}: {error}");
        }
        assert!(of(&[("numbers", json!(4)), ("target_error", json!(1))]).is_err());
    }
}
