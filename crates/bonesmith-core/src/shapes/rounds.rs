//! Weights and numbers in turn.

use glam::DVec3;

use crate::model::shape_bones::{ShapeKind, component};
use crate::observer::Cancelled;
use crate::shapes::mirror::Mirror;
use crate::shapes::select::{Budget, Paths};
use crate::shapes::system::{Support, System, gain};
use crate::skinning::pass::{self, BothErrors};
use crate::skinning::{Moments, Momentum, Motion, Problem, Run, State, VertexParams};

/// Largest momentum factor.
const MAX_MOMENTUM: f64 = 0.97;

/// In every round with this number all promising bones are admitted at each vertex, however small the gain of each alone.
const DEEP_EVERY: usize = 4;

/// Which numbers are stored, and rounds that improve them and the weights. States have motions of offsets.
#[derive(Clone)]
pub(super) struct Rounds {
    vertices: VertexParams,
    pub kind: ShapeKind,
    /// [B] places of the bones, in the unit space. They stay while the support does.
    pub places: Vec<DVec3>,
    pub support: Support,
    /// [S] shapes that are the neutral.
    still: Vec<bool>,
    /// Shapes that are stored, the first ones. Those after them are images of shapes without any (`mirror`).
    stored: usize,
    /// Of a symmetric face: pairs that are kept.
    mirror: Option<Mirror>,
}

impl Rounds {
    /// With all numbers; `still` are the shapes that are the neutral, `stored` how many are stored.
    pub fn new(
        problem: &Problem,
        state: &mut State,
        vertices: VertexParams,
        kind: ShapeKind,
        (still, stored): (Vec<bool>, usize),
        mirror: Option<Mirror>,
    ) -> Self {
        let vertices = VertexParams { slots: state.skin.slots, ..vertices };
        let all = (0..(state.bones() * kind.numbers()) as u32).collect();
        let support = vec![all; problem.frames()];
        let mut rounds = Self { vertices, kind, places: Vec::new(), support, still, stored, mirror };
        let moments = rounds.solve_vertices(problem, state, true);
        rounds.place(&moments);
        rounds
    }

    /// Numbers of all shapes that are stored.
    pub fn number_count(&self) -> usize {
        self.count_stored(&self.support)
    }

    fn count_stored(&self, support: &Support) -> usize {
        support[..self.stored].iter().map(Vec::len).sum()
    }

    /// Whether all numbers are stored.
    pub fn has_all(&self) -> bool {
        self.number_count() == self.places.len() * self.kind.numbers() * self.stored
    }

    /// Stored shapes as a share of all.
    pub fn stored_share(&self) -> f64 {
        self.stored as f64 / self.support.len().max(1) as f64
    }

    /// Squared error of the shapes that are stored.
    pub fn stored_error(&self, problem: &Problem, state: &State) -> f64 {
        match self.stored == problem.frames() {
            true => pass::squared_error(problem, &state.motion, &state.skin),
            false => pass::gather_frames(problem, &state.motion, &state.skin).per_frame[..self.stored].iter().sum(),
        }
    }

    /// What positions and normals are off; normals are those of the skin.
    pub fn normal_errors(&self, problem: &Problem, state: &mut State) -> BothErrors {
        pass::solve_normals(problem, &state.motion, &mut state.skin, self.vertices)
    }

    /// Some rounds with the support as it is; the squared error after them.
    pub fn rounds(
        &self,
        problem: &Problem,
        state: &mut State,
        count: usize,
        run: &mut Run<'_>,
    ) -> Result<f64, Cancelled> {
        let mut momentum = Momentum::new(MAX_MOMENTUM);
        let mut squared_error = f64::INFINITY;
        for round in 0..count {
            let deep = round.is_multiple_of(DEEP_EVERY);
            let mut moments = run.timed("vertices", || self.solve_vertices(problem, state, deep));
            if momentum.is_ahead() && moments.squared_error > squared_error {
                run.report()?;
                momentum.step_back(&mut state.motion);
                moments = run.timed("vertices", || self.solve_vertices(problem, state, deep));
            }
            run.report()?;
            squared_error = run.timed("numbers", || {
                let system = System::new(&state.motion, &moments, &self.places, self.kind, &self.still);
                self.solve_numbers(&system, state, &moments)
            });
            // Numbers are solved for positions and normals together: where normals count, the error of positions is that before.
            let of_positions = match problem.normals.is_some() {
                true => moments.squared_error - moments.normal_error,
                false => squared_error,
            };
            run.round(state.bones(), problem.e_rms(of_positions))?;
            if run.is_over() {
                break;
            }
            momentum.look_ahead(&mut state.motion, extrapolate);
        }
        momentum.step_back(&mut state.motion);
        Ok(squared_error)
    }

    /// Stores the `count` numbers that buy most, and moves the bones to the middle of their vertices.
    pub fn reselect(
        &mut self,
        problem: &Problem,
        state: &mut State,
        count: usize,
        run: &mut Run<'_>,
    ) -> Result<(), Cancelled> {
        self.choose(problem, state, |_| Budget::Count(count), run)
    }

    /// Stores the fewest numbers with a squared error of at most `limit`.
    pub fn reselect_within(
        &mut self,
        problem: &Problem,
        state: &mut State,
        limit: f64,
        run: &mut Run<'_>,
    ) -> Result<(), Cancelled> {
        self.choose(problem, state, |still| Budget::Explained(still - limit), run)
    }

    /// `budget` is for the squared error of a face that does not move.
    fn choose(
        &mut self,
        problem: &Problem,
        state: &mut State,
        budget: impl FnOnce(f64) -> Budget,
        run: &mut Run<'_>,
    ) -> Result<(), Cancelled> {
        let moments = run.timed("vertices", || self.solve_vertices(problem, state, true));
        run.report()?;
        self.place(&moments);
        run.timed("choice of numbers", || {
            let system = System::new(&state.motion, &moments, &self.places, self.kind, &self.still);
            let none = Motion::from_rows(state.bones(), state.motion.length, vec![0.0; state.motion.rows().len()]);
            let still = moments.squared_error - gain(&state.motion, &none, &moments);
            self.support = self.selected(&system, budget(still));
            self.solve_numbers(&system, state, &moments);
        });
        run.report()
    }

    /// The numbers to store; of a symmetric face the same on both sides.
    fn selected(&self, system: &System, budget: Budget) -> Support {
        let Some(mirror) = &self.mirror else { return Paths::new(system, &self.support, budget).cut(budget) };
        let Budget::Count(count) = budget else {
            return mirror.support(Paths::new(system, &self.support, budget).cut(budget), self.kind.numbers());
        };
        // Numbers without their image are left out, and images of shapes are not stored: as many are asked for as leave the count.
        let paths = Paths::new(system, &self.support, Budget::Count(count * system.shapes / self.stored.max(1)));
        let paired = |asked: usize| mirror.support(paths.cut(Budget::Count(asked)), self.kind.numbers());
        let (mut low, mut high) = (0, paths.count());
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.count_stored(&paired(middle)) <= count {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        paired(low)
    }

    fn solve_vertices(&self, problem: &Problem, state: &mut State, deep: bool) -> Moments {
        let params = match deep {
            true => VertexParams { newcomers: 2 * self.vertices.newcomers, min_gain: 0.0, ..self.vertices },
            false => self.vertices,
        };
        let moments = pass::solve(problem, &state.motion, &mut state.skin, params, None);
        let Some(mirror) = &self.mirror else { return moments };
        mirror.skin(&mut state.skin);
        pass::gather(problem, &state.motion, &state.skin)
    }

    /// Bones are in the middle of their vertices.
    fn place(&mut self, moments: &Moments) {
        self.places = moments.second.of.iter().map(|own| own.centre()).collect();
        if let Some(mirror) = &self.mirror {
            mirror.places(&mut self.places);
        }
    }

    /// The best numbers on the support, as a motion; the squared error.
    fn solve_numbers(&self, system: &System, state: &mut State, moments: &Moments) -> f64 {
        let mut numbers = system.solve(&self.support);
        if let Some(mirror) = &self.mirror {
            mirror.numbers(&self.support, &mut numbers, self.kind.numbers());
        }
        let motion = system.motion(&self.support, &numbers);
        let gain = gain(&state.motion, &motion, moments);
        state.motion = motion;
        (moments.squared_error - gain).max(0.0)
    }

    /// [S] the numbers of a motion on the support.
    pub fn numbers(&self, motion: &Motion) -> Vec<Vec<f64>> {
        let q = self.kind.numbers();
        let of_shape = |(s, unknowns): (usize, &Vec<u32>)| {
            let number = |u: &u32| {
                let (j, a) = (*u as usize / q, *u as usize % q);
                number_of(&motion.get(j, s), a, self.places[j])
            };
            unknowns.iter().map(number).collect()
        };
        let mut numbers: Vec<Vec<f64>> = self.support.iter().enumerate().map(of_shape).collect();
        if let Some(mirror) = &self.mirror {
            mirror.numbers(&self.support, &mut numbers, q);
        }
        numbers
    }
}

/// How much of component `a` about `place` is in a matrix. Components are orthogonal: entry by entry, a rotation and a shear share two.
fn number_of(matrix: &[[f64; 4]; 3], a: usize, place: DVec3) -> f64 {
    let unit = component(a);
    let at_place = |row: &[f64; 4]| row[0] * place.x + row[1] * place.y + row[2] * place.z + row[3];
    let (mut sum, mut square) = (0.0, 0.0);
    for (row, unit) in matrix.iter().zip(&unit) {
        for (c, unit) in unit.iter().enumerate() {
            sum += unit * if c == 3 { at_place(row) } else { row[c] };
            square += unit * unit;
        }
    }
    sum / square
}

fn extrapolate(new: &Motion, old: Motion, beta: f64) -> Motion {
    let rows = new.rows().iter().zip(old.rows()).map(|(new, old)| new + beta * (new - old)).collect();
    Motion::from_rows(new.bones, new.length, rows)
}
