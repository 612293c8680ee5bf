//! `bonesmith bench limits`: threads, growth with size, where the time goes, inner loops against the machine's peak.

use anyhow::Context;
use bonesmith_core::fit::{BoneCount, FitInfo, FitParams, kernel_rates};
use bonesmith_core::methods::fit;
use bonesmith_core::{Adjacency, MeshSequence, RawSequence, Surface, synthetic};
use glam::Vec3;
use serde_json::json;

use super::report::show;
use crate::args::BenchLimitsArgs;
use crate::errors::Outcome;
use crate::output::write_json;
use crate::session::Session;
use crate::settings;
use crate::sheet::Sheet;

/// Bones of the fits whose size is not varied in bones.
const BONES: usize = 16;

/// Numbers of bones of the curve.
const MANY_BONES: [usize; 6] = [16, 64, 128, 256, 1024, 2048];

/// A sequence, a number of bones and threads, and the seconds it took.
struct Bench<'a> {
    args: &'a BenchLimitsArgs,
    session: &'a mut Session,
}

pub fn run(args: BenchLimitsArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json = settings::json(args.json.clone())?;
    let demo = MeshSequence::try_from(synthetic::clownfish())?;
    let mut bench = Bench { args: &args, session };
    let sheets = vec![bench.growth(&demo)?, bench.many_bones(&demo)?, bench.threads(&demo)?, rates()];
    if let Some(target) = &json {
        let tables: Vec<_> = sheets.iter().map(Sheet::to_json).collect();
        write_json(target, &json!({ "version": bonesmith::VERSION, "tables": tables }))?;
    }
    show(sheets, json.as_ref(), session)?;
    Ok(Outcome::Done)
}

impl Bench<'_> {
    fn fit_once(&mut self, sequence: &MeshSequence, bones: usize, threads: usize) -> anyhow::Result<FitInfo> {
        let params =
            FitParams { bones: BoneCount::Exact(bones), effort: self.args.effort.into(), ..FitParams::default() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        self.session.check_cancelled()?;
        Ok(pool.install(|| fit(sequence, &params, &mut bonesmith_core::Silent))?.info)
    }

    /// The fastest of a few fits.
    fn fit(&mut self, sequence: &MeshSequence, bones: usize, threads: usize) -> anyhow::Result<FitInfo> {
        let mut best: Option<FitInfo> = None;
        for _ in 0..self.args.repeats.max(1) {
            let info = self.fit_once(sequence, bones, threads)?;
            if best.as_ref().is_none_or(|best| seconds(&info) < seconds(best)) {
                best = Some(info);
            }
        }
        best.context("no fit was made")
    }

    fn growth(&mut self, demo: &MeshSequence) -> anyhow::Result<Sheet> {
        let mut rows = Vec::new();
        for what in ["vertices", "frames", "bones"] {
            let mut cells = vec![what.to_owned()];
            let mut first = 0.0;
            for times in [1, 2, 4] {
                let sequence = match what {
                    "vertices" => denser(demo, times)?,
                    "frames" => slower(demo, times)?,
                    _ => demo.clone(),
                };
                let bones = if what == "bones" { BONES * times } else { BONES };
                let secs = seconds(&self.fit(&sequence, bones, 1)?);
                first = if times == 1 { secs } else { first };
                cells.push(format!("{secs:.3} s ({:.2}x)", secs / first));
            }
            rows.push(cells);
        }
        let title = format!(
            "Growth: {} vertices, {} frames, {BONES} bones are 1x; one thread.",
            demo.vertex_count(),
            demo.frame_count()
        );
        Ok(Sheet { rows, ..Sheet::new(title, &["of what", "1x", "2x", "4x"]) })
    }

    /// Seconds for a few bones, and for very many: one fit each.
    fn many_bones(&mut self, demo: &MeshSequence) -> anyhow::Result<Sheet> {
        let mut rows = Vec::new();
        let mut first = 0.0;
        for bones in MANY_BONES {
            let info = self.fit_once(demo, bones, 1)?;
            let secs = seconds(&info);
            first = if bones == MANY_BONES[0] { secs } else { first };
            let (times, more) = (secs / first, bones as f64 / MANY_BONES[0] as f64);
            let e_rms = info.history.last().map_or(0.0, |round| round.error);
            let per_bone = 1e3 * secs / bones as f64;
            rows.push(vec![
                bones.to_string(),
                format!("{secs:.3} s"),
                format!("{times:.2}x for {more:.0}x"),
                format!("{per_bone:.1} ms"),
                format!("{e_rms:.4}"),
            ]);
        }
        let title = format!("Many bones: {} vertices, {} frames; one thread.", demo.vertex_count(), demo.frame_count());
        Ok(Sheet { rows, ..Sheet::new(title, &["bones", "time", "growth", "per bone", "E_RMS of the last round"]) })
    }

    /// Seconds of each part for 1, 2, 4... threads, and the speed-up of the whole.
    fn threads(&mut self, demo: &MeshSequence) -> anyhow::Result<Sheet> {
        let sequence = denser(demo, 4)?;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n <= cores).collect();
        let infos = counts.iter().map(|&count| self.fit(&sequence, 2 * BONES, count)).collect::<Result<Vec<_>, _>>()?;
        let alone = &infos[0];
        let mut names: Vec<&str> = parts(alone).iter().map(|part| part.0).collect();
        names.sort_by(|a, b| part(alone, b).total_cmp(&part(alone, a)));
        let row = |name: &str, secs: &dyn Fn(&FitInfo) -> f64| {
            let mut cells = vec![name.to_owned(), format!("{:.1} %", 100.0 * secs(alone) / seconds(alone))];
            cells.extend(infos.iter().map(|info| format!("{:.3} s ({:.2}x)", secs(info), secs(alone) / secs(info))));
            cells
        };
        let mut rows: Vec<_> = names.into_iter().map(|name| row(name, &|info| part(info, name))).collect();
        rows.push(row("all", &seconds));
        let title = format!(
            "Where the time goes, and threads: {} vertices, {} frames, {} bones.",
            sequence.vertex_count(),
            sequence.frame_count(),
            2 * BONES
        );
        let threads: Vec<String> =
            counts.iter().map(|n| if *n == 1 { "1 thread".into() } else { format!("{n} threads") }).collect();
        let mut head = vec!["part", "share"];
        head.extend(threads.iter().map(String::as_str));
        Ok(Sheet { rows, ..Sheet::new(title, &head) })
    }
}

/// Seconds by part; together the whole fit.
fn parts(info: &FitInfo) -> Vec<(&'static str, f64)> {
    let mut parts = info.profile.clone();
    parts.push(("prepare", info.prepare_secs));
    parts.push(("everything else", seconds(info) - parts.iter().map(|part| part.1).sum::<f64>()));
    parts
}

fn part(info: &FitInfo, name: &str) -> f64 {
    parts(info).iter().filter(|part| part.0 == name).map(|part| part.1).sum()
}

/// Speeds of the inner loops.
fn rates() -> Sheet {
    let row = |rate: &bonesmith_core::fit::Rate| {
        vec![
            rate.name.to_owned(),
            format!("{:.1}", rate.gflops),
            format!("{:.1}", rate.peak_gflops),
            format!("{:.0} %", 100.0 * rate.gflops / rate.peak_gflops),
        ]
    };
    let rows: Vec<Vec<String>> = kernel_rates().iter().map(row).collect();
    let title = "Inner loops against a large matrix product of the same precision, GFLOP/s, one thread.";
    Sheet { rows, ..Sheet::new(title, &["loop", "GFLOP/s", "peak", "of peak"]) }
}

fn seconds(info: &FitInfo) -> f64 {
    info.prepare_secs + info.fit_secs
}

/// The same surface with `times` as many vertices: midpoints of edges are added. Points alone: a fit needs no faces.
fn denser(sequence: &MeshSequence, times: usize) -> anyhow::Result<MeshSequence> {
    let n = sequence.vertex_count();
    let adjacency = Adjacency::new(&sequence.surface().topology, n);
    let edges: Vec<(usize, usize)> =
        (0..n).flat_map(|i| adjacency.of(i).iter().map(move |&k| (i, k as usize))).filter(|(i, k)| i < k).collect();
    let wanted = ((times - 1) * n).min(edges.len());
    // Spread over all of the surface.
    let picked: Vec<(usize, usize)> = (0..wanted).map(|at| edges[at * edges.len() / wanted]).collect();
    let more = |p: &[Vec3]| p.iter().copied().chain(picked.iter().map(|&(i, k)| 0.5 * (p[i] + p[k]))).collect();
    let frames = (0..sequence.frame_count()).map(|t| more(&sequence.frame(t)));
    rebuild(sequence, more(sequence.rest()), frames)
}

/// The same motion with `times` as many frames.
fn slower(sequence: &MeshSequence, times: usize) -> anyhow::Result<MeshSequence> {
    let count = sequence.frame_count();
    let frames = (0..count * times).map(|at| {
        let (t, share) = (at / times, (at % times) as f32 / times as f32);
        let (from, to) = (sequence.frame(t), sequence.frame((t + 1).min(count - 1)));
        from.iter().zip(to.iter()).map(|(a, b)| a.lerp(*b, share)).collect()
    });
    rebuild(sequence, sequence.rest().to_vec(), frames)
}

fn rebuild(
    sequence: &MeshSequence,
    rest: Vec<Vec3>,
    frames: impl Iterator<Item = Vec<Vec3>>,
) -> anyhow::Result<MeshSequence> {
    let raw = RawSequence {
        name: sequence.name().to_owned(),
        rest: Some(rest.into()),
        frames: frames.map(Into::into).collect(),
        surface: Surface::default(),
        ..RawSequence::default()
    };
    Ok(MeshSequence::try_from(raw)?)
}
