//! Bases of trajectories.

use glam::{DVec3, Vec3};

use crate::model::basis::Basis;

impl Basis {
    /// [N] positions in frame `t`.
    pub fn frame(&self, t: usize) -> Vec<Vec3> {
        let f = self.frame_count();
        let at = |table: &[f32], row: usize| {
            let at = (row * f + t) * 3;
            DVec3::new(f64::from(table[at]), f64::from(table[at + 1]), f64::from(table[at + 2]))
        };
        let position = |(&cluster, mix): (&u16, &[f32])| {
            let c = usize::from(cluster);
            let columns =
                mix.iter().enumerate().map(|(d, x)| f64::from(*x) * at(&self.columns, c * self.dimension + d));
            (at(&self.mean, 0) + columns.sum::<DVec3>()).as_vec3()
        };
        self.clusters.iter().zip(self.coefficients.chunks_exact(self.dimension)).map(position).collect()
    }
}
