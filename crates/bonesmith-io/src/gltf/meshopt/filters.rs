//! Filters: what makes elements of a kind shorter than their bytes are.
//!
//! Decoders follow appendix B of the specification with its rounding. Encoders choose the bits of each element.

use super::Filter;

/// Applies a filter to all elements of `stride` bytes.
pub fn decode(bytes: &mut [u8], stride: usize, filter: Filter) -> Result<(), String> {
    let sound = match filter {
        Filter::None | Filter::Exponential => true,
        Filter::Octahedral | Filter::Color => matches!(stride, 4 | 8),
        Filter::Quaternion => stride == 8,
    };
    if !sound {
        return Err(format!("the filter {} does not take elements of {stride} bytes", filter.name()));
    }
    match filter {
        Filter::None => {}
        Filter::Exponential => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|word| {
            *word = from_exponential(i32::from_le_bytes(*word)).to_le_bytes();
        }),
        Filter::Quaternion => each16(bytes, decode_quaternion),
        Filter::Octahedral if stride == 4 => {
            bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|element| {
                let wide = decode_octahedral(element.map(|b| i32::from(b as i8)), 127.0);
                *element = wide.map(|x| x as i8 as u8);
            });
        }
        Filter::Octahedral => {
            each16(bytes, |element| decode_octahedral(element.map(i32::from), 32767.0).map(|x| x as i16));
        }
        Filter::Color if stride == 4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|element| {
            let [y, co, cg, alpha] = *element;
            let wide = decode_color([i32::from(y), i32::from(co as i8), i32::from(cg as i8), i32::from(alpha)], 255.0);
            *element = wide.map(|x| x as u8);
        }),
        Filter::Color => each16(bytes, |[y, co, cg, alpha]| {
            let wide = [i32::from(y as u16), i32::from(co), i32::from(cg), i32::from(alpha as u16)];
            decode_color(wide, 65535.0).map(|x| x as u16 as i16)
        }),
    }
    Ok(())
}

fn each16(bytes: &mut [u8], f: impl Fn([i16; 4]) -> [i16; 4]) {
    for element in bytes.as_chunks_mut::<8>().0 {
        let words = std::array::from_fn(|c| i16::from_le_bytes([element[2 * c], element[2 * c + 1]]));
        for (c, word) in f(words).into_iter().enumerate() {
            element[2 * c..2 * c + 2].copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// 2^e m, with e in the upper 8 bits and m in the lower 24.
pub fn from_exponential(word: i32) -> f32 {
    let (e, m) = (word >> 24, word << 8 >> 8);
    // Exponents are valid to 100; in float64 nothing overflows before the rounding.
    (f64::from(m) * 2f64.powi(e)) as f32
}

/// The multiple of 2^e nearest to `value`.
pub fn to_exponential(value: f64, e: i32) -> i32 {
    let limit = f64::from((1 << 23) - 1);
    let m = (value * 2f64.powi(-e)).round().clamp(-limit, limit) as i32;
    e << 24 | m & 0xff_ffff
}

/// The smallest exponent not below `e` with which `largest` has a mantissa of 24 bits.
pub fn exponent_for(largest: f64, e: i32) -> i32 {
    let needed = if largest > 0.0 { (largest / f64::from((1 << 23) - 2)).log2().ceil() as i32 } else { -100 };
    e.max(needed).clamp(-100, 100)
}

fn decode_quaternion(input: [i16; 4]) -> [i16; 4] {
    let one = f32::from(input[3] | 3);
    let scale = std::f32::consts::FRAC_1_SQRT_2 / one;
    let [x, y, z] = [0, 1, 2].map(|c| f32::from(input[c]) * scale);
    let w = (1.0 - x * x - y * y - z * z).max(0.0).sqrt();
    let largest = usize::from(input[3] as u16 & 3);
    let mut out = [0i16; 4];
    for (c, value) in [w, x, y, z].into_iter().enumerate() {
        out[(largest + c) % 4] = (value * 32767.0).round() as i16;
    }
    out
}

/// A unit quaternion (x, y, z, w) with `bits` bits, 4 to 16, for each of three components.
pub fn encode_quaternion(q: [f64; 4], bits: u32) -> [i16; 4] {
    let largest = (0..4).max_by(|&a, &b| q[a].abs().total_cmp(&q[b].abs()).then(b.cmp(&a))).unwrap_or(3);
    let one = f64::from((1i32 << (bits - 1)) - 1);
    let sign = if q[largest] < 0.0 { -1.0 } else { 1.0 };
    let part = |c: usize| {
        let value = q[(largest + c) % 4] * sign * std::f64::consts::SQRT_2 * one;
        value.round().clamp(-one, one) as i16
    };
    [part(1), part(2), part(3), (one as i16) & !3 | largest as i16]
}

/// What a decoder makes of it: (x, y, z, w) in 16 bits.
pub fn quaternion_of(coded: [i16; 4]) -> [f64; 4] {
    decode_quaternion(coded).map(|x| f64::from(x) / 32767.0)
}

fn decode_octahedral(input: [i32; 4], max: f32) -> [i32; 4] {
    let one = (input[2] as f32).max(1.0);
    let (mut x, mut y) = (input[0] as f32 / one, input[1] as f32 / one);
    let z = 1.0 - x.abs() - y.abs();
    let fold = z.min(0.0);
    x -= fold.copysign(x);
    y -= fold.copysign(y);
    let scale = max / (x * x + y * y + z * z).sqrt().max(f32::MIN_POSITIVE);
    [(x * scale).round() as i32, (y * scale).round() as i32, (z * scale).round() as i32, input[3]]
}

/// A unit vector with `bits` bits, up to 8, for each of two components; `last` is kept as it is.
pub fn encode_octahedral([x, y, z]: [f32; 3], last: i8, bits: u32) -> [i8; 4] {
    let one = f32::from(((1i16 << (bits - 1)) - 1) as i8);
    let sum = (x.abs() + y.abs() + z.abs()).max(f32::MIN_POSITIVE);
    let (mut u, mut v) = (x / sum, y / sum);
    if z < 0.0 {
        (u, v) = ((1.0 - v.abs()).copysign(u), (1.0 - u.abs()).copysign(v));
    }
    let round = |t: f32| (t * one).round().clamp(-one, one) as i8;
    [round(u), round(v), one as i8, last]
}

fn decode_color([y, co, cg, alpha]: [i32; 4], max: f32) -> [i32; 4] {
    let bits = 32 - (alpha.max(1) as u32).leading_zeros();
    let scale = (1i32 << bits) - 1;
    let a = alpha & (scale >> 1);
    let a = a << 1 | a & 1;
    [y + co - cg, y + cg, y - co - cg, a].map(|c| (c as f32 * (max / scale as f32)).round().clamp(0.0, max) as i32)
}
