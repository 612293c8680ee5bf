//! `bonesmith batch`: many jobs, and what may happen to them.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bonesmith_core::BoneKind;
use bonesmith_core::synthetic::clownfish;
use serde_json::Value;

use crate::harness::{bonesmith, command, folder, known, names, walk, write_npz};

/// `count` small animations, shot_0.npz and so on, and a job file for them with more lines in front of its jobs.
fn shots(folder: &Path, count: usize, lines: &str) {
    for n in 0..count {
        let mut raw = known(BoneKind::Rigid).sequence;
        raw.name = format!("shot {n}");
        // Another content each.
        raw.frames[1].positions[0].x += 0.01 * n as f32;
        write_npz(raw, &folder.join(format!("shot_{n}.npz")));
    }
    let defaults = "[defaults]\nbones = 2\neffort = 'fast'\nmax_iterations = 3\n";
    std::fs::write(folder.join("jobs.toml"), format!("{lines}\n[[jobs]]\ninput = 'shot_*.npz'\n{defaults}")).unwrap();
}

fn results(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("batch/results.json")).unwrap()).unwrap()
}

fn statuses(folder: &Path) -> Vec<String> {
    let results = results(folder);
    results["jobs"].as_array().unwrap().iter().map(|job| job["status"].as_str().unwrap().to_owned()).collect()
}

/// No file that is half written, or left over.
fn assert_tidy(folder: &Path) {
    for inside in [folder.join("batch"), folder.join("batch/records")] {
        let left: Vec<String> = names(&inside).into_iter().filter(|name| name.starts_with('.')).collect();
        assert_eq!(left, [""; 0], "{}", inside.display());
    }
}

#[test]
fn every_job_has_a_rig_a_record_and_a_place_on_the_page() {
    let dir = folder();
    shots(dir.path(), 3, "workers = 2");
    std::fs::write(
        dir.path().join("jobs.toml"),
        std::fs::read_to_string(dir.path().join("jobs.toml")).unwrap() + "[shots.shot_1]\nbones = 3\nreport = true\n",
    )
    .unwrap();
    let run = bonesmith(dir.path(), "batch jobs.toml").fine();
    assert!(run.stdout.contains("3 jobs: 3 done") && run.stdout.contains("index.html"), "{}", run.stdout);
    assert!(run.stderr.contains("3/3 shot_"), "{}", run.stderr);
    let batch = dir.path().join("batch");
    let expected = [
        "index.html",
        "records",
        "results.csv",
        "results.json",
        "shot_0.glb",
        "shot_1.glb",
        "shot_1.html",
        "shot_2.glb",
    ];
    assert_eq!(names(&batch), expected);
    let found = results(dir.path());
    assert_eq!((found["counts"]["done"].as_u64(), found["jobs"][1]["bones"].as_u64()), (Some(3), Some(3)));
    assert!(
        found["jobs"][0]["e_rms"].as_f64().unwrap() > 0.0
            && found["jobs"][0]["peak_bytes"].as_u64().unwrap() > 1_000_000
    );
    let page = std::fs::read_to_string(batch.join("index.html")).unwrap();
    assert!(page.contains("src=\"records/shot_0.png\"") && page.contains("href=\"shot_1.html\""), "{page}");
    assert!(std::fs::read(batch.join("records/shot_0.png")).unwrap().starts_with(b"\x89PNG"));
    // The same bytes as alone.
    bonesmith(dir.path(), "fit shot_2.npz --bones 2 --effort fast --max-iterations 3 -o alone.glb -q").fine();
    assert_eq!(std::fs::read(batch.join("shot_2.glb")).unwrap(), std::fs::read(dir.path().join("alone.glb")).unwrap());
    assert_tidy(dir.path());
}

#[test]
fn resume_runs_what_is_new_or_has_changed() {
    let dir = folder();
    shots(dir.path(), 4, "");
    bonesmith(dir.path(), "batch jobs.toml --shard 1/2").fine();
    assert_eq!(statuses(dir.path()), ["done", "waiting", "done", "waiting"]);
    let time = |name: &str| std::fs::metadata(dir.path().join("batch").join(name)).unwrap().modified().unwrap();
    let before = time("shot_0.glb");
    let run = bonesmith(dir.path(), "batch jobs.toml --resume").fine();
    assert!(run.stderr.contains("2 of 4 jobs are done already"), "{}", run.stderr);
    assert_eq!((statuses(dir.path()), time("shot_0.glb")), (vec!["done".to_owned(); 4], before));
    // Content, options, and a file that is gone; a newer time alone is nothing.
    std::fs::copy(dir.path().join("shot_3.npz"), dir.path().join("shot_2.npz")).unwrap();
    let touched = std::fs::File::options().append(true).open(dir.path().join("shot_0.npz")).unwrap();
    touched.set_modified(std::time::SystemTime::now()).unwrap();
    std::fs::remove_file(dir.path().join("batch/shot_1.glb")).unwrap();
    let run = bonesmith(dir.path(), "batch jobs.toml --resume").fine();
    assert!(run.stderr.contains("2 of 4 jobs are done already"), "{}", run.stderr);
    assert!(run.stderr.contains("shot_1: ") && run.stderr.contains("shot_2: "), "{}", run.stderr);
    assert_eq!(time("shot_0.glb"), before);
    let text = std::fs::read_to_string(dir.path().join("jobs.toml")).unwrap();
    std::fs::write(dir.path().join("jobs.toml"), text + "[shots.shot_3]\nbones = 3\n").unwrap();
    let run = bonesmith(dir.path(), "batch jobs.toml --resume").fine();
    assert!(run.stderr.contains("3 of 4 jobs are done already") && run.stderr.contains("shot_3: "), "{}", run.stderr);
}

#[test]
fn a_shot_that_fails_does_not_stop_the_others() {
    let dir = folder();
    shots(dir.path(), 3, "");
    std::fs::write(dir.path().join("shot_1.npz"), "no npz").unwrap();
    let text = std::fs::read_to_string(dir.path().join("jobs.toml")).unwrap();
    std::fs::write(dir.path().join("jobs.toml"), text + "[[jobs]]\ninput = 'gone.npz'\n").unwrap();
    let run = bonesmith(dir.path(), "batch jobs.toml");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("error: 2 of 4 jobs did not succeed; the first: shot_1"), "{}", run.stderr);
    assert_eq!(statuses(dir.path()), ["done", "failed", "done", "failed"]);
    let found = results(dir.path());
    assert!(found["jobs"][3]["error"].as_str().unwrap().contains("gone.npz"), "{found}");
    assert_eq!(found["jobs"][1]["attempts"], 1);
    let page = std::fs::read_to_string(dir.path().join("batch/index.html")).unwrap();
    assert!(page.contains("failed: ") && page.contains("gone.npz"), "{page}");
    assert_tidy(dir.path());
}

#[test]
fn gates_are_exit_code_1_and_cost_no_second_fit() {
    let dir = folder();
    shots(dir.path(), 2, "[gates]\nmax_e_rms = 0.0001\nmax_bones = 8");
    let run = bonesmith(dir.path(), "batch jobs.toml");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.contains("2 of them miss a limit"), "{}", run.stdout);
    let gates = &results(dir.path())["jobs"][0]["gates"];
    assert_eq!((gates[0]["gate"].as_str(), gates[0]["passed"].as_bool()), (Some("max_e_rms"), Some(false)));
    assert_eq!(gates[1]["passed"], true);
    let text = std::fs::read_to_string(dir.path().join("jobs.toml")).unwrap().replace("0.0001", "1000");
    std::fs::write(dir.path().join("jobs.toml"), text).unwrap();
    bonesmith(dir.path(), "batch jobs.toml --collect").fine();
    assert_eq!(results(dir.path())["counts"]["missed"], 0);
    let run = bonesmith(dir.path(), "batch jobs.toml --resume").fine();
    assert!(run.stderr.contains("2 of 2 jobs are done already"), "{}", run.stderr);
}

#[test]
fn bad_job_files_are_refused_before_the_work() {
    let dir = folder();
    walk(dir.path());
    let job = "[[jobs]]\ninput = 'walk.npz'\n";
    for (text, words) in [
        (format!("{job}bonse = 3\n"), "jobs[0]: bonse is no key (is bones meant?)"),
        (format!("{job}effort = 'lazy'\n"), "invalid value 'lazy' for '--effort"),
        (format!("{job}json = 'a.json'\n"), "json is no key"),
        (format!("{job}name = 'a'\noutput = 'x.glb'\n{job}name = 'b'\noutput = 'x.glb'\n"), "b and a both write"),
        (format!("memory = '1G'\n[limits]\nmemory = '2G'\n{job}"), "limits.memory is 2.00 GB"),
        ("[[jobs]]\ninput = '*.abc'\n".to_owned(), "nothing matches"),
        ("jobs".to_owned(), "line 1"),
    ] {
        std::fs::write(dir.path().join("jobs.toml"), text).unwrap();
        bonesmith(dir.path(), "batch jobs.toml")
            .refused(&["jobs.toml", words][usize::from(words.starts_with("limits"))..]);
        assert_eq!(names(dir.path()), ["jobs.toml", "walk.npz"]);
    }
    bonesmith(dir.path(), "batch nothing.toml").refused(&["nothing.toml"]);
}

/// An endless fit, with more lines in its job file.
fn endless(folder: &Path, lines: &str) {
    write_npz(clownfish(), &folder.join("fish.npz"));
    let text = format!("{lines}\n[[jobs]]\ninput = 'fish.npz'\nbones = 40\ntolerance = 0\nmax_iterations = 1000000\n");
    std::fs::write(folder.join("jobs.toml"), text).unwrap();
}

#[test]
fn limits_of_time_and_memory_end_a_job() {
    let dir = folder();
    endless(dir.path(), "[limits]\nseconds = 1.5");
    let run = bonesmith(dir.path(), "batch jobs.toml");
    assert_eq!((run.code, statuses(dir.path())), (Some(2), vec!["time-limit".to_owned()]), "{}", run.stderr);
    endless(dir.path(), "[limits]\nmemory = '12M'");
    let run = bonesmith(dir.path(), "batch jobs.toml");
    assert_eq!((run.code, statuses(dir.path())), (Some(2), vec!["memory-limit".to_owned()]), "{}", run.stderr);
    assert!(run.stderr.contains("the limit is 12.00 MB"), "{}", run.stderr);
    assert_eq!(names(&dir.path().join("batch")), ["index.html", "records", "results.csv", "results.json"]);
    assert_tidy(dir.path());
}

#[cfg(target_os = "linux")]
mod killed {
    use super::*;

    /// Processes whose parent is this one.
    fn children(parent: u32) -> Vec<u32> {
        let of = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter(|pid| of(*pid) == Some(parent)).collect()
    }

    fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            match look() {
                Some(found) => return found,
                None if started.elapsed() > Duration::from_secs(120) => panic!("{what} did not happen"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn kill(signal: &str, pid: u32) {
        std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    }

    fn start(folder: &Path) -> Child {
        let mut command = command();
        command.current_dir(folder).args(["batch", "jobs.toml", "--workers", "2"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn worker(master: &Child) -> u32 {
        wait_for("a worker", || children(master.id()).first().copied())
    }

    #[test]
    fn a_worker_that_is_killed_is_started_again() {
        let dir = folder();
        shots(dir.path(), 6, "");
        let master = start(dir.path());
        kill("-9", worker(&master));
        let output = master.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let results = results(dir.path());
        let attempts: Vec<u64> =
            results["jobs"].as_array().unwrap().iter().map(|j| j["attempts"].as_u64().unwrap()).collect();
        assert_eq!((results["counts"]["done"].as_u64(), attempts.iter().sum::<u64>()), (Some(6), 7));
        assert_tidy(dir.path());
    }

    #[test]
    fn one_that_is_always_killed_counts_as_crashed() {
        let dir = folder();
        endless(dir.path(), "retries = 1");
        let master = start(dir.path());
        let first = worker(&master);
        kill("-9", first);
        kill("-9", wait_for("another worker", || children(master.id()).into_iter().find(|pid| *pid != first)));
        let output = master.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let found = &results(dir.path())["jobs"][0];
        assert_eq!((found["status"].as_str(), found["attempts"].as_u64()), (Some("crashed"), Some(2)), "{found}");
        assert!(found["error"].as_str().unwrap().contains("SIGKILL"), "{found}");
    }

    #[test]
    fn a_batch_that_is_killed_leaves_no_worker_and_resumes() {
        let dir = folder();
        shots(dir.path(), 12, "");
        let mut master = start(dir.path());
        let records =
            || std::fs::read_dir(dir.path().join("batch/records")).ok().map(Iterator::count).filter(|n| *n >= 4);
        wait_for("the first records", records);
        let workers = children(master.id());
        kill("-9", master.id());
        master.wait().unwrap();
        wait_for("the end of the workers", || workers.iter().all(|pid| !running(*pid)).then_some(()));
        let done = names(&dir.path().join("batch")).into_iter().filter(|name| name.ends_with(".glb")).count();
        let run = bonesmith(dir.path(), "batch jobs.toml --resume").fine();
        assert!(run.stderr.contains(&format!("{done} of 12 jobs are done already")), "{done}: {}", run.stderr);
        assert_eq!(results(dir.path())["counts"]["done"], 12);
        assert_tidy(dir.path());
    }

    /// It may be a zombie whose new parent is slow.
    fn running(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    #[test]
    fn ctrl_c_stops_workers_and_leaves_a_page() {
        let dir = folder();
        endless(dir.path(), "");
        let master = start(dir.path());
        let worker = worker(&master);
        // Its handler is there when it has started a worker.
        kill("-INT", master.id());
        let output = master.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!running(worker));
        assert_eq!(statuses(dir.path()), ["waiting"]);
        assert_tidy(dir.path());
    }

    /// Files may not grow beyond 2 kB, as on a full disk: rigs are not written; afterwards `--resume` makes them.
    #[test]
    fn a_full_disk_loses_nothing() {
        let dir = folder();
        shots(dir.path(), 3, "");
        bonesmith(dir.path(), "batch jobs.toml --shard 1/3").fine();
        let before = std::fs::read(dir.path().join("batch/shot_0.glb")).unwrap();
        let program = env!("CARGO_BIN_EXE_bonesmith");
        let script = format!("ulimit -f 4; exec {program} batch jobs.toml --resume");
        let full = std::process::Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
        let words = String::from_utf8_lossy(&full.stderr).into_owned();
        assert_eq!(full.status.code(), Some(2), "{words}");
        assert_eq!(names(&dir.path().join("batch")).iter().filter(|name| name.ends_with(".glb")).count(), 1, "{words}");
        assert_eq!(std::fs::read(dir.path().join("batch/shot_0.glb")).unwrap(), before);
        assert_tidy(dir.path());
        bonesmith(dir.path(), "batch jobs.toml --resume").fine();
        assert_eq!(results(dir.path())["counts"]["done"], 3);
    }
}

#[test]
fn a_dry_run_shows_commands() {
    let dir = folder();
    shots(dir.path(), 2, "");
    let run = bonesmith(dir.path(), "batch jobs.toml --dry-run --shard 2/2").fine();
    assert!(
        run.stdout.starts_with("shot_1: bonesmith fit --bones=2 ") && run.stdout.lines().count() == 1,
        "{}",
        run.stdout
    );
    assert!(!dir.path().join("batch").exists());
}

/// A job has the options of `fit`, but for what a batch sets itself.
#[test]
fn jobs_have_the_options_of_fit() {
    let dir = folder();
    let help = bonesmith(dir.path(), "fit --help").fine().stdout;
    let flag = |line: &str| {
        let start = line.trim_start().trim_start_matches("-o, ").strip_prefix("--")?;
        let end = start.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(start.len());
        Some(start[..end].replace('-', "_"))
    };
    let flags: Vec<String> = help.lines().filter(|line| line.starts_with("  ")).filter_map(flag).collect();
    // A job's inputs are one mesh.
    let own = ["output", "report", "json", "subject", "picture", "threads", "memory", "part"];
    for name in bonesmith::batch::option_names() {
        assert!(flags.iter().any(|flag| flag == name), "{name} is no option of fit: {flags:?}");
    }
    for flag in flags.iter().filter(|flag| !own.contains(&flag.as_str())) {
        assert!(bonesmith::batch::option_names().any(|name| name == flag), "--{flag}");
    }
}
