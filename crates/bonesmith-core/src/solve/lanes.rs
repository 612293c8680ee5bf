//! Eight numbers side by side: small problems are solved in batches, one problem a lane.
//!
//! Plain arrays and plain loops over them; inside a function compiled for AVX-512 or AVX2 they become one or two
//! instructions.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// Problems per batch: one AVX-512 register, two AVX2 registers of float64.
pub(crate) const LANES: usize = 8;

macro_rules! lanewise {
    ($type:ident, $trait:ident, $method:ident, $op:tt) => {
        impl $trait for $type {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self::from_fn(|l| self.0[l] $op other.0[l])
            }
        }
    };
}

macro_rules! lanes {
    ($(#[$doc:meta])* $type:ident, $float:ty, $align:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(C, align($align))]
        pub(crate) struct $type(pub [$float; LANES]);

        impl $type {
            pub const ZERO: Self = Self([0.0; LANES]);

            #[inline(always)]
            pub fn splat(x: $float) -> Self {
                Self([x; LANES])
            }

            #[inline(always)]
            pub fn from_fn(f: impl FnMut(usize) -> $float) -> Self {
                Self(std::array::from_fn(f))
            }

            #[inline(always)]
            pub fn min(self, other: Self) -> Self {
                Self::from_fn(|l| if self.0[l] < other.0[l] { self.0[l] } else { other.0[l] })
            }

            #[inline(always)]
            pub fn max(self, other: Self) -> Self {
                Self::from_fn(|l| if self.0[l] > other.0[l] { self.0[l] } else { other.0[l] })
            }
        }

        lanewise!($type, Add, add, +);
        lanewise!($type, Sub, sub, -);
        lanewise!($type, Mul, mul, *);
        lanewise!($type, Div, div, /);

        impl AddAssign for $type {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
    };
}

lanes!(
    /// One number for each of [`LANES`] problems. As a mask: 1 is yes, 0 is no.
    Lanes,
    f64,
    64
);
lanes!(
    /// The same in float32, where bones are ranked.
    Floats,
    f32,
    32
);

impl Lanes {
    pub const ONE: Self = Self([1.0; LANES]);

    /// Mask of `self < other`.
    #[inline(always)]
    pub fn below(self, other: Self) -> Self {
        Self::from_fn(|l| if self.0[l] < other.0[l] { 1.0 } else { 0.0 })
    }

    /// Mask of lanes that are equal to `x`.
    #[inline(always)]
    pub fn equals(self, x: f64) -> Self {
        Self::from_fn(|l| if self.0[l] == x { 1.0 } else { 0.0 })
    }

    /// `yes` where the mask is set, `no` elsewhere.
    #[inline(always)]
    pub fn select(self, yes: Self, no: Self) -> Self {
        Self::from_fn(|l| if self.0[l] > 0.0 { yes.0[l] } else { no.0[l] })
    }

    /// Mask of lanes where `self` is not set.
    #[inline(always)]
    pub fn not(self) -> Self {
        Self::ONE - self
    }

    /// Whether a mask is set anywhere.
    #[inline(always)]
    pub fn any(self) -> bool {
        self.0.iter().sum::<f64>() > 0.0
    }
}

impl SubAssign for Lanes {
    #[inline(always)]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Lanes {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        Self::from_fn(|l| -self.0[l])
    }
}

/// `0..n` for loops whose bodies are whole registers already. The compiler cannot count these steps, so it does not
/// try to put several of them side by side, which it would do with slow gathers.
#[inline(always)]
pub(crate) fn steps(n: usize) -> impl Iterator<Item = usize> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let step = next;
        next = std::hint::black_box(step + 1);
        (step < n).then_some(step)
    })
}

/// A 4x4 matrix, rows end to end, as two registers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub(crate) struct Mat4(pub [Lanes; 2]);

impl Mat4 {
    /// `a b^T`.
    #[inline(always)]
    pub fn outer(a: &[f64; 4], b: &[f64; 4]) -> Self {
        let half = |h: usize| Lanes::from_fn(|l| a[2 * h + l / 4] * b[l % 4]);
        Self([half(0), half(1)])
    }

    /// From its rows.
    #[inline(always)]
    pub fn from_rows(rows: &[[f64; 4]; 4]) -> Self {
        let half = |h: usize| Lanes::from_fn(|l| rows[2 * h + l / 4][l % 4]);
        Self([half(0), half(1)])
    }

    #[inline(always)]
    pub fn transposed(&self) -> Self {
        let half = |h: usize| Lanes::from_fn(|l| self.get(l % 4, 2 * h + l / 4));
        Self([half(0), half(1)])
    }

    /// Row `r`, column `c`.
    #[inline(always)]
    pub fn get(&self, r: usize, c: usize) -> f64 {
        self.0[r / 2].0[4 * (r % 2) + c]
    }

    /// Row `r`, column `c`.
    #[inline(always)]
    pub fn get_mut(&mut self, r: usize, c: usize) -> &mut f64 {
        &mut self.0[r / 2].0[4 * (r % 2) + c]
    }

    #[inline(always)]
    pub fn add_scaled(&mut self, scale: f64, other: &Self) {
        let scale = Lanes::splat(scale);
        self.0[0] += scale * other.0[0];
        self.0[1] += scale * other.0[1];
    }

    /// Sum of all products of entries.
    #[inline(always)]
    pub fn dot(&self, other: &Self) -> f64 {
        let Lanes(s) = self.0[0] * other.0[0] + self.0[1] * other.0[1];
        let t = [s[0] + s[4], s[1] + s[5], s[2] + s[6], s[3] + s[7]];
        (t[0] + t[2]) + (t[1] + t[3])
    }

    #[inline(always)]
    pub fn times(&self, u: &[f64; 4]) -> [f64; 4] {
        let repeated = Lanes::from_fn(|l| u[l % 4]);
        let [Lanes(a), Lanes(b)] = [self.0[0] * repeated, self.0[1] * repeated];
        let sum = |x: &[f64]| (x[0] + x[2]) + (x[1] + x[3]);
        [sum(&a[..4]), sum(&a[4..]), sum(&b[..4]), sum(&b[4..])]
    }
}
