//! Options of `reduce`, `compress` and `ddm` out of values by name.

use bonesmith_core::compress::{TwoLayerParams, TwoLayerSize};
use bonesmith_core::ddm::compress::{DdmCompressParams, RangeOfMotion};
use bonesmith_core::ddm::{DdmMaps, DdmParams};
use bonesmith_core::lod::LodParams;
use bonesmith_core::reduce::ReduceParams;
use serde_json::Value;

use super::Values;
use crate::error::Error;
use crate::simplify::DdmOptions;

impl Values {
    /// Of the values of [`super::LOD`].
    pub fn lod(&self) -> Result<LodParams, Error> {
        let bones: Vec<usize> = self.or("bones", vec![60, 30, 15])?;
        let influences: Vec<usize> = self.or("influences", vec![4, 2, 1])?;
        let params = LodParams::new(&bones, &influences, self.or("refit_motion", false)?);
        params.validate()?;
        Ok(params)
    }

    /// Of the values of [`super::REDUCE`].
    pub fn reduce(&self) -> Result<ReduceParams, Error> {
        let defaults = ReduceParams::default();
        let params = ReduceParams {
            influences: self.or("influences", defaults.influences)?,
            method: self.or("method", defaults.method)?,
            laplacian: self.or("laplacian", defaults.laplacian)?,
            smooth: self.or("smooth", defaults.smooth)?,
            refit_motion: self.or("refit_motion", defaults.refit_motion)?,
            ..defaults
        };
        params.validate().map_err(Error::from)?;
        Ok(params)
    }

    /// Of the values of [`super::COMPRESS`].
    pub fn compress(&self) -> Result<TwoLayerParams, Error> {
        let defaults = TwoLayerParams::default();
        let sizes = [
            self.get("influences_equivalent")?.map(TwoLayerSize::Equivalent),
            self.get("virtual_bones")?.map(TwoLayerSize::VirtualBones),
            self.get("target_error")?.map(TwoLayerSize::TargetError),
        ];
        if sizes.iter().flatten().count() > 1 {
            let what = "influences_equivalent, virtual_bones and target_error exclude each other: each sets the size";
            return Err(Error::unsupported(what));
        }
        let params = TwoLayerParams {
            size: sizes.into_iter().flatten().next().unwrap_or(defaults.size),
            influences: self.or("layer_influences", defaults.influences)?,
            master_influences: self.get("master_influences")?,
            weights_only: self.or("weights_only", defaults.weights_only)?,
            thorough: self.or("thorough", defaults.thorough)?,
            keep_motion: self.or("keep_motion", defaults.keep_motion)?,
            keep_rest: self.or("keep_rest", defaults.keep_rest)?,
            allow_larger: self.or("force", defaults.allow_larger)?,
            ..defaults
        };
        params.validate().map_err(Error::from)?;
        Ok(params)
    }

    /// Parameters per vertex: a file, or lists of numbers by name.
    fn maps(&self) -> Result<DdmMaps, Error> {
        match self.value("maps") {
            None => Ok(DdmMaps::default()),
            Some(Value::String(path)) => Ok(bonesmith_io::load_ddm_maps(path.as_ref())?),
            Some(Value::Object(maps)) => {
                let known = ["rotation_smooth", "translation_smooth", "alpha", "steps"];
                if maps.keys().any(|name| !known.contains(&name.as_str())) {
                    return Err(self.refused("maps"));
                }
                let map = |name: &str| maps.get(name).map(|list| serde_json::from_value(list.clone())).transpose();
                let read = || -> Result<DdmMaps, serde_json::Error> {
                    Ok(DdmMaps {
                        rotation_smooth: map("rotation_smooth")?,
                        translation_smooth: map("translation_smooth")?,
                        alpha: map("alpha")?,
                        steps: map("steps")?,
                    })
                };
                read().map_err(|_| self.refused("maps"))
            }
            Some(_) => Err(self.refused("maps")),
        }
    }

    fn range_of_motion(&self) -> Result<RangeOfMotion, Error> {
        let units = self.or("translation_range", 0.0)?;
        match self.value("range_of_motion") {
            None => Ok(RangeOfMotion::Measured),
            Some(Value::String(path)) => Ok(RangeOfMotion::PerJoint(bonesmith_io::load_ranges(path.as_ref())?)),
            Some(_) => {
                let degrees: f64 = self.or("range_of_motion", 0.0)?;
                Ok(RangeOfMotion::Uniform { radians: degrees.to_radians(), units })
            }
        }
    }

    fn ddm_compression(&self) -> Result<Option<DdmCompressParams>, Error> {
        let defaults = DdmCompressParams::default();
        let Some(virtual_bones) = self.get("compress")? else {
            let alone = ["layer_influences", "master_influences", "range_of_motion", "without", "smooth", "max_rounds"];
            return match alone.iter().find(|name| self.is_given(name)) {
                Some(name) => Err(Error::unsupported(format!("{name} is an option of compress"))),
                None => Ok(None),
            };
        };
        let without: Vec<String> = self.or("without", Vec::new())?;
        let (mut maps, mut keep_multi_weights) = (defaults.maps, defaults.keep_multi_weights);
        for map in &without {
            match map.as_str() {
                "linearisation" => maps.linearisation = false,
                "hierarchy" => maps.hierarchy = false,
                "coordinates" => maps.coordinates = false,
                "sampling" => maps.sampling = false,
                "multi-weights" => keep_multi_weights = true,
                _ => return Err(self.refused("without")),
            }
        }
        Ok(Some(DdmCompressParams {
            virtual_bones,
            influences: self.or("layer_influences", defaults.influences)?,
            master_influences: self.or("master_influences", defaults.master_influences)?,
            range: self.range_of_motion()?,
            maps,
            smooth: self.or("smooth", defaults.smooth)?,
            max_rounds: self.or("max_rounds", defaults.max_rounds)?,
            keep_multi_weights,
            ..defaults
        }))
    }
}

impl DdmOptions {
    /// Of the values of [`super::DDM`]. Ranges are checked; files of maps and ranges are read.
    pub fn from_values(values: &Values) -> Result<Self, Error> {
        let defaults = DdmParams::default();
        let params = DdmParams {
            rotation_smooth: values.get("rotation_smooth")?,
            translation_smooth: values.get("translation_smooth")?,
            alpha: values.or("alpha", defaults.alpha)?,
            steps: values.or("steps", defaults.steps)?,
            laplacian: values.or("laplacian", defaults.laplacian)?,
            threshold: values.or("threshold", defaults.threshold)?,
            max_influences: values.or("max_influences", defaults.max_influences)?,
            weld: !values.or("no_weld", !defaults.weld)?,
        };
        let options = Self {
            params,
            maps: values.maps()?,
            rigid_bind: values.or("rigid_bind", false)?,
            variant: values.or("variant", Default::default())?,
            compress: values.ddm_compression()?,
        };
        if options.compress.is_some() && values.is_given("variant") {
            return Err(Error::unsupported("variant and compress exclude each other: a compressed model has its own"));
        }
        options.validate()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{COMPRESS, DDM};
    use super::*;

    #[test]
    fn values_become_options() {
        let values = |options, list: &[(&str, Value)]| {
            Values::new(options, list.iter().map(|(name, value)| ((*name).to_owned(), value.clone()))).unwrap()
        };
        let two = values(COMPRESS, &[("virtual_bones", json!(50)), ("layer_influences", json!(3))]).compress().unwrap();
        assert_eq!((two.size, two.influences), (TwoLayerSize::VirtualBones(50), 3));
        assert!(values(COMPRESS, &[("virtual_bones", json!(5)), ("target_error", json!(1))]).compress().is_err());
        let ddm = [("compress", json!(20)), ("range_of_motion", json!(90)), ("without", json!(["multi-weights"]))];
        let options = DdmOptions::from_values(&values(DDM, &ddm)).unwrap();
        let compress = options.compress.unwrap();
        assert!(compress.keep_multi_weights && compress.virtual_bones == 20);
        let quarter = RangeOfMotion::Uniform { radians: std::f64::consts::FRAC_PI_2, units: 0.0 };
        assert_eq!(compress.range, quarter);
        let maps = values(DDM, &[("maps", json!({ "alpha": [0.0, 1.0] }))]);
        assert_eq!(DdmOptions::from_values(&maps).unwrap().maps.alpha, Some(vec![0.0, 1.0]));
        for (name, value) in [("maps", json!({ "beta": [1.0] })), ("variant", json!(6)), ("steps", json!(-1))] {
            assert!(DdmOptions::from_values(&values(DDM, &[(name, value)])).is_err(), "{name}");
        }
        assert!(DdmOptions::from_values(&values(DDM, &[("max_rounds", json!(3))])).is_err());
    }
}
