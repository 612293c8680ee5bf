//! USD through the binary: every command that reads or writes a file.

use bonesmith_io::load_rig;

use crate::harness::{bonesmith, folder, names, walk};

#[test]
fn a_fit_is_written_read_back_and_used_as_a_rig() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    let plain = "fit walk.npz --bones 4 --bone-kind affine -o rig.npz -q --json -";
    let e_rms = bonesmith(here, plain).fine().json()["e_rms"].as_f64().unwrap();
    // Figures are measured on the file: scales as half floats would show here.
    let as_good =
        |found: &serde_json::Value| assert!(found["e_rms"].as_f64().unwrap() < e_rms + 0.01, "{e_rms}: {found}");
    for ending in ["usda", "usdc", "usdz"] {
        let line = format!("fit walk.npz --bones 4 --bone-kind affine -o rig.{ending} -q --json -");
        as_good(&bonesmith(here, &line).fine().json());
        let info = bonesmith(here, &format!("info rig.{ending} --json -")).fine().json();
        assert_eq!((info["holds"].as_str(), info["bones"].as_u64()), (Some("rig"), Some(4)));
        assert_eq!(info["bone_kind"], "affine");
    }
    as_good(&bonesmith(here, "eval rig.usdz walk.npz --json -").fine().json());
    let again = "fit walk.npz --rig rig.usdc --solve weights -o again.usda -q --json -";
    as_good(&bonesmith(here, again).fine().json());
    assert_eq!(load_rig(&here.join("again.usda")).unwrap().bone_count(), 4);
}

#[test]
fn animations_and_rigs_are_converted() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    bonesmith(here, "convert walk.npz cache.usdc -q").fine();
    bonesmith(here, "convert cache.usdc cache.usda -q").fine();
    bonesmith(here, "convert cache.usda cache.npz -q").fine();
    let info = bonesmith(here, "info cache.usda --json -").fine().json();
    assert_eq!((info["holds"].as_str(), info["frames"].as_u64()), (Some("animation"), Some(12)));
    assert_eq!(info["format"], "USD text");
    // Bit for bit, so an E_RMS against it is the same.
    bonesmith(here, "fit cache.usdc --bones 3 --effort fast -o rig.glb -q").fine();
    let of = |input: &str| bonesmith(here, &format!("eval rig.glb {input} --json -")).fine().json()["e_rms"].clone();
    assert_eq!(of("walk.npz"), of("cache.npz"));
    bonesmith(here, "convert rig.glb rig.usdz -q").fine();
    bonesmith(here, "convert rig.usdz baked.usda --bake -q").fine();
    bonesmith(here, "convert rig.glb rig.usdx -q").refused(&["rig.usdx", ".usda"]);
    bonesmith(here, "info cache.usda --mesh nobody").refused(&["nobody", "mesh"]);
    assert!(!names(here).iter().any(|name| name.starts_with(".bonesmith")), "no temporaries");
}

/// Two layers become one where the format has no place for both.
#[test]
fn two_layers_are_baked() {
    let dir = folder();
    let here = dir.path();
    walk(here);
    bonesmith(here, "fit walk.npz --bones 6 --influences all --effort fast -o dense.npz -q").fine();
    bonesmith(here, "compress dense.npz --virtual-bones 40 -o two.npz -q").fine();
    bonesmith(here, "convert two.npz two.usda -q").fine();
    assert!(load_rig(&here.join("two.usda")).unwrap().bone_count() >= 6);
    bonesmith(here, "compress dense.npz --virtual-bones 40 -o baked.usdc -q").fine();
}
