// Rows are vertices: position and unit normal, 24 bytes. The first six planes are both at rest.

alias Piece = vec2<f32>;
const PIECES = 3u;

struct Shape {
    point: vec3<f32>,
    normal: vec3<f32>,
}

fn shape_of(place: Place) -> Shape {
    return Shape(vector(place, 0u), vector(place, 3u));
}

// Where a row's matrix takes its vertex.
fn finish(m: mat3x4<f32>, instance_origin: vec3<f32>, shape: Shape) -> Row {
    let t = transpose(m);
    return vertex(vec4(shape.point, 1.0) * m + instance_origin, mat3x3(t[0], t[1], t[2]), shape.normal);
}

// The same of a linear part about the centre p, which goes to q.
fn finish_about(linear: mat3x3<f32>, p: vec3<f32>, q: vec3<f32>, instance_origin: vec3<f32>, shape: Shape) -> Row {
    return vertex(linear * (shape.point - p) + q + instance_origin, linear, shape.normal);
}

fn vertex(point: vec3<f32>, linear: mat3x3<f32>, normal: vec3<f32>) -> Row {
    var n = linear * normal;
    if (!RIGID) {
        // Cofactors: the transposed inverse without its division.
        let turned = cross(linear[1], linear[2]) * normal.x + cross(linear[2], linear[0]) * normal.y
            + cross(linear[0], linear[1]) * normal.z;
        n = turned * inverseSqrt(max(dot(turned, turned), 1e-37));
    }
    return Row(point.xy, vec2(point.z, n.x), n.yz);
}
