//! A small random generator (SplitMix64 [Steele2014]): the same numbers everywhere, for ever.

use glam::{DQuat, DVec3};

/// State of the generator.
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1): the 53 bits that a float64 can hold.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [-1, 1).
    pub fn signed(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    /// Each coordinate uniform in [-1, 1).
    pub fn vector(&mut self) -> DVec3 {
        DVec3::new(self.signed(), self.signed(), self.signed())
    }

    /// Uniform over all rotations [Shoemake1992].
    pub fn rotation(&mut self) -> DQuat {
        let (u, a, b) = (self.unit(), self.unit() * std::f64::consts::TAU, self.unit() * std::f64::consts::TAU);
        let (p, q) = ((1.0 - u).sqrt(), u.sqrt());
        DQuat::from_xyzw(p * a.sin(), p * a.cos(), q * b.sin(), q * b.cos())
    }
}
