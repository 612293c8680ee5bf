// Rows are virtual bones that turn and move: between the origins, as in `bones_similar.wgsl`.

alias Piece = vec4<f32>;
const PIECES = 2u;

alias Shape = u32;

fn shape_of(place: Place) -> Shape {
    return 0u;
}

// Of a rotation about the centre p, which goes to q.
fn finish_about(rotation: mat3x3<f32>, p: vec3<f32>, q: vec3<f32>, instance_origin: vec3<f32>, shape: Shape) -> Row {
    return Row(sqrt(2.0) * quaternion_of(rotation), vec4(q - rotation * p, 1.0));
}
