//! Bytes and cost of every choice.

use bonesmith_core::transform::Trs;
use bonesmith_core::{Clip, Rig};
use glam::{DMat3, DMat4, DQuat, DVec3, DVec4};
use rayon::prelude::*;

use super::curve::{NO_KEY, ONE_KEY, fit, key_frames, sample, sample_rotations};
use super::weights::{BYTES, Chooser, SHORTS, WeightOffer, max_square};
use super::{Compact, Packing};
use crate::gltf::meshopt::attributes::{self, Version};
use crate::gltf::meshopt::filters;
use crate::joints::{Joints, NodeMotion};

/// Frames between keys that are tried: few, because curves with equal keys share their times.
const STRIDES: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// Bits of rotations.
const BITS: std::ops::RangeInclusive<i32> = 6..=16;
/// Steps of translations and scales that are tried: so many halvings of the coarsest.
const HALVINGS: i32 = 13;

/// Sums of rows of weights in a compressed file: of 8 bits, or floats.
const WEIGHT_SUMS: [u32; 5] = [BYTES, 512, 1024, 2048, 8192];
/// Largest price of error, in bytes for the square of a length: a bound of nothing has no other.
const MAX_PRICE: f64 = 1e30;
/// Weights that were made for another price are used where its logarithm to the base of 2 differs by less than this.
const NEAR_PRICE: f64 = 0.1;

/// Bytes that describe a channel: with its sampler and accessor, in the JSON.
const CHANNEL: f64 = 165.0;

/// What a curve moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Translation,
    Rotation,
    Scale,
}

/// One choice.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub stride: usize,
    /// Bits of a rotation, else the exponent of the step.
    pub level: i32,
    pub bytes: f64,
    /// Sum of squares over vertices and frames.
    pub cost: f64,
}

/// Choices for one curve of one clip.
pub struct Table {
    pub clip: usize,
    /// Index into [`nodes`].
    pub node: usize,
    pub kind: Kind,
    pub offers: Vec<Offer>,
}

/// A node of the plan.
pub struct Node<'a> {
    pub bone: usize,
    pub outer: bool,
    pub motion: &'a NodeMotion,
    /// The node above, an index into the list.
    pub above: Option<usize>,
}

/// All nodes, parents first.
pub fn nodes(plan: &Joints) -> Vec<Node<'_>> {
    let parents: Vec<Option<usize>> = plan.nodes.iter().map(|node| node.parent).collect();
    let depths = crate::skinned::depths(&parents);
    let mut order: Vec<usize> = (0..plan.nodes.len()).collect();
    order.sort_by_key(|&j| depths[j]);
    let mut place = vec![0; plan.nodes.len()];
    let mut list = Vec::new();
    for j in order {
        let own = &plan.nodes[j];
        let mut above = own.parent.map(|p| place[p]);
        if let Some(motion) = &own.outer {
            list.push(Node { bone: j, outer: true, motion, above });
            above = Some(list.len() - 1);
        }
        list.push(Node { bone: j, outer: false, motion: &own.joint, above });
        place[j] = list.len() - 1;
    }
    list
}

/// Everything that can be chosen.
pub struct Tables<'a> {
    pub curves: Vec<Table>,
    positions: Vec<Offer>,
    weights: Vec<WeightOffer>,
    /// Makes more of them; `None` where they are not compressed.
    chooser: Option<&'a Chooser<'a>>,
    /// Coordinates of all frames.
    count: f64,
}

/// One of each.
pub struct Picked {
    pub positions: Offer,
    /// Index into the offers of weights.
    pub weights: usize,
    /// [curves].
    pub curves: Vec<Offer>,
    /// Of everything that is chosen.
    pub bytes: f64,
    /// Bytes for the square of a length.
    lambda: f64,
}

impl<'a> Tables<'a> {
    pub fn new(rig: &Rig, plan: &Joints, order: &[u32], compact: &Compact, chooser: &'a Chooser<'a>) -> Self {
        let frames: usize = rig.clips.iter().map(Clip::frame_count).sum();
        let nodes = nodes(plan);
        let moments = moments(rig, plan, &nodes);
        let mut wanted = Vec::new();
        for (n, node) in nodes.iter().enumerate() {
            for kind in [Kind::Translation, Kind::Rotation, Kind::Scale] {
                if !moves(node.motion, kind) {
                    continue;
                }
                for c in (0..rig.clips.len()).filter(|&c| !stands_still(&node.motion.clips[c], kind)) {
                    wanted.push((c, n, kind));
                }
            }
        }
        let curves = wanted.into_par_iter().map(|(clip, node, kind)| {
            let curve = Measured {
                times: &rig.clips[clip].times_secs,
                frames: &nodes[node].motion.clips[clip],
                rest: nodes[node].motion.rest,
                moment: moments[node],
                version: compact.packing.version(),
                limit: max_square(compact.rms),
            };
            Table { clip, node, kind, offers: curve.offers(kind) }
        });
        Self {
            curves: curves.collect(),
            positions: position_offers(rig, order, frames.max(1), compact),
            weights: weight_offers(rig, frames.max(1) as f64, compact, chooser),
            chooser: compact.packing.version().map(|_| chooser),
            count: (3 * rig.vertex_count() * frames.max(1)) as f64,
        }
    }

    /// Of a mesh alone: curves stay as they are.
    pub fn of_mesh(rig: &Rig, order: &[u32], compact: &Compact, chooser: &'a Chooser<'a>) -> Self {
        let frames = rig.clips.iter().map(Clip::frame_count).sum::<usize>().max(1);
        Self {
            curves: Vec::new(),
            positions: position_offers(rig, order, frames, compact),
            weights: weight_offers(rig, frames as f64, compact, chooser),
            chooser: Some(chooser),
            count: (3 * rig.vertex_count() * frames) as f64,
        }
    }

    /// Weights as they were picked.
    pub fn weights_of(&self, picked: &Picked) -> &WeightOffer {
        &self.weights[picked.weights]
    }

    /// The smallest file within `rms`, with weights of a certain sum or of any.
    pub fn pick(&self, rms: f64, sum: Option<u32>) -> Picked {
        let budget = rms * rms * self.count;
        let all = || self.curves.iter().map(|table| &table.offers).chain([&self.positions]);
        let weights = |lambda: f64| {
            let price = |w: usize| self.weights[w].bytes + lambda * self.weights[w].cost;
            let offered = (0..self.weights.len()).filter(|&w| sum.is_none_or(|sum| self.weights[w].one == sum));
            offered.min_by(|&a, &b| price(a).total_cmp(&price(b))).unwrap_or(0)
        };
        let cost = |lambda: f64| {
            self.weights[weights(lambda)].cost + all().map(|offers| best(offers, lambda).cost).sum::<f64>()
        };
        // Bytes per squared length, over all scales of models.
        let (mut low, mut high) = (-60.0f64, 120.0f64);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if cost(middle.exp2()) > budget { low = middle } else { high = middle }
        }
        let lambda = high.exp2();
        let curves: Vec<Offer> = self.curves.iter().map(|table| best(&table.offers, lambda)).collect();
        let positions = best(&self.positions, lambda);
        let weights = weights(lambda);
        let bytes = positions.bytes + self.weights[weights].bytes + curves.iter().map(|offer| offer.bytes).sum::<f64>();
        Picked { positions, weights, curves, bytes, lambda }
    }

    /// As [`Tables::pick`], with weights that were made for the price that is found, in its steps and in half of them.
    pub fn refined(&mut self, rms: f64, sum: Option<u32>) -> Picked {
        let picked = self.pick(rms, sum);
        let Some(chooser) = self.chooser else { return picked };
        let is_near = |own: &WeightOffer| own.price.is_some_and(|p| (picked.lambda / p).log2().abs() < NEAR_PRICE);
        let one = self.weights[picked.weights].one;
        let finer = WEIGHT_SUMS.into_iter().find(|finer| *finer > one && sum.is_none());
        let wanted: Vec<u32> = [Some(one), finer].into_iter().flatten().collect();
        let missing =
            wanted.into_par_iter().filter(|sum| !self.weights.iter().any(|own| own.one == *sum && is_near(own)));
        let made: Vec<WeightOffer> = missing.map(|sum| chooser.coded(sum, picked.lambda)).collect();
        self.weights.extend(made);
        self.pick(rms, sum)
    }

    /// Share of the cost of each part of what was picked.
    pub fn shares(&self, picked: &Picked) -> Vec<(&'static str, f64)> {
        let of = |kind: Kind| {
            let own = self.curves.iter().zip(&picked.curves).filter(|(table, _)| table.kind == kind);
            own.map(|(_, offer)| offer.cost).sum::<f64>()
        };
        let costs = [
            ("positions", picked.positions.cost),
            ("weights", self.weights[picked.weights].cost),
            ("translations", of(Kind::Translation)),
            ("rotations", of(Kind::Rotation)),
            ("scales", of(Kind::Scale)),
        ];
        let all: f64 = costs.iter().map(|(_, cost)| cost).sum();
        costs.into_iter().filter(|(_, cost)| *cost > 0.0).map(|(name, cost)| (name, cost / all)).collect()
    }
}

fn best(offers: &[Offer], lambda: f64) -> Offer {
    let price = |offer: &Offer| offer.bytes + lambda * offer.cost;
    *offers.iter().min_by(|a, b| price(a).total_cmp(&price(b))).expect("every table has offers")
}

fn value(trs: &Trs, kind: Kind) -> [f32; 4] {
    match kind {
        Kind::Translation => trs.translation.as_vec3().extend(0.0).to_array(),
        Kind::Rotation => trs.rotation.as_quat().to_array(),
        Kind::Scale => trs.scale.as_vec3().extend(0.0).to_array(),
    }
}

/// Whether a property ever leaves the node's own value.
pub fn moves(motion: &NodeMotion, kind: Kind) -> bool {
    let rest = value(&motion.rest, kind);
    motion.clips.iter().flatten().any(|trs| value(trs, kind) != rest)
}

pub fn stands_still(frames: &[Trs], kind: Kind) -> bool {
    frames.iter().all(|trs| value(trs, kind) == value(&frames[0], kind))
}

/// [nodes] sum of w^2 v v^T in the space of each node, and the masses of children that hang on it at a fixed place: they cannot
/// make up for what the parent does to that place.
fn moments(rig: &Rig, plan: &Joints, nodes: &[Node]) -> Vec<DMat4> {
    let into_joint: Vec<DMat4> = plan.inverse_binds.iter().map(|m| DMat4::from_cols_array(&m.map(f64::from))).collect();
    let mut of_bone = vec![DMat4::ZERO; rig.bone_count()];
    for (i, p) in rig.rest.iter().enumerate() {
        for (j, w) in rig.weights.of(i) {
            let v: DVec4 = into_joint[j] * p.as_dvec3().extend(1.0);
            of_bone[j] += outer(v) * f64::from(w).powi(2);
        }
    }
    let mut moments: Vec<DMat4> =
        nodes.iter().map(|node| if node.outer { DMat4::ZERO } else { of_bone[node.bone] }).collect();
    for n in (0..nodes.len()).rev() {
        let Some(above) = nodes[n].above else { continue };
        let own = moments[n];
        if nodes[above].outer && nodes[above].bone == nodes[n].bone {
            moments[above] += seen_from_above(nodes[n].motion, own);
        } else if !moves(nodes[n].motion, Kind::Translation) {
            moments[above] += outer(nodes[n].motion.rest.translation.extend(1.0)) * own.w_axis.w;
        }
    }
    moments
}

fn outer(v: DVec4) -> DMat4 {
    DMat4::from_cols(v * v.x, v * v.y, v * v.z, v * v.w)
}

/// The mean over all frames of L M L^T.
fn seen_from_above(motion: &NodeMotion, moment: DMat4) -> DMat4 {
    let frames = || motion.clips.iter().flatten();
    let count = frames().count().max(1) as f64;
    let sum = frames().fold(DMat4::ZERO, |sum, trs| {
        let local = DMat4::from(trs.to_affine());
        sum + local * moment * local.transpose()
    });
    if frames().next().is_none() { moment } else { sum * (1.0 / count) }
}

/// A curve that is measured.
struct Measured<'a> {
    times: &'a [f64],
    frames: &'a [Trs],
    rest: Trs,
    moment: DMat4,
    /// Of the streams; `None` where nothing is compressed.
    version: Option<Version>,
    /// Mean square by which the vertices of the node may be off where they need not be.
    limit: f64,
}

impl Measured<'_> {
    fn offers(&self, kind: Kind) -> Vec<Offer> {
        let frames = self.frames.len();
        let evenly = super::realise::rate(self.times).is_some();
        let strides = STRIDES.into_iter().filter(|&s| s == 1 || (evenly && s < frames));
        let one_key = (kind != Kind::Rotation && frames > 1).then_some(ONE_KEY);
        let all = strides.chain(one_key).flat_map(|stride| self.offers_with(kind, stride, &key_frames(frames, stride)));
        let all: Vec<Offer> =
            all.map(|offer| Offer { bytes: offer.bytes + CHANNEL, ..offer }).chain([self.still(kind)]).collect();
        // A bone with few vertices would be cheap to leave behind.
        let limit = self.limit * self.moment.w_axis.w * frames as f64;
        let least = all.iter().map(|offer| offer.cost).fold(f64::INFINITY, f64::min);
        all.into_iter().filter(|offer| offer.cost <= limit.max(least)).collect()
    }

    fn offers_with(&self, kind: Kind, stride: usize, keys: &[usize]) -> Vec<Offer> {
        // Between two keys noise of both is averaged.
        let noisy = self.frames.len() as f64 * if stride > 1 { 2.0 / 3.0 } else { 1.0 };
        let m = &self.moment;
        if kind == Kind::Rotation {
            let quaternions: Vec<[f64; 4]> = self.frames.iter().map(|trs| trs.rotation.to_array()).collect();
            let keyed: Vec<DQuat> =
                fit(&quaternions, self.times, keys).into_iter().map(|q| DQuat::from_array(q).normalize()).collect();
            let between = if stride > 1 { self.rotation_cost(&keyed, keys) } else { 0.0 };
            let spread: f64 = self.frames.iter().map(|trs| trs.scale.length_squared() / 3.0).sum::<f64>()
                / self.frames.len() as f64
                * (m.x_axis.x + m.y_axis.y + m.z_axis.z);
            return self
                .levels(kind)
                .map(|bits| {
                    let step = self.rotation_step(bits);
                    // A component off by d turns by 2 d; a point at v moves by |omega x v|, twice the square on average.
                    let noise = 8.0 * step * step / 12.0 * spread * noisy;
                    Offer { stride, level: bits, bytes: self.rotation_bytes(&keyed, bits), cost: between + noise }
                })
                .collect();
        }
        let get = |trs: &Trs| match kind {
            Kind::Scale => trs.scale.to_array(),
            _ => trs.translation.to_array(),
        };
        let weights = match kind {
            Kind::Scale => DVec3::new(m.x_axis.x, m.y_axis.y, m.z_axis.z),
            _ => DVec3::splat(m.w_axis.w),
        };
        let values: Vec<[f64; 3]> = self.frames.iter().map(get).collect();
        let keyed = fit(&values, self.times, keys);
        let changes = sample(&keyed, self.times, keys).into_iter().zip(&values);
        let between: f64 = changes
            .map(|(a, b)| {
                let d = DVec3::from_array(a) - DVec3::from_array(*b);
                (d * d).dot(weights)
            })
            .sum();
        let largest = keyed.as_flattened().iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let coarsest = self.coarsest(&values);
        let levels = if self.version.is_some() { HALVINGS } else { 1 };
        (0..levels)
            .map(|halved| {
                let e = if self.version.is_some() { coarsest - halved } else { -100 };
                let e = filters::exponent_for(largest, e);
                let noise = 4f64.powi(e) / 12.0 * (weights.x + weights.y + weights.z) * noisy;
                let bytes = match self.version {
                    Some(version) => vector_bytes(&keyed, e, version),
                    None => 12.0 * keyed.len() as f64,
                };
                Offer { stride, level: e, bytes, cost: between + noise }
            })
            .collect()
    }

    /// No channel: the node stays at rest.
    fn still(&self, kind: Kind) -> Offer {
        let m = &self.moment;
        let square = |change: DVec3, weights: DVec3| (change * change).dot(weights);
        let cost = match kind {
            Kind::Translation => {
                let offs = self.frames.iter().map(|trs| trs.translation - self.rest.translation);
                offs.map(|off| square(off, DVec3::splat(m.w_axis.w))).sum()
            }
            Kind::Rotation => self.rotation_cost(&[self.rest.rotation], &[0]),
            Kind::Scale => {
                let weights = DVec3::new(m.x_axis.x, m.y_axis.y, m.z_axis.z);
                self.frames.iter().map(|trs| square(trs.scale - self.rest.scale, weights)).sum()
            }
        };
        Offer { stride: NO_KEY, level: 0, bytes: 0.0, cost }
    }

    fn levels(&self, _: Kind) -> Box<dyn Iterator<Item = i32>> {
        if self.version.is_some() { Box::new(BITS) } else { Box::new([8, 16].into_iter()) }
    }

    /// Between two stored values of a component.
    fn rotation_step(&self, bits: i32) -> f64 {
        let one = f64::from((1i32 << (bits - 1)) - 1);
        if self.version.is_some() { std::f64::consts::FRAC_1_SQRT_2 / one } else { 1.0 / one }
    }

    fn rotation_bytes(&self, keyed: &[DQuat], bits: i32) -> f64 {
        let Some(version) = self.version else {
            return (keyed.len() * if bits == 8 { 4 } else { 8 }) as f64;
        };
        let coded = keyed.iter().flat_map(|q| filters::encode_quaternion(q.to_array(), bits as u32));
        let bytes: Vec<u8> = coded.flat_map(i16::to_le_bytes).collect();
        attributes::encoded_len(&bytes, 8, version) as f64
    }

    /// tr(dL M dL^T) of rotations through the keys, over all frames.
    fn rotation_cost(&self, keyed: &[DQuat], keys: &[usize]) -> f64 {
        let sampled = sample_rotations(keyed, self.times, keys);
        let m = DMat3::from_mat4(self.moment);
        let cost = |(trs, q): (&Trs, DQuat)| {
            let d = (DMat3::from_quat(q) - DMat3::from_quat(trs.rotation)) * DMat3::from_diagonal(trs.scale);
            let [x, y, z] = [0, 1, 2].map(|row| d.row(row));
            x.dot(m * x) + y.dot(m * y) + z.dot(m * z)
        };
        self.frames.iter().zip(sampled).map(cost).sum()
    }

    /// The step that is as large as the curve itself.
    fn coarsest(&self, values: &[[f64; 3]]) -> i32 {
        let (mut low, mut high) = (DVec3::MAX, DVec3::MIN);
        for v in values {
            (low, high) = (low.min(DVec3::from_array(*v)), high.max(DVec3::from_array(*v)));
        }
        let range = (high - low).max_element();
        if range > 0.0 { range.log2().floor() as i32 - 3 } else { -40 }
    }
}

/// Bytes of vectors in steps of 2^e.
fn vector_bytes(keyed: &[[f64; 3]], e: i32, version: Version) -> f64 {
    let words = keyed.as_flattened().iter().map(|x| filters::to_exponential(*x, e));
    let bytes: Vec<u8> = words.flat_map(i32::to_le_bytes).collect();
    attributes::encoded_len(&bytes, 12, version) as f64
}

/// Weights for some prices of error, around the one at which every number of the file has its share of the bound: at a high rate half a bit halves
/// a square, so that bytes fall by 1 / (16 ln 2) for each number and each relative change of the error.
fn weight_offers(rig: &Rig, frames: f64, compact: &Compact, chooser: &Chooser) -> Vec<WeightOffer> {
    if compact.packing == Packing::Plain {
        return [BYTES, SHORTS].map(|one| chooser.nearest(one)).into();
    }
    let vertices = rig.vertex_count() as f64;
    let numbers = 6.0 * vertices + 6.0 * rig.bone_count() as f64 * frames;
    let square = compact.rms * compact.rms * 3.0 * vertices * frames;
    let price = (numbers / (16.0 * std::f64::consts::LN_2 * square)).min(MAX_PRICE);
    WEIGHT_SUMS.into_par_iter().map(|one| chooser.coded(one, price)).collect()
}

fn position_offers(rig: &Rig, order: &[u32], frames: usize, compact: &Compact) -> Vec<Offer> {
    let largest = rig.rest.iter().map(|p| f64::from(p.abs().max_element())).fold(0.0, f64::max);
    let size = if largest > 0.0 { largest.log2().ceil() as i32 } else { 0 };
    let every: Vec<[f64; 3]> = order.iter().map(|&v| rig.rest[v as usize].as_dvec3().to_array()).collect();
    let coarsest = size - 6;
    let offers = (0..14).map(|halved| {
        let level = filters::exponent_for(largest, coarsest - halved);
        let cost = 3.0 * 4f64.powi(level) / 12.0 * (rig.vertex_count() * frames) as f64;
        match compact.packing.version() {
            Some(version) => Offer { stride: 1, level, bytes: vector_bytes(&every, level, version), cost },
            None => Offer { stride: 1, level, bytes: 0.0, cost: 0.0 },
        }
    });
    offers.collect()
}
