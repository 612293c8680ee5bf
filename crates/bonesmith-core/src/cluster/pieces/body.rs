//! A body: some vertices as second moments, in the rest pose and in every frame. How well one bone moves them, and what two
//! bodies on one bone cost, follows from the moments alone.
//!
//! With centred rest positions `u` and positions `p` of a frame, `C = sum u u^T`, `H = sum p u^T` and `s = sum |p|^2`, a bone with
//! linear part `A` that moves the centre to the centre leaves
//!
//! ```text
//! E(A) = s - 2 tr(A^T H) + tr(A C A^T)
//! ```

use glam::{DMat3, DVec3, Vec3};

use crate::mesh::frames::Frames;
use crate::model::rig::BoneKind;
use crate::skinning::bone_step::SCALE_RANGE;
use crate::skinning::unit::UnitSpace;
use crate::solve::transform::{nearest_rotation, rotation_svd};

/// Where positions come from: a rest pose and frames, in the unit space of the rest pose, frames not centred.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub rest: &'a [Vec3],
    pub frames: &'a dyn Frames,
    pub space: &'a UnitSpace,
}

/// Called with the number of a frame and a function from a member to its position there.
type Visit<'a> = &'a mut dyn FnMut(usize, &dyn Fn(u32) -> DVec3);

impl Source<'_> {
    /// Rest position of vertex `i`.
    pub fn rest(&self, i: u32) -> DVec3 {
        self.space.point(self.rest[i as usize])
    }

    /// Calls `visit` for each of `frames`.
    pub fn read(&self, members: &[u32], frames: &[u32], visit: Visit<'_>) {
        let Some((first, last)) = members.iter().min().zip(members.iter().max()) else { return };
        let (first, end) = (*first as usize, *last as usize + 1);
        self.frames.read(frames, first..end, &mut |at, positions| {
            visit(at, &|i| self.space.point(positions[i as usize - first]));
        });
    }
}

/// A body in one frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Posed {
    /// Centre of the vertices.
    pub mean: DVec3,
    /// `H`.
    pub cross: DMat3,
    /// `s`.
    pub spread: f64,
}

/// Sums over the vertices of a body.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// Vertices.
    pub count: f64,
    /// Centre in the rest pose.
    pub rest: DVec3,
    /// `C`.
    pub scatter: DMat3,
    /// [F]
    pub frames: Vec<Posed>,
}

/// What the bone of a body does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// Rotation and translation.
    Rigid,
    /// Scale along these axes, too.
    Scaled(DMat3),
    /// Any linear map.
    Affine,
}

fn outer(p: DVec3, u: DVec3) -> DMat3 {
    DMat3::from_cols(p * u.x, p * u.y, p * u.z)
}

/// `tr(a^T b)`.
fn dot(a: &DMat3, b: &DMat3) -> f64 {
    a.x_axis.dot(b.x_axis) + a.y_axis.dot(b.y_axis) + a.z_axis.dot(b.z_axis)
}

fn trace(m: &DMat3) -> f64 {
    m.x_axis.x + m.y_axis.y + m.z_axis.z
}

/// Pull towards the rotation of the frame before, as a share of the moments: it decides only what the vertices leave open, such as
/// the spin of a stick.
const PULL: f64 = 1e-10;

/// A body this much smaller than at rest is a point: the bone of a piece that is not there yet, or no longer, has scale 0.
pub(super) const COLLAPSED: f64 = 1e-3;

impl Body {
    /// Whether all vertices are in one point in a frame, and not at rest.
    pub fn is_collapsed(&self, posed: &Posed) -> bool {
        let size = trace(&self.scatter);
        size > 0.0 && posed.spread <= COLLAPSED * COLLAPSED * size
    }

    /// The moments of some vertices in some frames.
    pub fn gather(source: Source<'_>, members: &[u32], frames: &[u32]) -> Self {
        let mut posed = vec![Posed::default(); frames.len()];
        let (rest, offsets) = centred(members.iter().map(|&i| source.rest(i)));
        let scatter = offsets.iter().map(|u| outer(*u, *u)).fold(DMat3::ZERO, |sum, m| sum + m);
        source.read(members, frames, &mut |at, position| {
            // Relative to one of them: small numbers.
            let origin = position(members[0]);
            let (mut sum, mut cross, mut squares) = (DVec3::ZERO, DMat3::ZERO, 0.0);
            for (&i, u) in members.iter().zip(&offsets) {
                let p = position(i) - origin;
                sum += p;
                cross += outer(p, *u);
                squares += p.length_squared();
            }
            let shift = sum / members.len() as f64;
            posed[at] = Posed { mean: origin + shift, cross, spread: (squares - sum.dot(shift)).max(0.0) };
        });
        Self { count: members.len() as f64, rest, scatter, frames: posed }
    }

    /// Both together, in the frames number `only` of each.
    pub fn joined(&self, other: &Self, only: impl IntoIterator<Item = usize>) -> Self {
        let count = self.count + other.count;
        let share = self.count * other.count / count;
        let apart = self.rest - other.rest;
        let join = |t: usize| {
            let (a, b) = (&self.frames[t], &other.frames[t]);
            let gap = a.mean - b.mean;
            Posed {
                mean: (a.mean * self.count + b.mean * other.count) / count,
                cross: a.cross + b.cross + outer(gap, apart) * share,
                spread: a.spread + b.spread + share * gap.length_squared(),
            }
        };
        Self {
            count,
            rest: (self.rest * self.count + other.rest * other.count) / count,
            scatter: self.scatter + other.scatter + outer(apart, apart) * share,
            frames: only.into_iter().map(join).collect(),
        }
    }

    /// Root mean square distance from the centre in the rest pose.
    pub fn extent(&self) -> f64 {
        (trace(&self.scatter) / self.count).max(0.0).sqrt()
    }

    /// Squared error of the vertices in a frame under a linear part, the centre moved to `mean`.
    pub fn error(&self, posed: &Posed, linear: &DMat3, offset: DVec3) -> f64 {
        let error = posed.spread - 2.0 * dot(linear, &posed.cross) + dot(&(*linear * self.scatter), linear);
        error.max(0.0) + self.count * offset.length_squared()
    }

    /// The best linear part in a frame, after `previous`, that of the frame before.
    pub fn linear(&self, form: &Form, posed: &Posed, previous: &DMat3) -> DMat3 {
        if self.is_collapsed(posed) {
            return DMat3::ZERO;
        }
        match form {
            Form::Rigid => self.rotation(posed, previous),
            Form::Scaled(axes) => self.scaled(posed, axes, previous),
            Form::Affine => self.affine(posed, previous),
        }
    }

    fn rotation(&self, posed: &Posed, previous: &DMat3) -> DMat3 {
        let size = dot(&posed.cross, &posed.cross).sqrt();
        match size > 0.0 {
            true => nearest_rotation(&(posed.cross * (1.0 / size) + *previous * PULL)),
            false => *previous,
        }
    }

    /// `R diag(s) Q^T`: rotation and scale in turn, from the scale of the affine optimum.
    fn scaled(&self, posed: &Posed, axes: &DMat3, previous: &DMat3) -> DMat3 {
        const TURNS: usize = 50;
        let clamp = |s: f64| s.clamp(SCALE_RANGE.0, SCALE_RANGE.1);
        let spread = axes.transpose() * (self.scatter * *axes);
        let spread = DVec3::new(spread.x_axis.x, spread.y_axis.y, spread.z_axis.z);
        let least = 1e-9 * spread.max_element();
        let along = posed.cross * *axes;
        let previous = nearest_rotation(&(*previous * *axes));
        let guess = self.affine(posed, &(previous * axes.transpose())) * *axes;
        let mut scale = DVec3::new(guess.x_axis.length(), guess.y_axis.length(), guess.z_axis.length()).map(clamp);
        let mut rotation = previous;
        for _ in 0..TURNS {
            let target = along * DMat3::from_diagonal(scale);
            let size = dot(&target, &target).sqrt();
            if size <= 0.0 {
                break;
            }
            rotation = nearest_rotation(&(target * (1.0 / size) + previous * PULL));
            let best = |r: DVec3, h: DVec3, c: f64, s: f64| if c > least { clamp(r.dot(h) / c) } else { s };
            let next = DVec3::new(
                best(rotation.x_axis, along.x_axis, spread.x, scale.x),
                best(rotation.y_axis, along.y_axis, spread.y, scale.y),
                best(rotation.z_axis, along.z_axis, spread.z, scale.z),
            );
            let moved = (next - scale).abs().max_element();
            scale = next;
            if moved < 1e-12 {
                break;
            }
        }
        rotation * DMat3::from_diagonal(scale) * axes.transpose()
    }

    /// `H C^-1`; directions without vertices go where the rotation takes them.
    fn affine(&self, posed: &Posed, previous: &DMat3) -> DMat3 {
        const THIN: f64 = 1e-9;
        let svd = rotation_svd(&self.scatter);
        let axes = [svd.v.x_axis, svd.v.y_axis, svd.v.z_axis];
        let largest = svd.sigma.x;
        let rotation = self.rotation(posed, &nearest_rotation(previous));
        let along = |k: usize| {
            let spread = axes[k].dot(self.scatter * axes[k]);
            match spread > THIN * largest && largest > 0.0 {
                true => posed.cross * axes[k] / spread,
                false => rotation * axes[k],
            }
        };
        DMat3::from_cols(along(0), along(1), along(2)) * svd.v.transpose()
    }

    /// Calls `visit` with each frame and its best linear part; ends early where it returns false, and returns false then.
    pub fn follow(&self, form: &Form, mut visit: impl FnMut(usize, &DMat3) -> bool) -> bool {
        let mut last = DMat3::IDENTITY;
        for (t, posed) in self.frames.iter().enumerate() {
            let linear = self.linear(form, posed, &last);
            if linear != DMat3::ZERO {
                last = linear;
            }
            if !visit(t, &linear) {
                return false;
            }
        }
        true
    }

    /// Squared error over all frames.
    pub fn total_error(&self, form: &Form) -> f64 {
        self.errors(form).0
    }

    /// Squared error over all frames, and the largest root mean square error in a frame.
    pub fn errors(&self, form: &Form) -> (f64, f64) {
        let (mut sum, mut worst) = (0.0, 0f64);
        self.follow(form, |t, linear| {
            let error = self.error(&self.frames[t], linear, DVec3::ZERO);
            sum += error;
            worst = worst.max(error / self.count);
            true
        });
        (sum, worst.sqrt())
    }

    /// Whether one bone moves the vertices within a root mean square error of `tolerance` in every frame.
    pub fn fits(&self, form: &Form, tolerance: f64) -> bool {
        let limit = self.count * tolerance * tolerance;
        self.follow(form, |t, linear| self.error(&self.frames[t], linear, DVec3::ZERO) <= limit)
    }

    /// The forms that bones of a kind may have, simplest first; a body with too few vertices to contradict a form has it not.
    pub fn forms(&self, kind: BoneKind) -> Vec<Form> {
        let mut forms = vec![Form::Rigid];
        match kind {
            BoneKind::Rigid => {}
            BoneKind::Trs if self.count >= 5.0 => forms.push(Form::Scaled(self.axes())),
            BoneKind::Affine if self.count >= 5.0 => forms.push(Form::Affine),
            _ => {}
        }
        forms
    }

    /// The form with the least squared error, and that error; a simpler one where it is as good.
    pub fn best_form(&self, kind: BoneKind) -> (Form, f64) {
        let mut best = (Form::Rigid, self.total_error(&Form::Rigid));
        for form in self.forms(kind).into_iter().skip(1) {
            let error = self.total_error(&form);
            if error < 0.5 * best.1 {
                best = (form, error);
            }
        }
        best
    }

    /// Axes that the body scales along: those of `sum_t c_t A_t^T A_t`, with irregular weights so that scales of different frames do not
    /// even out.
    fn axes(&self) -> DMat3 {
        let (mut sum, mut linear) = (DMat3::ZERO, DMat3::IDENTITY);
        for (t, posed) in self.frames.iter().enumerate() {
            linear = self.affine(posed, &linear);
            let weight = 1.0 + (0.618_033_988_75 * t as f64).fract();
            sum += linear.transpose() * linear * weight;
        }
        // Equal scales leave the axes open.
        let mean = trace(&sum) / 3.0;
        let uneven = sum - DMat3::from_diagonal(DVec3::splat(mean));
        match dot(&uneven, &uneven).sqrt() > 1e-6 * mean.abs() {
            true => rotation_svd(&sum).v,
            false => DMat3::IDENTITY,
        }
    }
}

/// The centre of some points, and the points about it.
fn centred(points: impl Iterator<Item = DVec3>) -> (DVec3, Vec<DVec3>) {
    let mut points: Vec<DVec3> = points.collect();
    let centre = points.iter().sum::<DVec3>() / points.len() as f64;
    points.iter_mut().for_each(|p| *p -= centre);
    (centre, points)
}
