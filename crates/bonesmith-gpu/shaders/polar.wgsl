// The rotation nearest to a 3x3 matrix H = R U: the polar factor, in closed form but for one root, all threads in step.
//
// With the invariants i1 = tr U, i2, i3 = det H of the symmetric U, and cof(H) = R cof(U), Cayley-Hamilton gives
//     R (i1 i2 - i3) = (i1^2 - i2) H + i1 cof(H) - H H^T H,
// which divides by (s1 + s2)(s2 + s3)(s3 + s1) of the singular values and never by det H: flat surroundings are as good
// as any, and reflections give the nearest rotation (s3 is negative then). i1 is the largest root of
//     l^4 - 2 |H|^2 l^2 - 8 det(H) l + |H|^4 - 4 |cof(H)|^2,
// approached by Newton steps from above. An i1 that is a little off stretches R along the axes of U and turns nothing:
// one Newton-Schulz step takes that away. Columns of H H^T H go through cross products, which cancel nothing.

// Newton steps for i1: for positive determinants 1.8 % above it at first, then 1e-3, then 5e-6.
const ROOT_STEPS = 2;
// How far from orthonormal the closed form may be: Newton-Schulz squares it.
const LOOSE = 1e-3;
// Squarings of the fallback: eigenvalues that differ by 1e-4 of the largest come apart.
const SQUARINGS = 16;

const IDENTITY = mat4x4<f32>(
    vec4(1.0, 0.0, 0.0, 0.0),
    vec4(0.0, 1.0, 0.0, 0.0),
    vec4(0.0, 0.0, 1.0, 0.0),
    vec4(0.0, 0.0, 0.0, 1.0),
);

// 1 / x of a positive x: fewer instructions than a division.
fn reciprocal(x: f32) -> f32 {
    let root = inverseSqrt(x);
    return root * root;
}

// What `nearest_rotation` finds.
struct Nearest {
    rotation: mat3x3<f32>,
    // Whether it is: if not, no rotation is clearly the nearest, or a reflection is near. Rare, and not on sound models.
    clear: bool,
}

// H of length 1, or of length 0. Lengths from 1e-18 to 1e18 are squares of surroundings of 1e-9 to 1e9 units.
fn of_length_1(h: mat3x3<f32>) -> mat3x3<f32> {
    return h * inverseSqrt(max(dot(h[0], h[0]) + dot(h[1], h[1]) + dot(h[2], h[2]), 1e-37));
}

// Of a matrix of length 1.
fn nearest_rotation(h: mat3x3<f32>) -> Nearest {
    let c = mat3x3(cross(h[1], h[2]), cross(h[2], h[0]), cross(h[0], h[1]));
    let det = dot(h[0], c[0]);
    let det8 = 8.0 * det;
    let cc = dot(c[0], c[0]) + dot(c[1], c[1]) + dot(c[2], c[2]);
    // i1^2 = 1 + 2 i2, i2^2 = |cof|^2 + 2 i1 i3, and i1 is from 1 to sqrt(3).
    var i1 = sqrt(1.0 + 2.0 * sqrt(max(cc + select(2.0, 3.4641016, det > 0.0) * det, 0.0)));
    for (var n = 0; n < ROOT_STEPS; n++) {
        let s = i1 * i1;
        let value = ((s - 2.0) * i1 - det8) * i1 + (1.0 - 4.0 * cc);
        let slope = (4.0 * s - 4.0) * i1 - det8;
        i1 -= value * reciprocal(max(slope, 1e-12));
    }
    // The root keeps the digits of a small i2, but not its sign.
    let i2 = select(0.5 * (i1 * i1 - 1.0), sqrt(max(cc + 2.0 * i1 * det, 0.0)), det > 0.0);
    // R up to its length 1 / k.
    let r = mat3x3(
        i2 * h[0] + i1 * c[0] + cross(h[1], c[2]) - cross(h[2], c[1]),
        i2 * h[1] + i1 * c[1] + cross(h[2], c[0]) - cross(h[0], c[2]),
        i2 * h[2] + i1 * c[2] + cross(h[0], c[1]) - cross(h[1], c[0]),
    );
    let k = reciprocal(max(i1 * i2 - det, 1e-12));
    let half = 0.5 * k * k;
    let diagonal = half * vec3(dot(r[0], r[0]), dot(r[1], r[1]), dot(r[2], r[2])) - 0.5;
    let others = half * vec3(dot(r[1], r[2]), dot(r[2], r[0]), dot(r[0], r[1]));
    let off = max(abs(diagonal), abs(others));
    let d = k - k * diagonal;
    let o = -k * others;
    let rotation = mat3x3(
        d.x * r[0] + o.z * r[1] + o.y * r[2],
        o.z * r[0] + d.y * r[1] + o.x * r[2],
        o.y * r[0] + o.x * r[1] + d.z * r[2],
    );
    return Nearest(rotation, max(off.x, max(off.y, off.z)) < 0.5 * LOOSE);
}

// Davenport's matrix, quaternions as x y z w: tr(R^T H) = q^T K q.
fn davenport(h: mat3x3<f32>) -> mat4x4<f32> {
    let sum = vec3(h[2].y + h[1].z, h[0].z + h[2].x, h[1].x + h[0].y);
    let gap = vec3(h[1].z - h[2].y, h[2].x - h[0].z, h[0].y - h[1].x);
    let trace = h[0].x + h[1].y + h[2].z;
    return mat4x4(
        vec4(2.0 * h[0].x - trace, sum.z, sum.y, gap.x),
        vec4(sum.z, 2.0 * h[1].y - trace, sum.x, gap.y),
        vec4(sum.y, sum.x, 2.0 * h[2].z - trace, gap.z),
        vec4(gap, trace),
    );
}

fn longest(m: mat4x4<f32>) -> vec4<f32> {
    var best = m[3];
    for (var n = 0u; n < 3u; n++) {
        best = select(best, m[n], dot(m[n], m[n]) > dot(best, best));
    }
    return best;
}

// For any matrix of length 1 or 0, of any rank: the eigenspace of the largest eigenvalue by squaring, and in it the
// rotation closest to that of the bone at `strongest`.
fn rotation_near(h: mat3x3<f32>, strongest: u32) -> mat3x3<f32> {
    // Eigenvalues reach from -sqrt(3) to sqrt(3): all positive then.
    var power = davenport(h) + IDENTITY * 1.8;
    for (var n = 0; n < SQUARINGS; n++) {
        power = power * (1.0 / (power[0].x + power[1].y + power[2].z + power[3].w));
        power = power * power;
    }
    power = power * (1.0 / (power[0].x + power[1].y + power[2].z + power[3].w));
    let t = transpose(bone_at(strongest));
    // Of a rotation times s, K + s I is 4 s q q^T.
    let s = length(t[0]);
    var q = longest(power * (davenport(mat3x3(t[0], t[1], t[2])) + IDENTITY * s));
    q = select(longest(power), q, dot(q, q) > 1e-4 * s * s);
    return rotation_of(q * inverseSqrt(dot(q, q)));
}

// Of a rotation: K + I is 4 q q^T.
fn quaternion_of(r: mat3x3<f32>) -> vec4<f32> {
    let q = longest(davenport(r) + IDENTITY);
    return q * inverseSqrt(dot(q, q));
}
