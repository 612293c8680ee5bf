//! The jobs of a job file, for engines that are written in Python: what to run, what is done, what failed, and the pages.

use std::path::PathBuf;

use bonesmith::Error;
use bonesmith::batch::{Job, JobFile, Plan, Record, Status};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;

use crate::errors;
use crate::values::to_python;

/// The jobs of a job file. Jobs have numbers, in the order of the file.
#[pyclass(frozen)]
pub struct BatchPlan {
    plan: Plan,
}

impl BatchPlan {
    fn at(&self, at: usize) -> PyResult<&Job> {
        self.plan.jobs.get(at).ok_or_else(|| PyIndexError::new_err(format!("there are {} jobs", self.plan.jobs.len())))
    }
}

#[pymethods]
impl BatchPlan {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || -> Result<Plan, Error> { JobFile::read(&path)?.plan() };
        Ok(Self { plan: py.detach(read).map_err(|e| errors::raise(py, e))? })
    }

    fn __len__(&self) -> usize {
        self.plan.jobs.len()
    }

    /// How often a job is started again after a crash.
    #[getter]
    fn retries(&self) -> usize {
        self.plan.retries
    }

    /// Where results go.
    #[getter]
    fn output(&self) -> PathBuf {
        self.plan.output.clone()
    }

    /// Whether a job need not be done again.
    fn is_done(&self, py: Python<'_>, at: usize) -> PyResult<bool> {
        let job = self.at(at)?;
        Ok(py.detach(|| Record::read(&job.record).is_some_and(|record| record.is_current(job, &self.plan))))
    }

    /// What a worker needs: words of the command line, and the task that it is given as JSON.
    fn job<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let job = self.at(at)?;
        let words: Vec<String> = job.arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let data = json!({
            "name": job.name,
            "folder": self.plan.folder,
            "arguments": words,
            "task": job.task(&self.plan, 1, job.limits.memory),
            "threads": job.threads,
            "memory": job.limits.memory,
            "seconds": job.limits.seconds,
            "retries": self.plan.retries,
            "log": job.log,
        });
        to_python(py, &data)
    }

    /// Makes the folders of what a job writes.
    fn prepare(&self, py: Python<'_>, at: usize) -> PyResult<()> {
        let job = self.at(at)?;
        job.make_folders().map_err(|e| errors::raise(py, e))
    }

    /// Records that a job did not succeed.
    #[allow(clippy::too_many_arguments, reason = "the arguments of a function of Python")]
    fn failed(
        &self,
        py: Python<'_>,
        at: usize,
        status: &str,
        code: Option<i32>,
        attempts: usize,
        why: String,
        seconds: f64,
    ) -> PyResult<()> {
        let job = self.at(at)?;
        let status: Status = serde_json::from_value(status.into()).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let record = Record::failed(job, status, code, attempts, why, seconds);
        record.write(&job.record).map_err(|e| errors::raise(py, e))
    }

    /// Whether the record of a job is that of its present options.
    fn has_record(&self, at: usize) -> PyResult<bool> {
        let job = self.at(at)?;
        Ok(Record::read(&job.record).is_some_and(|record| record.key == job.key(&self.plan)))
    }

    /// Removes temporary files of a job that was killed.
    fn clean(&self, at: usize) -> PyResult<()> {
        self.at(at)?.remove_temporaries();
        Ok(())
    }

    /// Writes the pages of all results; returns the results.
    fn write_results<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let results = py.detach(|| self.plan.write_results()).map_err(|e| errors::raise(py, e))?;
        to_python(py, &serde_json::to_value(&results).unwrap_or_default())
    }
}
