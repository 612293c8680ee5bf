//! How much work goes where.

use super::params::Effort;

/// Numbers that an [`Effort`] stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Vertices of the sample that bones are searched on; a mesh up to half as large again is used whole.
    pub vertices: usize,
    /// Frames of that sample.
    pub frames: usize,
    /// Rounds before the first replanting.
    pub warm_up: usize,
    /// Times that bones are planted and thinned out.
    pub cycles: usize,
    /// Rounds after planting, and after thinning out.
    pub settle: usize,
    /// Bones planted in a cycle, as a share of those asked for.
    pub extra: f64,
    /// Vertices that a planted bone is fitted to, as a share of a bone's fair share.
    pub patch: f64,
    /// Share of the excess bones taken out at a time.
    pub batch: f64,
    /// Sweeps over rigid bones in a round.
    pub sweeps: usize,
    /// Most rounds on all vertices and frames.
    pub fine_rounds: usize,
}

impl Schedule {
    pub fn new(effort: Effort) -> Self {
        let get = |name: &str, default: f64| std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default);
        let balanced = Self {
            vertices: get("CV", 1200.0) as usize,
            frames: get("CF", 64.0) as usize,
            warm_up: get("CI", 4.0) as usize,
            cycles: get("CYCLES", 6.0) as usize,
            settle: get("SETTLE", 3.0) as usize,
            extra: get("MORE", 0.25),
            patch: get("PATCH", 0.35),
            batch: get("RB", 0.6),
            sweeps: get("SWEEPS", 3.0) as usize,
            fine_rounds: get("FI", 10.0) as usize,
        };
        match effort {
            Effort::Fast => Self { vertices: 800, frames: 48, cycles: 3, fine_rounds: 4, ..balanced },
            Effort::Balanced => balanced,
            Effort::Best => Self { vertices: 2500, frames: 200, cycles: 16, fine_rounds: 40, ..balanced },
        }
    }
}
