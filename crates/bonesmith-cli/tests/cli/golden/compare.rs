//! Whether a row changed, and for better or worse.

use super::run::{Found, Origin, digits};
use super::table::Block;

/// How far a figure may be off: by a share of it, or by so much.
type Slack = (f64, f64);

/// Where bytes are compared, figures are too: the same file must be measured alike.
const SAME: Slack = (1e-4, 1e-6);
/// Elsewhere other roundings take other turns.
const OTHER_E_RMS: Slack = (0.02, 1e-3);
const OTHER_NORMALS: Slack = (0.05, 0.05);

/// What to say about a row that is not as it was pinned; `None` if it is.
pub fn difference(row: &Block, now: &Found, pinned_on: &Origin, here: &Origin) -> Option<String> {
    let old = row.pinned();
    let same_machine = pinned_on.machine == here.machine;
    // Files hold the version in `params`.
    let same_version = pinned_on.version == here.version;
    let (e_rms, normals) = if same_machine { (SAME, SAME) } else { (OTHER_E_RMS, OTHER_NORMALS) };
    let files = !same_machine || old.arrays == now.arrays && (!same_version || old.bytes == now.bytes);
    let figures = alike(old.e_rms, now.e_rms, e_rms) && alike(old.normal_degrees, now.normal_degrees, normals);
    if old != Found::default() && files && figures {
        return None;
    }
    let command = row.get("command").unwrap_or_default();
    let mut text = format!("  {}: bonesmith {command}\n", row.full_name());
    if old == Found::default() {
        text += "    is not pinned yet\n";
    }
    text += &format!("    bytes   {} -> {}\n", hash(old.bytes), hash(now.bytes));
    let packed = old.arrays == now.arrays && old.bytes != now.bytes;
    let note = if packed { " (the same: only params or packing differ)" } else { "" };
    text += &format!("    arrays  {} -> {}{note}\n", hash(old.arrays), hash(now.arrays));
    text += &format!("    e_rms   {}\n", change(old.e_rms, now.e_rms));
    text += &format!("    normals {}\n", change(old.normal_degrees, now.normal_degrees));
    if !same_machine {
        text += &format!("    pinned on {}, this is {}: bytes may differ\n", pinned_on.machine, here.machine);
    }
    if let Some(why) = row.get("why").filter(|why| !why.is_empty()) {
        text += &format!("    pinned because: {why}\n");
    }
    Some(text)
}

fn alike(old: Option<f64>, now: Option<f64>, (share, absolute): Slack) -> bool {
    match (old, now) {
        (Some(old), Some(now)) => (now - old).abs() <= (share * old.abs()).max(absolute),
        (old, now) => old.is_none() && now.is_none(),
    }
}

fn hash(hash: Option<u64>) -> String {
    hash.map_or_else(|| "none".to_owned(), |hash| format!("{hash:016x}"))
}

fn change(old: Option<f64>, now: Option<f64>) -> String {
    let shown = |x: Option<f64>| x.map_or_else(|| "none".to_owned(), digits);
    let judged = match (old, now) {
        (Some(old), Some(now)) if digits(old) == digits(now) => " (the same)".to_owned(),
        (Some(old), Some(now)) => {
            let word = if now < old { "better" } else { "worse" };
            format!(" ({:+.3} %, {word})", 100.0 * (now / old - 1.0))
        }
        _ => String::new(),
    };
    format!("{} -> {}{judged}", shown(old), shown(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_may_differ_by_a_share_or_by_little() {
        assert!(alike(Some(1.0), Some(1.019), OTHER_E_RMS) && !alike(Some(1.0), Some(0.979), OTHER_E_RMS));
        assert!(alike(Some(0.0), Some(0.0009), OTHER_E_RMS) && !alike(Some(1.0), Some(1.001), SAME));
        assert!(alike(None, None, SAME) && !alike(Some(1.0), None, SAME) && !alike(None, Some(1.0), SAME));
        assert!(!alike(Some(1.0), Some(f64::NAN), OTHER_E_RMS));
    }

    #[test]
    fn changes_are_judged() {
        assert_eq!(change(Some(2.0), Some(1.0)), "2.00000 -> 1.00000 (-50.000 %, better)");
        assert_eq!(change(Some(0.5), Some(0.500_000_01)), "0.500000 -> 0.500000 (the same)");
        assert_eq!(change(None, Some(12.345_678)), "none -> 12.3457");
    }
}
