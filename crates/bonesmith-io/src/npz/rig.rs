//! Rigs in archives.

use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use bonesmith_core::mesh::sequence::DEFAULT_FPS;
use bonesmith_core::{Bone, BoneKind, Clip, Rig, SparseWeights};
use glam::{DAffine3, DMat3, DVec3};

use super::archive::{Archive, Array, Writer};
use super::meta::Meta;
use super::{positions, stem, surface};
use crate::weights::{BadWeights, weights_of_tables};
use crate::{IoError, atomic};

/// How far a bone's matrix may be from a rotation to count as rigid when the file does not say.
const RIGID_TOLERANCE: f64 = 1e-5;

/// Whether an archive holds a rig.
pub fn is_rig(archive: &Archive) -> bool {
    ["joint_indices", "joint_weights", "bones"].iter().all(|key| archive.has(key))
}

/// Reads and checks a rig. Only `rest`, `joint_indices`, `joint_weights` and `bones` are needed.
pub fn load(archive: &mut Archive, bad: BadWeights) -> Result<Rig, IoError> {
    load_with(archive, |archive, bones| read_weights(archive, ["joint_indices", "joint_weights"], bones, bad))
}

/// As [`load`], with weights from elsewhere: given the archive and the number of bones.
pub fn load_with(
    archive: &mut Archive,
    weights: impl FnOnce(&mut Archive, usize) -> Result<SparseWeights, IoError>,
) -> Result<Rig, IoError> {
    let path = archive.path().to_owned();
    let rest = positions(archive.required("rest")?)?;
    let mut meta = surface::read_meta(archive)?;
    let surface = Arc::new(surface::read(archive, &mut meta)?);
    let array = archive.required("bones")?;
    let [f, b, three, four] = array.shape()?;
    if [three, four] != [3, 4] {
        return Err(array.bad(format!("shape [{f}, {b}, {three}, {four}], but [frames, bones, 3, 4] is expected")));
    }
    if b == 0 || b > 1 << 16 {
        return Err(array.bad(format!("{b} bones; 1 to 65536 are possible")));
    }
    let motion = transforms(array)?;
    let weights = weights(archive, b)?;
    let bones = read_bones(archive, b, std::mem::take(&mut meta.bone_names))?;
    let clips = read_clips(archive, f, motion, &mut meta)?;
    let kind = meta.kind.unwrap_or_else(|| guess_kind(&clips));
    let params_json = match archive.array("params")? {
        Some(array) => array.text()?,
        None => String::new(),
    };
    let name = meta.name.unwrap_or_else(|| stem(&path));
    let rig = Rig { name, rest, surface, weights, bones, kind, clips, params_json };
    rig.check().map_err(|e| IoError::malformed(path, e.to_string()))?;
    Ok(rig)
}

/// [.., 3, 4] matrices, row by row.
fn transforms(array: Array) -> Result<Vec<DAffine3>, IoError> {
    let affine = |m: &[f64; 12]| {
        let column = |c: usize| DVec3::new(m[c], m[4 + c], m[8 + c]);
        DAffine3::from_mat3_translation(DMat3::from_cols(column(0), column(1), column(2)), column(3))
    };
    Ok(array.f64s()?.as_chunks::<12>().0.iter().map(affine).collect())
}

/// Reads [N, K] indices and weights on `bones` bones.
pub fn read_weights(
    archive: &mut Archive,
    [index_key, weight_key]: [&str; 2],
    bones: usize,
    bad: BadWeights,
) -> Result<SparseWeights, IoError> {
    let path = archive.path().to_owned();
    let array = archive.required(index_key)?;
    let [n, k] = array.shape()?;
    let mut indices = array.integers(-1, i64::from(u16::MAX))?;
    let array = archive.required(weight_key)?;
    if array.shape::<2>()? != [n, k] {
        return Err(array.bad(format!("shape {:?}, but {index_key:?} has [{n}, {k}]", array.header.shape)));
    }
    let values = array.f32s()?;
    for (index, &weight) in indices.iter_mut().zip(&values) {
        // The bone of an unused slot means nothing, and others write -1 there.
        if weight == 0.0 {
            *index = 0;
        }
    }
    let table: Vec<u16> = indices.iter().map(|&j| j.max(0) as u16).collect();
    if let Some(at) = indices.iter().position(|&j| j < 0 || j >= bones as i64) {
        let (vertex, bone) = (at / k.max(1), indices[at]);
        let what = format!("{index_key:?}: vertex {vertex} names bone {bone}, but there are {bones} bones");
        return Err(IoError::malformed(path, what));
    }
    let empty = || IoError::malformed(&path, format!("{weight_key:?} has no slots"));
    let stored = SparseWeights::from_tables(k, table, values).ok_or_else(empty)?;
    weights_of_tables(stored, bones, bad)
        .map_err(|what| IoError::Weights { path, what: format!("{weight_key:?}: {what}") })
}

fn read_bones(archive: &mut Archive, b: usize, names: Vec<String>) -> Result<Vec<Bone>, IoError> {
    let path = archive.path().to_owned();
    let wrong = |key: &str, n: usize| IoError::malformed(&path, format!("{n} {key} for {b} bones"));
    let parents = match archive.array("parents")? {
        Some(array) => array.integers(-1, i64::from(u16::MAX))?,
        None => vec![-1; b],
    };
    if parents.len() != b {
        return Err(wrong("parents", parents.len()));
    }
    let names = if names.is_empty() { (0..b).map(|j| format!("bone_{j}")).collect() } else { names };
    if names.len() != b {
        return Err(wrong("bone names", names.len()));
    }
    let binds = if let Some(array) = archive.array("world_from_bind")? {
        array.rows(&[3, 4])?;
        transforms(array)?
    } else if let Some(array) = archive.array("joint_positions")? {
        array.rows(&[3])?;
        let joints = array.f64s()?;
        joints.as_chunks::<3>().0.iter().map(|&p| DAffine3::from_translation(DVec3::from_array(p))).collect()
    } else {
        vec![DAffine3::IDENTITY; b]
    };
    if binds.len() != b {
        return Err(wrong("joint positions", binds.len()));
    }
    if let Some(j) = binds.iter().position(|bind| !bind.is_finite()) {
        return Err(IoError::malformed(path, format!("the joint of bone {j} is not at a finite place")));
    }
    let mut tips = read_tips(archive, b)?;
    let bone = |(j, ((name, parent), world_from_bind)): (usize, ((String, i64), DAffine3))| {
        let tip = tips[j].take();
        Bone { name, parent: usize::try_from(parent).ok(), world_from_bind, tip }
    };
    Ok(names.into_iter().zip(parents).zip(binds).enumerate().map(bone).collect())
}

/// [B, 3] ends of leaf bones; NaN where a bone has none.
fn read_tips(archive: &mut Archive, b: usize) -> Result<Vec<Option<DVec3>>, IoError> {
    let Some(array) = archive.array("joint_tips")? else { return Ok(vec![None; b]) };
    array.rows(&[3])?;
    let values = array.f64s()?;
    let tips: Vec<Option<DVec3>> =
        values.as_chunks::<3>().0.iter().map(|&p| Some(DVec3::from_array(p)).filter(|p| !p.is_nan())).collect();
    if tips.len() != b {
        return Err(IoError::malformed(archive.path(), format!("{} joint tips for {b} bones", tips.len())));
    }
    Ok(tips)
}

/// Splits the `f` frames of all clips into clips.
fn read_clips(archive: &mut Archive, f: usize, motion: Vec<DAffine3>, meta: &mut Meta) -> Result<Vec<Clip>, IoError> {
    let path = archive.path().to_owned();
    let times = match archive.array("times")? {
        Some(array) => array.f64s()?,
        None => (0..f).map(|t| t as f64 / DEFAULT_FPS).collect(),
    };
    let lengths = match archive.array("clip_frames")? {
        Some(array) => array.indices()?.into_iter().map(|n| n as usize).collect(),
        None => vec![f],
    };
    let names = std::mem::take(&mut meta.clip_names);
    let sum = lengths.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    if times.len() != f || sum != Some(f) || (!names.is_empty() && names.len() != lengths.len()) {
        let (t, c) = (times.len(), lengths.len());
        return Err(IoError::malformed(path, format!("{t} times and {c} clips do not fit {f} frames of \"bones\"")));
    }
    let bones = motion.len().checked_div(f).unwrap_or(0);
    let mut start = 0;
    let clip = |(at, length): (usize, usize)| {
        let frames = start..start + length;
        start += length;
        Clip {
            name: names.get(at).cloned().unwrap_or_else(|| if at == 0 { stem(&path) } else { format!("clip_{at}") }),
            times_secs: times[frames.clone()].to_vec(),
            posed_from_rest: motion[frames.start * bones..frames.end * bones].to_vec(),
        }
    };
    Ok(lengths.into_iter().enumerate().map(clip).collect())
}

/// Rigid if every bone only turns and moves, else affine.
fn guess_kind(clips: &[Clip]) -> BoneKind {
    let is_rigid = |m: &DAffine3| {
        let r = m.matrix3;
        (r.transpose() * r).abs_diff_eq(DMat3::IDENTITY, RIGID_TOLERANCE) && r.determinant() > 0.0
    };
    match clips.iter().flat_map(|clip| &clip.posed_from_rest).all(is_rigid) {
        true => BoneKind::Rigid,
        false => BoneKind::Affine,
    }
}

/// Writes a rig.
pub fn save(rig: &Rig, path: &Path) -> Result<(), IoError> {
    rig.check().map_err(|e| IoError::malformed(path, format!("the rig is not sound: {e}")))?;
    save_with(rig, path, |writer| {
        write_weights(writer, ["joint_indices", "joint_weights"], &rig.weights)?;
        match super::cage::is_cage(rig) {
            true => super::cage::write(writer, rig),
            false => Ok(()),
        }
    })
}

/// Writes [N, K] indices and weights.
pub fn write_weights<W: Write + Seek>(
    writer: &mut Writer<W>,
    [index_key, weight_key]: [&str; 2],
    weights: &SparseWeights,
) -> io::Result<()> {
    let shape = [weights.vertex_count(), weights.slots()];
    writer.array(index_key, &shape, weights.bone_table().iter().copied())?;
    writer.array(weight_key, &shape, weights.weight_table().iter().copied())
}

/// Writes all of a rig but its weights, which `weights` writes.
pub fn save_with(
    rig: &Rig,
    path: &Path,
    weights: impl FnOnce(&mut Writer<&mut io::BufWriter<std::fs::File>>) -> io::Result<()>,
) -> Result<(), IoError> {
    atomic::write_with(path, |file| {
        let mut writer = Writer::new(file);
        let n = rig.vertex_count();
        writer.array("rest", &[n, 3], rig.rest.iter().flat_map(|p| p.to_array()))?;
        weights(&mut writer)?;
        let mut meta = Meta { name: Some(rig.name.clone()), kind: Some(rig.kind), ..Meta::default() };
        write_bones(&mut writer, rig, &mut meta)?;
        write_clips(&mut writer, rig, &mut meta)?;
        writer.text("params", &rig.params_json)?;
        surface::write(&mut writer, &rig.surface, &mut meta)?;
        surface::write_meta(&mut writer, meta)?;
        writer.finish()
    })
}

fn write_bones<W: Write + Seek>(writer: &mut Writer<W>, rig: &Rig, meta: &mut Meta) -> io::Result<()> {
    let b = rig.bone_count();
    writer.array("parents", &[b], rig.bones.iter().map(|bone| bone.parent.map_or(-1, |p| p as i32)))?;
    let joints = rig.bones.iter().flat_map(|bone| bone.world_from_bind.translation.to_array());
    writer.array("joint_positions", &[b, 3], joints)?;
    writer.array("world_from_bind", &[b, 3, 4], rig.bones.iter().flat_map(|bone| rows(&bone.world_from_bind)))?;
    if rig.bones.iter().any(|bone| bone.tip.is_some()) {
        let tips = rig.bones.iter().flat_map(|bone| bone.tip.unwrap_or(DVec3::NAN).to_array());
        writer.array("joint_tips", &[b, 3], tips)?;
    }
    meta.bone_names = rig.bones.iter().map(|bone| bone.name.clone()).collect();
    Ok(())
}

/// All clips one after the other.
fn write_clips<W: Write + Seek>(writer: &mut Writer<W>, rig: &Rig, meta: &mut Meta) -> io::Result<()> {
    let f: usize = rig.clips.iter().map(Clip::frame_count).sum();
    let motion = rig.clips.iter().flat_map(|clip| &clip.posed_from_rest).flat_map(rows);
    writer.array("bones", &[f, rig.bone_count(), 3, 4], motion)?;
    writer.array("times", &[f], rig.clips.iter().flat_map(|clip| clip.times_secs.iter().copied()))?;
    writer.array("clip_frames", &[rig.clips.len()], rig.clips.iter().map(|clip| clip.frame_count() as i32))?;
    meta.clip_names = rig.clips.iter().map(|clip| clip.name.clone()).collect();
    Ok(())
}

/// A matrix row by row.
fn rows(m: &DAffine3) -> [f64; 12] {
    let (x, y, z, w) = (m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis, m.translation);
    [x.x, y.x, z.x, w.x, x.y, y.y, z.y, w.y, x.z, y.z, z.z, w.z]
}
