//! The local engine: worker processes that share out threads and memory.
//!
//! A thread of this process per worker takes the next job whose threads and memory are free, starts the program for it, and waits. Jobs are
//! started in order. A worker holds a pipe from here as its standard input and stops when that is closed: at a time limit, at Ctrl-C, and when
//! this process is killed.

use std::collections::VecDeque;
use std::io::Read;
use std::process::{Child, ChildStderr, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bonesmith::batch::{Job, MEMORY_EXIT, Plan, Record, Status};
use bonesmith::text::{bytes, count};
use bonesmith::{Cancel, default_limit};

use crate::errors::Usage;

/// A worker that does not stop by itself in this time is killed.
const GRACE: Duration = Duration::from_secs(10);
/// What is kept of the words of a worker: so many bytes of the beginning, and of the end.
const LOG_BYTES: usize = 1 << 16;

/// What jobs have together.
pub struct Pool<'a> {
    plan: &'a Plan,
    stop: Cancel,
    workers: usize,
    /// Of a job that names no number.
    threads: usize,
    cores: usize,
    /// Bytes of all workers.
    memory: Option<u64>,
    state: Mutex<State>,
    /// Something was given back.
    freed: Condvar,
}

/// What is left to do, and what is free to do it with.
struct State {
    queue: VecDeque<Turn>,
    threads: usize,
    memory: u64,
}

/// One run of a job.
#[derive(Clone, Copy)]
struct Turn {
    at: usize,
    threads: usize,
    memory: Option<u64>,
    /// The limit is a share that nobody asked for: with more of it the job may succeed.
    shared: bool,
}

/// How one process ended.
enum Ended {
    Code(i32),
    Crash(String),
    TimeLimit,
    Stopped,
}

impl<'a> Pool<'a> {
    pub fn new(
        plan: &'a Plan,
        todo: &[usize],
        threads: Option<usize>,
        workers: Option<usize>,
        stop: Cancel,
    ) -> Result<Self, Usage> {
        let cores = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let workers = workers.unwrap_or(cores).clamp(1, todo.len().max(1));
        let memory = plan.memory.or_else(default_limit);
        for job in todo.iter().map(|at| &plan.jobs[*at]) {
            if let Some((wanted, all)) = job.limits.memory.zip(memory)
                && wanted > all
            {
                let message = format!(
                    "{}: limits.memory is {}, and all workers together have {}",
                    job.name,
                    bytes(wanted),
                    bytes(all)
                );
                let hint =
                    "memory in the job file sets what they have together; without it they have 70 % of what is free";
                return Err(Usage::new(message).hint(hint));
            }
        }
        let state = State { queue: VecDeque::new(), threads: cores.max(workers), memory: memory.unwrap_or(u64::MAX) };
        let threads = (cores / workers).max(1);
        Ok(Self { plan, stop, workers, threads, cores, memory, state: Mutex::new(state), freed: Condvar::new() })
    }

    /// What is shared out, in words.
    pub fn words(&self) -> String {
        let share = self.share().map(|share| format!(" and {}", bytes(share))).unwrap_or_default();
        format!("{}, each with {}{share}", count(self.workers, "worker"), count(self.threads, "thread"))
    }

    /// Memory of a worker without a limit of its own.
    fn share(&self) -> Option<u64> {
        Some(self.memory? / self.workers as u64)
    }

    /// Runs the jobs; `ended` is called for each as it ends, on this thread. Returns whether it was cancelled.
    pub fn run(&self, todo: &[usize], ended: &mut dyn FnMut(usize, &Record)) -> bool {
        let turn = |at: &usize| {
            let job = &self.plan.jobs[*at];
            let threads = job.threads.unwrap_or(self.threads).min(self.cores.max(self.workers));
            Turn { at: *at, threads, memory: job.limits.memory.or(self.share()), shared: job.limits.memory.is_none() }
        };
        self.lock().queue = todo.iter().map(turn).collect();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..self.workers {
                let sender = sender.clone();
                scope.spawn(move || self.work(&sender));
            }
            drop(sender);
            loop {
                match receiver.recv_timeout(Duration::from_millis(50)) {
                    Ok((at, record)) => ended(at, &record),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        self.stop.is_cancelled()
    }

    fn work(&self, sender: &mpsc::Sender<(usize, Record)>) {
        while let Some(turn) = self.take() {
            let record = self.job(turn);
            self.give_back(turn);
            let Some(record) = record else { continue };
            if record.status == Status::MemoryLimit && turn.shared && turn.memory < self.memory {
                // Once more at the end, alone.
                self.lock().queue.push_back(Turn { memory: self.memory, shared: false, ..turn });
                self.freed.notify_all();
                continue;
            }
            // The receiver waits for all of us.
            let _ = sender.send((turn.at, record));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, when there is room for it; `None` at the end.
    fn take(&self) -> Option<Turn> {
        let mut state = self.lock();
        loop {
            if self.stop.is_cancelled() {
                return None;
            }
            let turn = *state.queue.front()?;
            let memory = turn.memory.unwrap_or(0);
            if turn.threads <= state.threads && memory <= state.memory {
                state.queue.pop_front();
                (state.threads, state.memory) = (state.threads - turn.threads, state.memory - memory);
                return Some(turn);
            }
            let waited = self.freed.wait_timeout(state, Duration::from_millis(200));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give_back(&self, turn: Turn) {
        let mut state = self.lock();
        (state.threads, state.memory) = (state.threads + turn.threads, state.memory + turn.memory.unwrap_or(0));
        self.freed.notify_all();
    }

    /// Runs a job until it has succeeded, was refused, or crashed too often. `None` when it was cancelled.
    fn job(&self, turn: Turn) -> Option<Record> {
        let (job, started) = (&self.plan.jobs[turn.at], Instant::now());
        if let Err(error) = job.make_folders() {
            return Some(self.failed(job, Status::Failed, None, 0, error.to_string(), started));
        }
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (ended, log) = self.attempt(job, turn, attempt);
            let why = error_line(&log);
            let failed = |status, code, why| Some(self.failed(job, status, code, attempt, why, started));
            let crash = match ended {
                Ended::Stopped => return None,
                Ended::TimeLimit => {
                    let limit = job.limits.seconds.unwrap_or_default();
                    return failed(Status::TimeLimit, None, format!("not done after {limit} s (limits.seconds)"));
                }
                Ended::Code(code @ (0 | 1)) => {
                    match Record::read(&job.record).filter(|record| record.key == job.key(self.plan)) {
                        Some(record) => return Some(record),
                        None => format!("it ended with code {code} and left no record"),
                    }
                }
                Ended::Code(2) => return failed(Status::Failed, Some(2), why.unwrap_or_else(|| "refused".to_owned())),
                Ended::Code(code) if code == i32::from(MEMORY_EXIT) => {
                    return failed(Status::MemoryLimit, Some(code), why.unwrap_or_default());
                }
                Ended::Code(code) => format!("it ended with code {code}"),
                Ended::Crash(how) => how,
            };
            job.remove_temporaries();
            if attempt > self.plan.retries {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                return failed(Status::Crashed, None, format!("{crash}{why}"));
            }
        }
    }

    fn failed(
        &self,
        job: &Job,
        status: Status,
        code: Option<i32>,
        attempts: usize,
        why: String,
        started: Instant,
    ) -> Record {
        let record = Record::failed(job, status, code, attempts, why, started.elapsed().as_secs_f64());
        // On a full disk there is none: the job counts as not run.
        let _ = record.write(&job.record);
        record
    }

    /// One process, and what it said.
    fn attempt(&self, job: &Job, turn: Turn, attempt: usize) -> (Ended, String) {
        let mut child = match self.start(job, turn, attempt) {
            Ok(child) => child,
            Err(error) => return (Ended::Crash(format!("the worker could not be started: {error}")), String::new()),
        };
        let words = child.stderr.take().map(|stderr| thread::spawn(move || heard(stderr)));
        let ended = self.wait(child, job.limits.seconds.map(Duration::from_secs_f64));
        let log = words.and_then(|words| words.join().ok()).unwrap_or_default();
        // A log that cannot be written is no reason to fail.
        let _ = std::fs::write(&job.log, &log);
        (ended, log)
    }

    fn start(&self, job: &Job, turn: Turn, attempt: usize) -> std::io::Result<Child> {
        let task = serde_json::to_string(&job.task(self.plan, attempt, turn.memory))?;
        let words = job.arguments();
        let mut command = crate::another_process()?;
        command.arg(&words[0]).args(["--threads", &turn.threads.to_string(), "--worker", &task]).args(&words[1..]);
        command
            .current_dir(&self.plan.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
    }

    fn wait(&self, mut child: Child, limit: Option<Duration>) -> Ended {
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        // Since when it is asked to stop, and what that counts as.
        let mut stopping: Option<(Instant, bool)> = None;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return self.ended(status, stopping.map(|(_, late)| late)),
                Ok(None) => {}
                Err(error) => return Ended::Crash(format!("its end was not seen: {error}")),
            }
            let late = limit.is_some_and(|limit| started.elapsed() > limit);
            if stopping.is_none() && (late || self.stop.is_cancelled()) {
                stopping = Some((Instant::now(), late));
                drop(child.stdin.take());
            }
            if stopping.is_some_and(|(since, _)| since.elapsed() > GRACE) {
                let _ = child.kill();
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn ended(&self, status: ExitStatus, stopping: Option<bool>) -> Ended {
        match (status.code(), stopping) {
            // It was done before it could be stopped.
            (Some(code @ (0 | 1)), _) => Ended::Code(code),
            (_, Some(true)) => Ended::TimeLimit,
            (_, Some(false)) => Ended::Stopped,
            (Some(130), None) => {
                // Ctrl-C on a terminal reaches the worker too, maybe first.
                thread::sleep(Duration::from_millis(300));
                if self.stop.is_cancelled() { Ended::Stopped } else { Ended::Crash("it was cancelled".to_owned()) }
            }
            (Some(code), None) => Ended::Code(code),
            (None, None) => Ended::Crash(status.to_string()),
        }
    }
}

/// Beginning and end of what a worker says.
fn heard(mut stderr: ChildStderr) -> String {
    let (mut first, mut last, mut buffer) = (Vec::new(), VecDeque::<u8>::new(), [0u8; 4096]);
    while let Ok(n @ 1..) = stderr.read(&mut buffer) {
        let room = (LOG_BYTES - first.len()).min(n);
        first.extend_from_slice(&buffer[..room]);
        last.extend(&buffer[room..n]);
        last.drain(..last.len().saturating_sub(LOG_BYTES));
    }
    first.extend(last);
    String::from_utf8_lossy(&first).into_owned()
}

/// The last line that says what is wrong.
fn error_line(log: &str) -> Option<String> {
    let line = |line: &str| line.strip_prefix("error: ").map(str::to_owned);
    let panic = || log.lines().find(|line| line.contains("panicked at")).map(str::to_owned);
    log.lines().rev().find_map(line).or_else(panic)
}
