//! How much work goes where.

use crate::model::rig::BoneKind;
use crate::skinning::guess;
use crate::skinning::params::{Effort, FitParams};

/// Numbers that an [`Effort`] stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Vertices of the sample that bones are searched on; a mesh less than twice as large is used whole.
    pub vertices: usize,
    /// Frames of that sample.
    pub frames: usize,
    /// Independent searches, of which the best is taken.
    pub starts: usize,
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
    /// Bones that each vertex tries in a round besides its own.
    pub newcomers: usize,
    /// Sweeps over rigid bones in a round.
    pub sweeps: usize,
    /// Most rounds on all vertices and frames, where there are few vertices.
    pub fine_rounds: usize,
    /// Vertices of the larger sample that bones are refined on; a mesh less than twice as large is used whole.
    pub middle_vertices: usize,
    /// Frames of that sample.
    pub middle_frames: usize,
    /// Rounds on that sample.
    pub middle_rounds: usize,
    /// Most rounds on all vertices and frames after those.
    pub last_rounds: usize,
    /// Rounds on all vertices and frames end where they lower the error by less than this fraction.
    pub tolerance: f64,
    /// Whether vertices and bones are moved together, too.
    pub jointly: bool,
    /// Whether vertices look further than the nearest minimum.
    pub far_sighted: bool,
    /// Influences more than asked for that the search may use; they are given up one by one.
    pub spare: usize,
    /// Rounds with each of them before it is given up.
    pub spare_rounds: usize,
}

impl Schedule {
    pub fn new(effort: Effort) -> Self {
        let balanced = Self {
            vertices: 1200,
            frames: 80,
            starts: 1,
            warm_up: 1,
            cycles: 8,
            settle: 2,
            extra: 0.2,
            patch: 0.35,
            batch: 0.6,
            newcomers: 2,
            sweeps: 3,
            fine_rounds: 10,
            middle_vertices: 2500,
            middle_frames: 160,
            middle_rounds: 10,
            last_rounds: 3,
            tolerance: 1e-3,
            jointly: false,
            far_sighted: false,
            spare: 0,
            spare_rounds: 0,
        };
        match effort {
            Effort::Fast => Self {
                vertices: 600,
                newcomers: 1,
                frames: 64,
                cycles: 3,
                fine_rounds: 9,
                middle_vertices: 1200,
                middle_frames: 128,
                middle_rounds: 6,
                last_rounds: 2,
                ..balanced
            },
            Effort::Balanced => balanced,
            Effort::Best => Self {
                vertices: 1800,
                frames: 160,
                starts: 4,
                cycles: 10,
                fine_rounds: 300,
                middle_vertices: 4000,
                middle_frames: usize::MAX,
                middle_rounds: 200,
                last_rounds: 40,
                // Long valleys: a thousandth a round adds up to a tenth.
                tolerance: 1e-5,
                ..balanced
            },
        }
    }

    /// As the parameters ask. With the best effort vertices look further where they can (`basins`), which gets further in fewer
    /// rounds; so do affine bones with steps over everything at once (`joint`), and further still where vertices have to
    /// give up influences on the way. Not where the weights are to be smooth, nor where the rounds are counted out.
    pub fn of(params: &FitParams) -> Self {
        let plain = Self::new(params.effort);
        if params.effort != Effort::Best || params.smooth > 0.0 || params.max_iterations.is_some() {
            return plain;
        }
        let far_sighted = !params.keep_rest && params.influences.is_some_and(|most| most <= guess::MOST);
        match (params.bone_kind, far_sighted) {
            (BoneKind::Affine, _) => Self {
                middle_vertices: 8000,
                fine_rounds: if far_sighted { 56 } else { 80 },
                middle_rounds: 60,
                last_rounds: 15,
                jointly: true,
                far_sighted,
                spare: 2,
                spare_rounds: 20,
                ..plain
            },
            (_, true) => Self { fine_rounds: 160, middle_rounds: 100, last_rounds: 24, far_sighted, ..plain },
            (_, false) => plain,
        }
    }

    /// The schedule of independent search number `start`: the same work, spent differently, so that the searches end
    /// in different places. Few rounds before replanting keep bones free to move; many extra bones at a time move
    /// further.
    pub fn varied(self, start: usize) -> Self {
        const WARM_UPS: [usize; 4] = [1, 8, 3, 16];
        const EXTRAS: [f64; 4] = [1.0, 3.0, 5.0, 1.0];
        let at = start % WARM_UPS.len();
        Self {
            warm_up: self.warm_up * WARM_UPS[at],
            extra: (self.extra * EXTRAS[at]).min(1.0),
            // More bones at a time cost more rounds to thin out.
            cycles: if EXTRAS[at] > 1.0 { self.cycles.div_ceil(2) } else { self.cycles },
            ..self
        }
    }
}
