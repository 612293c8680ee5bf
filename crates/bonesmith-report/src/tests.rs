//! Whole reports: rendered, taken apart again, and posed as the page does it.

use bonesmith_core::compress::{TwoLayerParams, TwoLayerSize, compress};
use bonesmith_core::ddm::{DdmParams, precompute};
use bonesmith_core::fit::{BoneCount, FitParams, Method};
use bonesmith_core::synthetic::{PosedRig, PosedRigParams, posed_rig};
use bonesmith_core::{DdmRig, MeshSequence, ModelRef, Rig, Silent, TwoLayerRig, metrics};
use glam::Vec3;
use serde_json::Value;

use crate::{ClipSpan, ReportError, Scene, Subject, extract, render};

const ROOMY: u64 = 25_000_000;

fn known() -> (Rig, MeshSequence) {
    let PosedRig { rig, sequence } = posed_rig(3, &PosedRigParams::default());
    (rig, MeshSequence::try_from(sequence).unwrap())
}

fn two_layer(rig: &Rig) -> TwoLayerRig {
    let params = TwoLayerParams { size: TwoLayerSize::VirtualBones(30), ..TwoLayerParams::default() };
    compress(rig, None, &params, &mut Silent).unwrap().rig
}

fn ddm(rig: &Rig) -> DdmRig {
    precompute(rig, &DdmParams::default(), &Default::default(), &mut Silent).unwrap()
}

/// Takes a report apart.
struct Read {
    json: Value,
    blob: Vec<u8>,
}

impl Read {
    fn new(html: &str) -> Self {
        let (json, blob) = extract(html).expect("a report");
        assert_eq!(json["blob"]["bytes"], blob.len());
        Self { json, blob }
    }

    fn bytes(&self, buffer: &Value, kind: &str, size: usize) -> &[u8] {
        assert_eq!(buffer["type"], kind);
        let (offset, length) =
            (buffer["offset"].as_u64().unwrap() as usize, buffer["length"].as_u64().unwrap() as usize);
        assert_eq!(offset % 4, 0);
        &self.blob[offset..offset + length * size]
    }

    fn floats(&self, buffer: &Value) -> Vec<f32> {
        self.bytes(buffer, "f32", 4).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn shorts(&self, buffer: &Value) -> Vec<u16> {
        self.bytes(buffer, "u16", 2).chunks_exact(2).map(|b| u16::from_le_bytes(b.try_into().unwrap())).collect()
    }

    /// [f, N, 3] numbers from the low and high bytes of their differences.
    fn undo_differences(&self, buffer: &Value, n: usize) -> Vec<u16> {
        let bytes = self.bytes(buffer, "u8", 1);
        let (low, high) = bytes.split_at(bytes.len() / 2);
        let mut all = vec![0u16; low.len()];
        for t in 0..low.len() / (3 * n) {
            for axis in 0..3 {
                let mut step = 0u16;
                for v in 0..n {
                    let at = (t * 3 + axis) * n + v;
                    let code = u16::from_le_bytes([low[at], high[at]]);
                    step = step.wrapping_add((code >> 1) ^ (code & 1).wrapping_neg());
                    let before = if t > 0 { all[((t - 1) * n + v) * 3 + axis] } else { 0 };
                    all[(t * n + v) * 3 + axis] = before.wrapping_add(step);
                }
            }
        }
        all
    }

    /// [N] of a quantised frame.
    fn positions(&self, part: &Value, frame: usize) -> Vec<Vec3> {
        let n = self.json["mesh"]["vertices"].as_u64().unwrap() as usize;
        let all = self.undo_differences(&part["positions"], n);
        let boxes = self.floats(&part["boxes"]);
        let coordinate = |(at, q): (usize, &u16)| {
            let axis = at % 3;
            let (low, high) = (boxes[6 * frame + axis], boxes[6 * frame + 3 + axis]);
            low + f32::from(*q) / 65535.0 * (high - low)
        };
        let frame: Vec<f32> = all[3 * n * frame..3 * n * (frame + 1)].iter().enumerate().map(coordinate).collect();
        frame.chunks_exact(3).map(Vec3::from_slice).collect()
    }

    /// [N] of a model in a frame, skinned as a shader does.
    fn posed(&self, model: &Value, frame: usize) -> Vec<Vec3> {
        let skin = &model["skin"];
        if skin.is_null() {
            return self.positions(&model["positions"], frame);
        }
        let slots = skin["influences"].as_u64().unwrap() as usize;
        let joints = skin["joints"].as_u64().unwrap() as usize;
        let matrices = self.floats(&skin["matrices"]);
        let (indices, weights) = (self.shorts(&skin["indices"]), self.shorts(&skin["weights"]));
        let vertex = |(i, u): (usize, &[f32])| {
            let mut p = [0.0f32; 3];
            for k in i * slots..(i + 1) * slots {
                let at = (frame * joints + indices[k] as usize) * 12;
                let w = f32::from(weights[k]) / 65535.0;
                for (r, p) in p.iter_mut().enumerate() {
                    let m = &matrices[at + 4 * r..at + 4 * r + 4];
                    *p += w * (m[0] * u[0] + m[1] * u[1] + m[2] * u[2] + m[3]);
                }
            }
            Vec3::from(p)
        };
        self.floats(&model["rest"]).chunks_exact(3).enumerate().map(vertex).collect()
    }
}

fn farthest(a: &[Vec3], b: &[Vec3]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a.distance(*b)).fold(0.0, f32::max)
}

#[test]
fn every_kind_of_model_comes_back_as_the_core_poses_it() {
    let (rig, sequence) = known();
    let (two, ddm) = (two_layer(&rig), ddm(&rig));
    let (params, mut silent) =
        (bonesmith_core::ddm::compress::DdmCompressParams { virtual_bones: 20, ..Default::default() }, Silent);
    let small = bonesmith_core::ddm::compress::compress(&ddm, &params, &mut silent).unwrap().0;
    let metrics = metrics::evaluate(&rig, 0, &sequence).unwrap();
    let shaped = bonesmith_core::corrective::eigenskin(&rig, &sequence, 2, &mut silent).unwrap();
    let svd = FitParams { bones: BoneCount::Exact(3), method: Method::Svd, ..FitParams::default() };
    let basis = bonesmith_core::methods::represent(&sequence, &svd, &mut silent).unwrap().basis;
    let models = [
        ModelRef::from(&rig),
        ModelRef::from(&two),
        ModelRef::from(&ddm),
        ModelRef::from(&small),
        ModelRef::from(&sequence),
        ModelRef::from(&shaped),
        ModelRef::from(&basis),
    ];
    let kinds = ["lbs", "two_layer", "ddm", "compressed_ddm", "sequence", "shaped", "basis"];
    assert_eq!(models[5].rest(), rig.rest);
    let subjects: Vec<Subject> = models
        .map(|model| Subject { metrics: Some(&metrics), ..Subject::new("a </script> \"name\"", model, vec![0]) })
        .into();
    let scene =
        Scene { original: Some(&sequence), subjects: subjects.clone(), title: "<b>".into(), ..Scene::default() };
    let page = render(&scene, ROOMY).unwrap();
    assert_eq!((page.kept_every, page.kept_frames), (1, sequence.frame_count()));
    let read = Read::new(&page.html);
    assert!(!page.html.contains("a </script>") && read.json["models"][0]["name"] == "a </script> \"name\"");
    let size = metrics.radius_model_units as f32 * 2.0;
    let mut moved = 0.0f32;
    for (at, subject) in subjects.iter().enumerate() {
        let model = &read.json["models"][at];
        assert_eq!(model["kind"], kinds[at]);
        for t in [0, 7, sequence.frame_count() - 1] {
            let expected = &subject.positions(&[t])[0];
            let off = farthest(&read.posed(model, t), expected);
            assert!(off < 1e-4 * size, "{} frame {t}: {off}", kinds[at]);
            assert!(farthest(&read.positions(&read.json["original"], t), &sequence.frame(t)) < 1e-4 * size);
            moved = moved.max(farthest(expected, sequence.rest()));
        }
        let bones = model["bones"].as_array().unwrap().len();
        assert_eq!(bones, if matches!(at, 4 | 6) { 0 } else { rig.bone_count() });
        if bones > 0 {
            assert_eq!(model["bone_matrices"]["length"], sequence.frame_count() * bones * 12);
            let usage: f64 = model["plots"]["bone_usage"].as_array().unwrap().iter().map(|u| u.as_f64().unwrap()).sum();
            assert!((usage - 1.0).abs() < 1e-6, "{usage}");
        }
        assert_eq!(model["bone_weights"].is_null(), matches!(at, 0 | 4 | 6));
        assert_eq!(model["virtual_heads"].is_null(), !matches!(at, 1 | 3));
    }
    assert!(moved > 0.1 * size, "nothing moves: the test sees nothing");
}

#[test]
fn the_error_is_that_of_the_metrics() {
    let (mut rig, sequence) = known();
    rig.rest[5] += Vec3::X * 0.1;
    let metrics = metrics::evaluate(&rig, 0, &sequence).unwrap();
    let subject = Subject { metrics: Some(&metrics), ..Subject::new("rig", &rig, vec![0]) };
    let read = Read::new(
        &render(&Scene { original: Some(&sequence), subjects: vec![subject], ..Scene::default() }, ROOMY).unwrap().html,
    );
    let error = &read.json["models"][0]["error"];
    assert_eq!(read.floats(&error["per_vertex_rms"]), metrics.spread.vertex_rms);
    assert_eq!(read.floats(&error["per_vertex_max"]), metrics.spread.vertex_max);
    assert_eq!(error["max"]["vertex"], 5);
    assert_eq!(error["max"]["value"], metrics.max_error_model_units);
    assert_eq!(error["per_frame"]["rms"].as_array().unwrap().len(), sequence.frame_count());
    let counts = error["histogram"]["counts"].as_array().unwrap();
    assert_eq!(
        counts.iter().map(|c| c.as_u64().unwrap()).sum::<u64>(),
        (rig.vertex_count() * sequence.frame_count()) as u64
    );
    assert_eq!(error["histogram"]["edges"].as_array().unwrap().len(), counts.len() + 1);
    let figures = read.json["models"][0]["figures"].as_array().unwrap();
    let e_rms = figures.iter().find(|f| f["name"] == "E_RMS").unwrap();
    assert_eq!(e_rms["value"], metrics.e_rms);
    assert!(figures.iter().all(|f| f["meaning"].as_str().unwrap().ends_with('.')), "{figures:?}");
}

#[test]
fn frames_are_left_out_until_it_fits() {
    let (rig, sequence) = known();
    let clips = vec![ClipSpan { name: "a".into(), count: 10 }, ClipSpan { name: "b".into(), count: 14 }];
    let subject = Subject::new("rig", &rig, vec![0]);
    let scene = Scene { original: Some(&sequence), subjects: vec![subject], clips, ..Scene::default() };
    let whole = render(&scene, ROOMY).unwrap().html.len() as u64;
    let least = crate::page::smallest(&scene);
    let mut kept = Vec::new();
    for limit in [whole, whole - 100, least + (whole - least) / 2, least + (whole - least) / 3, least] {
        let page = render(&scene, limit).unwrap();
        assert!(page.html.len() as u64 <= limit, "{} of {limit}", page.html.len());
        let read = Read::new(&page.html);
        let indices: Vec<u64> =
            read.json["frames"]["indices"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap()).collect();
        assert_eq!(read.json["file"]["kept_frames_every"], page.kept_every);
        assert_eq!((read.json["file"]["frames_total"].as_u64(), indices[0]), (Some(24), 0));
        if indices.len() > 1 {
            assert!([9, 10, 23].iter().all(|t| indices.contains(t)), "{indices:?}");
        }
        assert_eq!(read.json["original"]["positions"]["length"], indices.len() * 6 * rig.vertex_count());
        kept.push(indices.len());
    }
    assert!(
        kept[0] == 24 && kept.is_sorted_by(|a, b| a >= b) && kept[1] < 24 && kept[3] > 1 && kept[4] == 1,
        "{kept:?}"
    );
    match render(&scene, least - 1) {
        Err(ReportError::TooLarge { needed, limit }) => assert_eq!((needed, limit), (least, least - 1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_influences_than_a_shader_takes_come_as_positions() {
    let params = PosedRigParams { bones: 24, influences: 24, softness: 2.0, frames: 3, ..PosedRigParams::default() };
    let rig = posed_rig(1, &params).rig;
    assert!(rig.weights.max_influences() > crate::MAX_INFLUENCES, "{}", rig.weights.max_influences());
    let subject = Subject::new("dense", &rig, vec![0]);
    let expected = subject.positions(&[2]);
    let read = Read::new(&render(&Scene { subjects: vec![subject], ..Scene::default() }, ROOMY).unwrap().html);
    let model = &read.json["models"][0];
    assert!(model["skin"].is_null() && model["bone_weights"]["influences"] == 4 && read.json["original"].is_null());
    assert!(farthest(&read.posed(model, 2), &expected[0]) < 1e-3);
}

#[test]
fn a_rig_without_motion_is_shown_at_rest_and_tables_alone_are_a_report() {
    let (mut rig, _) = known();
    rig.clips.clear();
    let scene = Scene { subjects: vec![Subject::new("still", &rig, Vec::new())], ..Scene::default() };
    let read = Read::new(&render(&scene, ROOMY).unwrap().html);
    assert_eq!(read.json["frames"]["count"], 1);
    assert!(farthest(&read.posed(&read.json["models"][0], 0), &rig.rest) < 1e-5);
    let table = crate::Table { title: "speed".into(), ..Default::default() };
    let read = Read::new(&render(&Scene { tables: vec![table], ..Scene::default() }, ROOMY).unwrap().html);
    assert!(read.json["mesh"].is_null() && read.json["models"].as_array().unwrap().is_empty());
    assert_eq!(
        (read.json["tables"][0]["title"].as_str(), read.json["frames"]["count"].as_u64()),
        (Some("speed"), Some(0))
    );
}

#[test]
fn nothing_infinite_reaches_the_page() {
    let (mut rig, sequence) = known();
    // Such a rig is not measured any more; a page must bear it all the same.
    let metrics = metrics::evaluate(&rig, 0, &sequence).unwrap();
    rig.clips[0].posed_from_rest[3].translation.x = 1e300;
    let subject = Subject { metrics: Some(&metrics), ..Subject::new("far", &rig, vec![0]) };
    let page =
        render(&Scene { original: Some(&sequence), subjects: vec![subject], ..Scene::default() }, ROOMY).unwrap();
    let read = Read::new(&page.html);
    let skin = &read.json["models"][0]["skin"];
    assert!(read.floats(&skin["matrices"]).iter().all(|x| x.is_finite()));
}
