//! What a bone must be worth to stay.

/// A bone stays if the error would rise by more than `share` without it, and above `floor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worth {
    /// Share of the error.
    pub share: f64,
    /// E_RMS that is good enough: bones that only lower less are not needed.
    pub floor: f64,
}

impl Worth {
    /// Where the number of bones was asked for: only bones that change next to nothing go.
    pub const ASKED: Self = Self { share: 0.004, floor: 0.1 };

    /// Where it is left open.
    pub fn of_detail(detail: f64) -> Self {
        Self { share: 0.05 / detail, floor: 0.5 / detail }
    }

    /// Half as demanding: joints cost error, so loose bones are thinned out less than the skeleton will be.
    pub fn half(self) -> Self {
        Self { share: 0.5 * self.share, floor: 0.5 * self.floor }
    }

    /// Largest E_RMS at which `bones` bones fewer are no loss.
    pub fn limit(&self, e_rms: f64, bones: usize) -> f64 {
        e_rms.max(self.floor) * (1.0 + self.share).powi(bones as i32)
    }
}
