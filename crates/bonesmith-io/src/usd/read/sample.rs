//! Values between keys: numbers linearly, rotations on the sphere; held before the first key and after the last.

use glam::DQuat;

use crate::IoError;
use crate::usd::stage::Attribute;

/// Numbers at a time; `None`: those without time, else of the first key.
pub fn numbers(attribute: &Attribute, time: Option<f64>) -> Result<Vec<f64>, IoError> {
    let Some(time) = time.filter(|_| !attribute.samples.is_empty()) else { return attribute.f64s() };
    let Some((before, after, share)) = attribute.around(time) else { return Ok(Vec::new()) };
    let mut values = attribute.decode_f64s(before)?;
    if share > 0.0 {
        let next = attribute.decode_f64s(after)?;
        // Arrays of other lengths cannot be blended: they are held.
        if next.len() == values.len() {
            values.iter_mut().zip(next).for_each(|(a, b)| *a += share * (b - *a));
        }
    }
    Ok(values)
}

/// As [`numbers`] in float32; a value at a key is the key's own, bit for bit.
pub fn numbers_f32(attribute: &Attribute, time: Option<f64>) -> Result<Vec<f32>, IoError> {
    let Some(time) = time.filter(|_| !attribute.samples.is_empty()) else { return attribute.f32s() };
    let Some((before, after, share)) = attribute.around(time) else { return Ok(Vec::new()) };
    let mut values = attribute.decode_f32s(before)?;
    if share > 0.0 {
        let next = attribute.decode_f32s(after)?;
        if next.len() == values.len() {
            let share = share as f32;
            values.iter_mut().zip(next).for_each(|(a, b)| *a += share * (b - *a));
        }
    }
    Ok(values)
}

/// Rotations at a time.
pub fn quaternions(attribute: &Attribute, time: Option<f64>) -> Result<Vec<DQuat>, IoError> {
    let decode = |values: Vec<f64>| -> Vec<DQuat> {
        let quaternion = |&[w, x, y, z]: &[f64; 4]| {
            let q = DQuat::from_xyzw(x, y, z, w);
            if q.length_squared() > 1e-30 && q.is_finite() { q.normalize() } else { DQuat::IDENTITY }
        };
        values.as_chunks::<4>().0.iter().map(quaternion).collect()
    };
    let between = |mut a: Vec<DQuat>, b: Vec<DQuat>, share: f64| {
        if a.len() == b.len() {
            // slerp takes the short way.
            a.iter_mut().zip(b).for_each(|(a, b)| *a = a.slerp(b, share));
        }
        a
    };
    let of = |value| -> Result<Vec<DQuat>, IoError> {
        Ok(match attribute.ends(value)? {
            (a, None) => decode(a),
            (a, Some((b, share))) => between(decode(a), decode(b), share),
        })
    };
    let Some(time) = time.filter(|_| !attribute.samples.is_empty()) else {
        return attribute.any().map_or(Ok(Vec::new()), of);
    };
    let Some((before, after, share)) = attribute.around(time) else { return Ok(Vec::new()) };
    let values = of(before)?;
    if share > 0.0 {
        return Ok(between(values, of(after)?, share));
    }
    Ok(values)
}

/// Most frames that an animation may be sampled at.
pub const MAX_FRAMES: usize = 100_000;
/// Keys closer than this (in time codes) are one.
const SAME_TIME: f64 = 1e-5;

/// Times to sample at, in time codes: all keys, or `fps` from the first to the last.
pub fn times(mut keys: Vec<f64>, fps: Option<f64>, codes_per_sec: f64) -> Result<Vec<f64>, String> {
    keys.sort_by(f64::total_cmp);
    keys.dedup_by(|later, earlier| *later - *earlier <= SAME_TIME);
    let fps = fps.filter(|fps| fps.is_finite() && *fps > 0.0);
    if let (Some(fps), Some(&first), Some(&last)) = (fps, keys.first(), keys.last()) {
        // A last frame that the end misses by rounding only is kept.
        let frames = ((last - first) / codes_per_sec * fps + 1e-3).floor() + 1.0;
        if frames > MAX_FRAMES as f64 {
            let secs = (last - first) / codes_per_sec;
            return Err(format!("{secs:.1} s at {fps} fps are more than {MAX_FRAMES} frames"));
        }
        keys = (0..frames as usize).map(|t| first + t as f64 / fps * codes_per_sec).collect();
    }
    if keys.len() > MAX_FRAMES {
        return Err(format!("{} keys are more than {MAX_FRAMES}", keys.len()));
    }
    Ok(keys)
}
