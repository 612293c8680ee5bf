//! Running the binary, and writing small files for it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bonesmith_core::synthetic::{PosedRig, PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, RawSequence};
use serde_json::Value;

/// What a run left behind.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    line: String,
}

/// The binary under test.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bonesmith"));
    command.stdin(Stdio::null());
    command
}

/// Runs `bonesmith` with the words of `line` (no quoting) in `folder`.
pub fn bonesmith(folder: &Path, line: &str) -> Run {
    let Output { status, stdout, stderr } =
        command().current_dir(folder).args(line.split_whitespace()).output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Run { code: status.code(), stdout: text(stdout), stderr: text(stderr), line: line.to_owned() }
}

impl Run {
    /// Exit code 0.
    #[track_caller]
    pub fn fine(self) -> Self {
        assert_eq!(self.code, Some(0), "bonesmith {}\n{}\n{}", self.line, self.stdout, self.stderr);
        self
    }

    /// Exit code 2 and one line that says why, with all of `words` in it; nothing on stdout.
    #[track_caller]
    pub fn refused(self, words: &[&str]) {
        let Run { code, stdout, stderr, line } = self;
        assert_eq!(code, Some(2), "bonesmith {line}\n{stdout}\n{stderr}");
        assert_eq!(stdout, "", "bonesmith {line}");
        let errors: Vec<&str> = stderr.lines().filter(|l| l.starts_with("error: ")).collect();
        let others = stderr.lines().filter(|l| !l.starts_with("error: ") && !l.starts_with("hint: "));
        assert_eq!((errors.len(), others.count()), (1, 0), "bonesmith {line}\n{stderr}");
        for word in words {
            assert!(errors[0].contains(word), "bonesmith {line}\n{stderr}\nmissing: {word}");
        }
        assert!(errors[0].len() < 300, "{stderr}");
    }

    /// stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("bonesmith {}: {e}\n{}", self.line, self.stdout))
    }
}

/// A folder of its own, gone at the end of the test.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Names of everything in `folder`, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A small rig that is known and the animation it makes.
pub fn known(kind: BoneKind) -> PosedRig {
    posed_rig(11, &PosedRigParams { kind, bones: 4, frames: 12, detail: 2, ..PosedRigParams::default() })
}

/// Writes an animation as npz.
pub fn write_npz(raw: RawSequence, path: &Path) -> PathBuf {
    bonesmith_io::save_sequence(&MeshSequence::try_from(raw).expect("sound"), path).expect("written");
    path.to_owned()
}

/// The known affine animation as `walk.npz` in `folder`.
pub fn walk(folder: &Path) {
    write_npz(known(BoneKind::Affine).sequence, &folder.join("walk.npz"));
}

/// One frame as OBJ text.
pub fn obj(raw: &RawSequence, t: usize) -> String {
    let mut text = String::new();
    raw.frames[t].positions.iter().for_each(|p| writeln!(text, "v {} {} {}", p.x, p.y, p.z).expect("a string"));
    for face in raw.surface.topology.faces() {
        let corners: Vec<String> = face.iter().map(|v| (v + 1).to_string()).collect();
        writeln!(text, "f {}", corners.join(" ")).expect("a string");
    }
    text
}

/// One OBJ file per frame in a folder of its own; numbers without leading zeros, to be put in natural order.
pub fn write_objs(raw: &RawSequence, folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    for t in 0..raw.frames.len() {
        std::fs::write(folder.join(format!("frame_{t}.obj")), obj(raw, t)).expect("written");
    }
}

/// A PC2 point cache of `frames` x `points` floats.
pub fn pc2(frames: &[Vec<[f32; 3]>], points: usize) -> Vec<u8> {
    let mut bytes = b"POINTCACHE2\0".to_vec();
    bytes.extend(1i32.to_le_bytes());
    bytes.extend((points as i32).to_le_bytes());
    bytes.extend(0f32.to_le_bytes());
    bytes.extend(1f32.to_le_bytes());
    bytes.extend((frames.len() as i32).to_le_bytes());
    for frame in frames {
        bytes.extend(frame.as_flattened().iter().flat_map(|x| x.to_le_bytes()));
    }
    bytes
}
