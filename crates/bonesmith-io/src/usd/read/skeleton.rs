//! Skeletons and their animations.

use std::collections::HashMap;

use bonesmith_core::transform::Trs;
use glam::{DAffine3, DVec3};

use super::sample::MAX_FRAMES;
use crate::IoError;
use crate::usd::extras::{self, AnimationExtras, SkeletonExtras};
use crate::usd::stage::{Attribute, Stage};

use super::sample::{numbers, quaternions};
use super::xform::{Place, to_affine};

/// Most joints of one skeleton.
const MAX_JOINTS: usize = 1 << 16;

/// A skeleton; J joints.
pub struct Skeleton<'a> {
    /// Its prim.
    pub prim: usize,
    /// [J] paths: "hips/spine".
    pub joints: Vec<String>,
    /// [J] names to show.
    pub names: Vec<String>,
    /// [J] joint above.
    pub parents: Vec<Option<usize>>,
    /// [J] skeleton_from_joint when the mesh was bound.
    pub bind: Vec<DAffine3>,
    /// [J] parent_from_joint where nothing is animated.
    rest: Vec<DAffine3>,
    /// [J] parents before children.
    order: Vec<usize>,
    /// Where it is.
    pub place: Place<'a>,
    /// The bound one first.
    pub animations: Vec<Animation<'a>>,
    /// What our own files say.
    pub extras: Option<SkeletonExtras>,
}

/// An animation of a skeleton.
pub struct Animation<'a> {
    /// Name to show.
    pub name: String,
    /// [J] its number for each joint of the skeleton.
    joints: Vec<Option<usize>>,
    translations: Option<Attribute<'a>>,
    rotations: Option<Attribute<'a>>,
    scales: Option<Attribute<'a>>,
    /// Names of blend shapes and their weights over time.
    shapes: Vec<String>,
    weights: Option<Attribute<'a>>,
    /// All frames, where there are fewer keys.
    frames: Option<AnimationExtras>,
}

impl<'a> Skeleton<'a> {
    /// Reads a skeleton with the animations that may move it.
    pub fn read(stage: &'a Stage, prim: usize, bound: Option<usize>) -> Result<Self, IoError> {
        let path = stage.prims[prim].path.clone();
        let joints = stage.attribute(prim, "joints")?.map_or(Ok(Vec::new()), |a| a.texts())?;
        let count = joints.len();
        if count == 0 || count > MAX_JOINTS {
            return Err(
                stage.malformed(format!("{path}: a skeleton of {count} joints; 1 to {MAX_JOINTS} are possible"))
            );
        }
        let matrices = |name: &str| -> Result<Vec<DAffine3>, IoError> {
            let rows = stage.attribute(prim, name)?.map_or(Ok(Vec::new()), |a| a.f64s())?;
            Ok(rows.as_chunks::<16>().0.iter().map(|m| to_affine(m)).collect())
        };
        let (mut bind, mut rest) = (matrices("bindTransforms")?, matrices("restTransforms")?);
        let parents = parents_of(&joints);
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&j| joints[j].matches('/').count());
        // Either can be made of the other.
        if bind.len() != count && rest.len() == count {
            bind = accumulate(&rest, &parents, &order);
        }
        if bind.len() != count {
            let found = bind.len();
            return Err(stage.malformed(format!("{path}: {found} bind transforms for {count} joints")));
        }
        if rest.len() != count {
            let local = |j: usize| parents[j].map_or(bind[j], |p| bind[p].inverse() * bind[j]);
            rest = (0..count).map(local).collect();
        }
        if let Some(j) = bind.iter().position(|m| !m.is_finite() || !m.inverse().is_finite()) {
            return Err(
                stage.malformed(format!("{path}: the bind transform of joint {j} ({}) is not sound", joints[j]))
            );
        }
        let reported = stage.attribute(prim, "jointNames")?.map_or(Ok(Vec::new()), |a| a.texts())?;
        let last = |joint: &String| joint.rsplit('/').next().unwrap_or_default().to_owned();
        let names = if reported.len() == count { reported } else { joints.iter().map(last).collect() };
        let extras = extras::unpack::<SkeletonExtras>(stage, prim).filter(|own| fits(own, count));
        let mut skeleton = Self {
            prim,
            joints,
            names,
            parents,
            bind,
            rest,
            order,
            place: Place::new(stage, prim)?,
            animations: Vec::new(),
            extras,
        };
        skeleton.read_animations(stage, bound)?;
        Ok(skeleton)
    }

    /// The bound animation, then others beside it or below the skeleton that move the same joints.
    fn read_animations(&mut self, stage: &'a Stage, bound: Option<usize>) -> Result<(), IoError> {
        let around = |prim: usize| {
            let parent = stage.prims[prim].parent;
            parent == Some(self.prim) || parent.is_some_and(|p| Some(p) == stage.prims[self.prim].parent)
        };
        let kind = |prim: &usize| stage.prims[*prim].type_name == "SkelAnimation";
        let others = (0..stage.prims.len()).filter(kind).filter(|&prim| around(prim) && Some(prim) != bound);
        for prim in bound.into_iter().filter(kind).chain(others.collect::<Vec<_>>()) {
            let animation = Animation::read(stage, prim, self)?;
            let fits = Some(prim) == bound || animation.joints.iter().any(Option::is_some);
            if fits {
                self.animations.push(animation);
            }
        }
        Ok(())
    }

    /// [J] skeleton_from_joint at a time of an animation.
    pub fn pose(&self, animation: Option<&Animation>, time: Option<f64>) -> Result<Vec<DAffine3>, IoError> {
        let mut locals = self.rest.clone();
        if let Some(animation) = animation {
            animation.apply(time, &mut locals)?;
        }
        Ok(accumulate(&locals, &self.parents, &self.order))
    }
}

fn fits(own: &SkeletonExtras, joints: usize) -> bool {
    let bones = own.joints.len();
    let parent = |p: &i32| *p == -1 || usize::try_from(*p).is_ok_and(|p| p < bones);
    bones > 0
        && own.parents.len() == bones
        && own.parents.iter().all(parent)
        && own.joints.iter().all(|j| (*j as usize) < joints)
        && own.tips.iter().all(|(b, ..)| (*b as usize) < bones)
}

/// The joint whose path is the longest that a joint's own starts with.
fn parents_of(joints: &[String]) -> Vec<Option<usize>> {
    let mut by_path: HashMap<&str, usize> = HashMap::new();
    joints.iter().enumerate().rev().for_each(|(j, path)| _ = by_path.insert(path, j));
    let parent = |path: &String| {
        let mut above = path.as_str();
        while let Some((up, _)) = above.rsplit_once('/') {
            if let Some(&p) = by_path.get(up) {
                return Some(p);
            }
            above = up;
        }
        None
    };
    joints.iter().map(parent).collect()
}

/// From transforms over parents to transforms over the skeleton. A parent's path is shorter than its child's, so
/// `order`, which goes by length, has it first.
fn accumulate(locals: &[DAffine3], parents: &[Option<usize>], order: &[usize]) -> Vec<DAffine3> {
    let mut out = locals.to_vec();
    for &j in order {
        if let Some(p) = parents[j] {
            out[j] = out[p] * locals[j];
        }
    }
    out
}

impl<'a> Animation<'a> {
    fn read(stage: &'a Stage, prim: usize, skeleton: &Skeleton) -> Result<Self, IoError> {
        let texts = |name: &str| stage.attribute(prim, name)?.map_or(Ok(Vec::new()), |a| a.texts());
        let own = texts("joints")?;
        // Animations may have an empty name; the prim's cannot be.
        let shown = stage.prim_metadata(prim, "displayName").and_then(|(layer, v)| layer.text(v, "displayName").ok());
        let by_name: HashMap<&str, usize> = own.iter().enumerate().map(|(at, j)| (j.as_str(), at)).collect();
        Ok(Self {
            name: shown.unwrap_or_else(|| stage.prims[prim].name.clone()),
            joints: skeleton.joints.iter().map(|j| by_name.get(j.as_str()).copied()).collect(),
            translations: stage.attribute(prim, "translations")?,
            rotations: stage.attribute(prim, "rotations")?,
            scales: stage.attribute(prim, "scales")?,
            shapes: texts("blendShapes")?,
            weights: stage.attribute(prim, "blendShapeWeights")?,
            frames: extras::unpack::<AnimationExtras>(stage, prim).filter(|own| own.count as usize <= MAX_FRAMES),
        })
    }

    /// Times of the joints' keys; with `shapes` also those of blend shapes.
    pub fn times(&self, shapes: bool) -> Vec<f64> {
        let joints = [&self.translations, &self.rotations, &self.scales];
        let all = joints.into_iter().chain(shapes.then_some(&self.weights)).flatten();
        let mut keys: Vec<f64> = all.flat_map(|own| own.samples.iter().map(|(time, _)| *time)).collect();
        // Frames between the keys of a small file, as far as the keys go.
        let ends = keys.iter().copied().reduce(f64::min).zip(keys.iter().copied().reduce(f64::max));
        if let Some((own, (start, end))) = self.frames.zip(ends) {
            let frames = (0..own.count).map(|t| own.first + f64::from(t) * own.step);
            keys.extend(frames.filter(|time| (start..=end).contains(time)));
        }
        keys
    }

    /// Replaces the transforms of joints that it moves. A joint needs all three parts, as USD has it.
    fn apply(&self, time: Option<f64>, locals: &mut [DAffine3]) -> Result<(), IoError> {
        let (Some(translations), Some(rotations)) = (&self.translations, &self.rotations) else { return Ok(()) };
        let translations = numbers(translations, time)?;
        let rotations = quaternions(rotations, time)?;
        let scales = self.scales.as_ref().map_or(Ok(Vec::new()), |s| numbers(s, time))?;
        let (translations, scales) = (translations.as_chunks::<3>().0, scales.as_chunks::<3>().0);
        for (local, own) in locals.iter_mut().zip(&self.joints) {
            let Some(own) = *own else { continue };
            let (Some(&translation), Some(&rotation)) = (translations.get(own), rotations.get(own)) else { continue };
            let scale = scales.get(own).map_or(DVec3::ONE, |s| DVec3::from_array(*s));
            *local = Trs { translation: translation.into(), rotation, scale }.to_affine();
        }
        Ok(())
    }

    /// Whether it weighs blend shapes over time.
    pub fn has_shapes(&self) -> bool {
        self.weights.as_ref().is_some_and(|weights| !weights.samples.is_empty())
    }

    /// Weights of blend shapes at a time, by name.
    pub fn shape_weights(&self, time: Option<f64>) -> Result<HashMap<&str, f64>, IoError> {
        let Some(weights) = &self.weights else { return Ok(HashMap::new()) };
        let values = numbers(weights, time)?;
        Ok(self.shapes.iter().map(String::as_str).zip(values).collect())
    }
}
