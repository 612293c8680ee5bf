// The rotation nearest to a 3x3 matrix H = R U: the polar factor, in closed form but for one root, all threads in step.
//
// With the invariants i1 = tr U, i2, i3 = det H of the symmetric U, and cof(H) = R cof(U), Cayley-Hamilton gives
//     R (i1 i2 - i3) = (i1^2 - i2) H + i1 cof(H) - H H^T H,
// which divides by (s1 + s2)(s2 + s3)(s3 + s1) of the singular values and never by det H: flat surroundings are as good
// as any, and reflections give the nearest rotation (s3 is negative then). i1 is the largest root of
//     l^4 - 2 |H|^2 l^2 - 8 det(H) l + |H|^4 - 4 |cof(H)|^2,
// approached by Newton steps from above. An i1 that is a little off stretches R along the axes of U and turns nothing:
// one Newton-Schulz step takes that away. Columns of H H^T H go through cross products, which cancel nothing.

// Newton steps for i1, from a bound within 17 % of it for positive determinants.
const ROOT_STEPS = 4;
// How far from orthonormal the closed form may be: Newton-Schulz squares it.
const LOOSE = 1e-3;
// Squarings of the fallback: eigenvalues that differ by 1e-4 of the largest come apart.
const SQUARINGS = 16;

// `strongest`: the bone to stay near where H leaves the rotation open.
fn nearest_rotation(target_matrix: mat3x3<f32>, strongest: u32) -> mat3x3<f32> {
    let h0 = target_matrix;
    let scale = inverseSqrt(max(dot(h0[0], h0[0]) + dot(h0[1], h0[1]) + dot(h0[2], h0[2]), 1e-37));
    let h = h0 * scale;
    let c = mat3x3(cross(h[1], h[2]), cross(h[2], h[0]), cross(h[0], h[1]));
    let det = dot(h[0], c[0]);
    let cc = dot(c[0], c[0]) + dot(c[1], c[1]) + dot(c[2], c[2]);
    var i1 = sqrt(1.0 + 3.4641016 * sqrt(cc));
    for (var n = 0; n < ROOT_STEPS; n++) {
        let s = i1 * i1;
        let value = ((s - 2.0) * i1 - 8.0 * det) * i1 + (1.0 - 4.0 * cc);
        i1 -= value / max(4.0 * i1 * (s - 1.0) - 8.0 * det, 1e-12);
    }
    // i2^2 = |cof|^2 + 2 i1 i3 keeps the digits of a small i2, but not its sign.
    let i2 = select(0.5 * (i1 * i1 - 1.0), sqrt(max(cc + 2.0 * i1 * det, 0.0)), det > 0.0);
    let r = mat3x3(
        i2 * h[0] + i1 * c[0] + cross(h[1], c[2]) - cross(h[2], c[1]),
        i2 * h[1] + i1 * c[1] + cross(h[2], c[0]) - cross(h[0], c[2]),
        i2 * h[2] + i1 * c[2] + cross(h[0], c[1]) - cross(h[1], c[0]),
    ) * (1.0 / max(i1 * i2 - det, 1e-12));
    let diagonal = vec3(dot(r[0], r[0]), dot(r[1], r[1]), dot(r[2], r[2]));
    let others = vec3(dot(r[1], r[2]), dot(r[2], r[0]), dot(r[0], r[1]));
    let off = max(abs(diagonal - 1.0), abs(others));
    // No rotation is clearly the nearest, or a reflection is near: rare, and not on sound models.
    if (!(max(off.x, max(off.y, off.z)) < LOOSE)) {
        return rotation_near(h, strongest);
    }
    let d = 1.5 - 0.5 * diagonal;
    let o = -0.5 * others;
    return mat3x3(
        d.x * r[0] + o.z * r[1] + o.y * r[2],
        o.z * r[0] + d.y * r[1] + o.x * r[2],
        o.y * r[0] + o.x * r[1] + d.z * r[2],
    );
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
// rotation closest to that of the strongest bone.
fn rotation_near(h: mat3x3<f32>, strongest: u32) -> mat3x3<f32> {
    let identity = mat4x4(vec4(1.0, 0.0, 0.0, 0.0), vec4(0.0, 1.0, 0.0, 0.0), vec4(0.0, 0.0, 1.0, 0.0), vec4(0.0, 0.0, 0.0, 1.0));
    // Eigenvalues reach from -sqrt(3) to sqrt(3): all positive then.
    var power = davenport(h) + identity * 1.8;
    for (var n = 0; n < SQUARINGS; n++) {
        power = power * (1.0 / (power[0].x + power[1].y + power[2].z + power[3].w));
        power = power * power;
    }
    power = power * (1.0 / (power[0].x + power[1].y + power[2].z + power[3].w));
    let t = transpose(bones[strongest]);
    // K + I of a rotation is 4 q q^T.
    var q = longest(power * (davenport(mat3x3(t[0], t[1], t[2])) + identity));
    q = select(longest(power), q, dot(q, q) > 1e-4);
    return rotation_of(q * inverseSqrt(dot(q, q)));
}
