//! What a fit will do, resolved from the parameters before it starts.

use crate::model::rig::BoneKind;
use crate::skinning::basins::{self, Basins};
use crate::skinning::descent::{State, VertexStep};
use crate::skinning::guess;
use crate::skinning::params::{Effort, FitParams};
use crate::skinning::problem::Problem;
use crate::skinning::search::SearchPlan;
use crate::skinning::together::Together;
use crate::skinning::vertex_step::VertexParams;

/// Vertices and frames of a sample. A mesh less than twice as large is used whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub vertices: usize,
    pub frames: usize,
}

/// Everything that depends on the effort and on the kind of fit.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The sample that bones are searched on.
    pub sample: Size,
    /// Independent searches, of which the best is taken.
    pub starts: usize,
    pub search: SearchPlan,
    /// The larger sample that bones are refined on, and its rounds.
    pub middle: Size,
    pub middle_rounds: usize,
    /// Maximum rounds on everything: after the larger sample, or without it.
    pub last_rounds: usize,
    pub only_rounds: usize,
    /// Whether rounds are made on everything without a larger sample before.
    pub direct: bool,
    /// Rounds on everything end where they lower the error by less than this fraction.
    pub tolerance: f64,
    /// Influences more than wanted that the search may use, given up one by one, and the rounds with each.
    pub spare: usize,
    pub spare_rounds: usize,
    /// Whether rounds on everything are few.
    brief: bool,
    /// Vertex steps from several starting points.
    basins: bool,
    /// Steps over vertices and bones together, where they can be made.
    together: bool,
    /// Bones that each vertex tries in a round besides its own.
    newcomers: usize,
    influences: Option<usize>,
    move_rest: bool,
}

impl Plan {
    /// With the best effort vertices start from several points where they can (`basins`), which gets further in fewer rounds; so do affine
    /// bones with steps over everything at once (`together`), and further still where vertices have to give up influences on the way.
    /// Not where the weights are to be smooth, nor where the rounds are counted.
    pub fn new(params: &FitParams) -> Self {
        let direct = params.max_iterations.is_some() || params.smooth > 0.0;
        let plain = Self::of_effort(params, direct);
        let plan = match params.effort {
            Effort::Best if !direct => {
                let few = params.influences.is_some_and(|count| count <= guess::MAX_BONES);
                let basins = few && !params.keep_rest;
                match (params.bone_kind, basins) {
                    (BoneKind::Affine, _) => Self {
                        middle: Size { vertices: 8000, ..plain.middle },
                        only_rounds: if basins { 56 } else { 80 },
                        middle_rounds: 60,
                        last_rounds: 15,
                        // They know the plain squared error only.
                        together: !params.area && params.importance.is_none(),
                        basins,
                        spare: 2,
                        spare_rounds: 20,
                        ..plain
                    },
                    (_, true) => Self { only_rounds: 160, middle_rounds: 100, last_rounds: 24, basins, ..plain },
                    (_, false) => plain,
                }
            }
            _ => plain,
        };
        let only_rounds = params.max_iterations.unwrap_or(plan.only_rounds);
        Self { only_rounds, tolerance: params.tolerance.unwrap_or(plan.tolerance), ..plan }
    }

    fn of_effort(params: &FitParams, direct: bool) -> Self {
        let balanced = Self {
            sample: Size { vertices: 1200, frames: 80 },
            starts: 1,
            search: SearchPlan::new(params.effort),
            middle: Size { vertices: 2500, frames: 160 },
            middle_rounds: 20,
            last_rounds: 3,
            only_rounds: 10,
            direct,
            tolerance: 1e-3,
            spare: 0,
            spare_rounds: 0,
            brief: params.effort != Effort::Best && params.max_iterations.is_none(),
            basins: false,
            together: false,
            newcomers: 2,
            influences: params.influences,
            move_rest: !params.keep_rest,
        };
        match params.effort {
            Effort::Balanced => balanced,
            Effort::Fast => Self {
                sample: Size { vertices: 600, frames: 64 },
                newcomers: 1,
                middle: Size { vertices: 1200, frames: 128 },
                middle_rounds: 12,
                last_rounds: 2,
                only_rounds: 9,
                ..balanced
            },
            Effort::Best => Self {
                sample: Size { vertices: 1800, frames: 160 },
                starts: 4,
                middle: Size { vertices: 4000, frames: usize::MAX },
                middle_rounds: 200,
                last_rounds: 40,
                only_rounds: 300,
                // Long valleys: a thousandth a round adds up to a tenth.
                tolerance: 1e-5,
                ..balanced
            },
        }
    }

    /// How vertices are solved with `count` bones.
    pub fn vertices(&self, count: usize) -> VertexParams {
        VertexParams {
            slots: self.influences.unwrap_or(count).min(count.max(1)),
            newcomers: self.newcomers,
            min_gain: 1e-2,
            move_rest: self.move_rest,
            rounds: 2,
        }
    }

    /// Whether normals count in all rounds that refine. Not where rounds go on to the last digit, nor in steps that know positions only.
    pub fn shades_all_rounds(&self) -> bool {
        self.brief && !self.basins && !self.together
    }

    /// Whether vertices try other bones in every second round only. Not where rounds go on to the last digit.
    pub fn alternates(&self) -> bool {
        self.brief
    }

    /// The vertex step of rounds that refine `bones` bones.
    pub fn vertex_step(&self, problem: &Problem, bones: usize) -> VertexStep {
        let basins = self.basins && bones <= basins::MAX_RIG_BONES;
        if basins { VertexStep::Basins(Basins::new(&problem.rest)) } else { VertexStep::Choose }
    }

    /// Steps over vertices and bones together, where they can be made.
    pub fn together(&self, state: &State, vertices: &VertexParams) -> Option<Together> {
        self.together.then(|| Together::new(state, vertices)).flatten()
    }
}
