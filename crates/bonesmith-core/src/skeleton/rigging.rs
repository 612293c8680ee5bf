//! Loose bones drawn towards a tree: joints as a growing penalty [Le2014 s.3.8.3].
//!
//! A joint between bones `j` and `k` enters their update as one more point of weight `lambda` [Le2014 eq. 3.31]. In
//! moments that is a vertex with weight +1 on `j`, -1 on `k` and the target 0, so the loose fit's own update of rigid
//! bones does the work. Deviations: `lambda` starts below the weight of a bone instead of far above it, and the tree is
//! built anew in every round: while joints are soft, bones that were wrong about their neighbours can still change
//! their minds. Once the tree stands, joints are held exactly (`solve`).

use crate::observer::Cancelled;
use crate::skeleton::graph::Graph;
use crate::skeleton::loose::Ground;
use crate::skeleton::pose::split;
use crate::skeleton::tree::Edge;
use crate::skinning::bone_step;
use crate::skinning::descent::State;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::run::Run;

/// Weight of a joint in the first round, as a share of all vertices.
const FIRST_LAMBDA: f64 = 3e-3;

/// Growth of that weight from round to round [Le2014 s.3.3: 1.5, over twenty rounds].
const GROWTH: f64 = 2.0;

/// Rounds.
const ROUNDS: usize = 10;

/// Draws loose bones together along the joints of their spanning tree.
pub(crate) fn rig(ground: &Ground<'_>, state: &mut State, run: &mut Run<'_>) -> Result<(), Cancelled> {
    let mut lambda = FIRST_LAMBDA * ground.coarse.vertices() as f64;
    for _ in 0..ROUNDS {
        let State { motion, skin, model } = state;
        let mut moments = run.timed("vertices", || pass::solve(ground.coarse, motion, skin, ground.local, None));
        let e_rms = ground.coarse.e_rms(moments.squared_error);
        run.timed("soft joints", || {
            let edges = Graph::new(motion, &moments).spanning_tree();
            add_joints(&mut moments, motion, &edges, lambda);
            bone_step::update(motion, &moments, model);
        });
        lambda *= GROWTH;
        run.round(motion.bones, e_rms)?;
    }
    Ok(())
}

/// Adds every joint to the moments as a vertex that should stay in the origin.
pub(crate) fn add_joints(moments: &mut Moments, motion: &Motion, edges: &[Edge], weight: f64) {
    let (b, f) = (motion.bones, motion.frames());
    let length = 3 * f;
    for edge in edges {
        let c = [edge.joint.x, edge.joint.y, edge.joint.z, 1.0];
        let ends = [(edge.bones.0, 1.0), (edge.bones.1, -1.0)];
        for (j, sign_j) in ends {
            for (k, sign_k) in ends {
                let block = c.map(|x| c.map(|y| weight * sign_j * sign_k * x * y));
                moments.second.add(j, k, &block);
            }
        }
        for t in 0..f {
            let posed = |j: usize| {
                let (linear, shift) = split(&motion.get(j, t));
                linear * edge.joint + shift
            };
            let gap = posed(edge.bones.0) - posed(edge.bones.1);
            moments.squared_error += weight * gap.length_squared();
            for (j, sign) in ends {
                for (r, x) in c.iter().enumerate() {
                    for a in 0..3 {
                        moments.residual[(r * b + j) * length + a * f + t] -= weight * sign * x * gap[a];
                    }
                }
            }
        }
    }
}
