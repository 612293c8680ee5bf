//! A rig as a `SkelRoot`: skeleton, animations, skinned mesh, blend shapes.

use bonesmith_core::transform::Trs;
use bonesmith_core::{Clip, Rig, SparseWeights};
use glam::{DAffine3, DMat4};

use super::doc::{Prim, Property, Value, Variants};
use super::names::Names;
use super::scene::{JointNames, Meshes, Shapes, layout};
use super::surface::{Materials, Normals, bind, mesh_prim, set_extras};
use super::{CLIP_SET, Clock, rows};
use crate::BlendShape;
use crate::compact::keys::{Tolerance, kept};
use crate::compact::rate;
use crate::joints::{self, Joints, NodeMotion};
use crate::shapes::within_unit_weights;
use crate::skinned::depths;
use crate::usd::extras::{AnimationExtras, SkeletonExtras};

/// Longest chain of joints: each joint is listed with its whole path.
const MAX_DEPTH: usize = 1024;

/// Where a mesh is in the space of its skeleton.
pub const BIND: &str = "primvars:skel:geomBindTransform";

/// One joint of the skeleton.
struct Joint<'a> {
    /// With those above it: "hips/spine".
    path: String,
    /// Shown to users.
    name: String,
    bind: DAffine3,
    motion: &'a NodeMotion,
    bone: usize,
}

/// Whether blend shapes fit the rig.
pub fn check_shapes(rig: &Rig, shapes: &[BlendShape]) -> Result<(), String> {
    for shape in shapes {
        let (offsets, vertices) = (shape.offsets.len(), rig.vertex_count());
        if offsets != vertices {
            return Err(format!("blend shape {:?} has {offsets} offsets for {vertices} vertices", shape.name));
        }
        let frames = rig.clips.iter().map(Clip::frame_count);
        if !shape.weights.iter().map(Vec::len).eq(frames) {
            return Err(format!("blend shape {:?} has weights for other frames than the rig's clips", shape.name));
        }
    }
    Ok(())
}

/// The prim that holds all of a rig but its materials: `root_name` below `above` (a path, empty for the top).
pub fn root_prim<'a>(
    rig: &'a Rig,
    scene: Option<&'a Meshes>,
    shapes: &[BlendShape],
    clock: &Clock,
    above: &str,
    root_name: String,
    materials: &Materials,
) -> Result<Prim<'a>, String> {
    let shapes = &within_unit_weights(shapes);
    let plan = joints::plan_half_scales(rig);
    if let Some(bone) = plan.beyond_float32() {
        return Err(joints::too_far(rig, bone));
    }
    let (joints, joint_of_bone) = joints(rig, &plan)?;
    let root_path = format!("{above}/{root_name}");
    let mut siblings = Names::default();
    // Programs show the names of prims: which rig it is should be among them.
    let skeleton_name = siblings.unique(&format!("{root_name}_skeleton"), "skeleton");
    siblings.unique("materials", "materials");
    let mesh_name = siblings.unique(&format!("{root_name}_mesh"), "mesh");
    let shape_names: Vec<String> = {
        let mut names = Names::default();
        shapes.iter().map(|shape| names.unique(&shape.name, "shape")).collect()
    };
    let mut animations = Vec::new();
    for (c, clip) in rig.clips.iter().enumerate() {
        let name = siblings.unique(&clip.name, "animation");
        animations.push(animation_prim(name, clip, c, &joints, shapes, &shape_names, clock));
    }
    if let Some(scene) = scene {
        let reserved = [&skeleton_name].into_iter().chain(animations.iter().map(|a| &a.name));
        let layout = layout(&rig.surface.parts, &root_path, siblings, reserved);
        let mut root = Prim::new("SkelRoot", root_name);
        let home = layout.home.strip_prefix(&root_path).unwrap_or_default();
        let skeleton = skeleton_prim(skeleton_name, rig, &joints, &joint_of_bone);
        let skeleton = bound(skeleton, &mut root, &animations, &root_path, home);
        let shapes = Shapes { shapes, names: &shape_names };
        let paths: Vec<String> = joints.iter().map(|joint| joint.path.clone()).collect();
        let joints = JointNames { of_bone: &joint_of_bone, paths: &paths };
        root.children.extend(scene.prims(rig, &layout, skeleton, animations, joints, shapes, materials));
        return Ok(root);
    }
    let mut root = Prim::new("SkelRoot", root_name);
    let skeleton = skeleton_prim(skeleton_name, rig, &joints, &joint_of_bone);
    let skeleton = bound(skeleton, &mut root, &animations, &root_path, "");
    let mesh =
        skinned_mesh(rig, mesh_name, &root_path, &skeleton.name, &joint_of_bone, shapes, &shape_names, materials);
    root.children.push(skeleton);
    root.children.extend(animations);
    root.children.push(mesh);
    Ok(root)
}

/// Joints, parents first, and the joint of each bone.
fn joints<'a>(rig: &Rig, plan: &'a Joints) -> Result<(Vec<Joint<'a>>, Vec<usize>), String> {
    let depths = depths(&plan.nodes.iter().map(|node| node.parent).collect::<Vec<_>>());
    let mut order: Vec<usize> = (0..rig.bone_count()).collect();
    order.sort_by_key(|&j| depths[j]);
    let deepest = depths.iter().copied().max().unwrap_or(0);
    if deepest > MAX_DEPTH {
        return Err(format!("a chain of {deepest} bones is too long for USD, {MAX_DEPTH} are possible"));
    }
    let mut names = Names::default();
    let own: Vec<String> = rig.bones.iter().map(|bone| names.unique(&bone.name, "bone")).collect();
    let mut joints: Vec<Joint> = Vec::new();
    let mut joint_of_bone = vec![0; rig.bone_count()];
    for j in order {
        let node = &plan.nodes[j];
        let columns = plan.inverse_binds[j].map(f64::from);
        let bind = DAffine3::from_mat4(DMat4::from_cols_array(&columns)).inverse();
        let mut above = node.parent.map(|p| joints[joint_of_bone[p]].path.clone());
        let carriers = [(node.outer.as_ref(), "_stretch"), (node.fine.as_ref(), "_fine"), (Some(&node.joint), "")];
        for (motion, ending) in carriers {
            let Some(motion) = motion else { continue };
            let element = match ending {
                "" => own[j].clone(),
                ending => names.unique(&format!("{}{ending}", own[j]), "bone"),
            };
            let path = above.map_or(element.clone(), |above| format!("{above}/{element}"));
            above = Some(path.clone());
            let name = if ending.is_empty() { rig.bones[j].name.clone() } else { element };
            joints.push(Joint { path, name, bind, motion, bone: j });
        }
        joint_of_bone[j] = joints.len() - 1;
    }
    Ok((joints, joint_of_bone))
}

/// A skeleton with its animation: the only one is bound; of several each is in a variant of the root (a path), which binds it. The skeleton and its animations are at `home` below the root.
fn bound<'a>(
    mut skeleton: Prim<'a>,
    root: &mut Prim<'a>,
    animations: &[Prim<'a>],
    root_path: &str,
    home: &str,
) -> Prim<'a> {
    if animations.is_empty() {
        return skeleton;
    }
    skeleton.metadata.insert(0, ("apiSchemas", Value::Prepend(vec!["SkelBindingAPI".into()])));
    let source =
        |animation: &Prim| Property::rel("skel:animationSource", format!("{root_path}{home}/{}", animation.name));
    if let [only] = animations {
        return skeleton.with(source(only));
    }
    let variant = |animation: &Prim<'a>| {
        let mut variant = Prim::over(animation.name.clone());
        variant.below(&format!("{home}/{}", skeleton.name)).properties.push(source(animation));
        variant
    };
    root.variants = Some(Variants { set: CLIP_SET, of: animations.iter().map(variant).collect() });
    skeleton
}

fn skeleton_prim<'a>(name: String, rig: &Rig, joints: &[Joint], joint_of_bone: &[usize]) -> Prim<'a> {
    let own = SkeletonExtras {
        kind: rig.kind,
        joints: joint_of_bone.iter().map(|j| *j as u32).collect(),
        parents: rig.bones.iter().map(|bone| bone.parent.map_or(-1, |p| p as i32)).collect(),
        tips: (rig.bones.iter().enumerate())
            .filter_map(|(b, bone)| bone.tip.map(|tip| (b as u32, tip.x, tip.y, tip.z)))
            .collect(),
        params: rig.params_json.clone(),
    };
    let paths = Value::Tokens(joints.iter().map(|joint| joint.path.clone()).collect());
    let names = Value::Tokens(joints.iter().map(|joint| joint.name.clone()).collect());
    let binds = joints.iter().map(|joint| rows_of(joint.bind)).collect();
    let rests = joints.iter().map(|joint| rows_of(joint.motion.rest.to_affine())).collect();
    let prim = Prim::new("Skeleton", name)
        .with(Property::uniform("token[]", "joints", paths))
        .with(Property::uniform("token[]", "jointNames", names))
        .with(Property::uniform("matrix4d[]", "bindTransforms", Value::Matrices(binds)))
        .with(Property::uniform("matrix4d[]", "restTransforms", Value::Matrices(rests)));
    set_extras(prim, &own)
}

fn animation_prim<'a>(
    name: String,
    clip: &Clip,
    c: usize,
    joints: &[Joint],
    shapes: &[BlendShape],
    shape_names: &[String],
    clock: &Clock,
) -> Prim<'a> {
    let codes: Vec<f64> = clip.times_secs.iter().map(|t| clock.code(*t)).collect();
    let frame = |t: usize| joints.iter().map(move |joint| &joint.motion.clips[c][t]);
    let still =
        |same: &dyn Fn(&Trs, &Trs) -> bool| (1..codes.len()).all(|t| frame(t).zip(frame(0)).all(|(a, b)| same(a, b)));
    let reduced = clock.tolerance.as_ref().filter(|_| rate(&codes).is_some());
    let keys = |apart: &Apart| match reduced {
        Some(tolerance) => kept(codes.len(), |a, b| {
            (a + 1..b).all(|t| {
                let u = (codes[t] - codes[a]) / (codes[b] - codes[a]);
                joints.iter().all(|joint| {
                    let frames = &joint.motion.clips[c];
                    !apart(tolerance, joint.bone, &[&frames[a], &frames[t], &frames[b]], u)
                })
            })
        }),
        None => (0..codes.len()).collect::<Vec<usize>>(),
    };
    let sampled = |property: Property<'a>, hold: bool, keys: Vec<usize>, value: &dyn Fn(usize) -> Value<'a>| {
        if hold && !codes.is_empty() {
            return Property { default: Some(value(0)), ..property };
        }
        Property { samples: keys.into_iter().map(|t| (codes[t], value(t))).collect(), ..property }
    };
    let translations = |t: usize| Value::Float3s(frame(t).map(|trs| trs.translation.as_vec3().to_array()).collect());
    let rotations = |t: usize| {
        let quaternion = |trs: &Trs| {
            let q = trs.rotation.as_quat();
            [q.w, q.x, q.y, q.z]
        };
        Value::Quats(frame(t).map(quaternion).collect())
    };
    let scales = |t: usize| Value::Half3s(frame(t).map(|trs| trs.scale.as_vec3().to_array()).collect());
    let paths = joints.iter().map(|joint| joint.path.clone()).collect();
    let turns_not = still(&|a, b| a.rotation == b.rotation);
    let scales_not = still(&|a, b| a.scale == b.scale);
    // Translations have all keys, so that a clip in which nothing moves keeps its length.
    let mut prim = Prim::new("SkelAnimation", name.clone())
        .with(Property::uniform("token[]", "joints", Value::Tokens(paths)))
        .with(sampled(Property::new("float3[]", "translations"), false, keys(&is_shifted), &translations))
        .with(sampled(Property::new("quatf[]", "rotations"), turns_not, keys(&is_turned), &rotations))
        .with(sampled(Property::new("half3[]", "scales"), scales_not, keys(&is_scaled), &scales));
    if reduced.is_some() {
        let step = (codes[codes.len() - 1] - codes[0]) / (codes.len() - 1) as f64;
        prim = set_extras(prim, &AnimationExtras { first: codes[0], step, count: codes.len() as u32 });
    }
    if !shapes.is_empty() {
        let weights = |t: usize| Value::Floats(shapes.iter().map(|shape| shape.weights[c][t]).collect());
        prim = prim
            .with(Property::uniform("token[]", "blendShapes", Value::Tokens(shape_names.to_vec())))
            .with(sampled(Property::new("float[]", "blendShapeWeights"), false, (0..codes.len()).collect(), &weights));
    }
    if name != clip.name {
        prim = prim.meta("displayName", Value::Text(clip.name.clone()));
    }
    prim
}

/// Whether a frame of a bone is farther from the line between two keys than a tolerance: the first key, the frame, the last key; the share of the way.
type Apart = dyn Fn(&Tolerance, usize, &[&Trs; 3], f64) -> bool;

/// See [`Apart`].
fn is_shifted(tolerance: &Tolerance, _: usize, [a, own, b]: &[&Trs; 3], u: f64) -> bool {
    a.translation.lerp(b.translation, u).distance(own.translation) > tolerance.shift
}

/// See [`Apart`].
fn is_turned(tolerance: &Tolerance, bone: usize, [a, own, b]: &[&Trs; 3], u: f64) -> bool {
    let dot = a.rotation.slerp(b.rotation, u).dot(own.rotation).abs().min(1.0);
    2.0 * dot.acos() > tolerance.turn[bone]
}

/// See [`Apart`].
fn is_scaled(tolerance: &Tolerance, bone: usize, [a, own, b]: &[&Trs; 3], u: f64) -> bool {
    (a.scale.lerp(b.scale, u) - own.scale).abs().max_element() > tolerance.turn[bone]
}

#[allow(clippy::too_many_arguments, reason = "called once, and each is plain")]
fn skinned_mesh<'a>(
    rig: &'a Rig,
    name: String,
    root: &str,
    skeleton: &str,
    joint_of_bone: &[usize],
    shapes: &[BlendShape],
    shape_names: &[String],
    materials: &Materials,
) -> Prim<'a> {
    let mut apis = vec!["SkelBindingAPI".to_owned()];
    let path = format!("{root}/{name}");
    let mut mesh = mesh_prim(name, &rig.name, &rig.surface, &rig.rest, Normals::Shown).with(Property::of(
        "point3f[]",
        "points",
        Value::Points(&rig.rest),
    ));
    mesh = hung(mesh, &rig.weights, joint_of_bone, format!("{root}/{skeleton}"));
    mesh = with_shape_names(mesh, &path, shape_names);
    mesh = bind(mesh, &rig.surface, materials, &mut apis).meta("apiSchemas", Value::Prepend(apis));
    for (shape, name) in shapes.iter().zip(shape_names) {
        mesh.children.push(shape_prim(&shape.offsets, name));
    }
    mesh
}

/// A mesh (its path) that names the shapes below it.
pub fn with_shape_names<'a>(mesh: Prim<'a>, path: &str, names: &[String]) -> Prim<'a> {
    if names.is_empty() {
        return mesh;
    }
    let targets = names.iter().map(|name| format!("{path}/{name}")).collect();
    mesh.with(Property::uniform("token[]", "skel:blendShapes", Value::Tokens(names.to_vec()))).with(Property {
        targets,
        uniform: true,
        ..Property::new("", "skel:blendShapeTargets")
    })
}

/// A mesh with weights on the joints of a skeleton (a path).
pub fn hung<'a>(mesh: Prim<'a>, all: &SparseWeights, joint_of_bone: &[usize], skeleton: String) -> Prim<'a> {
    let slots = all.max_influences().max(1);
    let (mut indices, mut weights) = (Vec::new(), Vec::new());
    for i in 0..all.vertex_count() {
        let own = all.of(i).map(|(j, w)| (joint_of_bone[j] as i32, w));
        for (joint, weight) in own.chain(std::iter::repeat((0, 0.0))).take(slots) {
            indices.push(joint);
            weights.push(weight);
        }
    }
    let per_vertex =
        |property: Property<'a>| property.interpolated("vertex").meta("elementSize", Value::Int(slots as i32));
    mesh.with(per_vertex(Property::of("int[]", "primvars:skel:jointIndices", Value::Ints(indices))))
        .with(per_vertex(Property::of("float[]", "primvars:skel:jointWeights", Value::Floats(weights))))
        .with(Property::of("matrix4d", BIND, Value::Matrix(rows_of(DAffine3::IDENTITY))))
        .with(Property::rel("skel:skeleton", skeleton))
}

/// Offsets of the vertices that the shape moves.
pub fn shape_prim<'a>(all: &[glam::Vec3], name: &str) -> Prim<'a> {
    let moved: Vec<usize> = (0..all.len()).filter(|&i| all[i] != glam::Vec3::ZERO).collect();
    let offsets: Vec<glam::Vec3> = moved.iter().map(|&i| all[i]).collect();
    let indices = moved.iter().map(|i| *i as i32).collect();
    Prim::new("BlendShape", name)
        .with(Property::uniform("vector3f[]", "offsets", Value::Float3s(rows(&offsets))))
        .with(Property::uniform("int[]", "pointIndices", Value::Ints(indices)))
}

/// USD has row vectors: our columns are its rows.
pub fn rows_of(m: DAffine3) -> [f64; 16] {
    DMat4::from(m).to_cols_array()
}
