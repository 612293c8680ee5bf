//! The 48 ways to name three axes.

use glam::{DMat3, DVec3};

/// Axis `a` of the target is axis `from[a]` of the source, times `sign[a]`. Written "x,-z,y".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedAxes {
    from: [u8; 3],
    negative: [bool; 3],
}

impl SignedAxes {
    /// Nothing renamed.
    pub const SAME: Self = Self { from: [0, 1, 2], negative: [false; 3] };

    /// Left and right exchanged.
    pub const MIRRORED_X: Self = Self { from: [0, 1, 2], negative: [true, false, false] };

    /// Z up made Y up, and the other way round.
    pub const TIPPED: [Self; 2] = [
        Self { from: [0, 2, 1], negative: [false, false, true] },
        Self { from: [0, 2, 1], negative: [false, true, false] },
    ];

    /// All 48, [`SignedAxes::SAME`] first.
    pub fn all() -> impl Iterator<Item = Self> {
        const ORDERS: [[u8; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let signs = |bits: u8| std::array::from_fn(|a| bits >> a & 1 == 1);
        ORDERS.into_iter().flat_map(move |from| (0..8).map(move |bits| Self { from, negative: signs(bits) }))
    }

    /// As a matrix.
    pub fn matrix(&self) -> DMat3 {
        let row = |a: usize| DVec3::AXES[self.from[a] as usize] * if self.negative[a] { -1.0 } else { 1.0 };
        DMat3::from_cols(row(0), row(1), row(2)).transpose()
    }

    /// Whether left and right are exchanged.
    pub fn mirrors(&self) -> bool {
        self.matrix().determinant() < 0.0
    }
}

impl std::fmt::Display for SignedAxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for a in 0..3 {
            let sign = if self.negative[a] { "-" } else { "" };
            let comma = if a < 2 { "," } else { "" };
            write!(f, "{sign}{}{comma}", ['x', 'y', 'z'][self.from[a] as usize])?;
        }
        Ok(())
    }
}

impl std::str::FromStr for SignedAxes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give three axes such as x,-z,y: each of x, y and z once".to_owned();
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let words: [&str; 3] = words.try_into().map_err(|_| wrong())?;
        let mut axes = Self::SAME;
        for (a, word) in words.iter().enumerate() {
            let (negative, letter) = match word.strip_prefix('-') {
                Some(letter) => (true, letter),
                None => (false, word.strip_prefix('+').unwrap_or(word)),
            };
            let at = ["x", "y", "z"].iter().position(|name| name.eq_ignore_ascii_case(letter)).ok_or_else(wrong)?;
            (axes.from[a], axes.negative[a]) = (at as u8, negative);
        }
        let mut sorted = axes.from;
        sorted.sort_unstable();
        if sorted == [0, 1, 2] { Ok(axes) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_48_and_each_is_written_and_read() {
        let all: Vec<SignedAxes> = SignedAxes::all().collect();
        assert_eq!((all.len(), all[0]), (48, SignedAxes::SAME));
        for (at, axes) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != axes));
            assert_eq!(axes.to_string().parse(), Ok(*axes));
        }
        assert_eq!(all.iter().filter(|axes| axes.mirrors()).count(), 24);
    }

    #[test]
    fn names_say_where_each_axis_comes_from() {
        let axes: SignedAxes = "x,-z,y".parse().unwrap();
        assert_eq!(axes.matrix() * DVec3::new(1.0, 2.0, 3.0), DVec3::new(1.0, -3.0, 2.0));
        for wrong in ["x,y", "x,x,y", "x,y,w", "", "x,y,z,x"] {
            assert!(wrong.parse::<SignedAxes>().is_err(), "{wrong}");
        }
    }
}
