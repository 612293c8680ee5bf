//! Errors as lengths: what an artist measures with.

use std::fmt;
use std::str::FromStr;

use bonesmith_core::MeshSequence;
use bonesmith_core::fit::BoneCount;
use bonesmith_core::mesh::sphere::unit_radius;

/// A length, in the model's own unit or in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distance {
    /// Model units.
    Units(f64),
    /// Metres; a file that does not state its unit is taken to be in metres.
    Metres(f64),
}

impl Distance {
    /// The goal of a fit: the root mean square distance of a vertex is at most this.
    pub fn target(self, sequence: &MeshSequence) -> BoneCount {
        let units = match self {
            Self::Units(units) => units,
            Self::Metres(metres) => metres / sequence.surface().space.metres_per_unit.unwrap_or(1.0),
        };
        // E_RMS is a mean over coordinates, of which a vertex has three.
        BoneCount::TargetError(1000.0 * units / unit_radius(sequence.rest()) / 3f64.sqrt())
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Units(units) => write!(f, "{units}u"),
            Self::Metres(metres) => write!(f, "{metres}m"),
        }
    }
}

impl FromStr for Distance {
    type Err = String;

    /// A number and its unit: `1mm`, `0.2cm`, `0.01m`, `3u` (model units).
    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, f64); 3] = [("mm", 1e-3), ("cm", 1e-2), ("m", 1.0)];
        let length = |number: &str| match number.trim().parse::<f64>() {
            Ok(x) if x > 0.0 && x.is_finite() => Ok(x),
            _ => Err(format!("{text} is not a length above 0, such as 1mm, 0.2cm, 0.01m or 3u (model units)")),
        };
        if let Some(number) = text.strip_suffix('u') {
            return length(number).map(Self::Units);
        }
        let unit = UNITS.iter().find_map(|(unit, metres)| Some((text.strip_suffix(unit)?, *metres)));
        let (number, metres) = unit.unwrap_or(("", 1.0));
        Ok(Self::Metres(length(number)? * metres))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonesmith_core::synthetic::{PosedRigParams, posed_rig};

    #[test]
    fn lengths_are_read_with_their_unit() {
        assert_eq!("1mm".parse(), Ok(Distance::Metres(1e-3)));
        assert_eq!("2.5 cm".parse(), Ok(Distance::Metres(2.5e-2)));
        assert_eq!("3m".parse(), Ok(Distance::Metres(3.0)));
        assert_eq!("0.5u".parse(), Ok(Distance::Units(0.5)));
        for wrong in ["", "mm", "-1mm", "0u", "1km", "nanm", "3"] {
            assert!(wrong.parse::<Distance>().is_err(), "{wrong}");
        }
    }

    /// A rig that is off by a length everywhere has the E_RMS that the length stands for.
    #[test]
    fn the_target_is_the_distance_of_vertices() {
        let made = posed_rig(3, &PosedRigParams { frames: 4, detail: 1, ..PosedRigParams::default() });
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let off = |t: usize| sequence.frame(t).iter().map(|p| *p + glam::Vec3::new(0.0, 0.003, 0.004)).collect();
        let metrics = bonesmith_core::metrics::compare(&sequence, off);
        let BoneCount::TargetError(target) = Distance::Units(0.005).target(&sequence) else { panic!() };
        assert!((metrics.e_rms / target - 1.0).abs() < 1e-4, "{} {target}", metrics.e_rms);
    }
}
