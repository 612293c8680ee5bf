//! The dictionary D: virtual bones as blends of master bones, and its update.
//!
//! Each atom in turn is moved to where the error of the vertices that use it is least, others fixed. In the metric of
//! weights this is [Le2014 eq. 4.5] with the divisor `Phi_jj` (the print has an entry of A). In the metric of poses the
//! paper keeps that formula with the dense optimum `W*` in `Gamma`, and says it may not converge; here the normal
//! equations of the atom are solved in the metric itself,
//!
//! ```text
//! (sum_i a_ij^2 G_i) d_j = sum_i a_ij (q_i - G_i sum_(k != j) a_ik d_k),     sum d_j = 1
//! ```
//!
//! which cannot raise the error. Where at most c bones are allowed, the atom is cut down to those with most effect and
//! solved again, and accepted only if it lowers the error.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

use crate::compress::coefficients::Coefficients;
use crate::observer::{Cancelled, Stages};
use crate::skinning::Metric;

/// Pull towards the present atom, relative to the mean of the diagonal: directions that change no vertex stay.
const RIDGE: f64 = 1e-7;

/// Atoms and their products with the metric's matrices.
#[derive(Clone)]
pub(crate) struct Dictionary<'a> {
    pub metric: &'a Metric,
    /// [q, B] atoms.
    atoms: Vec<f64>,
    /// [q, P, B] `M_p d`.
    images: Vec<f64>,
    /// c: maximum of bones of an atom.
    pub slots: usize,
}

impl<'a> Dictionary<'a> {
    pub fn new(metric: &'a Metric, slots: usize) -> Self {
        Self { metric, atoms: Vec::new(), images: Vec::new(), slots }
    }

    /// q.
    pub fn len(&self) -> usize {
        self.atoms.len() / self.metric.bones
    }

    /// [B] atom `r`.
    pub fn atom(&self, r: usize) -> &[f64] {
        &self.atoms[r * self.metric.bones..(r + 1) * self.metric.bones]
    }

    /// [q, B] all atoms.
    pub fn into_atoms(self) -> Vec<f64> {
        self.atoms
    }

    /// Appends an atom.
    pub fn push(&mut self, atom: &[f64]) {
        self.atoms.extend_from_slice(atom);
        self.images.resize(self.images.len() + self.metric.forms * self.metric.bones, 0.0);
        self.refresh(self.len() - 1);
    }

    /// Removes the atoms that are `freed`; those after them move up.
    pub fn drop(&mut self, freed: &[bool]) {
        let rows = |values: &[f64], width: usize| -> Vec<f64> {
            let kept = values.chunks_exact(width).zip(freed).filter(|(_, freed)| !**freed);
            kept.flat_map(|(row, _)| row.iter().copied()).collect()
        };
        self.atoms = rows(&self.atoms, self.metric.bones);
        self.images = rows(&self.images, self.metric.forms * self.metric.bones);
    }

    /// Replaces atom `r`.
    pub fn set(&mut self, r: usize, atom: &[f64]) {
        self.atoms[r * self.metric.bones..(r + 1) * self.metric.bones].copy_from_slice(atom);
        self.refresh(r);
    }

    fn refresh(&mut self, r: usize) {
        let (b, forms) = (self.metric.bones, self.metric.forms);
        let atom = &self.atoms[r * b..(r + 1) * b];
        let images = self.images[r * forms * b..(r + 1) * forms * b].chunks_exact_mut(b);
        for (image, matrix) in images.zip(self.metric.matrices.chunks_exact(b * b)) {
            image.fill(0.0);
            for (row, &d) in matrix.chunks_exact(b).zip(atom).filter(|(_, d)| **d != 0.0) {
                image.iter_mut().zip(row).for_each(|(x, m)| *x += d * m);
            }
        }
    }

    /// `out = sum_p f_p M_p d_r`.
    #[inline]
    pub fn image(&self, r: usize, features: &[f64], out: &mut [f64]) {
        let (b, forms) = (self.metric.bones, self.metric.forms);
        let images = &self.images[r * forms * b..(r + 1) * forms * b];
        let (first, rest) = images.split_at(b);
        out.iter_mut().zip(first).for_each(|(o, x)| *o = features[0] * x);
        for (image, f) in rest.chunks_exact(b).zip(&features[1..]) {
            out.iter_mut().zip(image).for_each(|(o, x)| *o += f * x);
        }
    }

    /// One pass over all atoms, each moved to its best place; with `choose` among all bones, else among those it blends.
    /// Errors of vertices are stale afterwards.
    pub fn update(&mut self, coefficients: &Coefficients, choose: bool, stages: &mut Stages) -> Result<(), Cancelled> {
        let users = coefficients.users(self.len());
        let mut step = AtomStep::new(self.metric);
        for r in (0..self.len()).filter(|&r| !users[r].is_empty()) {
            stages.report(None)?;
            step.gather(self, coefficients, r, &users[r]);
            if let Some(atom) = step.solve(self.atom(r), self.slots, choose) {
                self.set(r, &atom);
            }
        }
        Ok(())
    }
}

/// Normal equations of one atom.
struct AtomStep {
    /// [P] `sum_i a^2 f_i`.
    features: Vec<f64>,
    /// [B] right side.
    right: Vec<f64>,
    /// [B, B] left side.
    form: Vec<f64>,
    image: Vec<f64>,
}

impl AtomStep {
    fn new(metric: &Metric) -> Self {
        let zeros = |count: usize| vec![0.0; count];
        let b = metric.bones;
        Self { features: zeros(metric.forms), right: zeros(b), form: zeros(b * b), image: zeros(b) }
    }

    /// Sums over the users of atom `r`.
    fn gather(&mut self, dictionary: &Dictionary, coefficients: &Coefficients, r: usize, users: &[u32]) {
        let metric = dictionary.metric;
        self.features.fill(0.0);
        self.right.fill(0.0);
        for &i in users {
            let i = i as usize;
            let a = coefficients.of(i).find(|&(s, _)| s == r).map_or(0.0, |(_, a)| a);
            let features = metric.features(i);
            self.features.iter_mut().zip(features).for_each(|(sum, f)| *sum += a * a * f);
            self.right.iter_mut().zip(metric.linear(i)).for_each(|(sum, q)| *sum += a * q);
            for (s, other) in coefficients.of(i).filter(|&(s, _)| s != r) {
                dictionary.image(s, features, &mut self.image);
                self.right.iter_mut().zip(&self.image).for_each(|(sum, x)| *sum -= a * other * x);
            }
        }
        metric.gram(&self.features, &mut self.form);
    }

    /// The best atom of at most `slots` bones; `None` if the present one is no worse.
    fn solve(&self, present: &[f64], slots: usize, choose: bool) -> Option<Vec<f64>> {
        let mut support: Vec<usize> = (0..present.len()).filter(|&j| choose || present[j] != 0.0).collect();
        let mut atom = self.solve_on(present, &support)?;
        while support.len() > slots {
            let costs = self.removal_costs(&atom, &support)?;
            let mut order: Vec<usize> = (0..support.len()).collect();
            order.sort_by(|&x, &y| costs[y].total_cmp(&costs[x]).then(x.cmp(&y)));
            // Half of the surplus at a time: costs change with each removal.
            order.truncate(slots + (support.len() - slots) / 2);
            order.sort_unstable();
            support = order.into_iter().map(|p| support[p]).collect();
            atom = self.solve_on(present, &support)?;
        }
        (self.value(&atom) < self.value(present)).then_some(atom)
    }

    /// By how much the error rises without each bone of the support, others adjusting: `d^2 / (H^-1)_jj`.
    fn removal_costs(&self, atom: &[f64], support: &[usize]) -> Option<Vec<f64>> {
        let m = support.len();
        let (left, _) = self.left_side(support);
        let inverse = left.llt(Side::Lower).ok()?.solve(Mat::<f64>::identity(m, m));
        Some((0..m).map(|p| atom[support[p]].powi(2) / inverse[(p, p)].max(1e-300)).collect())
    }

    /// Best atom on given bones, with sum 1.
    fn solve_on(&self, present: &[f64], support: &[usize]) -> Option<Vec<f64>> {
        let (b, m) = (present.len(), support.len());
        let (left, ridge) = self.left_side(support);
        // Two right sides: the sums, and ones for the constraint.
        let right = Mat::from_fn(m, 2, |p, c| match c {
            0 => self.right[support[p]] + ridge * present[support[p]],
            _ => 1.0,
        });
        let solution = left.llt(Side::Lower).ok()?.solve(&right);
        let sum = |c: usize| (0..m).map(|p| solution[(p, c)]).sum::<f64>();
        let multiplier = (1.0 - sum(0)) / sum(1);
        let mut atom = vec![0.0; b];
        for (p, &j) in support.iter().enumerate() {
            atom[j] = solution[(p, 0)] + multiplier * solution[(p, 1)];
        }
        atom.iter().all(|x| x.is_finite()).then_some(atom)
    }

    /// `H` on given bones with the ridge, and the ridge.
    fn left_side(&self, support: &[usize]) -> (Mat<f64>, f64) {
        let (b, m) = (self.right.len(), support.len());
        let trace: f64 = support.iter().map(|&j| self.form[j * b + j]).sum();
        let ridge = RIDGE * trace / m as f64 + 1e-300;
        let entry = |p: usize, q: usize| self.form[support[p] * b + support[q]] + if p == q { ridge } else { 0.0 };
        (Mat::from_fn(m, m, entry), ridge)
    }

    /// `d^T H d - 2 g . d`.
    fn value(&self, atom: &[f64]) -> f64 {
        let b = atom.len();
        let along = |j: usize| self.form[j * b..(j + 1) * b].iter().zip(atom).map(|(h, d)| h * d).sum::<f64>();
        (0..b).filter(|&j| atom[j] != 0.0).map(|j| atom[j] * (along(j) - 2.0 * self.right[j])).sum()
    }
}
