//! `--report`, `view` and `compare`: the pages are taken apart again.

use std::path::Path;

use bonesmith_report::extract;
use serde_json::Value;

use crate::harness::{bonesmith, command, folder, known, names, walk, write_npz};

/// The JSON of a report.
#[track_caller]
fn page(path: &Path) -> Value {
    let html = std::fs::read_to_string(path).expect("a report");
    let (json, blob) = extract(&html).expect("data in it");
    assert_eq!(json["blob"]["bytes"], blob.len());
    assert_eq!(json["format"], 1);
    json
}

/// A dense rig of the walk, as `dense.npz`.
fn dense(dir: &Path) {
    walk(dir);
    bonesmith(dir, "fit -q walk.npz --bones 6 --influences all --bone-kind affine -o dense.npz").fine();
}

fn figure(model: &Value, name: &str) -> f64 {
    let found = model["figures"].as_array().and_then(|all| all.iter().find(|f| f["name"] == name));
    found.and_then(|f| f["value"].as_f64()).unwrap_or_else(|| panic!("no {name} in {}", model["figures"]))
}

#[test]
fn every_command_writes_a_report_that_agrees_with_its_json() {
    let dir = folder();
    dense(dir.path());
    for (line, kind) in [
        ("fit walk.npz --bones 5 -o a.glb", "lbs"),
        ("fit walk.npz --skeleton -o s.glb", "lbs"),
        ("eval dense.npz walk.npz", "lbs"),
        ("reduce dense.npz --influences 2 --examples walk.npz -o r.glb", "lbs"),
        // The page shows the file: there the layers are baked to one.
        ("compress dense.npz --examples walk.npz -o c.glb", "lbs"),
        ("compress dense.npz --examples walk.npz -o c.npz", "two_layer"),
        ("eval c.npz walk.npz", "two_layer"),
        ("ddm dense.npz -o d.npz", "ddm"),
        ("eval d.npz walk.npz", "ddm"),
        ("ddm dense.npz --compress 20 -o e.npz", "compressed_ddm"),
        ("fit walk.npz --bones 2 --eigenskin 3 -o k.glb", "shaped"),
        ("eval k.glb walk.npz", "shaped"),
        ("fit walk.npz --method svd --bones 3 -o v.npz", "basis"),
        ("fit walk.npz --method cpca --bones 3 -o v.npz", "basis"),
        ("eval v.npz walk.npz", "basis"),
    ] {
        let summary = bonesmith(dir.path(), &format!("{line} -q --report page.html --json -")).fine().json();
        let json = page(&dir.path().join("page.html"));
        let model = &json["models"][0];
        assert_eq!(model["kind"], kind, "{line}");
        assert_eq!(json["command"], line.split(' ').next().unwrap());
        assert_eq!(json["mesh"]["vertices"], summary["vertices"], "{line}");
        assert_eq!(json["frames"]["count"], summary["frames"], "{line}");
        for (name, key) in [("E_RMS", "e_rms"), ("max error", "max_error"), ("RMSE", "rmse_percent")] {
            assert_eq!(Some(figure(model, name)), summary[key].as_f64(), "{line}: {name}");
        }
        assert_eq!(model["error"]["max"]["value"], summary["max_error_model_units"], "{line}");
        let (ours, theirs) = (&model["error"], &summary["error_model_units"]);
        assert_eq!(ours["per_frame"], theirs["frames"], "{line}");
        assert_eq!(ours["percentiles"], theirs["percentiles"], "{line}");
        assert_eq!(ours["histogram"]["counts"], theirs["histogram"]["counts"], "{line}");
        assert!(json["original"].is_object() && json["done"]["text"].as_str().unwrap().ends_with('.'), "{line}");
        assert!(!json["done"]["params"].as_array().unwrap().is_empty() || line.starts_with("eval"), "{line}");
        // Simplifications stand beside their input.
        let simplified = ["reduce", "compress", "ddm"].contains(&line.split(' ').next().unwrap());
        assert_eq!(json["models"].as_array().unwrap().len(), if simplified { 2 } else { 1 }, "{line}");
        let whole = model["storage"].as_array().unwrap();
        assert!(whole.iter().all(|row| row["bytes"].as_u64().unwrap() > 0), "{line}: {whole:?}");
    }
}

/// Shapes and trajectories that vertices mix are shown as they move, not as bones alone would.
#[test]
fn view_and_compare_know_shapes_and_bases() {
    let dir = folder();
    walk(dir.path());
    let made = bonesmith(dir.path(), "fit walk.npz --bones 2 --eigenskin 3 -o k.glb -q --json -").fine().json();
    bonesmith(dir.path(), "fit walk.npz --method svd --bones 3 -o v.npz -q").fine();
    let line = "compare k.glb v.npz --against walk.npz --report page.html --json -";
    let run = bonesmith(dir.path(), line).fine();
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    let (summary, json) = (run.json(), page(&dir.path().join("page.html")));
    let e_rms = summary["models"][0]["e_rms"].as_f64().unwrap();
    assert!((e_rms - made["e_rms"].as_f64().unwrap()).abs() < 1e-6 * e_rms, "{e_rms} {}", made["e_rms"]);
    for (at, kind, bones) in [(0, "shaped", 2), (1, "basis", 0)] {
        let model = &json["models"][at];
        assert_eq!((model["kind"].as_str(), summary["models"][at]["kind"].as_str()), (Some(kind), Some(kind)));
        assert_eq!(model["bones"].as_array().unwrap().len(), bones);
        assert!(model["positions"].is_object(), "{model}");
    }
    for file in ["k.glb", "v.npz"] {
        bonesmith(dir.path(), &format!("view {file} -o alone.html --no-open")).fine();
        assert_eq!(page(&dir.path().join("alone.html"))["frames"]["count"], 12);
    }
}

#[test]
fn several_clips_and_subjects_are_kept_apart() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "convert -q walk.npz run.npz --frames 3..9").fine();
    let run = bonesmith(dir.path(), "fit walk.npz run.npz --bones 4 -o both.glb --report both.html").fine();
    assert!(run.stdout.contains("both.html"), "{}", run.stdout);
    let json = page(&dir.path().join("both.html"));
    let clips: Vec<(&str, u64, u64)> = json["frames"]["clips"].as_array().unwrap().iter().map(clip).collect();
    assert_eq!(clips, [("walk", 0, 12), ("run", 12, 6)]);
    assert_eq!(json["models"][0]["error"]["per_frame"]["rms"].as_array().unwrap().len(), 18);

    bonesmith(dir.path(), "convert -q walk.npz tall.npz").fine();
    let line = "fit -q walk.npz --subject tall.npz=tall.npz --bones 4 -o body.glb --report body.html";
    bonesmith(dir.path(), line).fine();
    let pages: Vec<String> =
        names(dir.path()).into_iter().filter(|name| name.starts_with("body") && name.ends_with(".html")).collect();
    let rigs = names(dir.path()).into_iter().filter(|name| name.starts_with("body") && name.ends_with(".glb")).count();
    assert_eq!(pages.len(), rigs, "{pages:?}");
    pages.iter().for_each(|name| assert_eq!(page(&dir.path().join(name))["models"].as_array().unwrap().len(), 1));
}

fn clip(row: &Value) -> (&str, u64, u64) {
    (row["name"].as_str().unwrap(), row["start"].as_u64().unwrap(), row["count"].as_u64().unwrap())
}

#[test]
fn a_small_limit_leaves_frames_out_and_a_tiny_one_the_report() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "fit -q walk.npz --bones 4 -o a.glb --report whole.html").fine();
    let whole = std::fs::metadata(dir.path().join("whole.html")).unwrap().len();
    assert_eq!(page(&dir.path().join("whole.html"))["file"]["kept_frames_every"], 1);
    let limit = (whole - 4000) as f64 / 1e6;
    bonesmith(dir.path(), &format!("eval -q a.glb walk.npz --report some.html --report-max-mb {limit}")).fine();
    let json = page(&dir.path().join("some.html"));
    assert!(std::fs::metadata(dir.path().join("some.html")).unwrap().len() as f64 <= limit * 1e6);
    let indices: Vec<u64> = json["frames"]["indices"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap()).collect();
    assert!(indices.len() < 12 && indices.first() == Some(&0) && indices.last() == Some(&11), "{indices:?}");
    // Errors are over all frames all the same.
    assert_eq!(json["models"][0]["error"]["per_frame"]["max"].as_array().unwrap().len(), 12);
    // Everything else is written nevertheless: nobody wants to fit again for it.
    bonesmith(dir.path(), "convert -q walk.npz some.npz --frames 0..6").fine();
    for (line, output) in [
        ("eval a.glb walk.npz --json e.json", "e.json"),
        ("compare a.glb --against walk.npz --json f.json", "f.json"),
        ("fit walk.npz --bones 3 -o b.glb", "b.glb"),
        ("fit walk.npz some.npz --bones 3 -o c.glb", "c.glb"),
        ("reduce a.glb --influences 1 -o d.glb", "d.glb"),
    ] {
        let run = bonesmith(dir.path(), &format!("{line} --report none.html --report-max-mb 0.0001")).fine();
        assert!(run.stdout.contains("E_RMS") && !run.stdout.contains("none.html"), "{line}: {}", run.stdout);
        let why = run.stderr.lines().find(|text| text.starts_with("warning: none.html")).unwrap_or_default();
        let words = ["single frame", "limit of 0.0001 MB", "--report-max-mb 1 is enough"];
        assert!(words.iter().all(|word| why.contains(word)), "{line}: {}", run.stderr);
        assert!(dir.path().join(output).exists(), "{line}");
    }
    let json =
        bonesmith(dir.path(), "eval a.glb walk.npz --report none.html --report-max-mb 0.0001 --json -").fine().json();
    assert_eq!(json["warnings"][0]["kind"], "report-too-large");
    assert!(!dir.path().join("none.html").exists());
    // The page is all that `view` writes.
    bonesmith(dir.path(), "view -q a.glb --no-open -o none.html --report-max-mb 0.0001")
        .refused(&["none.html", "single frame"]);
}

#[test]
fn bad_paths_are_refused_before_anything_is_read() {
    let dir = folder();
    walk(dir.path());
    std::fs::create_dir(dir.path().join("folder.html")).unwrap();
    let before = names(dir.path());
    for (options, words) in [
        ("--report page.txt", &["page.txt", "written as .html"][..]),
        ("--report folder.html", &["folder.html is a folder"]),
        ("--report nowhere/page.html", &["no such folder"]),
        ("--report ./x.html --json x.html", &["./x.html is also another file"]),
        ("--report page.html --report-max-mb 0", &["--report-max-mb is 0"]),
        ("--report page.html --report-max-mb -3", &["--report-max-mb is -3"]),
        ("--report page.html --report-max-mb nan", &["--report-max-mb is NaN"]),
    ] {
        bonesmith(dir.path(), &format!("fit walk.npz -q -o a.glb {options}")).refused(words);
        bonesmith(dir.path(), &format!("compare walk.npz -q --against walk.npz {options}")).refused(words);
    }
    bonesmith(dir.path(), "view walk.npz -q --no-open -o page.htm").refused(&["written as .html"]);
    bonesmith(dir.path(), "view missing.glb -q --no-open").refused(&["missing.glb: no such file"]);
    bonesmith(dir.path(), "bench -q files walk.npz --report page.txt").refused(&["written as .html"]);
    assert_eq!(names(dir.path()), before);
}

#[test]
fn view_shows_rigs_and_animations_alone_and_together() {
    let dir = folder();
    dense(dir.path());
    let shown = |line: &str| {
        let run = bonesmith(dir.path(), &format!("view {line} --no-open -o v.html -q")).fine();
        assert_eq!(run.stdout, "v.html\n");
        page(&dir.path().join("v.html"))
    };
    let alone = shown("walk.npz");
    assert!(alone["original"].is_null() && alone["models"][0]["error"].is_null());
    assert_eq!((alone["models"][0]["kind"].as_str(), alone["frames"]["count"].as_u64()), (Some("sequence"), Some(12)));
    let rig = shown("dense.npz");
    assert!(rig["original"].is_null() && rig["models"][0]["skin"].is_object());
    assert_eq!(rig["models"][0]["bones"].as_array().unwrap().len(), 6);
    let both = shown("dense.npz --against walk.npz");
    assert!(both["original"].is_object() && figure(&both["models"][0], "E_RMS") > 0.0);
    let same = shown("walk.npz --against walk.npz");
    assert_eq!(figure(&same["models"][0], "E_RMS"), 0.0);
    let error = |line: &str| bonesmith(dir.path(), &format!("view {line} --no-open -q"));
    bonesmith(dir.path(), "convert -q walk.npz short.npz --frames 0..5").fine();
    error("dense.npz --against short.npz").refused(&["dense.npz cannot be compared", "12 frames, the sequence 5"]);
    error("dense.npz --clip dance").refused(&["--clip dance"]);
    error("dense.npz --frames 0..5").refused(&["dense.npz is a rig"]);
    assert_eq!(shown("walk.npz --frames 2..5")["frames"]["count"], 3);
}

#[test]
fn view_without_a_place_leaves_a_temporary_file_that_stays() {
    let dir = folder();
    walk(dir.path());
    let temporary = folder();
    let mut view = command();
    view.current_dir(dir.path()).args(["view", "walk.npz", "--no-open", "-q"]);
    let output = view.env("TMPDIR", temporary.path()).env("TMP", temporary.path()).output().unwrap();
    let path = String::from_utf8(output.stdout).unwrap();
    let path = Path::new(path.trim_end());
    assert!(output.status.success() && path.starts_with(temporary.path()), "{path:?}");
    assert_eq!(page(path)["title"], "walk.npz");
    view.args(["--report-max-mb", "0.001"]);
    assert_eq!(view.output().unwrap().status.code(), Some(2));
    assert_eq!(names(temporary.path()).len(), 1, "nothing is left of a page that could not be made");
}

/// A stand-in for the desktop's opener notes what it was asked to open.
#[cfg(target_os = "linux")]
#[test]
fn view_opens_what_it_has_written() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder();
    walk(dir.path());
    let opener = dir.path().join("xdg-open");
    std::fs::write(&opener, "#!/bin/sh\nprintf '%s' \"$1\" > opened.tmp && mv opened.tmp opened\n").unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let run = command()
        .current_dir(dir.path())
        .args(["view", "walk.npz", "-o", "v.html"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let opened = dir.path().join("opened");
    for _ in 0..100 {
        if opened.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(std::fs::read_to_string(opened).unwrap().ends_with("v.html"));
}

#[test]
fn compare_puts_models_side_by_side() {
    let dir = folder();
    dense(dir.path());
    bonesmith(dir.path(), "fit -q walk.npz --bones 3 -o few.glb").fine();
    bonesmith(dir.path(), "compress -q dense.npz --examples walk.npz -o two.npz").fine();
    bonesmith(dir.path(), "ddm -q dense.npz -o soft.npz").fine();
    let line = "compare few.glb dense.npz two.npz soft.npz walk.npz --against walk.npz";
    let table = bonesmith(dir.path(), line).fine().stdout;
    assert_eq!(table.lines().filter(|line| line.starts_with('|')).count(), 7, "{table}");
    let summary = bonesmith(dir.path(), &format!("{line} -q --json - --report c.html")).fine().json();
    let json = page(&dir.path().join("c.html"));
    let kinds: Vec<&str> = json["models"].as_array().unwrap().iter().map(|m| m["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["lbs", "lbs", "two_layer", "ddm", "sequence"]);
    for (at, model) in summary["models"].as_array().unwrap().iter().enumerate() {
        assert_eq!(json["table"]["rows"][at][1], model["e_rms"]);
        assert_eq!(Some(figure(&json["models"][at], "E_RMS")), model["e_rms"].as_f64());
        let seen = bonesmith(dir.path(), &format!("eval -q {} walk.npz --json -", model["file"].as_str().unwrap()));
        if at < 4 {
            assert_eq!(seen.fine().json()["e_rms"], model["e_rms"], "{}", model["file"]);
        }
    }
    assert_eq!(json["table"]["columns"].as_array().unwrap().len(), json["table"]["rows"][0].as_array().unwrap().len());
    let other = known(bonesmith_core::BoneKind::Rigid).sequence;
    let other = bonesmith_core::RawSequence { frames: other.frames[..4].to_vec(), times_secs: Vec::new(), ..other };
    write_npz(other, &dir.path().join("other.npz"));
    bonesmith(dir.path(), "compare -q few.glb --against other.npz").refused(&["few.glb cannot be compared", "4"]);
}

#[test]
fn benches_report_their_tables() {
    let dir = folder();
    walk(dir.path());
    let run = bonesmith(dir.path(), "bench files walk.npz --repeats 1 --report b.html -q").fine();
    let json = page(&dir.path().join("b.html"));
    assert!(json["mesh"].is_null() && json["models"].as_array().unwrap().is_empty());
    let table = &json["tables"][0];
    let columns = table["columns"].as_array().unwrap().len();
    assert!(columns > 2 && table["rows"][0].as_array().unwrap().len() == columns, "{table}");
    assert!(run.stdout.contains("walk"), "{}", run.stdout);
}

/// Pages run the script they were built with and load nothing.
#[test]
fn pages_have_a_content_security_policy() {
    let dir = folder();
    crate::harness::walk(dir.path());
    bonesmith(dir.path(), "fit -q walk.npz --bones 2 -o out.glb --report fit.html").fine();
    bonesmith(dir.path(), "sweep -q walk.npz --counts 1,2 --report sweep.html").fine();
    for name in ["fit.html", "sweep.html"] {
        let text = std::fs::read_to_string(dir.path().join(name)).unwrap();
        let policy = text.split("http-equiv=\"Content-Security-Policy\" content=\"").nth(1).expect(name);
        let policy = policy.split('"').next().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{name}: {policy}");
        let script = policy.split(';').find(|part| part.trim().starts_with("script-src")).unwrap_or_default();
        assert!(!script.contains("unsafe") && !policy.contains("http"), "{name}: {policy}");
    }
}

#[test]
fn names_from_files_cannot_break_the_page() {
    let dir = folder();
    let mut raw = known(bonesmith_core::BoneKind::Rigid).sequence;
    raw.name = "</script><script>alert(1)</script>".into();
    let path = dir.path().join("a'\"<b>.npz");
    write_npz(raw, &path);
    let run =
        command().current_dir(dir.path()).args(["view", "a'\"<b>.npz", "--no-open", "-o", "v.html"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(page(&dir.path().join("v.html"))["title"], "a'\"<b>.npz");
    assert!(!std::fs::read_to_string(dir.path().join("v.html")).unwrap().contains("alert(1)</script>"));
}
