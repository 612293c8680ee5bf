//! Reading a sequence takes little more memory than the sequence itself. Alone in its binary: it counts every byte.

#[path = "common/counted.rs"]
mod counted;

use bonesmith_core::{MeshSequence, RawFrame, RawSequence};
use bonesmith_io::{LoadOptions, load_sequence, save_sequence};
use glam::Vec3;

use counted::most_during;

/// One test for all formats: it counts the bytes of the whole process.
#[test]
fn positions_are_held_once() {
    ["npz", "abc"].into_iter().for_each(held_once);
}

fn held_once(ending: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("long.{ending}"));
    let (frames, vertices) = (200, 5000);
    let position = |t: usize, i: usize| Vec3::new((t * i % 977) as f32, (i % 31) as f32 * 0.7, t as f32 * 0.1);
    let frame = |t| RawFrame { positions: (0..vertices).map(|i| position(t, i)).collect(), ..RawFrame::default() };
    let raw = RawSequence { frames: (0..frames).map(frame).collect(), ..RawSequence::default() };
    let sequence = MeshSequence::try_from(raw).unwrap();
    let own = sequence.position_bytes();

    let ((), saving) = most_during(|| save_sequence(&sequence, &path).unwrap());
    assert!(saving < own / 5, "{ending}: saving {own} bytes took {saving} more");
    drop(sequence);
    let (raw, loading) = most_during(|| load_sequence(&[path], &LoadOptions::default()).unwrap());
    assert!(loading < own + own / 5, "{ending}: loading {own} bytes took {loading}");
    let (_, checking) = most_during(|| MeshSequence::try_from(raw).unwrap());
    assert!(checking < own / 5, "checking {own} bytes took {checking} more");
}
