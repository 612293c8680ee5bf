//! All results of a batch: as JSON, as CSV, and as a page.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::job::{Gates, Job, Plan};
use super::record::{Figures, Record, Status};
use crate::error::Error;

/// A limit of quality, and what was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Gate {
    /// Its name in the job file, or `target_error`.
    pub gate: &'static str,
    /// The limit; `None` for the target of the fit's own options.
    pub limit: Option<f64>,
    /// What was reached; `None` where it was not measured.
    pub value: Option<f64>,
    /// Whether it is kept.
    pub passed: bool,
}

/// The result of one job.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The job.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Of the last attempt.
    pub exit_code: Option<i32>,
    /// How often it was started.
    pub attempts: usize,
    /// What is wrong, if anything.
    pub error: Option<String>,
    /// Its inputs.
    pub inputs: Vec<PathBuf>,
    /// The rig.
    pub output: PathBuf,
    /// The report.
    pub report: Option<PathBuf>,
    /// The small picture.
    pub picture: Option<PathBuf>,
    /// What the worker said.
    pub log: PathBuf,
    /// Limits of quality.
    pub gates: Vec<Gate>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Row {
    /// Of a job and what is recorded about it. A rig from before with other options is not this job's.
    fn new(job: &Job, plan: &Plan, record: Option<Record>) -> Self {
        let key = record.as_ref().filter(|record| record.status == Status::Done).map(|_| job.key(plan));
        let record = record.filter(|record| key.is_none_or(|key| record.key == key));
        let relative = |path: &PathBuf| path.strip_prefix(&plan.output).unwrap_or(path).to_owned();
        let there = |path: &PathBuf| path.exists().then(|| relative(path));
        let (status, figures) =
            record.as_ref().map_or((Status::Waiting, Figures::default()), |r| (r.status, r.figures.clone()));
        let exit_code = record.as_ref().and_then(|record| record.exit_code);
        Self {
            name: job.name.clone(),
            status,
            exit_code,
            attempts: record.as_ref().map_or(0, |record| record.attempts),
            error: record.and_then(|record| record.error),
            inputs: job.inputs.iter().map(|path| path.strip_prefix(&plan.folder).unwrap_or(path).to_owned()).collect(),
            output: relative(&job.output),
            report: job.report.as_ref().filter(|_| status == Status::Done).and_then(there),
            picture: job.picture.as_ref().filter(|_| status == Status::Done).and_then(there),
            log: relative(&job.log),
            gates: if status == Status::Done { gates(job.gates, &figures, exit_code) } else { Vec::new() },
            figures,
        }
    }

    /// Whether a limit of quality is missed.
    pub fn misses(&self) -> bool {
        self.gates.iter().any(|gate| !gate.passed)
    }
}

fn gates(mut limits: Gates, figures: &Figures, exit_code: Option<i32>) -> Vec<Gate> {
    let values = [
        figures.e_rms,
        figures.max_error,
        figures.rmse_percent,
        figures.normal_degrees,
        figures.bones.map(|n| n as f64),
        Some(figures.file_bytes as f64),
        Some(figures.seconds),
    ];
    let gate = |((gate, limit), value): ((&'static str, &mut Option<f64>), Option<f64>)| {
        let limit = (*limit)?;
        // What was not measured is not known to be good.
        Some(Gate { gate, limit: Some(limit), value, passed: value.is_some_and(|value| value <= limit) })
    };
    let missed = Gate { gate: "target_error", limit: None, value: figures.e_rms, passed: false };
    let missed = (exit_code == Some(1)).then_some(missed);
    limits.fields().into_iter().zip(values).filter_map(gate).chain(missed).collect()
}

/// How many jobs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// All.
    pub jobs: usize,
    /// With a rig.
    pub done: usize,
    /// Of these, how many miss a limit of quality.
    pub missed: usize,
    /// Failed, crashed, or ended because of a limit.
    pub failed: usize,
    /// Not run yet.
    pub waiting: usize,
}

/// The results of all jobs of a plan, as far as they are recorded.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Results {
    /// The program.
    pub version: &'static str,
    /// How many ended how.
    pub counts: Counts,
    /// One for each job, in the order of the file.
    pub jobs: Vec<Row>,
}

impl Plan {
    /// Reads what is recorded about every job.
    pub fn collect(&self) -> Results {
        let jobs: Vec<Row> = self.jobs.iter().map(|job| Row::new(job, self, Record::read(&job.record))).collect();
        let mut counts = Counts { jobs: jobs.len(), ..Counts::default() };
        for row in &jobs {
            counts.missed += usize::from(row.misses());
            match row.status {
                Status::Done => counts.done += 1,
                Status::Waiting => counts.waiting += 1,
                _ => counts.failed += 1,
            }
        }
        Results { version: crate::VERSION, counts, jobs }
    }

    /// Collects results and writes `results.json`, `results.csv` and `index.html` into the folder of the results.
    pub fn write_results(&self) -> Result<Results, Error> {
        let results = self.collect();
        std::fs::create_dir_all(&self.output).map_err(|e| bonesmith_io::IoError::os(&self.output, e))?;
        let write = |name: &str, text: String| bonesmith_io::write_whole(&self.output.join(name), text.as_bytes());
        write("results.json", serde_json::to_string_pretty(&results).unwrap_or_default() + "\n")?;
        write("results.csv", results.csv())?;
        write("index.html", results.page(&crate::text::file_name(&self.path)))?;
        Ok(results)
    }
}

impl Results {
    /// As a table for spreadsheets.
    pub fn csv(&self) -> String {
        let mut text =
            "name,status,gates,exit_code,attempts,vertices,frames,bones,influences,e_rms,max_error,rmse_percent,\
                        normal_degrees,file_bytes,seconds,peak_bytes,output,report,error\n"
                .to_owned();
        fn shown<T: ToString>(value: Option<T>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        for row in &self.jobs {
            let figures = &row.figures;
            let missed: Vec<&str> = row.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.gate).collect();
            let cells = [
                quoted(&row.name),
                quoted(row.status.words()),
                quoted(&missed.join(" ")),
                shown(row.exit_code),
                row.attempts.to_string(),
                shown(figures.vertices),
                shown(figures.frames),
                shown(figures.bones),
                shown(figures.influences),
                shown(figures.e_rms),
                shown(figures.max_error),
                shown(figures.rmse_percent),
                shown(figures.normal_degrees),
                figures.file_bytes.to_string(),
                figures.seconds.to_string(),
                shown(figures.peak_bytes),
                quoted(&row.output.to_string_lossy()),
                quoted(&row.report.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()),
                quoted(row.error.as_deref().unwrap_or_default()),
            ];
            let _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::JobFile;
    use super::*;
    use std::path::Path;

    #[test]
    fn results_have_gates_failures_and_what_is_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[gates]\nmax_e_rms = 2\nmax_bones = 10\n[[jobs]]\ninput = ['a.npz', 'b.npz', 'c, <b>.npz', 'd.npz']\n[shots.d]\ngates = { max_e_rms = 9 }\n";
        let file = JobFile::from_value(toml::from_str(text).unwrap(), Path::new("jobs.toml"), folder.path()).unwrap();
        let plan = file.plan().unwrap();
        let done = |job: &Job, e_rms| {
            let figures = Figures { e_rms: Some(e_rms), bones: Some(4), ..Figures::default() };
            let task = job.task(&plan, 1, None);
            Record::done(&task, 0, figures, &[], std::time::SystemTime::now()).unwrap()
        };
        plan.jobs.iter().for_each(|job| job.make_folders().unwrap());
        done(&plan.jobs[0], 3.0).write(&plan.jobs[0].record).unwrap();
        done(&plan.jobs[3], 3.0).write(&plan.jobs[3].record).unwrap();
        let failed = Record::failed(&plan.jobs[2], Status::Failed, Some(2), 1, "no \"file\"".into(), 0.1);
        failed.write(&plan.jobs[2].record).unwrap();
        let results = plan.write_results().unwrap();
        assert_eq!(results.counts, Counts { jobs: 4, done: 2, missed: 1, failed: 1, waiting: 1 });
        assert!(results.jobs[0].misses() && !results.jobs[3].misses());
        let csv = results.csv();
        assert!(csv.contains("a,done,max_e_rms,0,1,") && csv.contains("\"c, <b>\",failed,"), "{csv}");
        assert!(csv.contains("\"no \"\"file\"\"\""), "{csv}");
        let page = std::fs::read_to_string(plan.output.join("index.html")).unwrap();
        assert!(page.contains("c, &lt;b&gt;") && page.contains("no &quot;file&quot;") && !page.contains("<b>.npz"));
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(plan.output.join("results.json")).unwrap()).unwrap();
        assert_eq!((json["jobs"][0]["e_rms"].as_f64(), json["counts"]["waiting"].as_u64()), (Some(3.0), Some(1)));
    }
}
