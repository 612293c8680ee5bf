//! The contact sheet: one html page with a small picture and the figures of every job. Pictures are files beside it, loaded when they are scrolled to.

use std::fmt::Write;
use std::path::Path;

use super::record::Status;
use super::results::{Results, Row};
use super::thumbnail::POSES;
use crate::text::{bytes, figure};

const STYLE: &str = "body{font:14px sans-serif;margin:1.5em;color:#222;background:#fafafa}h1{font-size:1.3em}\
    .all{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:12px}\
    .job{background:#fff;border:1px solid #ddd;border-radius:6px;padding:8px;overflow:hidden}\
    .job h2{font-size:1em;margin:.2em 0;overflow-wrap:anywhere}.job p{margin:.2em 0;color:#555;overflow-wrap:anywhere}\
    .bad{border-color:#c33;background:#fff4f2}.bad h2::after{content:' \\2717';color:#c33}\
    .missed{border-color:#d90;background:#fffaf0}.missed h2::after{content:' !';color:#d90}.miss{color:#b60;font-weight:bold}\
    .error{color:#a22}.frame{width:128px;height:128px;overflow:hidden;margin:auto}.frame img{display:block;height:128px}\
    .job:hover img{animation:play 1.2s steps(";

impl Results {
    /// As one page: failures first, then missed limits, then the rest.
    pub fn page(&self, title: &str) -> String {
        let counts = &self.counts;
        let seconds: f64 = self.jobs.iter().map(|row| row.figures.seconds).sum();
        let size: u64 = self.jobs.iter().map(|row| row.figures.file_bytes).sum();
        let title = escaped(title);
        let mut page = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file: data:\">\
             <style>{STYLE}{POSES}) infinite}}@keyframes play{{to{{transform:translateX(-100%)}}}}</style></head><body><h1>{title}</h1>\
             <p>{} jobs: {} done, {} of them miss a limit, {} failed, {} not run. {} in all, {seconds:.1} s of work. \
             Errors are in thousandths of the model's radius. <a href=\"results.csv\">results.csv</a>, <a href=\"results.json\">results.json</a></p>\n\
             <div class=\"all\">\n",
            counts.jobs,
            counts.done,
            counts.missed,
            counts.failed,
            counts.waiting,
            bytes(size)
        );
        let mut rows: Vec<&Row> = self.jobs.iter().collect();
        rows.sort_by_key(|row| rank(row));
        rows.iter().for_each(|row| card(row, &mut page));
        page += "</div></body></html>\n";
        page
    }
}

fn rank(row: &Row) -> u8 {
    match row.status {
        Status::Done if row.misses() => 1,
        Status::Done => 2,
        Status::Waiting => 3,
        _ => 0,
    }
}

fn card(row: &Row, page: &mut String) {
    let class = ["job bad", "job missed", "job", "job"][usize::from(rank(row))];
    let _ = write!(page, "<div class=\"{class}\"><h2>{}</h2>", escaped(&row.name));
    if let Some(picture) = &row.picture {
        let _ = write!(page, "<div class=\"frame\"><img loading=\"lazy\" alt=\"\" src=\"{}\"></div>", link(picture));
    }
    let figures = &row.figures;
    if row.status == Status::Done {
        let missed = |name: &str| row.gates.iter().any(|gate| gate.gate == name && !gate.passed);
        let shown = |names: &[&str], text: String| match names.iter().any(|name| missed(name)) {
            true => format!("<span class=\"miss\">{text}</span>"),
            false => text,
        };
        let error = |value: Option<f64>| value.map_or("?".to_owned(), figure);
        let _ = write!(
            page,
            "<p>{}, {}</p><p>{}, {}, {}</p>",
            shown(&["max_e_rms", "target_error"], format!("E_RMS {}", error(figures.e_rms))),
            shown(&["max_error"], format!("max {}", error(figures.max_error))),
            shown(&["max_bones"], format!("{} bones", figures.bones.unwrap_or(0))),
            shown(&["max_bytes"], bytes(figures.file_bytes)),
            shown(&["max_seconds"], format!("{:.1} s", figures.seconds)),
        );
        for gate in row.gates.iter().filter(|gate| !gate.passed) {
            let value = gate.value.map_or("not measured".to_owned(), figure);
            let limit = gate.limit.map(|limit| format!(", limit {}", figure(limit))).unwrap_or_default();
            let _ = write!(page, "<p class=\"miss\">{}: {value}{limit}</p>", gate.gate);
        }
        if let [first, ..] = figures.warnings.as_slice() {
            let more =
                if figures.warnings.len() > 1 { format!(" (+{})", figures.warnings.len() - 1) } else { String::new() };
            let _ = write!(page, "<p>warning: {}{more}</p>", escaped(first));
        }
    } else {
        let _ = write!(page, "<p class=\"error\">{}", row.status.words());
        if let Some(error) = &row.error {
            let _ = write!(page, ": {}", escaped(error));
        }
        *page += "</p>";
    }
    if row.attempts > 1 {
        let _ = write!(page, "<p>{} attempts</p>", row.attempts);
    }
    let rig = (row.status == Status::Done).then_some((&row.output, "rig"));
    let log = (row.status != Status::Waiting).then_some((&row.log, "log"));
    let links = [rig, row.report.as_ref().map(|path| (path, "report")), log].into_iter().flatten();
    let links: Vec<String> = links.map(|(path, text)| format!("<a href=\"{}\">{text}</a>", link(path))).collect();
    let _ = writeln!(page, "<p>{}</p></div>", links.join(" "));
}

/// A path as an address relative to the page.
fn link(path: &Path) -> String {
    let mut address = String::new();
    for byte in path.to_string_lossy().replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => address.push(byte as char),
            _ => _ = write!(address, "%{byte:02X}"),
        }
    }
    address
}

/// Text that is no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
