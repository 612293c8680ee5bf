//! From bone matrices to nodes: which nodes a bone needs, and their translation, rotation and scale over time.
//!
//! A node holds translation * rotation * scale. A bone whose transform relative to its parent shears needs two:
//! with the singular value decomposition `A = U S V^T` the outer node holds `U S` and the inner one, the joint,
//! `V^T`. Both are exact at the keys; between keys they stay sane because each frame's decomposition is chosen
//! to follow the one before.
//!
//! Values are rounded to float32 here, and every child is expressed relative to the *rounded* parent: rounding
//! does not add up along chains.

use bonesmith_core::transform::{Trs, continue_signs, nearest_rotation, rotation_svd};
use bonesmith_core::{BoneKind, Clip, Rig};
use glam::{DAffine3, DMat3, DQuat, DVec3};

use crate::skinned::depths;
use crate::usd::half::{half_bits, half_pair, half_to_f32};

/// Largest cosine between axes that still counts as no shear: float32 matrices of rigid bones reach 1e-7.
const SHEAR_TOLERANCE: f64 = 1e-6;
/// The same for rigs that say that their bones are rigid: matrices that came out of float32 chains reach 2e-6, and a
/// second node for that would change the tree that the user knows.
const RIGID_TOLERANCE: f64 = 2e-5;
/// Singular values closer than this (relative) are one: their axes are free and follow the frame before.
const DEGENERATE: f64 = 3e-7;
/// Offsets between joints that change by less than this share of the model's reach are constant but for rounding:
/// a float32 rotation of the parent is off by 6e-8.
const NO_SHIFT: f64 = 1e-6;
/// A child relative to a parent with a worse condition number than this would lose float32 precision.
const MAX_CONDITION: f64 = 1e3;

/// One node's transform over time, in float32 steps.
pub struct NodeMotion {
    /// Transform of the node itself.
    pub rest: Trs,
    /// [clips][F].
    pub clips: Vec<Vec<Trs>>,
}

/// The nodes of one bone.
pub struct BoneNodes {
    /// Bone whose joint is the parent node; `None` for the common root.
    pub parent: Option<usize>,
    /// The outer node, where two are needed.
    pub outer: Option<NodeMotion>,
    /// Between them, where scales are half floats: the rest of the outer one's scale.
    pub fine: Option<NodeMotion>,
    /// The joint.
    pub joint: NodeMotion,
}

/// All bones as nodes.
pub struct Joints {
    /// [B].
    pub nodes: Vec<BoneNodes>,
    /// [B] inverse bind matrices, column-major float32.
    pub inverse_binds: Vec<[f32; 16]>,
}

impl Joints {
    /// A bone with a number beyond float32, which is what files hold.
    pub fn beyond_float32(&self) -> Option<usize> {
        let sound = |trs: &Trs| {
            let numbers = [trs.translation.to_array(), trs.scale.to_array()];
            numbers.as_flattened().iter().all(|x| (*x as f32).is_finite()) && trs.rotation.is_finite()
        };
        let motion = |motion: &NodeMotion| sound(&motion.rest) && motion.clips.iter().flatten().all(sound);
        let node = |node: &BoneNodes| {
            [node.outer.as_ref(), node.fine.as_ref(), Some(&node.joint)].into_iter().flatten().all(motion)
        };
        let binds = |j: usize| self.inverse_binds[j].iter().all(|x| x.is_finite());
        (0..self.nodes.len()).find(|&j| !binds(j) || !node(&self.nodes[j]))
    }

    /// Nodes in the longest chain.
    pub fn deepest(&self) -> usize {
        let parents: Vec<Option<usize>> = self.nodes.iter().map(|node| node.parent).collect();
        let mut order: Vec<usize> = (0..parents.len()).collect();
        let depths = depths(&parents);
        order.sort_by_key(|&j| depths[j]);
        let mut nodes = vec![0; parents.len()];
        for j in order {
            let own = 1 + usize::from(self.nodes[j].outer.is_some()) + usize::from(self.nodes[j].fine.is_some());
            nodes[j] = own + parents[j].map_or(0, |p| nodes[p]);
        }
        nodes.into_iter().max().unwrap_or(0)
    }
}

/// What to say about [`Joints::beyond_float32`].
pub fn too_far(rig: &Rig, bone: usize) -> String {
    format!("bone {:?} moves beyond the numbers of float32, which the file holds", rig.bones[bone].name)
}

/// Plans the nodes of all bones.
pub fn plan(rig: &Rig) -> Joints {
    plan_with(rig, false)
}

/// As [`plan`], for formats whose scales are half floats (USD): a bone that scales has one node more, and the scale
/// is the product of two.
pub fn plan_half_scales(rig: &Rig) -> Joints {
    plan_with(rig, true)
}

/// The motion of a node that stands at `place` and follows bone `j`; `None` where one node is not enough.
pub fn following(rig: &Rig, j: usize, place: DAffine3) -> Option<NodeMotion> {
    let tolerance = tolerance(rig);
    Trs::from_affine(place, tolerance)?;
    let frames = |clip: &Clip| frames_of(clip, j).map(|m| m * place).collect();
    let nodes = to_nodes(None, Worlds { rest: place, clips: rig.clips.iter().map(frames).collect() }, tolerance);
    nodes.outer.is_none().then_some(nodes.joint)
}

fn tolerance(rig: &Rig) -> f64 {
    if rig.kind == BoneKind::Rigid { RIGID_TOLERANCE } else { SHEAR_TOLERANCE }
}

fn plan_with(rig: &Rig, half_scales: bool) -> Joints {
    let slack = NO_SHIFT * reach(rig);
    let inverse_binds: Vec<DAffine3> = rig.bones.iter().map(|b| rounded(rigid(b.world_from_bind).inverse())).collect();
    let sound: Vec<bool> = (0..rig.bone_count()).map(|j| rig.clips.iter().all(|clip| invertible(clip, j))).collect();
    let tolerance = tolerance(rig);
    let mut nodes: Vec<Option<BoneNodes>> = (0..rig.bone_count()).map(|_| None).collect();
    let mut worlds: Vec<Worlds> = (0..rig.bone_count()).map(|_| Worlds::default()).collect();
    for j in parents_first(rig) {
        let parent = rig.bones[j].parent.filter(|&p| sound[p]);
        // What the joint's node must be in the world so that node x stored inverse bind = posed_from_rest.
        let bind = inverse_binds[j].inverse();
        let goal = Worlds {
            rest: bind,
            clips: rig.clips.iter().map(|clip| frames_of(clip, j).map(|m| m * bind).collect()).collect(),
        };
        let local = match parent {
            Some(p) => goal.relative_to(&worlds[p]),
            None => goal,
        };
        let mut node = to_nodes(parent, local, tolerance);
        if parent.is_some() && node.outer.is_none() {
            node.joint.hold_still(slack);
        }
        if half_scales {
            node.split_scales();
        }
        worlds[j] = node.local().under(parent.map(|p| &worlds[p]));
        nodes[j] = Some(node);
    }
    Joints {
        nodes: nodes.into_iter().flatten().collect(),
        inverse_binds: inverse_binds.iter().map(|m| columns(*m)).collect(),
    }
}

/// Farthest that a vertex or joint is from the middle of the joints, in model units.
fn reach(rig: &Rig) -> f64 {
    let joints = || rig.bones.iter().map(|bone| bone.world_from_bind.translation);
    let middle = joints().sum::<DVec3>() / rig.bone_count().max(1) as f64;
    let places = rig.rest.iter().map(|p| p.as_dvec3()).chain(joints());
    places.map(|p| p.distance_squared(middle)).fold(0.0, f64::max).sqrt()
}

/// A matrix at rest and in every frame of every clip.
#[derive(Default)]
struct Worlds {
    rest: DAffine3,
    clips: Vec<Vec<DAffine3>>,
}

impl Worlds {
    fn relative_to(&self, parent: &Worlds) -> Worlds {
        self.zip(parent, |own, parent| parent.inverse() * own)
    }

    fn under(self, parent: Option<&Worlds>) -> Worlds {
        match parent {
            Some(parent) => self.zip(parent, |own, parent| parent * own),
            None => self,
        }
    }

    fn zip(&self, other: &Worlds, f: impl Fn(DAffine3, DAffine3) -> DAffine3) -> Worlds {
        let frames = |(a, b): (&Vec<DAffine3>, &Vec<DAffine3>)| a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect();
        Worlds { rest: f(self.rest, other.rest), clips: self.clips.iter().zip(&other.clips).map(frames).collect() }
    }
}

impl NodeMotion {
    fn local(&self) -> Worlds {
        let frames = |clip: &Vec<Trs>| clip.iter().map(|trs| trs.to_affine()).collect();
        Worlds { rest: self.rest.to_affine(), clips: self.clips.iter().map(frames).collect() }
    }
}

impl BoneNodes {
    fn local(&self) -> Worlds {
        let mut local = self.joint.local();
        for above in [&self.fine, &self.outer].into_iter().flatten() {
            local = local.under(Some(&above.local()));
        }
        local
    }

    /// Scales as products of two half floats, in nested nodes; where one is enough, in one.
    fn split_scales(&mut self) {
        let carrier = self.outer.as_mut().unwrap_or(&mut self.joint);
        let half = |x: f64| f64::from(half_to_f32(half_bits(x as f32)));
        let is_half = |trs: &Trs| trs.scale.to_array().into_iter().all(|s| half(s) == s);
        if carrier.clips.iter().flatten().chain([&carrier.rest]).all(is_half) {
            return;
        }
        let mut fine = NodeMotion { rest: Trs::IDENTITY, clips: Vec::new() };
        carrier.rest.scale = DVec3::from_array(carrier.rest.scale.to_array().map(half));
        for clip in &mut carrier.clips {
            let mut last = DVec3::ONE;
            let split = |trs: &mut Trs| {
                for axis in 0..3 {
                    (trs.scale[axis], last[axis]) = half_pair(trs.scale[axis], last[axis]);
                }
                Trs { scale: last, ..Trs::IDENTITY }
            };
            fine.clips.push(clip.iter_mut().map(split).collect());
        }
        match self.outer {
            Some(_) => self.fine = Some(fine),
            None => self.outer = Some(std::mem::replace(&mut self.joint, fine)),
        }
    }
}

fn frames_of(clip: &Clip, j: usize) -> impl Iterator<Item = DAffine3> + '_ {
    (0..clip.frame_count()).map(move |t| clip.frame(t)[j])
}

/// Bones in an order in which every parent comes before its children.
fn parents_first(rig: &Rig) -> Vec<usize> {
    let depths = depths(&rig.bones.iter().map(|bone| bone.parent).collect::<Vec<_>>());
    let mut order: Vec<usize> = (0..rig.bone_count()).collect();
    order.sort_by_key(|&j| depths[j]);
    order
}

fn invertible(clip: &Clip, j: usize) -> bool {
    frames_of(clip, j).all(|m| {
        let sigma = rotation_svd(&m.matrix3).sigma.abs();
        sigma.min_element() * MAX_CONDITION >= sigma.max_element() && sigma.min_element() > 0.0
    })
}

/// The rigid transform nearest to a bind that should be one; readers mistreat scale in inverse bind matrices.
fn rigid(bind: DAffine3) -> DAffine3 {
    DAffine3::from_mat3_translation(nearest_rotation(&bind.matrix3), bind.translation)
}

fn columns(m: DAffine3) -> [f32; 16] {
    let [x, y, z, w] = [m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis, m.translation].map(|c| c.as_vec3());
    [x.x, x.y, x.z, 0.0, y.x, y.y, y.z, 0.0, z.x, z.y, z.z, 0.0, w.x, w.y, w.z, 1.0]
}

fn rounded(m: DAffine3) -> DAffine3 {
    let [x, y, z, w] = [m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis, m.translation].map(round);
    DAffine3::from_mat3_translation(DMat3::from_cols(x, y, z), w)
}

fn round(v: DVec3) -> DVec3 {
    v.as_vec3().as_dvec3()
}

/// One node where translation, rotation and scale suffice in every frame, else two.
fn to_nodes(parent: Option<usize>, local: Worlds, tolerance: f64) -> BoneNodes {
    let rest = Trs::from_affine(local.rest, 1.0).unwrap_or(Trs::IDENTITY);
    let clips: Option<Vec<Vec<Trs>>> =
        local.clips.iter().map(|clip| clip.iter().map(|m| Trs::from_affine(*m, tolerance)).collect()).collect();
    if let Some(clips) = clips {
        return BoneNodes { parent, outer: None, fine: None, joint: NodeMotion::new(rest, clips, tolerance) };
    }
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    for clip in &local.clips {
        let (outer_frames, inner_frames) = nested(clip, rest.rotation);
        outer.push(outer_frames);
        inner.push(inner_frames);
    }
    BoneNodes {
        parent,
        outer: Some(NodeMotion::new(rest, outer, tolerance)),
        fine: None,
        joint: NodeMotion::new(Trs::IDENTITY, inner, tolerance),
    }
}

impl NodeMotion {
    /// Rounds to float32 and makes rotations continuous; scales that are 1 but for rounding become 1.
    fn new(rest: Trs, mut clips: Vec<Vec<Trs>>, tolerance: f64) -> Self {
        let frames = || clips.iter().flatten().chain(std::iter::once(&rest));
        let unscaled = frames().all(|trs| (trs.scale - DVec3::ONE).abs().max_element() < tolerance);
        let finish = |trs: Trs| Trs {
            translation: round(trs.translation),
            rotation: round_rotation(trs.rotation),
            scale: if unscaled { DVec3::ONE } else { round(trs.scale) },
        };
        for clip in &mut clips {
            turn_while_hidden(clip);
            // The node's own rotation leads, so that a clip starts on its hemisphere.
            let mut rotations: Vec<DQuat> =
                std::iter::once(rest.rotation).chain(clip.iter().map(|trs| trs.rotation)).collect();
            continue_signs(&mut rotations);
            for (trs, rotation) in clip.iter_mut().zip(&rotations[1..]) {
                *trs = finish(Trs { rotation: *rotation, ..*trs });
            }
        }
        Self { rest: finish(rest), clips }
    }
}

/// A node of scale 0 has the rotation in which it appears, or else that in which it vanished: it does not turn while it grows.
fn turn_while_hidden(clip: &mut [Trs]) {
    let is_hidden = |trs: &Trs| trs.scale == DVec3::ZERO;
    let mut next = None;
    for trs in clip.iter_mut().rev() {
        match (is_hidden(trs), next) {
            (false, _) => next = Some(trs.rotation),
            (true, Some(rotation)) => trs.rotation = rotation,
            (true, None) => {}
        }
    }
    let visible = clip.iter().rposition(|trs| !is_hidden(trs));
    if let Some(last) = visible {
        let rotation = clip[last].rotation;
        clip[last + 1..].iter_mut().for_each(|trs| trs.rotation = rotation);
    }
}

impl NodeMotion {
    /// A joint that only turns: an offset to the parent that changes by rounding alone becomes one constant.
    fn hold_still(&mut self, slack: f64) {
        let own = self.rest.translation;
        let frames = || self.clips.iter().flatten();
        if frames().all(|trs| (trs.translation - own).abs().max_element() <= slack) {
            self.clips.iter_mut().flatten().for_each(|trs| trs.translation = own);
        }
    }
}

fn round_rotation(q: DQuat) -> DQuat {
    q.as_quat().as_dquat()
}

/// Outer and inner transforms of each frame; `lead` is the outer rotation at rest.
///
/// Starts at the frame whose axes are best defined and follows them to both ends.
fn nested(frames: &[DAffine3], lead: DQuat) -> (Vec<Trs>, Vec<Trs>) {
    let separation = |m: &DAffine3| {
        let sigma = rotation_svd(&m.matrix3).sigma.abs();
        (sigma.x - sigma.y).min(sigma.y - sigma.z) / sigma.x.max(f64::MIN_POSITIVE)
    };
    let best = |a: &usize, b: &usize| separation(&frames[*a]).total_cmp(&separation(&frames[*b])).then(b.cmp(a));
    let anchor = (0..frames.len()).max_by(best).unwrap_or(0);
    let mut pairs = vec![(Trs::IDENTITY, Trs::IDENTITY); frames.len()];
    let mut follow = |order: &mut dyn Iterator<Item = usize>, mut last_u: DMat3, mut last_v: DMat3| {
        let mut first = None;
        for t in order {
            let m = &frames[t];
            let (u, sigma, v) = following_svd(&m.matrix3, &last_u, &last_v);
            let outer = Trs { translation: m.translation, rotation: DQuat::from_mat3(&u).normalize(), scale: sigma };
            let inner = Trs { rotation: DQuat::from_mat3(&v.transpose()).normalize(), ..Trs::IDENTITY };
            pairs[t] = (outer, inner);
            (last_u, last_v) = (u, v);
            first = first.or(Some((u, v)));
        }
        first.unwrap_or((last_u, last_v))
    };
    let (u, v) = follow(&mut (anchor..frames.len()), DMat3::from_quat(lead), DMat3::IDENTITY);
    follow(&mut (0..anchor).rev(), u, v);
    pairs.into_iter().unzip()
}

/// The decomposition `m = u diag(sigma) v^T` nearest to the previous `u` and `v`.
///
/// Axes may be permuted and flipped in pairs (24 ways) and, where singular values coincide, rotated freely.
fn following_svd(m: &DMat3, last_u: &DMat3, last_v: &DMat3) -> (DMat3, DVec3, DMat3) {
    let svd = rotation_svd(m);
    let likeness = |u: &DMat3, v: &DMat3| u.transpose() * *last_u + v.transpose() * *last_v;
    let trace = |m: DMat3| m.x_axis.x + m.y_axis.y + m.z_axis.z;
    let (mut best, mut best_score) = (DMat3::IDENTITY, f64::NEG_INFINITY);
    for turn in axis_turns() {
        let score = trace(likeness(&(svd.u * turn), &(svd.v * turn)));
        if score > best_score + 1e-12 {
            (best, best_score) = (turn, score);
        }
    }
    let (u, v) = (svd.u * best, svd.v * best);
    let spread = best.transpose() * DMat3::from_diagonal(svd.sigma) * best;
    let sigma = DVec3::new(spread.x_axis.x, spread.y_axis.y, spread.z_axis.z);
    let free = free_rotation(sigma, likeness(&u, &v));
    (u * free, sigma, v * free)
}

/// The rotation within axes of equal singular value that best matches `likeness`.
fn free_rotation(sigma: DVec3, likeness: DMat3) -> DMat3 {
    let limit = DEGENERATE * sigma.abs().max_element();
    let mut block = DMat3::IDENTITY;
    let mut any = false;
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        if (sigma[a] - sigma[b]).abs() <= limit {
            any = true;
            for (row, column) in [(a, a), (b, b), (a, b), (b, a)] {
                block.col_mut(column)[row] = likeness.col(column)[row];
            }
        }
    }
    if any { nearest_rotation(&block) } else { DMat3::IDENTITY }
}

/// The 24 rotations that map axes to axes.
fn axis_turns() -> impl Iterator<Item = DMat3> {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    ORDERS.into_iter().flat_map(|order| {
        (0..8u8).filter_map(move |signs| {
            let axis = |c: usize| DVec3::AXES[order[c]] * if signs >> c & 1 == 1 { -1.0 } else { 1.0 };
            let turn = DMat3::from_cols(axis(0), axis(1), axis(2));
            (turn.determinant() > 0.0).then_some(turn)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of a bone that turns and breathes: where singular values cross, a plain decomposition jumps.
    fn breathing(frames: usize) -> Vec<DAffine3> {
        (0..frames)
            .map(|t| {
                let x = t as f64 / frames as f64 * std::f64::consts::TAU;
                let turn = DMat3::from_rotation_z(x * 0.5) * DMat3::from_rotation_x(0.3);
                let stretch = DVec3::new(1.0 + 0.4 * x.sin(), 1.0 + 0.4 * x.cos(), 1.0 - 0.3 * x.sin());
                DAffine3::from_mat3(turn * DMat3::from_diagonal(stretch) * DMat3::from_rotation_y(0.7))
            })
            .collect()
    }

    #[test]
    fn nested_nodes_multiply_back_and_follow_each_other() {
        let frames = breathing(120);
        let (outer, inner) = nested(&frames, DQuat::IDENTITY);
        for t in 0..frames.len() {
            let product = outer[t].to_affine() * inner[t].to_affine();
            assert!(product.abs_diff_eq(frames[t], 1e-9), "frame {t}");
        }
        for t in 1..frames.len() {
            for pair in [&outer, &inner] {
                let step = pair[t - 1].rotation.dot(pair[t].rotation).abs().min(1.0).acos() * 2.0;
                assert!(step < 0.2, "frame {t} turns by {step} radians");
            }
        }
    }

    #[test]
    fn rotations_in_nested_form_leave_the_inner_node_alone() {
        let frames: Vec<DAffine3> = (0..50).map(|t| DAffine3::from_rotation_z(t as f64 * 0.1)).collect();
        let (_, inner) = nested(&frames, DQuat::IDENTITY);
        for t in 1..frames.len() {
            let step = inner[t - 1].rotation.dot(inner[t].rotation).abs().min(1.0).acos() * 2.0;
            assert!(step < 0.06, "frame {t}: {step}");
        }
    }

    #[test]
    fn hidden_nodes_do_not_turn() {
        let (zero, turn) = (DAffine3::from_scale(DVec3::ZERO), |a: f64| DAffine3::from_rotation_z(a));
        let frames = vec![zero, zero, turn(1.0), turn(1.2), zero, turn(2.0), zero];
        let worlds = Worlds { rest: DAffine3::IDENTITY, clips: vec![frames.clone()] };
        let nodes = to_nodes(None, worlds, SHEAR_TOLERANCE);
        assert!(nodes.outer.is_none());
        let angles: Vec<f64> = nodes.joint.clips[0].iter().map(|trs| trs.rotation.to_axis_angle().1).collect();
        let expected = [1.0, 1.0, 1.0, 1.2, 2.0, 2.0, 2.0];
        assert!(angles.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{angles:?}");
        let scales: Vec<f64> = nodes.joint.clips[0].iter().map(|trs| trs.scale.x).collect();
        assert_eq!(scales, [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn there_are_24_axis_turns() {
        let turns: Vec<DMat3> = axis_turns().collect();
        assert_eq!(turns.len(), 24);
        for (a, turn) in turns.iter().enumerate() {
            assert!(turns[..a].iter().all(|other| other != turn));
        }
    }
}
