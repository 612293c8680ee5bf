//! Mesh animations in archives.

use std::path::Path;

use bonesmith_core::mesh::sequence::{DEFAULT_FPS, Span};
use bonesmith_core::{MeshSequence, RawFrame, RawSequence};
use glam::Vec3;

use super::archive::{Archive, Array, Writer};
use super::meta::Meta;
use super::{positions, stem, surface};
use crate::sink::Sink;
use crate::{IoError, LoadOptions, atomic};

/// Names under which the positions are found, in order.
const POSITION_KEYS: [&str; 3] = ["verts", "positions", "shapes"];

/// Reads a sequence; arrays that are none of ours are left alone.
pub fn load(archive: &mut Archive, options: &LoadOptions) -> Result<RawSequence, IoError> {
    let path = archive.path().to_owned();
    let Some(key) = POSITION_KEYS.into_iter().find(|key| archive.has(key)) else {
        let what = format!("holds no \"verts\" and no rig; it has: {}", archive.keys().join(", "));
        return Err(IoError::malformed(path, what));
    };
    let frames = read_frames(archive.required(key)?)?;
    let rest = match archive.array("rest")? {
        Some(array) => Some(positions(array)?.into()),
        None => None,
    };
    let times_secs = match archive.array("times")? {
        Some(array) => {
            array.shape::<1>()?;
            array.f64s()?
        }
        None => Vec::new(),
    };
    let mut meta = surface::read_meta(archive)?;
    let surface = surface::read(archive, &mut meta)?;
    let fps = match (options.fps, archive.array("fps")?) {
        (Some(fps), _) => fps,
        (None, Some(array)) => array.scalar()?,
        (None, None) => DEFAULT_FPS,
    };
    let name = meta.name.clone().unwrap_or_else(|| stem(&path));
    let clips = read_clips(archive, &meta)?;
    Ok(RawSequence { name, rest, frames, times_secs, fps, surface, clips })
}

/// The clips that the frames are of: `clip_frames` [C] how many each has, `clip_times` [F] their own times, names in the small print.
fn read_clips(archive: &mut Archive, meta: &Meta) -> Result<Vec<Span>, IoError> {
    let Some(array) = archive.array("clip_frames")? else { return Ok(Vec::new()) };
    let counts = array.indices()?;
    let times = archive.required("clip_times")?;
    times.shape::<1>()?;
    let times = times.f64s()?;
    let (mut start, mut clips) = (0usize, Vec::new());
    for (c, &count) in counts.iter().enumerate() {
        let frames = start..start.saturating_add(count as usize);
        start = frames.end;
        let times_secs = times.get(frames.clone()).unwrap_or_default().to_vec();
        let name = meta.clip_names.get(c).cloned().unwrap_or_else(|| format!("clip_{c}"));
        clips.push(Span { name, frames, times_secs });
    }
    Ok(clips)
}

/// Reads a face: `rest [N, 3]`, and `shapes [S, N, 3]`, positions, or `offsets [S, N, 3]`; `names` of the shapes.
pub fn load_face(path: &Path) -> Result<RawSequence, IoError> {
    let archive = &mut Archive::open(path)?;
    if archive.has("shape_bones") {
        return Err(IoError::unsupported(path, "holds bones driven by shapes already"));
    }
    let Some(key) = ["shapes", "offsets", "verts"].into_iter().find(|key| archive.has(key)) else {
        let what = format!("holds no \"shapes\"; it has: {}", archive.keys().join(", "));
        return Err(IoError::malformed(path, what));
    };
    if !archive.has("rest") {
        return Err(IoError::malformed(path, "holds no \"rest\": shapes need a neutral"));
    }
    let mut frames: Vec<RawFrame> = read_frames(archive.required(key)?)?.into_iter().map(RawFrame::loaded).collect();
    let rest = positions(archive.required("rest")?)?;
    if key == "offsets" {
        frames.iter_mut().for_each(|frame| frame.positions.iter_mut().zip(&rest).for_each(|(p, rest)| *p += *rest));
    }
    let names = match archive.array("names")? {
        Some(array) => array.texts()?,
        None => (0..frames.len()).map(|s| format!("shape_{s}")).collect(),
    };
    if names.len() != frames.len() {
        return Err(IoError::malformed(path, format!("{} names for {} shapes", names.len(), frames.len())));
    }
    let mut meta = surface::read_meta(archive)?;
    let surface = surface::read(archive, &mut meta)?;
    let frame = |(frame, label)| RawFrame { label, ..frame };
    let frames = frames.into_iter().zip(names).map(frame).collect();
    let name = meta.name.unwrap_or_else(|| stem(path));
    Ok(RawSequence { name, rest: Some(rest.into()), frames, surface, ..RawSequence::default() })
}

/// Splits [F, N, 3] into frames while it is inflated, so that the positions are never held twice.
fn read_frames(array: Array) -> Result<Vec<RawFrame>, IoError> {
    let [f, n, three] = array.shape()?;
    if three != 3 || f == 0 || n == 0 {
        return Err(array.bad(format!("shape [{f}, {n}, {three}], but [frames, vertices, 3] is expected")));
    }
    let path = array.path().to_owned();
    let mut sink = Sink::new(&path, f);
    if array.header.fortran_order {
        sink.must_fit(f, n, "an array in Fortran order is not read in blocks")?;
        let mut frames = vec![vec![Vec3::ZERO; n]; f];
        let mut at = 0;
        array.for_each(|value| {
            frames[at % f][at / f % n][at / f / n] = value as f32; // the frame turns fastest
            at += 1;
        })?;
        frames.into_iter().try_for_each(|frame| sink.push(frame))?;
        return sink.finish();
    }
    let (mut frame, mut point, mut axis, mut done) = (Vec::with_capacity(n), Vec3::ZERO, 0, Ok(()));
    array.for_each(|value| {
        point[axis] = value as f32;
        axis += 1;
        if axis == 3 {
            axis = 0;
            frame.push(point);
            if frame.len() == n {
                let next = if sink.len() + 1 < f { Vec::with_capacity(n) } else { Vec::new() };
                let whole = std::mem::replace(&mut frame, next);
                if done.is_ok() {
                    done = sink.push(whole);
                }
            }
        }
    })?;
    done?;
    sink.finish()
}

/// Writes a sequence.
pub fn save(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    atomic::write_with(path, |file| {
        let mut writer = Writer::new(file);
        let (f, n) = (sequence.frame_count(), sequence.vertex_count());
        let positions = (0..f).flat_map(|t| sequence.frame(t).into_owned()).flat_map(|p| p.to_array());
        writer.array("verts", &[f, n, 3], positions)?;
        writer.array("rest", &[n, 3], sequence.rest().iter().flat_map(|p| p.to_array()))?;
        writer.array("times", &[f], sequence.times_secs().iter().copied())?;
        let mut meta = Meta { name: Some(sequence.name().to_owned()), ..Meta::default() };
        let clips = sequence.clips();
        if clips.len() > 1 {
            writer.array("clip_frames", &[clips.len()], clips.iter().map(|clip| clip.frames.len() as i32))?;
            writer.array("clip_times", &[f], clips.iter().flat_map(|clip| clip.times_secs.iter().copied()))?;
            meta.clip_names = clips.iter().map(|clip| clip.name.clone()).collect();
        }
        surface::write(&mut writer, sequence.surface(), &mut meta)?;
        surface::write_meta(&mut writer, meta)?;
        writer.finish()
    })
}
