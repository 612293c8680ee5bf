// Rows are vertices: position and unit normal, 24 bytes. The first six planes are both at rest.

alias Piece = vec2<f32>;

struct Row {
    a: Piece,
    b: Piece,
    c: Piece,
}

struct Shape {
    point: vec3<f32>,
    normal: vec3<f32>,
}

fn shape_of(place: Place) -> Shape {
    return Shape(vector(place, 0u), vector(place, 3u));
}

fn finish(m: mat3x4<f32>, home: vec3<f32>, shape: Shape) -> Row {
    let p = vec4(shape.point, 1.0) * m + home;
    var n = vec4(shape.normal, 0.0) * m;
    if (!RIGID) {
        // Cofactors: the transposed inverse without its division.
        let t = transpose(m);
        let turned = cross(t[1], t[2]) * shape.normal.x + cross(t[2], t[0]) * shape.normal.y
            + cross(t[0], t[1]) * shape.normal.z;
        n = turned * inverseSqrt(max(dot(turned, turned), 1e-37));
    }
    return Row(p.xy, vec2(p.z, n.x), n.yz);
}
