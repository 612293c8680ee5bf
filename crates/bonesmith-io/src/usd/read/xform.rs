//! Places of prims: the stack of transform operations on each prim, and the prims above it.

use glam::{DAffine3, DMat3, DMat4, DQuat, DVec3};

use crate::IoError;
use crate::usd::stage::{Attribute, Stage};

/// One operation.
struct Op<'a> {
    kind: Kind,
    inverted: bool,
    value: Attribute<'a>,
}

#[derive(Clone, Copy)]
enum Kind {
    Translate,
    Scale,
    /// Along one axis.
    TranslateAlong(usize),
    ScaleAlong(usize),
    /// Turns about axes, first to last, in degrees.
    Rotate(&'static [usize]),
    Orient,
    Matrix,
}

/// The transform of one prim over its parent.
struct Local<'a> {
    ops: Vec<Op<'a>>,
    /// The parents do not count.
    resets: bool,
}

/// From a prim to the world, over time.
pub struct Place<'a> {
    /// Own prim first.
    chain: Vec<Local<'a>>,
}

impl<'a> Place<'a> {
    /// The place of a prim.
    pub fn new(stage: &'a Stage, prim: usize) -> Result<Self, IoError> {
        let mut chain = Vec::new();
        for ancestor in stage.ancestry(prim) {
            let local = Local::new(stage, ancestor)?;
            let resets = local.resets;
            if !local.ops.is_empty() {
                chain.push(local);
            }
            if resets {
                break;
            }
        }
        Ok(Self { chain })
    }

    /// Transform at a time; `None`: the values without time.
    pub fn world(&self, time: Option<f64>) -> Result<DAffine3, IoError> {
        let mut world = DAffine3::IDENTITY;
        for local in &self.chain {
            let mut own = DAffine3::IDENTITY;
            for op in &local.ops {
                own *= op.at(time)?;
            }
            world = own * world;
        }
        Ok(world)
    }

    /// Times at which it has keys, if it moves.
    pub fn times(&self) -> impl Iterator<Item = f64> + '_ {
        let moving = self.chain.iter().flat_map(|local| &local.ops).filter(|op| op.value.samples.len() > 1);
        moving.flat_map(|op| op.value.samples.iter().map(|(time, _)| *time))
    }
}

impl<'a> Local<'a> {
    fn new(stage: &'a Stage, prim: usize) -> Result<Self, IoError> {
        let mut local = Self { ops: Vec::new(), resets: false };
        let Some(order) = stage.attribute(prim, "xformOpOrder")? else { return Ok(local) };
        for name in order.texts()? {
            if name == "!resetXformStack!" {
                local = Self { ops: Vec::new(), resets: true };
                continue;
            }
            let plain = name.strip_prefix("!invert!").unwrap_or(&name);
            let kind = plain.split(':').nth(1).and_then(Kind::from_name).ok_or_else(|| {
                stage.unsupported(format!("{}: the transform operation {name:?} is unknown", stage.prims[prim].path))
            })?;
            // An operation without a value does nothing.
            if let Some(value) = stage.attribute(prim, plain)? {
                local.ops.push(Op { kind, inverted: plain.len() != name.len(), value });
            }
        }
        Ok(local)
    }
}

impl Kind {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "translate" => Self::Translate,
            "scale" => Self::Scale,
            "translateX" => Self::TranslateAlong(0),
            "translateY" => Self::TranslateAlong(1),
            "translateZ" => Self::TranslateAlong(2),
            "scaleX" => Self::ScaleAlong(0),
            "scaleY" => Self::ScaleAlong(1),
            "scaleZ" => Self::ScaleAlong(2),
            "rotateX" => Self::Rotate(&[0]),
            "rotateY" => Self::Rotate(&[1]),
            "rotateZ" => Self::Rotate(&[2]),
            "rotateXYZ" => Self::Rotate(&[0, 1, 2]),
            "rotateXZY" => Self::Rotate(&[0, 2, 1]),
            "rotateYXZ" => Self::Rotate(&[1, 0, 2]),
            "rotateYZX" => Self::Rotate(&[1, 2, 0]),
            "rotateZXY" => Self::Rotate(&[2, 0, 1]),
            "rotateZYX" => Self::Rotate(&[2, 1, 0]),
            "orient" => Self::Orient,
            "transform" => Self::Matrix,
            _ => return None,
        })
    }
}

impl Op<'_> {
    fn at(&self, time: Option<f64>) -> Result<DAffine3, IoError> {
        let values = match self.kind {
            Kind::Orient => {
                super::sample::quaternions(&self.value, time)?.first().map_or(vec![], |q| vec![q.w, q.x, q.y, q.z])
            }
            _ => super::sample::numbers(&self.value, time)?,
        };
        let matrix = match (self.kind, values.as_slice()) {
            (Kind::Translate, &[x, y, z]) => DAffine3::from_translation(DVec3::new(x, y, z)),
            (Kind::Scale, &[x, y, z]) => DAffine3::from_scale(DVec3::new(x, y, z)),
            (Kind::TranslateAlong(axis), &[x]) => DAffine3::from_translation(DVec3::AXES[axis] * x),
            (Kind::ScaleAlong(axis), &[x]) => DAffine3::from_scale(DVec3::ONE + DVec3::AXES[axis] * (x - 1.0)),
            (Kind::Orient, &[w, x, y, z]) => DAffine3::from_quat(DQuat::from_xyzw(x, y, z, w)),
            (Kind::Matrix, matrix) if matrix.len() == 16 => to_affine(matrix),
            (Kind::Rotate(axes), &[angle]) if axes.len() == 1 => DAffine3::from_mat3(about(axes[0], angle)),
            (Kind::Rotate(axes), &[x, y, z]) if axes.len() == 3 => {
                // The axis named first turns first.
                let turn = axes.iter().fold(DMat3::IDENTITY, |m, &axis| about(axis, [x, y, z][axis]) * m);
                DAffine3::from_mat3(turn)
            }
            _ => DAffine3::IDENTITY,
        };
        if !self.inverted {
            return Ok(matrix);
        }
        let inverse = matrix.inverse();
        Ok(if inverse.is_finite() { inverse } else { DAffine3::IDENTITY })
    }
}

fn about(axis: usize, degrees: f64) -> DMat3 {
    DMat3::from_axis_angle(DVec3::AXES[axis], degrees.to_radians())
}

/// USD has row vectors: its rows are our columns.
pub fn to_affine(rows: &[f64]) -> DAffine3 {
    let mut columns = [0.0; 16];
    columns.iter_mut().zip(rows).for_each(|(to, from)| *to = *from);
    DAffine3::from_mat4(DMat4::from_cols_array(&columns))
}
