//! The job file as it was written: keys and types are checked here, before anything is looked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bonesmith_io::Format;
use serde_json::{Map, Value};

use super::job::{Gates, Limits};
use super::wrong;
use crate::error::Error;
use crate::memory::parse_bytes;
use crate::options::{FIT, LOAD, MOTION, OptionInfo, REFIT, REPORT};

/// Options of a fit that are about files and in no table.
const FILE_OPTIONS: [&str; 5] = ["rig", "pieces", "max_joints", "target", "compact"];

/// A job file, checked. Paths in it are relative to its folder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobFile {
    /// Where it was read.
    pub path: PathBuf,
    /// The folder that paths are relative to; absolute.
    pub folder: PathBuf,
    /// Where results go; absolute.
    pub output: PathBuf,
    /// Extension of the rigs.
    pub format: String,
    /// Processes at once.
    pub workers: Option<usize>,
    /// Bytes that all workers together may use.
    pub memory: Option<u64>,
    /// How often a job is started again after a crash.
    pub retries: usize,
    pub(super) defaults: Part,
    pub(super) jobs: Vec<Entry>,
    pub(super) shots: BTreeMap<String, Part>,
}

/// What may be said about a job in several places; the nearest place counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub options: BTreeMap<String, Value>,
    pub threads: Option<usize>,
    pub report: Option<bool>,
    pub picture: Option<bool>,
    pub output: Option<String>,
    pub skip: Option<bool>,
    pub gates: Gates,
    pub limits: Limits,
}

/// One of `[[jobs]]`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its place in the file, in words.
    pub place: String,
    pub name: Option<String>,
    /// Patterns or files: each match is a job.
    pub each: Vec<String>,
    /// Files of one job.
    pub together: Vec<String>,
    pub part: Part,
}

impl Part {
    /// With what another place says where this one is silent.
    pub fn over(&self, under: &Self) -> Self {
        let mut options = under.options.clone();
        options.extend(self.options.clone());
        Self {
            options,
            threads: self.threads.or(under.threads),
            report: self.report.or(under.report),
            picture: self.picture.or(under.picture),
            output: self.output.clone().or_else(|| under.output.clone()),
            skip: self.skip.or(under.skip),
            gates: self.gates.over(&under.gates),
            limits: self.limits.over(&under.limits),
        }
    }
}

impl JobFile {
    /// Reads and checks a job file: TOML, or JSON where its extension is `.json`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.is_dir() || !path.exists() {
            let found = if path.is_dir() { "a folder" } else { "no such file" };
            return Err(wrong(path, format!("{found}; a job file is needed, .toml or .json")));
        }
        let os = |e| Error::from(bonesmith_io::IoError::os(path, e));
        let text = std::fs::read_to_string(path).map_err(os)?;
        let of_line = |line: Option<usize>, what: &str| {
            let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            wrong(path, format!("{at}{what}"))
        };
        let value: Value = match path.extension().is_some_and(|extension| extension == "json") {
            true => serde_json::from_str(&text).map_err(|e| of_line(Some(e.line()), &e.to_string()))?,
            false => toml::from_str(&text).map_err(|e| {
                let before = e.span().and_then(|span| text.get(..span.start));
                of_line(before.map(|before| before.matches('\n').count() + 1), e.message())
            })?,
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::from_value(value, path, folder)
    }

    /// The same from values; paths are relative to `folder`, or to the folder that they name.
    pub fn from_value(value: Value, path: &Path, folder: &Path) -> Result<Self, Error> {
        let mut table = Table::new(path, String::new(), value)?;
        let folder = folder.join(table.text("folder")?.unwrap_or_default());
        let folder = std::path::absolute(&folder).map_err(|e| bonesmith_io::IoError::os(folder, e))?;
        let output = table.text("output")?.unwrap_or_else(|| "batch".to_owned());
        let format = table.text("format")?.unwrap_or_else(|| "glb".to_owned());
        if Format::from_extension(Path::new(&format!("rig.{format}"))).is_none() {
            return Err(table.wrong(&format!("format is {format:?}, which is the extension of no format")));
        }
        let (workers, memory) = (table.whole("workers", 1)?, table.size("memory")?);
        let retries = table.whole("retries", 0)?.unwrap_or(2);
        let (gates, limits) = (table.gates()?, table.limits()?);
        let mut defaults = match table.take("defaults") {
            Some(value) => Table::new(path, "defaults".into(), value)?.part(&[])?,
            None => Part::default(),
        };
        (defaults.gates, defaults.limits) = (gates, limits);
        let jobs = match table.take("jobs") {
            Some(Value::Array(jobs)) => jobs,
            Some(_) => return Err(table.wrong("jobs is not a list of tables: write [[jobs]]")),
            None => Vec::new(),
        };
        let entry = |(at, value): (usize, Value)| Entry::new(path, at, value);
        let jobs = jobs.into_iter().enumerate().map(entry).collect::<Result<Vec<_>, _>>()?;
        let mut shots = BTreeMap::new();
        if let Some(value) = table.take("shots") {
            for (name, value) in Table::new(path, "shots".into(), value)?.values {
                let part = Table::new(path, format!("shots.{name}"), value)?.part(&["gates", "limits", "output"])?;
                shots.insert(name, part);
            }
        }
        const KEYS: &str = "folder, output, format, workers, memory, retries, defaults, gates, limits, jobs, shots";
        table.finish(KEYS)?;
        if jobs.is_empty() {
            return Err(wrong(path, "there are no jobs: [[jobs]] with input = \"shots/*.abc\" makes some"));
        }
        let output = folder.join(output);
        Ok(Self { path: path.to_owned(), folder, output, format, workers, memory, retries, defaults, jobs, shots })
    }
}

impl Entry {
    fn new(path: &Path, at: usize, value: Value) -> Result<Self, Error> {
        let place = format!("jobs[{at}]");
        let mut table = Table::new(path, place.clone(), value)?;
        let (each, together, name) = (table.texts("input")?, table.texts("inputs")?, table.text("name")?);
        if each.is_empty() == together.is_empty() {
            return Err(table.wrong("needs `input` (each file or match is a job) or `inputs` (the files of one job)"));
        }
        let part = table.part(&["gates", "limits", "output", "input", "inputs", "name"])?;
        Ok(Self { place, name, each, together, part })
    }
}

/// A table of the file while it is read: what is taken out is known, what is left is not.
struct Table<'a> {
    path: &'a Path,
    place: String,
    values: Map<String, Value>,
}

impl<'a> Table<'a> {
    fn new(path: &'a Path, place: String, value: Value) -> Result<Self, Error> {
        match value {
            Value::Object(values) => Ok(Self { path, place, values }),
            other => Err(wrong(path, format!("{place} is {}, not a table", brief(&other)))),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        match self.place.is_empty() {
            true => wrong(self.path, what),
            false => wrong(self.path, format!("{}: {what}", self.place)),
        }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.values.remove(key)
    }

    fn taken<T>(&mut self, key: &str, what: &str, get: impl FnOnce(&Value) -> Option<T>) -> Result<Option<T>, Error> {
        let Some(value) = self.take(key) else { return Ok(None) };
        get(&value).map(Some).ok_or_else(|| self.wrong(&format!("{key} is {}; it must be {what}", brief(&value))))
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, Error> {
        self.taken(key, "a text", |value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
    }

    fn texts(&mut self, key: &str) -> Result<Vec<String>, Error> {
        let list = |value: &Value| match value {
            Value::String(text) if !text.is_empty() => Some(vec![text.clone()]),
            Value::Array(list) if !list.is_empty() => {
                list.iter().map(|v| v.as_str().filter(|text| !text.is_empty()).map(str::to_owned)).collect()
            }
            _ => None,
        };
        Ok(self.taken(key, "a text or a list of texts", list)?.unwrap_or_default())
    }

    fn flag(&mut self, key: &str) -> Result<Option<bool>, Error> {
        self.taken(key, "true or false", Value::as_bool)
    }

    fn whole(&mut self, key: &str, least: u64) -> Result<Option<usize>, Error> {
        let number = |value: &Value| value.as_u64().filter(|n| *n >= least && *n <= 100_000).map(|n| n as usize);
        self.taken(key, &format!("a whole number from {least} to 100000"), number)
    }

    fn number(&mut self, key: &str) -> Result<Option<f64>, Error> {
        self.taken(key, "a number above 0", |value| value.as_f64().filter(|x| x.is_finite() && *x > 0.0))
    }

    fn size(&mut self, key: &str) -> Result<Option<u64>, Error> {
        self.taken(key, "a size with a unit such as \"500M\" or \"4G\"", |value| value.as_str().and_then(parse_bytes))
    }

    /// As [`Table::size`], or a number of bytes.
    fn bytes(&mut self, key: &str) -> Result<Option<u64>, Error> {
        self.taken(key, "a number of bytes, or a size such as \"500M\" or \"4G\"", |value| match value {
            Value::String(text) => parse_bytes(text),
            other => other.as_u64().filter(|bytes| *bytes > 0),
        })
    }

    fn gates(&mut self) -> Result<Gates, Error> {
        let Some(value) = self.take("gates") else { return Ok(Gates::default()) };
        let mut table = Table::new(self.path, self.inside("gates"), value)?;
        let mut gates = Gates::default();
        for (name, limit) in gates.fields() {
            *limit = if name == "max_bytes" { table.bytes(name)?.map(|b| b as f64) } else { table.number(name)? };
        }
        let names = Gates::default().fields().map(|(name, _)| name).join(", ");
        table.finish(&names)?;
        Ok(gates)
    }

    fn limits(&mut self) -> Result<Limits, Error> {
        let Some(value) = self.take("limits") else { return Ok(Limits::default()) };
        let mut table = Table::new(self.path, self.inside("limits"), value)?;
        let limits = Limits { seconds: table.number("seconds")?, memory: table.size("memory")? };
        table.finish("seconds, memory")?;
        Ok(limits)
    }

    fn inside(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// Options of the fit, and what else may be there.
    fn part(mut self, also: &[&str]) -> Result<Part, Error> {
        let mut part = Part {
            threads: self.whole("threads", 1)?,
            report: self.flag("report")?,
            picture: self.flag("picture")?,
            ..Part::default()
        };
        if also.contains(&"gates") {
            (part.gates, part.limits, part.output) = (self.gates()?, self.limits()?, self.text("output")?);
            part.skip = self.flag("skip")?;
        }
        for (name, value) in std::mem::take(&mut self.values) {
            if !is_option(&name) {
                let known =
                    ["threads", "report", "picture"].into_iter().chain(also.iter().copied()).collect::<Vec<_>>();
                return Err(self.unknown(&name, &format!("{}, and the options of fit", known.join(", "))));
            }
            if !(value.is_string() || value.is_number() || value.is_boolean() || value.is_array()) {
                return Err(self.wrong(&format!("{name} is {}, which is no value of an option", brief(&value))));
            }
            part.options.insert(name, value);
        }
        Ok(part)
    }

    fn unknown(&self, key: &str, known: &str) -> Error {
        let near = option_names().min_by_key(|name| distance(name, key)).filter(|name| distance(name, key) <= 2);
        let meant = near.map(|name| format!(" (is {name} meant?)")).unwrap_or_default();
        self.wrong(&format!("{key} is no key{meant}; there are {known}"))
    }

    fn finish(self, known: &str) -> Result<(), Error> {
        match self.values.keys().next() {
            Some(key) => Err(self.wrong(&format!("{key} is no key; there are {known}"))),
            None => Ok(()),
        }
    }
}

/// Options that a job may have: those of `fit`, but for what a batch sets itself.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    let names = |table: &'static [OptionInfo]| table.iter().map(|option| option.name);
    names(FIT).chain(names(&MOTION)).chain(names(LOAD)).chain(names(REFIT)).chain(names(REPORT)).chain(FILE_OPTIONS)
}

fn is_option(name: &str) -> bool {
    option_names().any(|known| known == name)
}

/// Edits between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// A value in a message.
fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "a table".to_owned(),
        Value::Array(list) => format!("a list of {}", list.len()),
        other => other.to_string().chars().take(60).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<JobFile, Error> {
        JobFile::from_value(toml::from_str(text).unwrap(), Path::new("jobs.toml"), Path::new("/shots"))
    }

    #[test]
    fn a_job_file_is_read() {
        let text = "output = 'out'\nmemory = '4G'\n[defaults]\nbones = 30\nreport = true\n[gates]\nmax_e_rms = 2\nmax_bytes = '2M'\n\
                    [[jobs]]\ninput = 'a/*.npz'\n[[jobs]]\ninputs = ['c.pc2', 'c.obj']\nname = 'cloth'\nlimits = { seconds = 9 }\n\
                    [shots.sh010]\nbones = 60\ngates = { max_e_rms = 3 }\n";
        let file = parse(text).unwrap();
        assert_eq!((file.output.as_path(), file.memory), (Path::new("/shots/out"), Some(4_000_000_000)));
        assert_eq!(file.defaults.options["bones"], 30);
        assert_eq!((file.defaults.gates.max_e_rms, file.defaults.gates.max_bytes), (Some(2.0), Some(2e6)));
        assert_eq!((file.jobs.len(), file.jobs[1].part.limits.seconds), (2, Some(9.0)));
        let part = file.shots["sh010"].over(&file.defaults);
        assert_eq!(
            (part.options["bones"].as_u64(), part.gates.max_e_rms, part.report),
            (Some(60), Some(3.0), Some(true))
        );
        assert_eq!(part.gates.max_bytes, Some(2e6));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let job = "[[jobs]]\ninput = 'a.npz'\n";
        for (text, words) in [
            (format!("outptu = 'x'\n{job}"), "outptu is no key; there are folder, output"),
            (format!("[defaults]\nbonse = 3\n{job}"), "defaults: bonse is no key (is bones meant?)"),
            (format!("{job}json = 'x.json'\n"), "jobs[0]: json is no key"),
            (format!("{job}[shots.a]\ninput = 'x'\n"), "shots.a: input is no key"),
            (format!("[gates]\nmax_rms = 2\n{job}"), "gates: max_rms is no key; there are max_e_rms"),
            (format!("[limits]\nmemory = 'lots'\n{job}"), "limits: memory is \"lots\"; it must be a size"),
            (format!("workers = 0\n{job}"), "workers is 0; it must be a whole number"),
            (format!("format = 'mp4'\n{job}"), "format is \"mp4\""),
            ("[[jobs]]\nbones = 3\n".to_owned(), "jobs[0]: needs `input`"),
            ("[[jobs]]\ninput = 3\n".to_owned(), "jobs[0]: input is 3; it must be a text"),
            ("jobs = 3\n".to_owned(), "jobs is not a list"),
            ("output = 'x'\n".to_owned(), "there are no jobs"),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with("jobs.toml: ") && error.contains(words), "{text}\n{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_toml_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.toml");
        std::fs::write(&path, "output = 'x'\nworkers = = 2\n").unwrap();
        let error = JobFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 2: "), "{error}");
        assert!(JobFile::read(folder.path().join("none.toml")).is_err());
    }
}
