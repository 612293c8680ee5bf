//! PC2 and MDD point caches: positions only; faces come from the mesh that was cached.
//!
//! | | PC2 | MDD |
//! |---|---|---|
//! | numbers | little-endian | big-endian |
//! | head | `POINTCACHE2\0`, version, points, first frame, frames per sample, samples | frames, points |
//! | times | by the frame rate | seconds of every frame, before the positions |

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bonesmith_core::RawSequence;
use bonesmith_core::mesh::sequence::DEFAULT_FPS;
use glam::Vec3;

use crate::mesh::{self, Extent};
use crate::sink::Sink;
use crate::{Format, IoError, LoadOptions, detect};

/// The head of a cache.
struct Head {
    frames: usize,
    points: usize,
    times_secs: Vec<f64>,
    big_endian: bool,
}

/// Reads a cache over the mesh in `topology`, whose positions become the rest pose; without one, an OBJ or PLY
/// beside the cache is looked for.
pub fn load(
    cache: &Path,
    format: Format,
    topology: Option<&Path>,
    options: &LoadOptions,
) -> Result<RawSequence, IoError> {
    let os = |e| IoError::os(cache, e);
    let file = crate::opens::open(cache).map_err(os)?;
    crate::opens::count();
    let file_bytes = file.metadata().map_err(os)?.len();
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let fps = options.fps.filter(|fps| *fps > 0.0 && fps.is_finite()).unwrap_or(DEFAULT_FPS);
    let head = match format {
        Format::Pc2 => read_pc2_head(&mut reader, file_bytes, fps),
        _ => read_mdd_head(&mut reader, file_bytes),
    };
    let head = head.map_err(|what| IoError::malformed(cache, what))?;
    let mesh_path = match topology {
        Some(path) => path.to_owned(),
        None => find_mesh(cache)?,
    };
    let mesh = mesh::read(&mesh_path, detect(&mesh_path)?, Extent::Everything)?;
    let mut frames = Sink::new(cache, head.frames);
    for t in 0..head.frames {
        let positions = read_frame(&mut reader, &head)
            .map_err(|e| IoError::malformed(cache, format!("frame {t} of {} could not be read: {e}", head.frames)))?;
        frames.push(positions)?;
    }
    let frames = frames.finish()?;
    let shared = Arc::new(mesh.surface.topology.clone());
    let rest = mesh::frame(&mesh_path, mesh.positions, mesh.surface.topology.clone(), &shared);
    let name = cache.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (times_secs, surface) = (head.times_secs, mesh.surface);
    Ok(RawSequence { name, rest: Some(rest), frames, times_secs, fps, surface, ..RawSequence::default() })
}

fn bytes<const D: usize>(reader: &mut impl Read) -> Result<[u8; D], String> {
    let mut bytes = [0; D];
    reader.read_exact(&mut bytes).map_err(|_| "the file is cut off in its head".to_owned())?;
    Ok(bytes)
}

fn read_pc2_head(reader: &mut impl Read, file_bytes: u64, fps: f64) -> Result<Head, String> {
    if &bytes::<12>(reader)? != b"POINTCACHE2\0" {
        return Err("not a PC2 point cache".into());
    }
    let version = i32::from_le_bytes(bytes(reader)?);
    if version != 1 {
        return Err(format!("PC2 version {version}, only 1 is known"));
    }
    let points = i32::from_le_bytes(bytes(reader)?);
    let first_frame = f64::from(f32::from_le_bytes(bytes(reader)?));
    let frames_per_sample = f64::from(f32::from_le_bytes(bytes(reader)?));
    let samples = i32::from_le_bytes(bytes(reader)?);
    let (frames, points) = check_size(samples, points, 32, 0, file_bytes)?;
    let sane = first_frame.is_finite() && frames_per_sample.is_finite() && frames_per_sample > 0.0;
    if !sane && frames > 1 {
        return Err(format!("starts at frame {first_frame} with {frames_per_sample} frames per sample"));
    }
    let times_secs = match sane {
        true => (0..frames).map(|t| (first_frame + t as f64 * frames_per_sample) / fps).collect(),
        false => Vec::new(),
    };
    Ok(Head { frames, points, times_secs, big_endian: false })
}

fn read_mdd_head(reader: &mut impl Read, file_bytes: u64) -> Result<Head, String> {
    let frames = i32::from_be_bytes(bytes(reader)?);
    let points = i32::from_be_bytes(bytes(reader)?);
    let (frames, points) = check_size(frames, points, 8, 4, file_bytes)?;
    let mut times_secs = Vec::with_capacity(frames);
    for _ in 0..frames {
        times_secs.push(f64::from(f32::from_be_bytes(bytes(reader)?)));
    }
    // Some writers leave the times at 0: then the frame rate counts.
    if times_secs.iter().all(|&secs| secs == 0.0) {
        times_secs.clear();
    }
    Ok(Head { frames, points, times_secs, big_endian: true })
}

/// Whether `frames` times `points` positions are really in the file: only then is memory asked for.
fn check_size(
    frames: i32,
    points: i32,
    head: u64,
    bytes_per_frame: u64,
    file_bytes: u64,
) -> Result<(usize, usize), String> {
    let (Ok(f), Ok(n)) = (u64::try_from(frames), u64::try_from(points)) else {
        return Err(format!("claims {frames} frames of {points} points"));
    };
    if f == 0 || n == 0 {
        return Err(format!("has {f} frames of {n} points"));
    }
    // Both are below 2^31: no overflow but in the factor 12.
    let expected = (f * n).checked_mul(12).and_then(|bytes| bytes.checked_add(head + f * bytes_per_frame));
    match expected {
        Some(expected) if expected <= file_bytes => Ok((f as usize, n as usize)),
        _ => Err(format!(
            "the file is cut off: {f} frames of {n} points take {} bytes, it has {file_bytes}",
            expected.map_or("more than 2^64".into(), |bytes| bytes.to_string())
        )),
    }
}

fn read_frame(reader: &mut impl Read, head: &Head) -> std::io::Result<Vec<Vec3>> {
    let mut positions = Vec::with_capacity(head.points);
    let mut block = [0u8; 12 * 1024];
    while positions.len() < head.points {
        let now = (head.points - positions.len()).min(1024);
        reader.read_exact(&mut block[..12 * now])?;
        let number = |b: [u8; 4]| if head.big_endian { f32::from_be_bytes(b) } else { f32::from_le_bytes(b) };
        let points = block[..12 * now].as_chunks::<4>().0.as_chunks::<3>().0;
        positions.extend(points.iter().map(|&[x, y, z]| Vec3::new(number(x), number(y), number(z))));
    }
    Ok(positions)
}

/// The mesh that lies beside a cache: `walk.obj` or `walk_rest.obj` for `walk.pc2`, or the same as PLY.
fn find_mesh(cache: &Path) -> Result<PathBuf, IoError> {
    let stem = cache.file_stem().unwrap_or_default().to_string_lossy();
    let names = [format!("{stem}.obj"), format!("{stem}_rest.obj"), format!("{stem}.ply"), format!("{stem}_rest.ply")];
    let found = names.iter().map(|name| cache.with_file_name(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let what = format!(
            "a point cache has no faces: give the OBJ that was cached as second input; beside it there is no {}",
            names.join(", ")
        );
        IoError::unsupported(cache, what)
    })
}
