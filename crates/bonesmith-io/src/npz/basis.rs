//! Animations as trajectories that vertices mix (`--method svd`, `cpca`): arrays `basis_*`.

use std::path::Path;
use std::sync::Arc;

use bonesmith_core::Basis;

use super::archive::{Archive, Writer};
use super::meta::Meta;
use super::{positions, stem, surface};
use crate::{IoError, atomic};

/// Whether an archive holds a basis.
pub fn is_basis(archive: &Archive) -> bool {
    ["basis_columns", "basis_coefficients"].iter().all(|key| archive.has(key))
}

/// Reads and checks a basis.
pub fn load(archive: &mut Archive) -> Result<Basis, IoError> {
    let path = archive.path().to_owned();
    let rest = positions(archive.required("rest")?)?;
    let array = archive.required("basis_columns")?;
    let [clusters, dimension, frames, three] = array.shape()?;
    if three != 3 {
        let shape = format!("[{clusters}, {dimension}, {frames}, {three}]");
        return Err(array.bad(format!("shape {shape}, but [clusters, columns, frames, 3] is expected")));
    }
    let columns = array.f32s()?;
    let mean = archive.required("basis_mean")?.f32s()?;
    let coefficients = archive.required("basis_coefficients")?.f32s()?;
    let of_vertices = archive.required("basis_clusters")?.integers(0, i64::from(u16::MAX))?;
    let times_secs = archive.required("times")?.f64s()?;
    if times_secs.len() != frames {
        let what = format!("{} times for {frames} frames of \"basis_columns\"", times_secs.len());
        return Err(IoError::malformed(path, what));
    }
    let params_json = archive.array("params")?.map_or(Ok(String::new()), |array| array.text())?;
    let mut meta = surface::read_meta(archive)?;
    let surface = Arc::new(surface::read(archive, &mut meta)?);
    let basis = Basis {
        name: meta.name.unwrap_or_else(|| stem(&path)),
        rest,
        surface,
        times_secs,
        cluster_count: clusters,
        dimension,
        clusters: of_vertices.into_iter().map(|c| c as u16).collect(),
        mean,
        columns,
        coefficients,
        params_json,
    };
    basis.check().map_err(|e| IoError::malformed(path, e.to_string()))?;
    Ok(basis)
}

/// Writes a basis.
pub fn save(basis: &Basis, path: &Path) -> Result<(), IoError> {
    basis.check().map_err(|e| IoError::malformed(path, format!("the basis is not sound: {e}")))?;
    let (n, f, c, d) = (basis.vertex_count(), basis.frame_count(), basis.cluster_count, basis.dimension);
    atomic::write_with(path, |file| {
        let mut writer = Writer::new(file);
        writer.array("rest", &[n, 3], basis.rest.iter().flat_map(|p| p.to_array()))?;
        writer.array("basis_clusters", &[n], basis.clusters.iter().copied())?;
        writer.array("basis_mean", &[f, 3], basis.mean.iter().copied())?;
        writer.array("basis_columns", &[c, d, f, 3], basis.columns.iter().copied())?;
        writer.array("basis_coefficients", &[n, d], basis.coefficients.iter().copied())?;
        writer.array("times", &[f], basis.times_secs.iter().copied())?;
        writer.text("params", &basis.params_json)?;
        let mut meta = Meta { name: Some(basis.name.clone()), ..Meta::default() };
        surface::write(&mut writer, &basis.surface, &mut meta)?;
        surface::write_meta(&mut writer, meta)?;
        writer.finish()
    })
}
