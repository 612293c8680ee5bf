//! Free bones drawn towards a tree: joints as a growing penalty [Le2014 s.3.8.3].
//!
//! A joint between bones `j` and `k` enters their update as one more point of weight `lambda` [Le2014 eq. 3.31a]. In
//! moments that is a vertex with weight +1 on `j`, -1 on `k` and the target 0, so the update of free rigid bones
//! handles it. Deviations: `lambda` starts below the weight of a bone instead of far above it, and the tree is built
//! anew in every round: while joints are soft, wrong neighbours can still be replaced. Once the tree is fixed, joints
//! are held exactly (`joint_step`).

use crate::observer::{Cancelled, Stage};
use crate::skeleton::graph::{Gap, JointGraph};
use crate::skeleton::tree::Edge;
use crate::skinning::{Moments, Motion, Problem, Run, State, VertexParams, bone_step, pass};

/// Weight of a joint in the first round, as a share of all vertices [Le2014 s.3.3: 1].
const FIRST_LAMBDA: f64 = 3e-3;

/// Growth of that weight from round to round [Le2014 s.3.3: 1.5, over twenty rounds].
const GROWTH: f64 = 2.0;

const ROUNDS: usize = 10;

/// Draws free bones together along the joints of their spanning tree.
pub(super) fn draw_together(
    problem: &Problem,
    state: &mut State,
    local: VertexParams,
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    run.stage(Stage::SoftJoints, None)?;
    let mut lambda = FIRST_LAMBDA * problem.vertices() as f64;
    for _ in 0..ROUNDS {
        let State { motion, skin, model } = state;
        let mut moments = run.timed("vertices", || pass::solve(problem, motion, skin, local, None));
        let e_rms = problem.e_rms(moments.squared_error);
        run.observed("soft joints", |run| {
            let edges = JointGraph::new(motion, &moments.second, Gap::Stiffness).spanning_tree(run)?;
            add_joints(&mut moments, motion, &edges, lambda);
            bone_step::update(motion, &moments, model);
            Ok(())
        })?;
        lambda *= GROWTH;
        run.round(motion.bones, e_rms)?;
    }
    Ok(())
}

/// Adds every joint to the moments as a vertex that should stay in the origin.
pub(crate) fn add_joints(moments: &mut Moments, motion: &Motion, edges: &[Edge], weight: f64) {
    let (b, f) = (motion.bones, motion.frames());
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
            let posed = |j: usize| motion.transform(j, t).transform_point3(edge.joint);
            let gap = posed(edge.bones.0) - posed(edge.bones.1);
            moments.squared_error += weight * gap.length_squared();
            for (j, sign) in ends {
                for (r, x) in c.iter().enumerate() {
                    for a in 0..3 {
                        moments.residual[(r * b + j) * 3 * f + a * f + t] -= weight * sign * x * gap[a];
                    }
                }
            }
        }
    }
}
