use std::fmt::Write;

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Mesh {
    parse(Path::new("test.obj"), text.as_bytes(), Extent::Everything).unwrap()
}

fn refusal(text: &str) -> String {
    parse(Path::new("test.obj"), text.as_bytes(), Extent::Everything).unwrap_err().to_string()
}

const CORNERS: &str = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n";

#[test]
fn the_odd_corners_of_the_format() {
    let text = "\u{feff}# comment\r\no thing\r\nv 0 0 0 1.0\r\nv 1e0 +0 -0.0 # after\r\n  v\t1 1 0 0.5 0.5 0.5\nv 0 1 \\\n0\n\
                vt 0.5\nvt 0.25 0.75 0\nvn 0 0 1\n\
                f -4/1/1 -3/2/1 3//1 4/-1/-1\nl 1 2\nf 1 2 3\nvp 1 2\ns off\n";
    let mesh = parse(Path::new("t.obj"), &text.as_bytes()[3..], Extent::Everything).unwrap();
    assert_eq!(mesh.positions, [Vec3::ZERO, Vec3::X, Vec3::new(1.0, 1.0, 0.0), Vec3::Y]);
    assert_eq!(mesh.surface.topology.faces().collect::<Vec<_>>(), [&[0, 1, 2, 3][..], &[0, 1, 2]]);
    let uv = &mesh.surface.uv_sets[0];
    assert_eq!(uv.values, [[0.5, 0.0], [0.25, 0.75], [0.0, 0.0]]);
    assert_eq!(uv.indices, [0, 1, 2, 1, 2, 2, 2]);
    assert_eq!(mesh.surface.normals, None, "the second face has none");
    mesh.surface.check(4).unwrap();
}

#[test]
fn a_byte_order_mark_does_not_hide_the_first_line() {
    let mesh = read(&format!("\u{feff}{CORNERS}f 1 2 3\n"));
    assert_eq!(mesh.positions.len(), 4);
}

#[test]
fn materials_follow_their_first_use() {
    let folder = tempfile::tempdir().unwrap();
    let png = b"\x89PNG\r\n\x1a\n not really";
    std::fs::write(folder.path().join("skin red.png"), png).unwrap();
    std::fs::write(folder.path().join("secret.txt"), "password").unwrap();
    let library = "newmtl red one\nKd 1 0 0\nd 0.5\nNs 250\nmap_Kd -s 1 1 1 secret.txt\n\
                   newmtl blue\nKd nan 0 1\nKe 0 0 9\nPr 0.25\nPm 1\nmap_Kd skin red.png\nmap_Kd /dev/zero\n";
    std::fs::write(folder.path().join("a b.mtl"), library).unwrap();
    let text = format!(
        "mtllib a b.mtl\nmtllib /dev/zero\n{CORNERS}vt 0 0\nf 1/1 2/1 3/1\nusemtl blue\nf 1 2 3\nusemtl red one\nf 1 2 4\n\
         usemtl blue\nf 2 3 4\nusemtl unknown\nf 3 4 1\n"
    );
    let mesh = parse(&folder.path().join("mesh.obj"), text.as_bytes(), Extent::Everything).unwrap();
    let names: Vec<&str> = mesh.surface.materials.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["blue", "red one", "unknown", "default"]);
    assert_eq!(mesh.surface.face_materials, [3, 0, 1, 0, 2]);
    let [blue, red] = [&mesh.surface.materials[0], &mesh.surface.materials[1]];
    assert_eq!((red.base_color, red.roughness), ([1.0, 0.0, 0.0, 0.5], 0.5));
    assert_eq!(red.alpha, bonesmith_core::mesh::surface::AlphaMode::Blend);
    assert_eq!((blue.base_color, blue.emissive), ([0.8, 0.8, 0.8, 1.0], [0.0, 0.0, 1.0]));
    assert_eq!((blue.roughness, blue.metallic), (0.25, 1.0));
    assert_eq!(red.textures.base_color, None, "only real images are carried along");
    assert_eq!(blue.textures.base_color.unwrap().image, 0);
    assert_eq!(mesh.surface.images[0].bytes, png);
    mesh.surface.check(4).unwrap();
}

#[test]
fn refusals_name_the_line() {
    let cases = [
        ("v 0 0 x\n".to_owned(), "line 1: \"x\" is not a number"),
        ("# no\nv 0 0\n".to_owned(), "line 2: 3 numbers are expected"),
        (format!("{CORNERS}f 1 2\n"), "line 5: a face of 2 corners"),
        (format!("{CORNERS}f 1 2 0\n"), "line 5: vertex 0: OBJ counts from 1"),
        (format!("{CORNERS}f 1 2 -5\n"), "line 5: vertex -5 is out of range"),
        (format!("{CORNERS}f 1 2 3\nf 1 2 7\n"), "line 6: the face names vertex 7, but there are 4 vertices"),
        (format!("{CORNERS}f 1 2 99999999999999999999\n"), "line 5: \"99999999999999999999\" is not an index"),
        (format!("{CORNERS}f 1 2 4294967296\n"), "line 5: vertex 4294967296 is out of range"),
        (format!("{CORNERS}f a b c\n"), "line 5: \"a\" is not an index"),
        (format!("{CORNERS}f /1 /2 /3\n"), "line 5: \"/1\" names no vertex"),
        ("\0\x01\x02".to_owned(), "there are no vertices"),
    ];
    for (text, message) in cases {
        assert!(refusal(&text).contains(message), "{} / {message}", refusal(&text));
    }
}

/// A random mesh: positions, UVs and polygons whose corners name both.
fn meshes() -> impl Strategy<Value = Mesh> {
    let position = prop::array::uniform3(prop::num::f32::NORMAL | prop::num::f32::ZERO);
    let uv = prop::array::uniform2(-4.0f32..4.0);
    (prop::collection::vec(position, 4..30), prop::collection::vec(uv, 1..10)).prop_flat_map(|(positions, uvs)| {
        let corner = (0..positions.len() as u32, 0..uvs.len() as u32);
        let faces = prop::collection::vec(prop::collection::vec(corner, 3..8), 1..12);
        (Just(positions), Just(uvs), faces).prop_map(|(positions, values, faces)| {
            let mut topology = Topology::empty();
            for face in &faces {
                topology.push_face(&face.iter().map(|c| c.0).collect::<Vec<_>>());
            }
            let indices = faces.iter().flatten().map(|c| c.1).collect();
            let mut surface = Surface::bare(topology);
            surface.uv_sets.push(CornerAttribute { name: "vt".into(), values, indices });
            Mesh { positions: positions.into_iter().map(Vec3::from_array).collect(), surface }
        })
    })
}

/// Text of a mesh, with negative indices where `backwards`.
fn write(mesh: &Mesh, backwards: bool) -> String {
    let mut text = String::new();
    for p in &mesh.positions {
        writeln!(text, "v {} {:e} {}", p.x, p.y, p.z).unwrap();
    }
    let uv = &mesh.surface.uv_sets[0];
    for [u, v] in &uv.values {
        writeln!(text, "vt {u} {v}").unwrap();
    }
    let index = |i: u32, n: usize| if backwards { i64::from(i) - n as i64 } else { i64::from(i) + 1 };
    for (f, face) in mesh.surface.topology.faces().enumerate() {
        text.push('f');
        for (&v, c) in face.iter().zip(mesh.surface.topology.corner_range(f)) {
            let (v, uv) = (index(v, mesh.positions.len()), index(uv.indices[c], uv.values.len()));
            write!(text, " {v}/{uv}").unwrap();
        }
        text.push('\n');
    }
    text
}

proptest! {
    #[test]
    fn what_is_written_is_read(mesh in meshes(), backwards: bool) {
        let text = write(&mesh, backwards);
        prop_assert_eq!(&read(&text), &mesh);
        let shape = parse(Path::new("t.obj"), text.as_bytes(), Extent::Shape).unwrap();
        prop_assert_eq!(shape.surface, Surface::bare(mesh.surface.topology));
    }

    #[test]
    fn no_text_is_a_panic(text in "([vf] |vt |vn |usemtl |[0-9/. eE+-]{0,9}|\\\\|\n|#){0,60}") {
        let _ = parse(Path::new("t.obj"), text.as_bytes(), Extent::Everything);
    }
}

#[test]
fn colours_after_positions_are_read() {
    let text = b"v 0 0 0 1 0.5 0\nv 1 0 0 0 0 0\nv 0 1 0\nv 0 0 1 1.0\nf 1 2 3\nf 1 3 4\n";
    let mesh = parse(Path::new("a.obj"), text, Extent::Everything).unwrap();
    let colors = mesh.surface.colors.as_ref().unwrap();
    assert_eq!(colors.values.len(), 4);
    assert!((colors.values[0][1] - 0.2140).abs() < 1e-3, "0.5 on the screen is {} of the light", colors.values[0][1]);
    assert_eq!((colors.values[1], colors.values[2]), ([0.0, 0.0, 0.0, 1.0], [1.0; 4]));
    assert_eq!(mesh.surface.check(4), Ok(()));
    assert_eq!(colors.on_vertices(&mesh.surface.topology, 4, 0), [1.0, 0.0, 1.0, 1.0]);
    let plain = parse(Path::new("a.obj"), b"v 0 0 0 1\nv 1 0 0 1\nv 0 1 0 1\nf 1 2 3\n", Extent::Everything).unwrap();
    assert_eq!(plain.surface.colors, None, "one number more is a weight");
}
