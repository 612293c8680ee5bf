//! Curves as they are stored, parents first.

use bonesmith_core::Rig;
use bonesmith_core::transform::{Trs, continue_signs};
use glam::{DAffine3, DQuat, DVec3};

use super::curve::{fit, key_frames, sample, sample_rotations};
use super::posed_from_rest;
use super::tables::{Kind, Node, Offer, Picked, Tables, moves, nodes, stands_still};
use crate::gltf::meshopt::filters;
use crate::joints::Joints;

/// Values of the keys of one curve, as stored.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Rotations for the quaternion filter.
    Filtered(Vec<[i16; 4]>),
    /// Rotations in 16 bits.
    Shorts(Vec<[i16; 4]>),
    /// Rotations in 8 bits.
    Bytes(Vec<[i8; 4]>),
    /// Vectors for the exponential filter.
    Exponential(Vec<[i32; 3]>),
    /// Vectors.
    Floats(Vec<[f32; 3]>),
}

/// One channel of a clip.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Bone.
    pub bone: usize,
    /// Whether it moves the outer of the bone's two nodes.
    pub outer: bool,
    /// What it moves.
    pub kind: Kind,
    /// Frames that are keys; one if nothing moves.
    pub keys: Vec<usize>,
    /// Their values.
    pub values: Stored,
}

/// All channels, and what they make of the nodes.
pub struct Curves {
    /// [clips] channels.
    pub clips: Vec<Vec<Curve>>,
    /// [clips][F][B] transforms of the joints in the world.
    worlds: Vec<Vec<Vec<DAffine3>>>,
}

impl Curves {
    /// [B] posed_from_rest of a frame.
    pub fn pose(&self, plan: &Joints, clip: usize, frame: usize) -> Vec<DAffine3> {
        posed_from_rest(plan, &self.worlds[clip][frame])
    }
}

/// Frames per second, where frames are evenly spaced.
pub fn rate(times: &[f64]) -> Option<f64> {
    let (first, last) = (*times.first()?, *times.last()?);
    if times.len() < 2 || last <= first {
        return None;
    }
    let fps = (times.len() - 1) as f64 / (last - first);
    let even = |(t, secs): (usize, &f64)| (first + t as f64 / fps - secs).abs() <= 1e-6 + 1e-7 * last.abs();
    times.iter().enumerate().all(even).then_some(fps)
}

/// Fits and stores all curves.
pub fn realise(rig: &Rig, plan: &Joints, tables: &Tables, picked: &Picked, compressed: bool) -> Curves {
    let nodes = nodes(plan);
    let mut clips = Vec::new();
    let mut worlds = Vec::new();
    for (c, clip) in rig.clips.iter().enumerate() {
        let offers = tables.curves.iter().zip(&picked.curves).filter(|(table, _)| table.clip == c);
        let offers: Vec<(usize, Kind, Offer)> = offers.map(|(table, offer)| (table.node, table.kind, *offer)).collect();
        let mut writer = Writer { times: &clip.times_secs, clip: c, compressed, curves: Vec::new() };
        // [nodes][F] as the model has them, and as stored.
        let mut goals: Vec<Vec<DAffine3>> = Vec::with_capacity(nodes.len());
        let mut stored: Vec<Vec<DAffine3>> = Vec::with_capacity(nodes.len());
        for (n, node) in nodes.iter().enumerate() {
            let own = &node.motion.clips[c];
            let goal = under(node.above.map(|above| &goals[above]), own);
            let wanted = match node.above {
                Some(above) if !(nodes[above].outer && nodes[above].bone == node.bone) => {
                    relative(&stored[above], &goal, own, node)
                }
                _ => own.clone(),
            };
            let offer = |kind: Kind| offers.iter().find(|(of, k, _)| *of == n && *k == kind).map(|(.., offer)| *offer);
            let kept = writer.node(node, &wanted, offer);
            stored.push(under(node.above.map(|above| &stored[above]), &kept));
            goals.push(goal);
        }
        let joints: Vec<usize> =
            (0..rig.bone_count()).filter_map(|j| nodes.iter().position(|node| node.bone == j && !node.outer)).collect();
        worlds.push((0..clip.frame_count()).map(|t| joints.iter().map(|&n| stored[n][t]).collect()).collect());
        clips.push(writer.curves);
    }
    Curves { clips, worlds }
}

/// [F] in the world.
fn under(above: Option<&Vec<DAffine3>>, own: &[Trs]) -> Vec<DAffine3> {
    let local = own.iter().map(|trs| trs.to_affine());
    match above {
        Some(above) => above.iter().zip(local).map(|(above, local)| *above * local).collect(),
        None => local.collect(),
    }
}

/// What a node must be under its parent as stored to be where the model has it. An offset to the parent that never changes stays as
/// it is; so does everything where the parent scales.
fn relative(parent: &[DAffine3], goal: &[DAffine3], own: &[Trs], node: &Node) -> Vec<Trs> {
    let offset_moves = moves(node.motion, Kind::Translation);
    let turns = moves(node.motion, Kind::Rotation);
    let frames = parent.iter().zip(goal).zip(own).map(|((parent, goal), own)| {
        let local = parent.inverse() * *goal;
        let found = Trs::from_affine(local, 1e-3).filter(|found| (found.scale - own.scale).abs().max_element() < 1e-3);
        let Some(found) = found.filter(|_| local.is_finite()) else { return *own };
        Trs {
            translation: if offset_moves { found.translation } else { own.translation },
            rotation: if turns { found.rotation } else { own.rotation },
            scale: own.scale,
        }
    });
    let mut frames: Vec<Trs> = frames.collect();
    let mut rotations: Vec<DQuat> = frames.iter().map(|trs| trs.rotation).collect();
    continue_signs(&mut rotations);
    frames.iter_mut().zip(rotations).for_each(|(trs, rotation)| trs.rotation = rotation);
    frames
}

struct Writer<'a> {
    times: &'a [f64],
    clip: usize,
    compressed: bool,
    curves: Vec<Curve>,
}

impl Writer<'_> {
    /// Stores the curves of a node; returns what is read of them.
    fn node(&mut self, node: &Node, wanted: &[Trs], offer: impl Fn(Kind) -> Option<Offer>) -> Vec<Trs> {
        let mut kept = wanted.to_vec();
        if wanted.is_empty() {
            return kept;
        }
        for kind in [Kind::Translation, Kind::Rotation, Kind::Scale] {
            if !moves(node.motion, kind) {
                continue;
            }
            let still = stands_still(&node.motion.clips[self.clip], kind);
            let offer = offer(kind).filter(|_| !still);
            let keys = offer.map_or_else(|| vec![0], |offer| key_frames(wanted.len(), offer.stride));
            if keys.is_empty() {
                let rest = node.motion.rest;
                kept.iter_mut().for_each(|trs| match kind {
                    Kind::Translation => trs.translation = rest.translation,
                    Kind::Rotation => trs.rotation = rest.rotation,
                    Kind::Scale => trs.scale = rest.scale,
                });
                continue;
            }
            let level = offer.map(|offer| offer.level);
            let values = match kind {
                Kind::Rotation => self.rotations(&mut kept, wanted, &keys, level),
                Kind::Translation => self.vectors(
                    wanted,
                    &keys,
                    level,
                    |t| t.translation,
                    |t, v, kept| {
                        kept[t].translation = v;
                    },
                    &mut kept,
                ),
                Kind::Scale => {
                    self.vectors(wanted, &keys, level, |t| t.scale, |t, v, kept| kept[t].scale = v, &mut kept)
                }
            };
            self.curves.push(Curve { bone: node.bone, outer: node.outer, kind, keys, values });
        }
        kept
    }

    fn rotations(&self, kept: &mut [Trs], wanted: &[Trs], keys: &[usize], bits: Option<i32>) -> Stored {
        let all: Vec<[f64; 4]> = wanted.iter().map(|trs| trs.rotation.to_array()).collect();
        let keyed = if keys.len() > 1 { fit(&all, self.times, keys) } else { all[..1].to_vec() };
        let keyed: Vec<DQuat> = keyed.into_iter().map(|q| DQuat::from_array(q).normalize()).collect();
        let bits = bits.unwrap_or(16);
        let (stored, read): (Stored, Vec<[f64; 4]>) = if self.compressed {
            let coded: Vec<[i16; 4]> =
                keyed.iter().map(|q| filters::encode_quaternion(q.to_array(), bits as u32)).collect();
            let read = coded.iter().map(|q| filters::quaternion_of(*q)).collect();
            (Stored::Filtered(coded), read)
        } else if bits <= 8 {
            let coded: Vec<[i8; 4]> = keyed.iter().map(|q| q.to_array().map(|x| (x * 127.0).round() as i8)).collect();
            let read = coded.iter().map(|q| q.map(|x| f64::from(x) / 127.0)).collect();
            (Stored::Bytes(coded), read)
        } else {
            let coded: Vec<[i16; 4]> =
                keyed.iter().map(|q| q.to_array().map(|x| (x * 32767.0).round() as i16)).collect();
            let read = coded.iter().map(|q| q.map(|x| f64::from(x) / 32767.0)).collect();
            (Stored::Shorts(coded), read)
        };
        let read: Vec<DQuat> = read.into_iter().map(|q| DQuat::from_array(q).normalize()).collect();
        if keys.len() > 1 {
            let sampled = sample_rotations(&read, self.times, keys);
            kept.iter_mut().zip(sampled).for_each(|(trs, q)| trs.rotation = q);
        } else {
            kept.iter_mut().for_each(|trs| trs.rotation = read[0]);
        }
        stored
    }

    fn vectors(
        &self,
        wanted: &[Trs],
        keys: &[usize],
        level: Option<i32>,
        get: impl Fn(&Trs) -> DVec3,
        set: impl Fn(usize, DVec3, &mut [Trs]),
        kept: &mut [Trs],
    ) -> Stored {
        let all: Vec<[f64; 3]> = wanted.iter().map(|trs| get(trs).to_array()).collect();
        let keyed = fit(&all, self.times, keys);
        let largest = keyed.as_flattened().iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let (stored, read): (Stored, Vec<[f64; 3]>) = if self.compressed {
            let e = filters::exponent_for(largest, level.unwrap_or(-100));
            let coded: Vec<[i32; 3]> = keyed.iter().map(|v| v.map(|x| filters::to_exponential(x, e))).collect();
            let read = coded.iter().map(|v| v.map(|word| f64::from(filters::from_exponential(word)))).collect();
            (Stored::Exponential(coded), read)
        } else {
            let coded: Vec<[f32; 3]> = keyed.iter().map(|v| v.map(|x| x as f32)).collect();
            let read = coded.iter().map(|v| v.map(f64::from)).collect();
            (Stored::Floats(coded), read)
        };
        let sampled = sample(&read, self.times, keys);
        sampled.into_iter().enumerate().for_each(|(t, v)| set(t, DVec3::from_array(v), kept));
        stored
    }
}
