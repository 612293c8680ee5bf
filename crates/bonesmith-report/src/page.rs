//! The html file: the page's template with the data of a scene in it, within a limit.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::figures::figure;
use crate::scene::{Kept, Scene};

/// The page, built from `viewer/` and kept in this crate, so that a build needs no Node.
const TEMPLATE: &str = include_str!("../page/report.html");

/// Where the data goes.
const MARKER: &str = "<!--BONESMITH-DATA-->";

const JSON_TAG: &str = r#"<script type="application/json" id="bonesmith-report">"#;
const DATA_TAG: &str = r#"<script type="text/plain" id="bonesmith-data">"#;
const END_TAG: &str = "</script>";

/// Frames whose packed size stands for all others.
const SAMPLE: usize = 6;

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Even with one frame it is larger than allowed.
    #[error(
        "the report takes {} MB with a single frame, more than the limit of {} MB",
        figure(*.needed as f64 / 1e6), *.limit as f64 / 1e6
    )]
    TooLarge {
        /// Bytes of the smallest report.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
}

/// A report as html.
#[derive(Clone, Debug)]
pub struct Page {
    /// The whole file.
    pub html: String,
    /// Every how many frames one was kept; 1: all.
    pub kept_every: usize,
    /// Frames kept.
    pub kept_frames: usize,
}

/// Writes a scene as one html file of at most `limit` bytes.
///
/// Frames are left out evenly where all would be too much; each clip keeps its first and last. Below that, one frame is all.
pub fn render(scene: &Scene, limit: u64) -> Result<Page, ReportError> {
    let spans = scene.spans();
    let longest = spans.iter().map(|clip| clip.count).max().unwrap_or(1);
    let mut every = first_guess(scene, limit, longest);
    loop {
        let kept = Kept::every(&spans, every);
        let page = page(scene, &kept, limit);
        let size = page.html.len() as u64;
        if size <= limit {
            return Ok(page);
        }
        if every + 1 >= longest {
            break;
        }
        // At least one step on; more where the size says so.
        every = (every + 1).max((every as f64 * size as f64 / limit as f64) as usize).min(longest - 1);
    }
    let page = page(scene, &Kept::one(&spans), limit);
    match page.html.len() as u64 {
        size if size <= limit => Ok(page),
        needed => Err(ReportError::TooLarge { needed, limit }),
    }
}

/// Every how many frames might fit, estimated from a few of them: packing all of a long animation to find out takes too long.
fn first_guess(scene: &Scene, limit: u64, longest: usize) -> usize {
    let spans = scene.spans();
    let total: usize = spans.iter().map(|clip| clip.count).sum();
    if total <= 2 * SAMPLE {
        return 1;
    }
    let one = page(scene, &Kept::one(&spans), limit).html.len() as u64;
    let some = Kept { every: 1, clips: Vec::new(), frames: (0..SAMPLE).map(|k| k * total / SAMPLE).collect() };
    let several = page(scene, &some, limit).html.len() as u64;
    let frame = several.saturating_sub(one) as f64 / (SAMPLE - 1) as f64;
    // The loop after this goes up only: rather one page too large than frames left out without need.
    let room = limit.saturating_sub(one) as f64 * 1.5;
    let fits = (room / frame.max(1.0)).max(1.0);
    ((total as f64 / fits).ceil() as usize).clamp(1, longest.saturating_sub(1).max(1))
}

fn page(scene: &Scene, kept: &Kept, limit: u64) -> Page {
    let (document, blob) = scene.build(kept, limit);
    let json = serde_json::to_string(&document).unwrap_or_else(|error| unreachable!("plain data: {error}"));
    let (head, tail) = TEMPLATE.split_once(MARKER).unwrap_or((TEMPLATE, ""));
    let data = blob.to_base64();
    let html = [head, JSON_TAG, &escape(&json), END_TAG, "\n", DATA_TAG, &data, END_TAG, tail].concat();
    Page { html, kept_every: kept.every, kept_frames: kept.frames.len() }
}

/// JSON that cannot end, comment or nest the element it stands in. Outside of strings JSON has no `<`.
fn escape(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// The JSON and the unpacked blob of a report: for tests, and for scripts that want the figures of a page.
pub fn extract(html: &str) -> Option<(Value, Vec<u8>)> {
    let part = |tag: &str| html.split_once(tag)?.1.split_once(END_TAG).map(|(part, _)| part);
    let json = serde_json::from_str(part(JSON_TAG)?).ok()?;
    let packed = STANDARD.decode(part(DATA_TAG)?).ok()?;
    let mut blob = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut blob).ok()?;
    Some((json, blob))
}

/// Bytes of the smallest report that `render` would try.
#[cfg(test)]
pub(crate) fn smallest(scene: &Scene) -> u64 {
    let size = |limit| page(scene, &Kept::one(&scene.spans()), limit).html.len() as u64;
    // The limit stands in the file too, with as many digits as it has.
    size(size(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_one_place_for_the_data() {
        assert_eq!(TEMPLATE.matches(MARKER).count(), 1);
        assert!(!TEMPLATE.contains(JSON_TAG) && !TEMPLATE.contains(DATA_TAG));
    }

    #[test]
    fn markup_in_names_stays_text() {
        let json = serde_json::to_string("</script><!--<script> \"a\" & 'b'").unwrap();
        assert!(!escape(&json).contains('<'));
        assert_eq!(serde_json::from_str::<String>(&escape(&json)).unwrap(), "</script><!--<script> \"a\" & 'b'");
    }
}
