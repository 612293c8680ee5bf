//! Running a row, and what there is to pin about it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::table::Block;
use crate::harness::names;

/// What a row gave. Commands that write no file have no hashes, those that measure nothing no figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// FNV-1a of the files.
    pub bytes: Option<u64>,
    /// FNV-1a of names, sizes and checksums of the arrays in the files, without `params`: what stays when only the
    /// version, the names of parameters or the packing change.
    pub arrays: Option<u64>,
    pub e_rms: Option<f64>,
    pub normal_degrees: Option<f64>,
}

/// What the bytes depend on besides the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub machine: String,
    pub version: String,
}

impl Found {
    /// With figures as the file holds them.
    pub fn rounded(&self) -> Self {
        let rounded = |x: Option<f64>| x.map(|x| digits(x).parse().expect("a number"));
        Self { e_rms: rounded(self.e_rms), normal_degrees: rounded(self.normal_degrees), ..self.clone() }
    }
}

/// Runs a row in `folder`, where it leaves `ROW.npz`; or what went wrong.
pub fn run(row: &Block, folder: &Path, data: &Path) -> Result<Found, String> {
    let mut words = row.words(data);
    let out = format!("{}.npz", row.row());
    match words[0].as_str() {
        "eval" => {}
        "convert" => words.push(out),
        _ => words.extend(["-o".to_owned(), out]),
    }
    if words[0] != "convert" {
        words.extend(["--json".to_owned(), "-".to_owned()]);
    }
    let binary = std::env::var_os("BONESMITH_GOLDEN_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_bonesmith").into());
    let output = Command::new(binary).arg("-q").args(&words).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.expect("the binary runs");
    // 1 is a target that was missed: a result like any other.
    if !matches!(output.status.code(), Some(0 | 1)) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("  {}: bonesmith {}\n    {}: {stderr}", row.full_name(), words.join(" "), output.status));
    }
    // `convert` and `ddm --delta-mush` measure nothing and say nothing.
    let summary: serde_json::Value = match output.stdout.as_slice() {
        [] => serde_json::Value::Null,
        text => serde_json::from_slice(text).expect("JSON"),
    };
    let files = files(folder, row.row());
    let hash = |part: fn(&mut Fnv, &[u8])| {
        let mut hash = Fnv::default();
        files.iter().for_each(|path| part(&mut hash, &std::fs::read(path).expect("what was written")));
        (!files.is_empty()).then_some(hash.0)
    };
    Ok(Found {
        bytes: hash(Fnv::add),
        arrays: hash(add_arrays),
        e_rms: summary["e_rms"].as_f64(),
        normal_degrees: summary["normal_degrees"].as_f64(),
    })
}

/// What a row wrote: `ROW.npz`, and `ROW_SUBJECT.npz` where there are subjects.
fn files(folder: &Path, row: &str) -> Vec<PathBuf> {
    let mine = |name: &String| name.strip_prefix(row).is_some_and(|rest| rest == ".npz" || rest.starts_with('_'));
    names(folder).into_iter().filter(mine).map(|name| folder.join(name)).collect()
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}

/// Names, sizes and checksums of a zip's members, from its table of contents.
fn add_arrays(hash: &mut Fnv, zip: &[u8]) {
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([zip[at], zip[at + 1]]));
    let end = zip.len() - 22;
    assert_eq!(zip[end..end + 4], *b"PK\x05\x06", "a zip without a comment");
    let mut at = u16_at(end + 16) | u16_at(end + 18) << 16;
    for _ in 0..u16_at(end + 10) {
        assert_eq!(zip[at..at + 4], *b"PK\x01\x02", "a member");
        let name = &zip[at + 46..at + 46 + u16_at(at + 28)];
        if name != b"params.npy" {
            hash.add(name);
            // CRC-32, and the size before packing.
            hash.add(&zip[at + 16..at + 20]);
            hash.add(&zip[at + 24..at + 28]);
        }
        at += 46 + u16_at(at + 28) + u16_at(at + 30) + u16_at(at + 32);
    }
}

/// Six digits.
pub fn digits(x: f64) -> String {
    let whole = if x == 0.0 { 0.0 } else { x.abs().log10().floor() };
    format!("{x:.*}", (5.0 - whole).clamp(0.0, 12.0) as usize)
}

/// This machine and this version.
pub fn origin() -> Origin {
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    let machine = format!("{arch} {os} {}, libm {:016x}", instruction_set(), libm());
    Origin { machine, version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// Which of the compiled inner loops run here.
fn instruction_set() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        let fma = std::is_x86_feature_detected!("fma");
        if fma && std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512vl") {
            return "avx512f+avx512vl+fma";
        }
        if fma && std::is_x86_feature_detected!("avx2") {
            return "avx2+fma";
        }
    }
    "other"
}

/// The system's own sines and the like may differ in the last bit: a hash of many of them.
fn libm() -> u64 {
    let mut hash = Fnv::default();
    for k in 1..2000 {
        let x = f64::from(k) / 256.0;
        let of =
            [x.sin(), x.cos(), x.exp(), x.exp2(), x.ln(), x.ln_1p(), x.log2(), x.log10(), x.powf(0.7), x.atan2(2.0)];
        of.iter().for_each(|y| hash.add(&y.to_bits().to_le_bytes()));
        let single = [(x as f32).sin(), (x as f32).cos(), (x as f32).exp(), (x as f32).powf(0.7)];
        single.iter().for_each(|y| hash.add(&y.to_bits().to_le_bytes()));
    }
    hash.0
}
