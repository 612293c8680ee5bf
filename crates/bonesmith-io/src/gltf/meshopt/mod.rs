//! Compressed buffer views: `EXT_meshopt_compression` and its successor `KHR_meshopt_compression`.
//!
//! Written after the specifications' appendices A (bitstream) and B (filters). A view is decoded to the bytes that an uncompressed file
//! would have there, so that no other reader of the file changes. docs/decisions/220-own-meshopt.md compares with the libraries.
//!
//! | mode | module | reads | writes |
//! |---|---|---|---|
//! | `ATTRIBUTES` | `attributes` | versions 0 and 1 | both; version 1 is for `KHR_meshopt_compression` only |
//! | `TRIANGLES`, `INDICES` | `indices` | version 1 | `TRIANGLES` |
//! | filters | `filters` | all five | octahedral, quaternion, exponential |

pub mod attributes;
pub mod filters;
pub mod indices;

/// Names of the extensions, in the order in which they are looked for.
pub const EXTENSIONS: [&str; 2] = ["EXT_meshopt_compression", "KHR_meshopt_compression"];

/// How the bytes of a view were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Elements of any kind.
    Attributes,
    /// Indices of triangles.
    Triangles,
    /// Other indices.
    Indices,
}

/// What happens to elements after they are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Nothing.
    #[default]
    None,
    /// Unit vectors.
    Octahedral,
    /// Rotations.
    Quaternion,
    /// Floats with a chosen step.
    Exponential,
    /// Colours.
    Color,
}

impl Mode {
    /// By the name in the file.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Attributes, Self::Triangles, Self::Indices].into_iter().find(|mode| mode.name() == name)
    }

    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attributes => "ATTRIBUTES",
            Self::Triangles => "TRIANGLES",
            Self::Indices => "INDICES",
        }
    }
}

impl Filter {
    /// By the name in the file.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::None, Self::Octahedral, Self::Quaternion, Self::Exponential, Self::Color];
        all.into_iter().find(|filter| filter.name() == name)
    }

    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Octahedral => "OCTAHEDRAL",
            Self::Quaternion => "QUATERNION",
            Self::Exponential => "EXPONENTIAL",
            Self::Color => "COLOR",
        }
    }
}

/// Decodes a view of `count` elements of `stride` bytes; the error says what is wrong with it.
pub fn decode(bytes: &[u8], count: usize, stride: usize, mode: Mode, filter: Filter) -> Result<Vec<u8>, String> {
    match mode {
        Mode::Attributes => {
            if stride == 0 || stride > 256 || !stride.is_multiple_of(4) {
                return Err(format!("elements of {stride} bytes; a multiple of 4 up to 256 is needed"));
            }
            let mut decoded = attributes::decode(bytes, count, stride)?;
            filters::decode(&mut decoded, stride, filter)?;
            Ok(decoded)
        }
        Mode::Triangles | Mode::Indices => {
            if !matches!(stride, 2 | 4) || filter != Filter::None {
                return Err(format!("indices of {stride} bytes with the filter {}", filter.name()));
            }
            let indices = if mode == Mode::Triangles {
                indices::decode_triangles(bytes, count)
            } else {
                indices::decode(bytes, count)
            };
            let indices = indices?;
            if stride == 4 {
                return Ok(indices.iter().flat_map(|i| i.to_le_bytes()).collect());
            }
            Ok(indices.iter().flat_map(|&i| (i as u16).to_le_bytes()).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of the specification, appendix A.
    #[test]
    fn sixteen_deltas_of_four_bits() {
        let group = [0x17, 0x5f, 0xf0, 0xbc, 0x77, 0xa9, 0x21, 0x00, 0x34, 0xb5];
        let mut stream = vec![0xa0, 2];
        stream.extend(group);
        stream.extend([0, 0, 0]);
        stream.extend([0; 32]);
        let decoded = attributes::decode(&stream, 16, 4).unwrap();
        let deltas = [-1i32, -4, -3, 26, -91, 0, -6, 6, -4, -4, 5, -5, 1, -1, 0, 0];
        let mut sum = 0;
        for (element, delta) in decoded.chunks(4).zip(deltas) {
            sum += delta;
            assert_eq!(element, [sum as u8, 0, 0, 0]);
        }
    }

    #[test]
    fn broken_streams_are_errors() {
        for mode in [Mode::Attributes, Mode::Triangles, Mode::Indices] {
            for bytes in [&[][..], &[0xa0], &[0xe1], &[0xd1], &[0xa1; 40], &[0xe1; 40], &[0xd1; 9]] {
                let count = if mode == Mode::Triangles { 9 } else { 7 };
                assert!(decode(bytes, count, 4, mode, Filter::None).is_err(), "{mode:?} {bytes:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn hostile_streams_are_decoded_or_refused(
            head in proptest::sample::select(vec![0xa0u8, 0xa1, 0xe0, 0xe1, 0xd0, 0xd1]),
            body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
            triangles in 0usize..70,
            words in 1usize..8,
        ) {
            let bytes = [&[head][..], &body[..]].concat();
            for mode in [Mode::Attributes, Mode::Triangles, Mode::Indices] {
                for filter in [Filter::None, Filter::Octahedral, Filter::Quaternion, Filter::Exponential, Filter::Color] {
                    for stride in [2, 4, 8, 4 * words] {
                        if let Ok(decoded) = decode(&bytes, 3 * triangles, stride, mode, filter) {
                            prop_assert_eq!(decoded.len(), 3 * triangles * stride);
                        }
                    }
                }
            }
        }

        #[test]
        fn attributes_are_what_they_were(
            (stride, bytes) in (1usize..=20).prop_flat_map(|s| {
                (Just(4 * s), proptest::collection::vec(prop_oneof![Just(0u8), 0u8..4, any::<u8>()], 0..4000))
            })
        ) {
            let bytes = &bytes[..bytes.len() / stride * stride];
            for version in [attributes::Version::Zero, attributes::Version::One] {
                let stream = attributes::encode(bytes, stride, version);
                prop_assert_eq!(&attributes::decode(&stream, bytes.len() / stride, stride).unwrap()[..], bytes);
            }
        }

        #[test]
        fn triangles_are_what_they_were(triangles in proptest::collection::vec(proptest::array::uniform3(0u32..60), 0..200)) {
            let turned = |t: &[u32]| {
                let first = (0..3).min_by_key(|&c| (t[c], t[(c + 1) % 3], t[(c + 2) % 3])).unwrap();
                [t[first], t[(first + 1) % 3], t[(first + 2) % 3]]
            };
            let decoded = indices::decode_triangles(&indices::encode_triangles(&triangles), 3 * triangles.len()).unwrap();
            let decoded: Vec<[u32; 3]> = decoded.chunks(3).map(turned).collect();
            prop_assert_eq!(decoded, triangles.iter().map(|t| turned(t)).collect::<Vec<_>>());
        }

        #[test]
        fn filters_are_within_half_a_step(q in proptest::array::uniform4(-1f64..1.0), bits in 6u32..=16) {
            let length = q.iter().map(|x| x * x).sum::<f64>().sqrt();
            prop_assume!(length > 1e-3);
            let q = q.map(|x| x / length);
            let read = filters::quaternion_of(filters::encode_quaternion(q, bits));
            let dot: f64 = q.iter().zip(read).map(|(a, b)| a * b).sum();
            let step = std::f64::consts::FRAC_1_SQRT_2 / f64::from((1i32 << (bits - 1)) - 1);
            prop_assert!(1.0 - dot.abs() < 4.0 * step * step + 1e-4, "{}", dot);
            let e = -(bits as i32);
            let read = f64::from(filters::from_exponential(filters::to_exponential(q[0], e)));
            prop_assert!((read - q[0]).abs() <= 0.5 * 2f64.powi(e) + 1e-9);
        }
    }
}
