//! Clips as animation stacks: curves of translation, rotation in degrees, and scale, and of the weights of shapes in percent.

use std::io;

use bonesmith_core::Clip;
use bonesmith_core::transform::Trs;
use glam::{DMat3, DQuat};

use super::binary::{Properties, Record};
use super::shapes::{self, Channels};
use super::skeleton::Skeleton;
use super::{Scene, ticks};
use crate::compact::keys::{kept, stepped};
use crate::joints::{Joints, NodeMotion};

/// Keys are joined by straight lines.
const LINEAR: i32 = 4;
/// Closer than this to straight up or down, the first and the last angle do the same.
const GIMBAL: f64 = 1.0 - 1e-9;

/// Writes clip `c` of every node.
pub fn write(scene: &mut Scene, c: usize, clip: &Clip, trees: &[(&Joints, &Skeleton)]) -> io::Result<()> {
    write_with(scene, c, clip, trees, &Channels::default(), &|_| Vec::new())
}

/// Writes clip `c` of every node, and of shapes: `weights` are those of a shape.
pub fn write_with(
    scene: &mut Scene,
    c: usize,
    clip: &Clip,
    trees: &[(&Joints, &Skeleton)],
    channels: &Channels,
    weights: &dyn Fn(usize) -> Vec<f64>,
) -> io::Result<()> {
    let name = if clip.name.is_empty() { format!("animation_{c}") } else { clip.name.clone() };
    let mut writer = Writer::of_clip(scene, c, &name, &clip.times_secs);
    let nodes =
        trees.iter().flat_map(|(plan, skeleton)| plan.nodes.iter().enumerate().map(move |node| (node, skeleton)));
    for (at, ((j, nodes), skeleton)) in nodes.enumerate() {
        // One curve with every key, so that a clip in which nothing moves keeps its length.
        let all_keys = at == 0;
        if let (Some(node), Some(motion)) = (skeleton.outers[j], &nodes.outer) {
            writer.node(node, motion, j, all_keys)?;
            writer.node(skeleton.joints[j], &nodes.joint, j, false)?;
        } else {
            writer.node(skeleton.joints[j], &nodes.joint, j, all_keys)?;
        }
    }
    channels.0.iter().try_for_each(|channel| writer.weights(channel.id, &weights(channel.shape)))
}

/// Curves of one clip.
pub struct Writer<'a> {
    scene: &'a mut Scene,
    layer: i64,
    clip: usize,
    times: Vec<i64>,
}

impl<'a> Writer<'a> {
    /// Begins clip `c`: its stack and its layer.
    pub fn of_clip(scene: &'a mut Scene, c: usize, name: &str, times_secs: &[f64]) -> Self {
        let (stack, layer) = (scene.id(), scene.id());
        let times: Vec<i64> = times_secs.iter().map(|t| ticks(*t)).collect();
        let (start, end) = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
        let span = Properties::new()
            .time("LocalStart", start)
            .time("LocalStop", end)
            .time("ReferenceStart", start)
            .time("ReferenceStop", end);
        let record = Record::new("AnimationStack").i64(stack).object(name, "AnimStack").text("");
        scene.object("AnimationStack", record.child(span.done()));
        // A record that ends in an empty one, as the Autodesk SDK expects of it.
        let record = Record::new("AnimationLayer").i64(layer).object("base", "AnimLayer").text("");
        scene.object("AnimationLayer", record.child(Properties::new().done()));
        scene.connect(layer, stack);
        Self { scene, layer, clip: c, times }
    }

    /// The curve of a shape's weight.
    pub fn weights(&mut self, channel: i64, weights: &[f64]) -> io::Result<()> {
        let values: Vec<[f64; 1]> = weights.iter().map(|w| [shapes::PERCENT * w]).collect();
        let keys = shapes::keys(weights);
        self.curves(channel, ["DeformPercent"; 2], ["d|DeformPercent"], &values, |_, _| keys.clone())
    }

    /// A node that stays at `place`, with a key in every frame: the clip keeps its length.
    pub fn length(&mut self, node: i64, place: [f64; 3]) -> io::Result<()> {
        let values = vec![place; self.times.len()];
        self.property(node, "T", "Lcl Translation", values, None, true)
    }

    /// Curves of one node. What never leaves the node's own value in any clip gets none, what stands still a single key.
    fn node(&mut self, node: i64, motion: &NodeMotion, bone: usize, all_keys: bool) -> io::Result<()> {
        let tolerance = self.scene.tolerance.as_ref();
        let (shift, angle) = (tolerance.map(|own| own.shift), tolerance.map(|own| own.turn[bone]));
        let moves =
            |get: &dyn Fn(&Trs) -> [f64; 4]| motion.clips.iter().flatten().any(|trs| get(trs) != get(&motion.rest));
        let frames = &motion.clips[self.clip];
        if all_keys || moves(&|trs| trs.translation.extend(0.0).to_array()) {
            let values = frames.iter().map(|trs| trs.translation.to_array()).collect();
            self.property(node, "T", "Lcl Translation", values, shift, all_keys)?;
        }
        if moves(&|trs| trs.rotation.to_array()) {
            let mut last = Some(degrees(motion.rest.rotation, None));
            let turn = |trs: &Trs| {
                last = Some(degrees(trs.rotation, last));
                last.unwrap_or_default()
            };
            let values = frames.iter().map(turn).collect();
            self.property(node, "R", "Lcl Rotation", values, angle.map(f64::to_degrees), false)?;
        }
        if moves(&|trs| trs.scale.extend(0.0).to_array()) {
            let values = frames.iter().map(|trs| trs.scale.to_array()).collect();
            self.property(node, "S", "Lcl Scaling", values, angle, false)?;
        }
        Ok(())
    }

    fn property(
        &mut self,
        node: i64,
        short: &str,
        name: &str,
        mut values: Vec<[f64; 3]>,
        tolerance: Option<f64>,
        all_keys: bool,
    ) -> io::Result<()> {
        if let Some(tolerance) = tolerance {
            values.as_flattened_mut().iter_mut().for_each(|x| *x = stepped(*x, tolerance));
        }
        let keys = |axis: usize, line: &[f64]| match tolerance {
            // One curve with all of them is enough to keep a clip's length.
            _ if all_keys && axis == 0 => (0..line.len()).collect(),
            _ if line.iter().all(|x| *x == line[0]) => vec![0],
            Some(tolerance) => kept(line.len(), |a, b| is_near(line, a, b, tolerance)),
            None => (0..line.len()).collect::<Vec<usize>>(),
        };
        self.curves(node, [short, name], ["d|X", "d|Y", "d|Z"], &values, keys)
    }

    /// Curves of a property; `keys`: the frames of a channel that have keys.
    fn curves<const D: usize>(
        &mut self,
        object: i64,
        [short, name]: [&str; 2],
        channels: [&str; D],
        values: &[[f64; D]],
        keys: impl Fn(usize, &[f64]) -> Vec<usize>,
    ) -> io::Result<()> {
        let id = self.scene.id();
        let first = values.first().copied().unwrap_or([0.0; D]);
        let properties = channels.iter().zip(first);
        let properties = properties.fold(Properties::new(), |all, (channel, value)| all.animated(channel, value));
        self.scene.object(
            "AnimationCurveNode",
            Record::new("AnimationCurveNode").i64(id).object(short, "AnimCurveNode").text("").child(properties.done()),
        );
        self.scene.connect(id, self.layer);
        self.scene.connect_property(id, object, name);
        for (axis, channel) in channels.into_iter().enumerate() {
            let curve = self.scene.id();
            let line: Vec<f64> = values.iter().map(|value| value[axis]).collect();
            let keys = keys(axis, &line);
            let times = keys.iter().map(|&t| self.times[t]);
            let record = Record::new("AnimationCurve").i64(curve).object("", "AnimCurve").text("").children([
                Record::new("Default").f64(first[axis]),
                Record::new("KeyVer").i32(4008),
                Record::new("KeyTime").i64s(times)?,
                Record::new("KeyValueFloat").f32s(keys.iter().map(|&t| line[t] as f32))?,
                Record::new("KeyAttrFlags").i32s([LINEAR])?,
                Record::new("KeyAttrDataFloat").f32s([0.0; 4])?,
                Record::new("KeyAttrRefCount").i32s([keys.len() as i32])?,
            ]);
            self.scene.object("AnimationCurve", record);
            self.scene.connect_property(curve, id, channel);
        }
        Ok(())
    }
}

/// Whether all frames between two are within a tolerance of the line between them; frames are evenly spaced.
fn is_near(line: &[f64], a: usize, b: usize, tolerance: f64) -> bool {
    let at = |t: usize| line[a] + (line[b] - line[a]) * (t - a) as f64 / (b - a) as f64;
    (a + 1..b).all(|t| (at(t) - line[t]).abs() <= tolerance)
}

/// Angles about x, then y, then z, in degrees; of all that mean the same, those nearest to `last`.
pub fn degrees(rotation: DQuat, last: Option<[f64; 3]>) -> [f64; 3] {
    let m = DMat3::from_quat(rotation);
    // m = Rz Ry Rx: the first column is (cy cz, cy sz, -sy).
    let sin_y = (-m.x_axis.z).clamp(-1.0, 1.0);
    let before = last.unwrap_or_default();
    let angles = if sin_y.abs() < GIMBAL {
        let y = sin_y.asin();
        [m.y_axis.z.atan2(m.z_axis.z), y, m.x_axis.y.atan2(m.x_axis.x)]
    } else {
        // Only x - z (up) or x + z (down) counts: x stays as it was.
        let y = sin_y.signum() * std::f64::consts::FRAC_PI_2;
        let x = before[0].to_radians();
        let both = if sin_y > 0.0 { m.y_axis.x.atan2(m.y_axis.y) } else { (-m.y_axis.x).atan2(m.y_axis.y) };
        [x, y, if sin_y > 0.0 { x - both } else { -(x - both) }]
    };
    let angles = angles.map(f64::to_degrees);
    let other = [angles[0] + 180.0, 180.0 - angles[1], angles[2] + 180.0];
    let near = |angles: [f64; 3]| {
        let turned: [f64; 3] = std::array::from_fn(|a| angles[a] + 360.0 * ((before[a] - angles[a]) / 360.0).round());
        let away: f64 = (0..3).map(|a| (turned[a] - before[a]).powi(2)).sum();
        (turned, away)
    };
    let (a, b) = (near(angles), near(other));
    if b.1 < a.1 - 1e-9 { b.0 } else { a.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rotation([x, y, z]: [f64; 3]) -> DQuat {
        DQuat::from_rotation_z(z.to_radians())
            * DQuat::from_rotation_y(y.to_radians())
            * DQuat::from_rotation_x(x.to_radians())
    }

    fn same(a: DQuat, b: DQuat) -> bool {
        a.dot(b).abs() > 1.0 - 1e-10
    }

    proptest! {
        #[test]
        fn angles_make_the_rotation(q in prop::array::uniform4(-1.0..1.0f64), last in prop::array::uniform3(-720.0..720.0f64)) {
            prop_assume!(DQuat::from_array(q).length() > 0.1);
            let q = DQuat::from_array(q).normalize();
            prop_assert!(same(rotation(degrees(q, None)), q));
            let near = degrees(q, Some(last));
            prop_assert!(same(rotation(near), q));
            prop_assert!((0..3).all(|a| (near[a] - last[a]).abs() <= 360.0));
        }

        #[test]
        fn straight_up_and_down(x in -180.0..180.0f64, z in -180.0..180.0f64, up in any::<bool>(), last in -400.0..400.0f64) {
            let q = rotation([x, if up { 90.0 } else { -90.0 }, z]);
            prop_assert!(same(rotation(degrees(q, Some([last, 80.0, 0.0]))), q));
        }
    }

    #[test]
    fn turning_on_stays_smooth() {
        let mut last = None;
        for step in 0..400 {
            let turn = DQuat::from_axis_angle(glam::DVec3::new(0.6, 0.8, 0.0), f64::from(step) * 0.05);
            let now = degrees(turn, last);
            if let Some(before) = last {
                let far = (0..3).map(|a| (now[a] - before[a]).abs()).fold(0.0, f64::max);
                assert!(far < 60.0, "step {step}: {before:?} to {now:?}");
            }
            last = Some(now);
        }
    }
}
