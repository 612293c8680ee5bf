//! The vertex step from several starting points.
//!
//! The error of a vertex in weights and rest position has many minima (`guess`), and where influences are few the
//! nearest one is not good enough. So each round the solutions of four neighbours are tried at every vertex: good solutions spread over
//! the surface, as in [Barnes2009]. Every fourth round all sets of the bones of largest gain are tried too, with the rest position of the
//! vertex, of the input or of a neighbour, in turn; the best sets are then solved together with the rest position. A vertex changes only
//! where its error falls.

use glam::DVec3;
use multiversion::multiversion;

use crate::skinning::guess::{self, Guess, MAX_BONES, Patience, VertexError, affine_mix};
use crate::skinning::motion::Motion;
use crate::skinning::pass::{self, Seen};
use crate::skinning::problem::Problem;
use crate::skinning::products::BonePairs;
use crate::skinning::sample;
use crate::skinning::skin::Skin;
use crate::solve::lanes::Mat4;

/// Rounds between trials of sets of bones.
const SETS_EVERY: usize = 4;

/// Bones that sets are made of: 162 sets of up to four.
const CANDIDATES: usize = 8;

/// Sets that are solved together with the rest position.
pub(super) const BEST_SETS: usize = 6;

/// Farthest neighbour along the curve, on either side; two on each side are tried in a round.
const REACH: usize = 6;

/// With more bones, the table of all pairs of them is too large.
pub(crate) const MAX_RIG_BONES: usize = 512;

/// Maximum steps of a guess, and the share of the vertex's error that a step must gain for another one.
const STEPS: (usize, f64) = (8, 1e-2);

/// Neighbours of every vertex along a space-filling curve.
pub(crate) struct Basins {
    /// [N] vertices along the curve.
    order: Vec<u32>,
    /// [N] position of each vertex in `order`.
    place: Vec<u32>,
}

/// Some of the candidates of a vertex.
#[derive(Clone, Copy)]
pub(super) struct Set {
    count: usize,
    members: [usize; MAX_BONES],
}

/// What all vertices of a round share.
struct Round<'a> {
    basins: &'a Basins,
    problem: &'a Problem,
    /// All vertices before the round.
    skin: &'a Skin,
    pairs: &'a BonePairs,
    /// Sets to try this round; none in most rounds.
    sets: Vec<Set>,
    number: usize,
}

/// Buffers of one task.
#[derive(Default)]
struct Scratch {
    /// [B] `Y_j`.
    y: Vec<[f64; 4]>,
    /// [B] gain of a line search towards each bone.
    gains: Vec<f64>,
    /// [B] bones by falling gain.
    ranked: Vec<usize>,
}

impl Basins {
    /// For a problem with these rest positions.
    pub fn new(rest: &[DVec3]) -> Self {
        let order = sample::morton_order(rest);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &i)| place[i as usize] = at as u32);
        Self { order, place }
    }

    /// Moves every vertex to the best of what it tries in round `number`; bones stay. At most [`MAX_BONES`] influences.
    pub fn improve(&self, problem: &Problem, motion: &Motion, skin: &mut Skin, number: usize) {
        let before = skin.clone();
        let pairs = motion.pairs();
        let sets = match number.is_multiple_of(SETS_EVERY) {
            true => all_sets(motion.bones.min(CANDIDATES), skin.slots),
            false => Vec::new(),
        };
        let round = Round { basins: self, problem, skin: &before, pairs, sets, number };
        pass::revise(problem, motion, skin, |scratch, seen| best(&round, scratch, seen));
    }

    /// The `k`-th vertex along the curve after vertex `i` (before it, where `k` is negative).
    #[inline(always)]
    fn near(&self, i: usize, k: isize) -> Option<usize> {
        let at = (self.place[i] as usize).checked_add_signed(k)?;
        self.order.get(at).map(|&i| i as usize)
    }
}

/// All sets of at most `slots` of `candidates` bones.
pub(super) fn all_sets(candidates: usize, slots: usize) -> Vec<Set> {
    let of = |bits: u32| {
        let mut set = Set { count: 0, members: [0; MAX_BONES] };
        for member in (0..candidates).filter(|member| bits >> member & 1 == 1) {
            set.members[set.count] = member;
            set.count += 1;
        }
        set
    };
    (1..1u32 << candidates).filter(|bits| bits.count_ones() as usize <= slots.min(MAX_BONES)).map(of).collect()
}

/// The best solution found for a vertex.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn best(round: &Round<'_>, scratch: &mut Scratch, seen: Seen<'_>) -> Guess {
    let i = seen.vertex;
    let mut top = round.guess_of(i, i);
    find_y(round.pairs, &top, seen.along, &mut scratch.y);
    let error_of = VertexError { pairs: round.pairs, y: &scratch.y };
    let least_gain = STEPS.1 * seen.error;
    error_of.minimise(&mut top, Patience { steps: STEPS.0, least_gain, rival: f64::INFINITY });
    for near in round.neighbours(i).into_iter().flatten() {
        consider(error_of, &mut top, round.guess_of(near, i), least_gain);
    }
    if !round.sets.is_empty() {
        let start = Guess { u: round.start(i, &top), ..top };
        rank(error_of, &start, &mut scratch.gains, &mut scratch.ranked);
        for guess in best_sets(error_of, &round.sets, &scratch.ranked, start.u).into_iter().flatten() {
            consider(error_of, &mut top, guess, least_gain);
        }
    }
    top
}

/// Tries another guess as far as it may become the best.
#[inline(always)]
fn consider(error_of: VertexError<'_>, top: &mut Guess, mut guess: Guess, least_gain: f64) {
    error_of.find_weights(&mut guess);
    error_of.minimise(&mut guess, Patience { steps: STEPS.0, least_gain, rival: top.value });
    if guess.value < top.value {
        *top = guess;
    }
}

/// `Y_j = T_j^T v = T_j^T residual + T_j^T pred` of all bones.
#[inline(always)]
fn find_y(pairs: &BonePairs, present: &Guess, along: &[f32], y: &mut Vec<[f64; 4]>) {
    let b = pairs.bones;
    y.clear();
    y.extend((0..b).map(|j| {
        let mut mixed = Mat4::default();
        for (&k, &w) in present.bones.iter().zip(&present.weights).take(present.count) {
            mixed.add_scaled(w, pairs.block(j, k));
        }
        let pred = mixed.times(&present.u);
        std::array::from_fn(|c| pred[c] + f64::from(along[c * b + j]))
    }));
}

/// All bones, those of the guess first, then by the gain of a line search from it towards each alone.
#[inline(always)]
fn rank(error_of: VertexError<'_>, start: &Guess, gains: &mut Vec<f64>, ranked: &mut Vec<usize>) {
    let (b, u) = (error_of.pairs.bones, &start.u);
    let outer = Mat4::outer(u, u);
    let own = || start.bones.iter().zip(&start.weights).take(start.count);
    let linear = |j: usize| guess::dot(&error_of.y[j], u);
    // Product of bone j's prediction with the present one.
    let cross = |j: usize| own().map(|(&k, &w)| w * error_of.pairs.block(j, k).dot(&outer)).sum::<f64>();
    let pred_pred: f64 = own().map(|(&k, &w)| w * cross(k)).sum();
    let slope_pred = own().map(|(&k, &w)| w * linear(k)).sum::<f64>() - pred_pred;
    gains.clear();
    gains.extend((0..b).map(|j| {
        let cross = cross(j);
        let slope = linear(j) - cross - slope_pred;
        let distance = error_of.pairs.block(j, j).dot(&outer) - 2.0 * cross + pred_pred;
        let step = (slope / distance.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        step * (2.0 * slope - step * distance)
    }));
    own().for_each(|(&k, _)| gains[k] = f64::INFINITY);
    ranked.clear();
    ranked.extend(0..b);
    ranked.sort_unstable_by(|&j, &k| gains[k].total_cmp(&gains[j]).then(j.cmp(&k)));
}

/// The sets that are best with the rest position as it is, the best first. Sets that would need a negative weight are not: a
/// smaller one does as well.
#[inline(always)]
pub(super) fn best_sets(
    error_of: VertexError<'_>,
    sets: &[Set],
    ranked: &[usize],
    u: [f64; 4],
) -> [Option<Guess>; BEST_SETS] {
    let count = ranked.len().min(CANDIDATES);
    let outer = Mat4::outer(&u, &u);
    let (mut gram, mut linear) = ([[0.0; CANDIDATES]; CANDIDATES], [0.0; CANDIDATES]);
    for a in 0..count {
        linear[a] = guess::dot(&error_of.y[ranked[a]], &u);
        for b in 0..=a {
            gram[a][b] = error_of.pairs.block(ranked[a], ranked[b]).dot(&outer);
        }
    }
    let mut best: [Option<Guess>; BEST_SETS] = [None; BEST_SETS];
    for set in sets {
        let n = set.count;
        let (mut own, mut slopes) = ([[0.0; MAX_BONES]; MAX_BONES], [0.0; MAX_BONES]);
        for (a, &p) in set.members.iter().enumerate().take(n) {
            slopes[a] = linear[p];
            set.members.iter().enumerate().take(a + 1).for_each(|(b, &q)| own[a][b] = gram[p][q]);
        }
        let (value, weights) = affine_mix(n, &own, &slopes);
        let is_behind = |other: &Option<Guess>| other.as_ref().is_none_or(|other| value < other.value);
        if !is_behind(&best[BEST_SETS - 1]) || weights.iter().any(|w| *w < 0.0) {
            continue;
        }
        let at = best.iter().position(is_behind).unwrap_or(BEST_SETS - 1);
        best[at..].rotate_right(1);
        best[at] = Some(Guess { count: n, bones: set.members.map(|p| ranked[p.min(count - 1)]), weights, u, value });
    }
    best
}

impl Round<'_> {
    /// The solution of vertex `of` for vertex `i`, with the same offset of the rest position from the input's.
    #[inline(always)]
    fn guess_of(&self, of: usize, i: usize) -> Guess {
        let mut guess =
            Guess { count: 0, bones: [0; MAX_BONES], weights: [0.0; MAX_BONES], u: self.rest_like(of, i), value: 0.0 };
        for (j, w) in self.skin.of(of) {
            (guess.bones[guess.count], guess.weights[guess.count]) = (j, w);
            guess.count += 1;
        }
        if guess.count == 0 {
            (guess.count, guess.weights[0]) = (1, 1.0);
        }
        guess
    }

    #[inline(always)]
    fn rest_like(&self, of: usize, i: usize) -> [f64; 4] {
        let u = if of == i {
            self.skin.rest[i]
        } else {
            self.skin.rest[of] + (self.problem.rest[i] - self.problem.rest[of])
        };
        [u.x, u.y, u.z, 1.0]
    }

    /// The neighbours whose solutions vertex `i` tries this round.
    #[inline(always)]
    fn neighbours(&self, i: usize) -> [Option<usize>; 4] {
        let far = (1 + 2 * self.number % REACH) as isize;
        [far, -far, far + 1, -far - 1].map(|k| self.basins.near(i, k))
    }

    /// The rest position that sets of bones are tried with this round.
    #[inline(always)]
    fn start(&self, i: usize, top: &Guess) -> [f64; 4] {
        let turn = self.number / SETS_EVERY;
        match turn % 3 {
            0 => top.u,
            1 => self.problem.rest[i].extend(1.0).to_array(),
            _ => {
                let far = (1 + turn / 6 % REACH) as isize;
                let near = self.basins.near(i, if turn.is_multiple_of(2) { far } else { -far });
                near.map_or(top.u, |near| self.rest_like(near, i))
            }
        }
    }
}
