//! Rigs that people have: known characters, part of the truth taken away, found again.

mod common;

use bonesmith_core::given::{Locks, RefitParams, Refitted, Solve, Subject, refit};
use bonesmith_core::{MeshSequence, Rig, Silent, metrics};
use common::truth::{forgotten, known};

fn solve(rig: &Rig, sequence: &MeshSequence, motion: bool, locks: &Locks, params: &RefitParams) -> Refitted {
    let motion = motion.then(|| rig.clips[0].posed_from_rest.as_slice());
    let subject = Subject { sequence, motion, binds: None };
    let out = refit(rig, &[subject], locks, params, &mut Silent).unwrap();
    println!("{:?} {:?} {}", out.info.fit_secs, out.info.profile, out.info.history.last().unwrap().e_rms);
    out
}

#[test]
fn probe() {
    let Some(data) = common::data() else { return };
    for name in ["gt_cesiumman", "gt_michelle_samba", "gt_fox"] {
        let (rig, sequence) = known(&data, name);
        println!("{name} truth {}", metrics::evaluate(&rig, &sequence).unwrap().e_rms);
        let params = RefitParams { solve: Solve::Weights, ..RefitParams::default() };
        let out = solve(&forgotten(&rig), &sequence, true, &Locks::default(), &params);
        let found = &out.rigs[0];
        println!("weights {}", metrics::evaluate(found, &sequence).unwrap().e_rms);
        let mut sum = 0.0;
        for i in 0..rig.vertex_count() {
            let mut d = vec![0.0f64; rig.bone_count()];
            rig.weights.of(i).for_each(|(j, w)| d[j] += f64::from(w));
            found.weights.of(i).for_each(|(j, w)| d[j] -= f64::from(w));
            sum += d.iter().map(|x| x.abs()).sum::<f64>();
        }
        println!("mean L1 per vertex {}", sum / rig.vertex_count() as f64);
        let params = RefitParams { solve: Solve::Motion, ..RefitParams::default() };
        let out = solve(&rig, &sequence, false, &Locks::default(), &params);
        println!("motion {}", metrics::evaluate(&out.rigs[0], &sequence).unwrap().e_rms);
        let params = RefitParams { solve: Solve::Both, ..RefitParams::default() };
        let out = solve(&forgotten(&rig), &sequence, true, &Locks::default(), &params);
        println!("both {}", metrics::evaluate(&out.rigs[0], &sequence).unwrap().e_rms);
    }
}
