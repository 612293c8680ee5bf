//! Bones driven by shapes: a face whose bones' transforms are linear in the weights of its shapes.
//!
//! ```text
//! T_j(c) = I + sum_s c_s N_js          N_js = sum_a x_jsa C_ja
//! ```
//!
//! for shape weights `c`. The components `C_ja` are moves of bone `j` about its own place `o_j` and along its own axes ([`Component`]); the
//! numbers `x_jsa` that are not stored are zero. The neutral, `c = 0`, is the rest pose exactly.

use glam::{DAffine3, DMat3, DVec3};
use serde::{Deserialize, Serialize};

use crate::model::{Clip, Rig, RigError};
use crate::solve::check::ensure;

/// Which numbers a shape may store for a bone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ShapeKind {
    /// 12: any matrix.
    #[default]
    Affine,
    /// 6: translation and linearised rotation.
    Rigid,
    /// 3: translation.
    Translation,
}

impl ShapeKind {
    /// Numbers of a bone and shape, if all are stored: the first so many of [`Component`]s.
    pub fn numbers(self) -> usize {
        match self {
            Self::Affine => 12,
            Self::Rigid => 6,
            Self::Translation => 3,
        }
    }
}

/// Components of a bone's transform, [`COMPONENTS`] of them: 0..3 translation along the bone's axes, 3..6 linearised rotation about them,
/// 6..9 stretch along them, 9..12 shear in the planes of y and z, z and x, x and y.
pub type Component = u8;

/// Components of an affine transform.
pub const COMPONENTS: usize = 12;

/// The matrix `[row][column]` of a component in a bone's own space.
pub(crate) fn component(number: usize) -> [[f64; 4]; 3] {
    let mut m = [[0.0; 4]; 3];
    let (axis, next, last) = (number % 3, (number + 1) % 3, (number + 2) % 3);
    match number / 3 {
        0 => m[axis][3] = 1.0,
        1 => (m[last][next], m[next][last]) = (1.0, -1.0),
        2 => m[axis][axis] = 1.0,
        _ => (m[last][next], m[next][last]) = (1.0, 1.0),
    }
    m
}

/// The same about a bone's place and along its axes, `[row][column]` on homogeneous rest positions.
pub(crate) fn placed_component(number: usize, origin: DVec3, axes: &DMat3) -> [[f64; 4]; 3] {
    let m = component(number);
    let linear = DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|r| m[r][c])));
    let linear = *axes * linear * axes.transpose();
    let shift = *axes * DVec3::new(m[0][3], m[1][3], m[2][3]) - linear * origin;
    std::array::from_fn(|r| [linear.x_axis[r], linear.y_axis[r], linear.z_axis[r], shift[r]])
}

/// One stored number of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShapeNumber {
    /// Bone.
    pub bone: u16,
    /// What it moves.
    pub component: Component,
    /// Model units for a translation, else a ratio (radians for small rotations).
    pub value: f32,
}

/// How the weight of a shape follows from those of others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
#[non_exhaustive]
pub enum Driver {
    /// It has a weight of its own.
    #[default]
    Own,
    /// A combination (corrective): the product of the weights of other shapes.
    Product {
        /// Numbers of the shapes.
        of: Vec<usize>,
    },
    /// An in-between: rises from `from` to 1 at `peak` and falls to 0 at `to`, by the weight of another shape.
    Between {
        /// Number of the shape.
        of: usize,
        /// Weight of that shape where this one begins.
        from: f32,
        /// Weight of that shape where this one is 1.
        peak: f32,
        /// Weight of that shape where this one ends.
        to: f32,
    },
}

/// A shape as numbers of bones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoneShape {
    /// Its name.
    pub name: String,
    /// What its weight follows from.
    pub driver: Driver,
    /// Stored numbers, by bone and component.
    pub numbers: Vec<ShapeNumber>,
}

/// A rig whose bones follow the weights of shapes.
///
/// The rig's first clip has one frame for each shape: that shape alone, at weight 1.
///
/// Invariants, checked by [`ShapeBones::check`]:
/// 1. The rig is sound, and its first clip has a frame for each shape.
/// 2. Names of shapes are unique.
/// 3. Numbers are finite, sorted by bone and component, none twice; bones exist.
/// 4. Drivers name other shapes that have a weight of their own; in-betweens rise and fall.
#[derive(Clone, Debug)]
pub struct ShapeBones {
    /// Bones, weights, neutral.
    pub rig: Rig,
    /// Which components are used.
    pub kind: ShapeKind,
    /// [S] shapes.
    pub shapes: Vec<BoneShape>,
}

/// Why a model of this kind was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum ShapeBonesError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error("there are no shapes")]
    NoShapes,
    #[error("the first clip has {frames} frames, but there are {shapes} shapes")]
    Frames { frames: usize, shapes: usize },
    #[error("two shapes are called {name:?}")]
    SameName { name: String },
    #[error("shape {name:?}: a number is not finite, names a bone that does not exist, or is not in order")]
    Number { name: String },
    #[error("shape {name:?}: its driver names no other shape with a weight of its own, or does not rise and fall")]
    Driver { name: String },
}

impl ShapeBones {
    /// Checks the invariants.
    pub fn check(&self) -> Result<(), ShapeBonesError> {
        self.rig.check()?;
        ensure(!self.shapes.is_empty(), || ShapeBonesError::NoShapes)?;
        let frames = self.rig.clips.first().map_or(0, Clip::frame_count);
        let shapes = self.shapes.len();
        ensure(frames == shapes, || ShapeBonesError::Frames { frames, shapes })?;
        let mut names: Vec<&str> = self.shapes.iter().map(|shape| shape.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ShapeBonesError::SameName { name: twice[0].to_owned() });
        }
        for (s, shape) in self.shapes.iter().enumerate() {
            let key = |x: &ShapeNumber| (x.bone, x.component);
            let ordered = shape.numbers.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]));
            let known = |x: &ShapeNumber| {
                x.value.is_finite()
                    && usize::from(x.bone) < self.rig.bone_count()
                    && usize::from(x.component) < self.kind.numbers()
            };
            let name = || shape.name.clone();
            ensure(ordered && shape.numbers.iter().all(known), || ShapeBonesError::Number { name: name() })?;
            ensure(self.is_sound(s, &shape.driver), || ShapeBonesError::Driver { name: name() })?;
        }
        Ok(())
    }

    fn is_sound(&self, own: usize, driver: &Driver) -> bool {
        let leads = |s: usize| s != own && self.shapes.get(s).is_some_and(|shape| matches!(shape.driver, Driver::Own));
        match driver {
            Driver::Own => true,
            Driver::Product { of } => !of.is_empty() && of.iter().all(|s| leads(*s)),
            Driver::Between { of, from, peak, to } => leads(*of) && from < peak && peak < to,
        }
    }

    /// [S] names of the shapes.
    pub fn names(&self) -> Vec<String> {
        self.shapes.iter().map(|shape| shape.name.clone()).collect()
    }

    /// Stored numbers of all shapes.
    pub fn number_count(&self) -> usize {
        self.shapes.iter().map(|shape| shape.numbers.len()).sum()
    }

    /// Bytes of the numbers: 4 of each, and 2 of its place.
    pub fn number_bytes(&self) -> usize {
        6 * self.number_count()
    }

    /// [S] weights of all shapes from those with a weight of their own; weights of the others are ignored.
    pub fn driven(&self, weights: &[f32]) -> Vec<f64> {
        let of = |s: usize| weights.get(s).map_or(0.0, |w| f64::from(*w));
        let weight = |(s, shape): (usize, &BoneShape)| match &shape.driver {
            Driver::Own => of(s),
            Driver::Product { of: others } => others.iter().map(|s| of(*s)).product(),
            Driver::Between { of: other, from, peak, to } => {
                let (w, from, peak, to) = (of(*other), f64::from(*from), f64::from(*peak), f64::from(*to));
                let part = if w <= peak { (w - from) / (peak - from) } else { (to - w) / (to - peak) };
                part.clamp(0.0, 1.0)
            }
        };
        self.shapes.iter().enumerate().map(weight).collect()
    }

    /// [B] posed_from_rest of the bones for weights of shapes.
    pub fn transforms(&self, weights: &[f32]) -> Vec<DAffine3> {
        self.transforms_of(&self.driven(weights))
    }

    /// [B] as [`ShapeBones::transforms`], for weights of all shapes, driven ones included.
    pub fn transforms_of(&self, weights: &[f64]) -> Vec<DAffine3> {
        let mut sums = vec![[0.0; COMPONENTS]; self.rig.bone_count()];
        for (shape, weight) in self.shapes.iter().zip(weights).filter(|(_, weight)| **weight != 0.0) {
            for x in &shape.numbers {
                sums[usize::from(x.bone)][usize::from(x.component)] += weight * f64::from(x.value);
            }
        }
        let bones = self.rig.bones.iter().zip(sums);
        bones.map(|(bone, numbers)| transform(&numbers, &bone.world_from_bind)).collect()
    }

    /// A clip of bones from curves of shape weights: [F] seconds, and [F] weights of all shapes in each frame.
    pub fn clip(&self, name: &str, times_secs: Vec<f64>, weights: &[Vec<f32>]) -> Clip {
        let posed_from_rest = weights.iter().flat_map(|weights| self.transforms(weights)).collect();
        Clip { name: name.to_owned(), times_secs, posed_from_rest }
    }

    /// Makes the first clip anew from the numbers: each shape alone, at weight 1.
    pub fn set_first_clip(&mut self) {
        let count = self.shapes.len();
        let alone = |s: usize| (0..count).map(|t| f64::from(u8::from(s == t))).collect::<Vec<_>>();
        let posed_from_rest = (0..count).flat_map(|s| self.transforms_of(&alone(s))).collect();
        let times_secs = (0..count).map(|s| s as f64 / crate::mesh::sequence::DEFAULT_FPS).collect();
        let clip = Clip { name: "shapes".to_owned(), times_secs, posed_from_rest };
        match self.rig.clips.first_mut() {
            Some(first) => *first = clip,
            None => self.rig.clips.push(clip),
        }
    }
}

/// `I + sum_a x_a C_a` of a bone.
fn transform(numbers: &[f64; COMPONENTS], world_from_bind: &DAffine3) -> DAffine3 {
    let mut m = [[0.0; 4]; 3];
    for (number, x) in numbers.iter().enumerate().filter(|(_, x)| **x != 0.0) {
        let part = placed_component(number, world_from_bind.translation, &world_from_bind.matrix3);
        m.as_flattened_mut().iter_mut().zip(part.as_flattened()).for_each(|(sum, c)| *sum += x * c);
    }
    let column = |c: usize| DVec3::new(m[0][c], m[1][c], m[2][c]);
    let matrix3 = DMat3::IDENTITY + DMat3::from_cols(column(0), column(1), column(2));
    DAffine3 { matrix3, translation: column(3) }
}
