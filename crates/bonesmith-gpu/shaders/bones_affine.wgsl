// Bones as three rows of posed_from_rest, 48 bytes: any affine map.

alias Bone = mat3x4<f32>;

fn matrix_of(bone: Bone) -> mat3x4<f32> {
    return bone;
}

// Weighted bones, added up.
alias Sum = mat3x4<f32>;

fn blend(sum: Sum, weight: f32, bone: Bone) -> Sum {
    return Sum(sum[0] + weight * bone[0], sum[1] + weight * bone[1], sum[2] + weight * bone[2]);
}

fn matrix_of_sum(sum: Sum) -> mat3x4<f32> {
    return sum;
}
