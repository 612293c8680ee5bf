"""Bone motion as Blender stores it: location, quaternion and scale relative to the parent, in the space of the bone's rest pose.

F frames, B bones. With L the rest matrix of a bone, T its `posed_from_rest` and T' that of its parent, Blender's basis matrix is
inverse(L) inverse(T') T L. A rigid T gives a rotation and a location. A basis with stretch that is not along the bone's axes is no
location, rotation and scale; it is exact as two nested bones, from the singular value decomposition U S V^T: the outer bone has the rotation
U and the scale S, the inner one the rotation V^T.
"""

import itertools

import numpy as np

#: Largest shear, as the cosine between two columns, that counts as none.
SHEAR = 2e-5


def bases(transforms, rests, parents):
    """[F, B, 4, 4] basis matrices of `posed_from_rest` [F, B, 4, 4], rest matrices [B, 4, 4] and parents [B]."""
    parents = np.asarray(parents)
    relative = transforms.copy()
    children = np.flatnonzero(parents >= 0)
    if len(children):
        relative[:, children] = np.linalg.inv(transforms[:, parents[children]]) @ transforms[:, children]
    return np.linalg.inv(rests) @ relative @ rests


def sheared(basis):
    """[B] whether a bone's linear part is, in any frame, no rotation times scale along its axes."""
    columns = basis[..., :3, :3]
    norms = np.maximum(np.linalg.norm(columns, axis=-2, keepdims=True), 1e-30)
    units = columns / norms
    gram = np.abs(np.swapaxes(units, -1, -2) @ units - np.eye(3))
    mirrored = np.linalg.det(columns) < 0
    return (gram.max(axis=(-1, -2)) > SHEAR).any(axis=0) | mirrored.any(axis=0)


def quaternions(rotations):
    """[..., 4] unit quaternions w, x, y, z of rotation matrices [..., 3, 3]."""
    m = rotations
    xx, yy, zz = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    squares = np.stack([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz], axis=-1)
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    rows = [
        np.stack([squares[..., 0], a, b, c], axis=-1),
        np.stack([a, squares[..., 1], d, e], axis=-1),
        np.stack([b, d, squares[..., 2], f], axis=-1),
        np.stack([c, e, f, squares[..., 3]], axis=-1),
    ]
    # The row with the largest diagonal has the most digits.
    largest = np.argmax(squares, axis=-1)[..., None, None]
    chosen = np.take_along_axis(np.stack(rows, axis=-2), largest, axis=-2)[..., 0, :]
    return chosen / np.linalg.norm(chosen, axis=-1, keepdims=True)


def continuous(quaternion):
    """[F, ..., 4] the same rotations with signs that do not jump from frame to frame."""
    dots = (quaternion[1:] * quaternion[:-1]).sum(axis=-1)
    signs = np.concatenate([np.ones_like(dots[:1]), np.cumprod(np.where(dots < 0, -1.0, 1.0), axis=0)])
    return quaternion * signs[..., None]


def rotation_and_scale(basis):
    """Quaternions [F, 4] and scales [F, 3] of bases [F, 4, 4] without shear."""
    linear = basis[:, :3, :3]
    scale = np.linalg.norm(linear, axis=1)
    # The columns are right angles but for rounding; the nearest rotation is the polar factor.
    u, _, vt = np.linalg.svd(linear / np.maximum(scale, 1e-30)[:, None, :])
    return continuous(quaternions(u @ vt)), scale


#: Permutations of the axes with signs, as rotations: 24 ways to write one singular value decomposition.
_WAYS = [
    way
    for order in itertools.permutations(range(3))
    for signs in itertools.product((1.0, -1.0), repeat=3)
    for way in [np.eye(3)[:, order] * signs]
    if np.linalg.det(way) > 0
]


def nested(basis):
    """Outer quaternions [F, 4], scales [F, 3] and inner quaternions [F, 4] of bases [F, 4, 4].

    Of the ways to write the decomposition, each frame takes the nearest to the frame before: curves stay smooth between keys.
    """
    u, s, vt = np.linalg.svd(basis[:, :3, :3])
    # Both factors as rotations; a mirror remains as a negative scale.
    flips_u, flips_v = np.sign(np.linalg.det(u)), np.sign(np.linalg.det(vt))
    u[:, :, 2] *= flips_u[:, None]
    vt[:, 2, :] *= flips_v[:, None]
    s[:, 2] *= flips_u * flips_v
    ways = np.stack(_WAYS)
    for t in range(len(u)):
        before = np.eye(3) if t == 0 else vt[t - 1]
        fits = np.einsum("wij,jk,ik->w", np.swapaxes(ways, 1, 2), vt[t], before)
        way = _WAYS[int(np.argmax(fits))]
        u[t], vt[t] = u[t] @ way, way.T @ vt[t]
        s[t] = np.diag(way.T @ np.diag(s[t]) @ way)
    return continuous(quaternions(u)), s, continuous(quaternions(vt))


def channels(transforms, rests, parents, bones, pairs):
    """For each of `bones`: location [F, 3], quaternion [F, 4], scale [F, 3], and the inner quaternion [F, 4] of bones in `pairs`, else `None`.

    `transforms`: posed_from_rest [F, B, 4, 4] of all bones.
    """
    basis = bases(transforms, rests, parents)
    found = []
    for j in bones:
        place = basis[:, j, :3, 3]
        if j in pairs:
            rotation, scale, inner = nested(basis[:, j])
        else:
            (rotation, scale), inner = rotation_and_scale(basis[:, j]), None
        found.append((place, rotation, scale, inner))
    return found
