// Bones that turn, scale evenly and move, 32 bytes: two thirds of the matrix to load.
//
// The matrix of a quaternion is made of products of two of its numbers: adding those up, weighted, adds up the matrices.
// A bone costs 17 operations instead of 12. With |q|^2 = 2 s, where s is the scale, the matrix s R is
//     s - yy - zz    xy - zw        xz + yw
//     xy + zw        s - xx - zz    yz - xw
//     xz - yw        yz + xw        s - xx - yy

struct Bone {
    // x y z w, of length sqrt(2 s).
    turn: vec4<f32>,
    // Where the origin goes, and s.
    moved: vec4<f32>,
}

fn matrix_of(bone: Bone) -> mat3x4<f32> {
    return matrix_of_sum(blend(Sum(), 1.0, bone));
}

// Weighted bones, added up.
struct Sum {
    // xx yy zz
    squares: vec3<f32>,
    // xy xz yz
    products: vec3<f32>,
    // xw yw zw
    sides: vec3<f32>,
    moved: vec4<f32>,
}

fn blend(sum: Sum, weight: f32, bone: Bone) -> Sum {
    let q = bone.turn;
    let wq = weight * q;
    return Sum(
        sum.squares + wq.xyz * q.xyz,
        sum.products + wq.xxy * q.yzz,
        sum.sides + wq.xyz * q.w,
        sum.moved + weight * bone.moved,
    );
}

fn matrix_of_sum(sum: Sum) -> mat3x4<f32> {
    let d = sum.moved.w - sum.squares.yxx - sum.squares.zzy;
    let p = sum.products;
    let s = sum.sides;
    return mat3x4(
        vec4(d.x, p.x - s.z, p.y + s.y, sum.moved.x),
        vec4(p.x + s.z, d.y, p.z - s.x, sum.moved.y),
        vec4(p.y - s.y, p.z + s.x, d.z, sum.moved.z),
    );
}
