//! What a job file stands for: jobs with names, inputs, outputs and arguments.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::file::{Entry, JobFile, Part};
use super::wrong;
use crate::error::Error;

/// Limits of quality: a result above one misses it. In the units of the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gates {
    /// E_RMS.
    pub max_e_rms: Option<f64>,
    /// Largest distance of a vertex, in thousandths of the radius.
    pub max_error: Option<f64>,
    /// RMSE in percent of the diagonal.
    pub max_rmse_percent: Option<f64>,
    /// Mean angle between normals, in degrees.
    pub max_normal_degrees: Option<f64>,
    /// Bones.
    pub max_bones: Option<f64>,
    /// Size of the rig's file.
    pub max_bytes: Option<f64>,
    /// Seconds of the job.
    pub max_seconds: Option<f64>,
}

impl Gates {
    /// Name and limit of each.
    pub fn fields(&mut self) -> [(&'static str, &mut Option<f64>); 7] {
        [
            ("max_e_rms", &mut self.max_e_rms),
            ("max_error", &mut self.max_error),
            ("max_rmse_percent", &mut self.max_rmse_percent),
            ("max_normal_degrees", &mut self.max_normal_degrees),
            ("max_bones", &mut self.max_bones),
            ("max_bytes", &mut self.max_bytes),
            ("max_seconds", &mut self.max_seconds),
        ]
    }

    pub(super) fn over(mut self, under: &Self) -> Self {
        let mut under = *under;
        for ((_, own), (_, other)) in self.fields().into_iter().zip(under.fields()) {
            *own = own.or(*other);
        }
        self
    }
}

/// Limits of a job: one that exceeds them is ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Wall-clock seconds.
    pub seconds: Option<f64>,
    /// Resident bytes.
    pub memory: Option<u64>,
}

impl Limits {
    pub(super) fn over(&self, under: &Self) -> Self {
        Self { seconds: self.seconds.or(under.seconds), memory: self.memory.or(under.memory) }
    }
}

/// Every n-th job, from the i-th; i from 1 to n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub index: usize,
    /// Of how many.
    pub count: usize,
}

impl Shard {
    /// Whether job `at` belongs to it.
    pub fn has(self, at: usize) -> bool {
        at % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
        match parsed {
            Some((index, count)) if 1 <= index && index <= count => Ok(Self { index, count }),
            _ => Err("it must be i/n with i from 1 to n, such as 3/20".to_owned()),
        }
    }
}

/// One animation to fit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job {
    /// Unique; may have folders in it.
    pub name: String,
    /// What is read, as `fit` takes it; absolute.
    pub inputs: Vec<PathBuf>,
    /// The rig; absolute.
    pub output: PathBuf,
    /// The report, if there is one.
    pub report: Option<PathBuf>,
    /// The small picture, if there is one.
    pub picture: Option<PathBuf>,
    /// The record; log and picture are beside it.
    pub record: PathBuf,
    /// What the worker says.
    pub log: PathBuf,
    /// Limits of quality.
    pub gates: Gates,
    /// Limits of time and memory.
    pub limits: Limits,
    /// Threads, where the file has a number.
    pub threads: Option<usize>,
    options: BTreeMap<String, Value>,
}

/// What a worker process has to know beside the arguments of its fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// The job.
    pub name: String,
    /// Folder of the job file.
    pub folder: PathBuf,
    /// Where the record goes.
    pub record: PathBuf,
    /// Where the picture goes.
    pub picture: Option<PathBuf>,
    /// Hash of version, options and names of inputs.
    pub key: String,
    /// Which attempt this is, from 1.
    pub attempt: usize,
    /// Resident bytes that it may use.
    pub memory: Option<u64>,
}

impl Task {
    /// Part of the names of its temporary files, so that they are found when it was killed.
    pub fn tag(&self) -> String {
        tag(&self.name)
    }
}

fn tag(name: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(name.as_bytes()))
}

/// All jobs of a file, in its order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The job file.
    pub path: PathBuf,
    /// Its folder, where workers run.
    pub folder: PathBuf,
    /// Where results go.
    pub output: PathBuf,
    /// Processes at once.
    pub workers: Option<usize>,
    /// Bytes of all workers together.
    pub memory: Option<u64>,
    /// How often a job is started again after a crash.
    pub retries: usize,
    /// The jobs.
    pub jobs: Vec<Job>,
}

impl JobFile {
    /// Expands patterns, puts options together, and checks that no two jobs write one file.
    pub fn plan(&self) -> Result<Plan, Error> {
        let mut jobs = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for entry in &self.jobs {
            for inputs in self.expanded(entry)? {
                let name = self.name(entry, &inputs)?;
                let own = entry.part.over(&self.defaults);
                let part = self.shots.get(&name).map_or(own.clone(), |shot| shot.over(&own));
                seen.insert(name.clone());
                if part.skip != Some(true) {
                    jobs.push((entry, self.job(name, inputs, part)?));
                }
            }
        }
        if let Some(name) = self.shots.keys().find(|name| !seen.contains(*name)) {
            let near = seen.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            return Err(wrong(
                &self.path,
                format!("shots.{name}: no job has this name; there are {near}{}", {
                    if seen.len() > 5 { ", ..." } else { "" }
                }),
            ));
        }
        self.keep_apart(&jobs)?;
        Ok(Plan {
            path: self.path.clone(),
            folder: self.folder.clone(),
            output: self.output.clone(),
            workers: self.workers,
            memory: self.memory,
            retries: self.retries,
            jobs: jobs.into_iter().map(|(_, job)| job).collect(),
        })
    }

    /// The inputs of each job of an entry.
    fn expanded(&self, entry: &Entry) -> Result<Vec<Vec<PathBuf>>, Error> {
        if !entry.together.is_empty() {
            return Ok(vec![entry.together.iter().map(|input| self.folder.join(input)).collect()]);
        }
        let mut jobs = Vec::new();
        for text in &entry.each {
            let path = self.folder.join(text);
            if !text.contains(['*', '?', '[']) || path.exists() {
                jobs.push(vec![path]);
                continue;
            }
            // Characters of the folder's own name are no pattern.
            let pattern = Path::new(&glob::Pattern::escape(&self.folder.to_string_lossy())).join(text);
            let refused = |e: &dyn std::fmt::Display| wrong(&self.path, format!("{}: {text}: {e}", entry.place));
            let found = glob::glob(&pattern.to_string_lossy()).map_err(|e| refused(&e))?;
            let before = jobs.len();
            for path in found {
                jobs.push(vec![path.map_err(|e| refused(&e))?]);
            }
            if jobs.len() == before {
                return Err(refused(&"nothing matches this pattern"));
            }
        }
        Ok(jobs)
    }

    /// `{stem}` is the name of the input without folder and extension, `{parent}` that of its folder.
    fn name(&self, entry: &Entry, inputs: &[PathBuf]) -> Result<String, Error> {
        let first = &inputs[0];
        let stem = if first.is_dir() { first.file_name() } else { first.file_stem() };
        let stem = stem.unwrap_or_default().to_string_lossy();
        let parent = first.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = entry.name.as_deref().unwrap_or("{stem}").replace("{stem}", &stem).replace("{parent}", &parent);
        let sound = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !name.split('/').all(sound) || name.contains(['\\', '\0', '\n']) {
            return Err(wrong(&self.path, format!("{}: {name:?} is no name of a file", entry.place)));
        }
        Ok(name)
    }

    fn job(&self, name: String, inputs: Vec<PathBuf>, part: Part) -> Result<Job, Error> {
        let output = match &part.output {
            Some(output) => self.output.join(output),
            None => self.output.join(format!("{name}.{}", self.format)),
        };
        let beside = |extension: &str| self.output.join("records").join(format!("{name}.{extension}"));
        let report = self.output.join(format!("{name}.html"));
        Ok(Job {
            inputs,
            output,
            report: part.report.unwrap_or(false).then_some(report),
            picture: part.picture.unwrap_or(true).then(|| beside("png")),
            record: beside("json"),
            log: beside("log"),
            name,
            gates: part.gates,
            limits: part.limits,
            threads: part.threads,
            options: part.options,
        })
    }

    fn keep_apart(&self, jobs: &[(&Entry, Job)]) -> Result<(), Error> {
        let mut files: HashMap<PathBuf, &str> = HashMap::new();
        let mut names: HashMap<&str, &Job> = HashMap::new();
        for (entry, job) in jobs {
            if let Some(other) = names.insert(&job.name, job) {
                let (name, a, b) = (&job.name, other.inputs[0].display(), job.inputs[0].display());
                let what = format!("{}: {name} is the name of two jobs, {a} and {b}", entry.place);
                return Err(wrong(&self.path, format!("{what}; name = \"{{parent}}_{{stem}}\" makes names different")));
            }
            let outputs = bonesmith_io::files_of(&job.output).into_iter().chain(job.report.clone());
            for file in outputs {
                if let Some(other) = files.insert(file.clone(), &job.name) {
                    let what = format!("{} and {other} both write {}", job.name, file.display());
                    return Err(wrong(&self.path, what));
                }
            }
        }
        let reserved = ["results.json", "results.csv", "index.html"].map(|name| self.output.join(name));
        if let Some((file, name)) = reserved.iter().find_map(|file| Some((file, files.get(file)?))) {
            return Err(wrong(&self.path, format!("{name} writes {}, which is a page of the batch", file.display())));
        }
        for (_, job) in jobs {
            if let Some((input, other)) = job.inputs.iter().find_map(|input| Some((input, files.get(input)?))) {
                let what = format!("{other} writes {}, which {} reads", input.display(), job.name);
                return Err(wrong(&self.path, what));
            }
        }
        Ok(())
    }
}

impl Job {
    /// Arguments of the program that do this job, without threads.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut words = vec![OsString::from("fit")];
        words.extend(self.option_words().into_iter().map(OsString::from));
        if let Some(report) = &self.report {
            words.extend([OsString::from(flag("report")), OsString::from(report)]);
        }
        words.extend([OsString::from("-o"), OsString::from(&self.output), OsString::from("--")]);
        words.extend(self.inputs.iter().map(OsString::from));
        words
    }

    /// Options as words of the command line.
    pub fn option_words(&self) -> Vec<String> {
        self.options.iter().flat_map(|(name, value)| option_words(name, value)).collect()
    }

    /// What the worker has to know.
    pub fn task(&self, plan: &Plan, attempt: usize, memory: Option<u64>) -> Task {
        Task {
            name: self.name.clone(),
            folder: plan.folder.clone(),
            record: self.record.clone(),
            picture: self.picture.clone(),
            key: self.key(plan),
            attempt,
            memory,
        }
    }

    /// Hash of the version, the options, and the names of the files that the inputs stand for.
    pub fn key(&self, plan: &Plan) -> String {
        let mut hash = Xxh3::new();
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        add(crate::VERSION);
        self.option_words().iter().for_each(|word| add(word));
        let relative = |path: &Path| path.strip_prefix(&plan.folder).unwrap_or(path).to_string_lossy().into_owned();
        let mut files = bonesmith_io::named_files(&self.inputs);
        files.sort();
        files.iter().for_each(|file| add(&relative(file)));
        for written in [Some(&self.output), self.report.as_ref(), self.picture.as_ref()] {
            add(&written.map(|path| relative(path)).unwrap_or_default());
        }
        format!("{:032x}", hash.digest128())
    }

    /// Makes the folders of what it writes.
    pub fn make_folders(&self) -> Result<(), Error> {
        for folder in self.folders() {
            std::fs::create_dir_all(folder).map_err(|e| bonesmith_io::IoError::os(folder, e))?;
        }
        Ok(())
    }

    /// Removes temporary files that a worker which was killed has left.
    pub fn remove_temporaries(&self) {
        let own = tag(&self.name);
        self.folders().for_each(|folder| bonesmith_io::remove_tagged(folder, |tag| tag == own));
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        let written = [Some(&self.output), self.report.as_ref(), Some(&self.record)];
        written.into_iter().flatten().filter_map(|file| file.parent())
    }
}

impl Plan {
    /// Removes temporary files that workers of these jobs have left in an earlier run that was killed.
    pub fn remove_temporaries(&self, jobs: &[usize]) {
        let jobs = || jobs.iter().map(|at| &self.jobs[*at]);
        let tags: HashSet<String> = jobs().map(|job| tag(&job.name)).collect();
        let folders: HashSet<&Path> = jobs().flat_map(Job::folders).collect();
        folders.iter().for_each(|folder| bonesmith_io::remove_tagged(folder, |tag| tags.contains(tag)));
    }
}

fn flag(option: &str) -> String {
    format!("--{}", option.replace('_', "-"))
}

/// An option as words of the command line; a switch that is off is none.
fn option_words(name: &str, value: &Value) -> Vec<String> {
    let flag = flag(name);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Bool(false) => Vec::new(),
        Value::Bool(true) => vec![flag],
        Value::Array(list) => vec![format!("{flag}={}", list.iter().map(text).collect::<Vec<_>>().join(","))],
        other => vec![format!("{flag}={}", text(other))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(folder: &Path, text: &str) -> Result<Plan, Error> {
        JobFile::from_value(toml::from_str(text).unwrap(), Path::new("jobs.toml"), folder)?.plan()
    }

    fn shots() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for shot in ["a/walk.npz", "a/run.npz", "b/walk.npz"] {
            let path = folder.path().join(shot);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, shot).unwrap();
        }
        folder
    }

    #[test]
    fn patterns_become_jobs() {
        let folder = shots();
        let text = "[defaults]\nbones = 9\nskeleton = true\narea = false\n[[jobs]]\ninput = '*/*.npz'\nname = '{parent}/{stem}'\n\
                    [[jobs]]\ninputs = ['late.npz', 'x.obj']\n[shots.'a/run']\nbones = 5\noutput = 'fast.usda'\n";
        let plan = plan(folder.path(), text).unwrap();
        let names: Vec<_> = plan.jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["a/run", "a/walk", "b/walk", "late"]);
        let words: Vec<_> = plan.jobs[0].arguments().iter().map(|w| w.to_string_lossy().into_owned()).collect();
        assert_eq!(&words[..3], ["fit", "--bones=5", "--skeleton"]);
        assert!(words[4].ends_with("fast.usda") && words[6].ends_with("a/run.npz"), "{words:?}");
        assert_eq!(plan.jobs[3].inputs.len(), 2);
    }

    #[test]
    fn jobs_that_are_in_each_others_way_are_refused() {
        let folder = shots();
        for (text, words) in [
            ("[[jobs]]\ninput = '*/*.npz'\n", "walk is the name of two jobs"),
            ("[[jobs]]\ninput = ['a/run.npz', 'a/walk.npz']\noutput = 'x.glb'\n", "both write"),
            ("[[jobs]]\ninput = 'c/*.npz'\n", "jobs[0]: c/*.npz: nothing matches this pattern"),
            (
                "[[jobs]]\ninput = 'a/run.npz'\n[shots.rum]\nbones = 3\n",
                "shots.rum: no job has this name; there are run",
            ),
            ("[[jobs]]\ninput = 'a/run.npz'\nname = '../{stem}'\n", "is no name of a file"),
            ("output = 'a'\nformat = 'npz'\n[[jobs]]\ninput = 'a/run.npz'\n", "which run reads"),
            ("[[jobs]]\ninput = 'a/run.npz'\nreport = true\nname = 'index'\n", "a page of the batch"),
        ] {
            let error = plan(folder.path(), text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}\n{error}");
        }
    }

    #[test]
    fn the_key_follows_options_and_names_only() {
        let folder = shots();
        let key = |text: &str| {
            let plan = plan(folder.path(), text).unwrap();
            plan.jobs[0].key(&plan)
        };
        let plain = key("[[jobs]]\ninput = 'a/run.npz'\n");
        assert_eq!(plain, key("workers = 3\n[gates]\nmax_e_rms = 1\n[[jobs]]\ninput = 'a/*n.npz'\nthreads = 4\n"));
        assert_ne!(plain, key("[[jobs]]\ninput = 'a/run.npz'\nbones = 3\n"));
        assert_ne!(plain, key("[[jobs]]\ninput = 'a/walk.npz'\nname = 'run'\n"));
        assert_ne!(plain, key("[[jobs]]\ninput = 'a/run.npz'\nreport = true\n"));
    }

    #[test]
    fn shards_are_disjoint_and_complete() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("{i}/3").parse().unwrap()).collect();
        assert!((0..10).all(|at| shards.iter().filter(|shard| shard.has(at)).count() == 1));
        for wrong in ["0/3", "4/3", "3", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
