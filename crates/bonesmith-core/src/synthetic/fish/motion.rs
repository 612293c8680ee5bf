//! How the fish moves. In straight space fins ripple and flesh swells; then the spine bends all of it.

use std::f64::consts::TAU;

use glam::{DQuat, DVec3, Vec3};

use crate::synthetic::fish::fins::{Fan, PECTORAL, PELVIC, mirrored};
use crate::synthetic::fish::shape::{eye_center, section};
use crate::synthetic::fish::{FishVertex, Part};

/// Samples of the spine per body length: the bend between two of them is far below float32's worth.
const SPINE_STEPS: usize = 400;
/// The spine goes on through the tail fin, and a little beyond.
const SPINE_LENGTH: f64 = 1.5;
/// The point that stays in place: about the centre of mass.
const ANCHOR: f64 = 0.36;
/// Radians per body length of the wave that runs down the body.
const WAVE_NUMBER: f64 = 5.2;

/// The fish at one moment.
pub(super) struct Pose {
    /// Phase of the whole loop in radians.
    phase: f64,
    /// 0 for the straight rest pose, 1 when swimming.
    strength: f64,
    /// Place (side, forward) and heading in radians along the spine, `SPINE_STEPS` per body length.
    spine: Vec<(f64, f64, f64)>,
}

impl Pose {
    /// The rest pose.
    pub fn straight() -> Self {
        Self::new(0.0, 0.0)
    }

    /// The moment `loop_share` (0 to 1) of the loop.
    pub fn swimming(loop_share: f64) -> Self {
        Self::new(TAU * loop_share, 1.0)
    }

    fn new(phase: f64, strength: f64) -> Self {
        let step = 1.0 / SPINE_STEPS as f64;
        let samples = (SPINE_LENGTH * SPINE_STEPS as f64) as usize + 1;
        let mut spine = Vec::with_capacity(samples);
        let (mut side, mut forward) = (0.0, 0.0);
        for k in 0..samples {
            let heading = strength * heading(k as f64 * step, phase);
            spine.push((side, forward, heading));
            // The length along the spine is kept: the body bends and does not stretch.
            side += step * heading.sin();
            forward -= step * heading.cos();
        }
        let anchor = spine[(ANCHOR * SPINE_STEPS as f64) as usize];
        spine.iter_mut().for_each(|(side, forward, _)| {
            *side -= anchor.0;
            *forward -= anchor.1;
        });
        Self { phase, strength, spine }
    }

    /// Where a vertex is.
    pub fn place(&self, vertex: &FishVertex) -> Vec3 {
        let moved = match vertex.part {
            Part::Body => self.flesh(vertex),
            Part::Eye(side) => self.look(vertex, side),
            Part::Tail => self.flutter(vertex),
            Part::Median(sign) => self.ripple(vertex, sign),
            Part::Pectoral(side) => self.flap(vertex, side, &PECTORAL, 0.42, 0.020),
            Part::Pelvic(side) => self.flap(vertex, side, &PELVIC, 0.22, 0.012),
        };
        self.float(self.bend(vertex.place.lerp(moved, self.strength))).as_vec3()
    }

    /// A sine that runs `times` per loop, `lag` radians behind.
    fn wave(&self, times: f64, lag: f64) -> f64 {
        (times * self.phase - lag).sin()
    }

    /// From straight space onto the spine.
    fn bend(&self, straight: DVec3) -> DVec3 {
        let [side, up, back] = straight.to_array();
        let at = (back * SPINE_STEPS as f64).clamp(0.0, (self.spine.len() - 2) as f64);
        let (k, share) = (at as usize, at.fract());
        let ((s0, f0, h0), (s1, f1, h1)) = (self.spine[k], self.spine[k + 1]);
        let heading = h0 + share * (h1 - h0);
        // The lips lie in front of the spine's start.
        let ahead = (-back).max(0.0);
        let twist = self.strength * 0.16 * back * back * self.wave(2.0, WAVE_NUMBER * back + 1.2);
        let (sin, cos) = twist.sin_cos();
        let (side, up) = (cos * side - sin * up, sin * side + cos * up);
        DVec3::new(
            s0 + share * (s1 - s0) + side * heading.cos() - ahead * heading.sin(),
            up,
            f0 + share * (f1 - f0) + side * heading.sin() + ahead * heading.cos(),
        )
    }

    /// The whole fish rises, surges, turns and leans a little.
    fn float(&self, p: DVec3) -> DVec3 {
        let yaw = DQuat::from_rotation_y(0.10 * self.strength * self.wave(1.0, 0.4));
        let pitch = DQuat::from_rotation_x(0.05 * self.strength * self.wave(1.0, 1.9));
        let roll = DQuat::from_rotation_z(0.07 * self.strength * self.wave(1.0, 0.9));
        let drift = DVec3::new(0.0, 0.022 * self.wave(1.0, 0.0), 0.012 * self.wave(2.0, 0.7));
        yaw * pitch * roll * p + self.strength * drift
    }

    /// Belly that lags and swells, gills that pump, a mouth that opens.
    fn flesh(&self, vertex: &FishVertex) -> DVec3 {
        let [mut side, mut up, back] = vertex.place.to_array();
        let (height, _, middle) = section(back);
        let bump = |center: f64, width: f64| (-((back - center) / width).powi(2)).exp();
        let low = (0.5 - 0.7 * (up - middle) / height).clamp(0.0, 1.0);
        let belly = bump(0.43, 0.13) * low * low * (3.0 - 2.0 * low);
        up += belly * (0.014 * self.wave(2.0, 0.3) + 0.008 * self.wave(4.0, 1.0)) * ((up - middle) / height);
        side *= 1.0 + 0.10 * belly * self.wave(2.0, 2.1);
        side += belly * 0.020 * self.wave(2.0, WAVE_NUMBER * 0.43 - 0.9);
        let breath = 0.5 + 0.5 * self.wave(3.0, 0.8);
        side *= 1.0 + 0.07 * breath * bump(0.20, 0.045);
        let lips = (1.0 - back / 0.07).clamp(0.0, 1.0);
        up = middle + (up - middle) * (1.0 + 0.55 * lips * lips * breath);
        DVec3::new(side, up, back)
    }

    /// Eyes turn in their sockets.
    fn look(&self, vertex: &FishVertex, side: f64) -> DVec3 {
        let center = eye_center(side);
        let turn = DQuat::from_rotation_y(0.30 * self.wave(1.0, 0.2))
            * DQuat::from_rotation_z(0.10 * side * self.wave(2.0, 1.0));
        center + turn * (vertex.place - center)
    }

    /// The edge of the tail fin trails behind its root, its corners most.
    fn flutter(&self, vertex: &FishVertex) -> DVec3 {
        let (FishVertex { u, v, .. }, [side, up, back]) = (*vertex, vertex.place.to_array());
        let lag = WAVE_NUMBER * 1.1 + 1.3 + 1.1 * u.abs();
        let trail = 0.055 * v.powf(1.5) * (0.4 + 0.6 * u * u) * self.wave(2.0, lag);
        let shiver = 0.012 * v * v * self.wave(4.0, 5.0 * u + 2.0 * v);
        // The fan closes a little with each beat.
        let close = 1.0 - 0.07 * v * (0.5 + 0.5 * self.wave(4.0, 0.6));
        DVec3::new(side + trail + shiver, 0.012 + (up - 0.012) * close, back)
    }

    /// A wave runs along the fins of back and belly.
    fn ripple(&self, vertex: &FishVertex, sign: f64) -> DVec3 {
        let (FishVertex { u, v, .. }, [side, up, back]) = (*vertex, vertex.place.to_array());
        let sway = 0.038 * v.powf(1.6) * self.wave(2.0, 6.5 * u + 1.4 * v + sign);
        let shiver = 0.008 * v * v * self.wave(4.0, 11.0 * u);
        DVec3::new(side + sway + shiver, up - sign * 0.012 * v * v * self.wave(2.0, 5.0 * u).powi(2), back)
    }

    /// Paired fins swing about their hinge, the edge later than the root, and ripple.
    fn flap(&self, vertex: &FishVertex, side: f64, fan: &Fan, swing: f64, ripple: f64) -> DVec3 {
        let FishVertex { u, v, .. } = *vertex;
        // The two sides do not quite move together.
        let lag = if side > 0.0 { 0.0 } else { 0.7 };
        let (hinge, axis) = (mirrored(fan.hinge, side), mirrored(fan.wide, side).normalize());
        let angle = swing * self.wave(2.0, 1.3 * v + lag) + 0.3 * swing * self.wave(1.0, 0.5 + lag);
        let p = vertex.place - hinge;
        let ripple = ripple * v * v * self.wave(4.0, 3.5 * u + lag);
        hinge + DQuat::from_axis_angle(axis, side * angle) * p + ripple * fan.across(side)
    }
}

/// Angle between the spine and straight back, in radians: a wave that grows towards the tail, and a slow curl.
fn heading(back: f64, phase: f64) -> f64 {
    let beat = (0.05 + 0.30 * back * back) * (2.0 * phase - WAVE_NUMBER * back).sin();
    let curl = 0.16 * (back - ANCHOR) * (phase + 0.4).sin();
    beat + curl
}
