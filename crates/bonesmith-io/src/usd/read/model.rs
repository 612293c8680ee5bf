//! All meshes of a stage with their skeletons: what it looks like at any time.
//!
//! A skinned vertex is where `world_from_skeleton(t) * skeleton_from_joint(t) * bind^-1 * skeleton_from_mesh * p` puts
//! it, blended over its joints; the place of the mesh itself does not count. Any other vertex is at
//! `world_from_mesh(t) * p(t)`.

use std::collections::HashMap;

use bonesmith_core::deform::lbs;
use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{Part as ScenePart, Space, SparseWeights, Surface, UpAxis};
use glam::{DAffine3, DVec3, Vec3};

use crate::load::missing;
use crate::usd::extras::{self, MeshExtras};
use crate::usd::stage::Stage;
use crate::{IoError, MeshEntry, warning};

use super::binding::{Binding, Shape, inherited, read_shapes};
use super::material::Materials;
use super::mesh::Mesh;
use super::parts::{self, Found};
use super::skeleton::Skeleton;
use super::surface::SurfaceBuilder;

/// Most vertices of all meshes together: a small file can name one mesh many times.
const MAX_VERTICES: usize = 1 << 26;
/// Schemas of geometry that is not read.
const OTHER_GEOMETRY: [&str; 14] = [
    "BasisCurves",
    "HermiteCurves",
    "NurbsCurves",
    "NurbsPatch",
    "Points",
    "PointInstancer",
    "Volume",
    "TetMesh",
    "Sphere",
    "Cube",
    "Cylinder",
    "Cone",
    "Capsule",
    "Plane",
];

/// A skeleton and a binding to it, or a skeleton and shapes that its animation weighs.
type Bound = (Option<(usize, Binding)>, Option<(usize, Vec<Shape>)>);

/// One mesh.
pub struct Part<'a> {
    /// The mesh; its faces have gone into the surface.
    pub mesh: Mesh<'a>,
    /// Vertices it has.
    pub count: usize,
    /// Skeleton it hangs on, and how.
    pub binding: Option<(usize, Binding)>,
    /// Blend shapes of a mesh that no joint moves, and the skeleton whose animation weighs them.
    loose_shapes: Option<(usize, Vec<Shape>)>,
}

impl Part<'_> {
    /// Its blend shapes.
    pub fn shapes(&self) -> &[Shape] {
        match (&self.binding, &self.loose_shapes) {
            (Some((_, binding)), _) => &binding.shapes,
            (None, Some((_, shapes))) => shapes,
            (None, None) => &[],
        }
    }

    /// The skeleton whose animation weighs them.
    pub fn skeleton(&self) -> Option<usize> {
        let bound = self.binding.as_ref().map(|(s, _)| *s);
        bound.or(self.loose_shapes.as_ref().map(|(s, _)| *s))
    }
}

/// A stage's meshes; N vertices.
pub struct Model<'a> {
    /// The stage.
    pub stage: &'a Stage,
    /// Name of the only mesh, else of the file.
    pub name: String,
    /// In stage order.
    pub parts: Vec<Part<'a>>,
    /// Those that meshes hang on.
    pub skeletons: Vec<Skeleton<'a>>,
    /// Faces and what lies on them.
    pub surface: Surface,
    /// [N] where the stage shows it without time.
    pub rest: Vec<Vec3>,
    /// Whether the positions without time are the file's own, not its first frame's.
    pub has_rest: bool,
    /// Time codes in a second.
    pub codes_per_sec: f64,
    /// First mesh of those that have one source of points and faces, and the same materials.
    firsts: HashMap<Shown, usize>,
}

/// Prims of layers that have points and faces of a mesh, and the materials of its faces.
type Shown = ([Option<(usize, u32)>; 2], Vec<Option<u32>>);

/// Meshes that are shown, or the one of the name given.
fn meshes(stage: &Stage, only: Option<&str>) -> Result<Vec<usize>, IoError> {
    let all = (0..stage.prims.len()).filter(|&p| stage.prims[p].type_name == "Mesh");
    // Breadth first is how the stage was built; users expect the order of the tree.
    let mut all: Vec<usize> = all.collect();
    let mut places = vec![0usize; stage.prims.len()];
    let mut todo = vec![0usize];
    let mut next = 0;
    while let Some(prim) = todo.pop() {
        places[prim] = next;
        next += 1;
        todo.extend(stage.prims[prim].children.iter().rev());
    }
    all.sort_by_key(|&p| places[p]);
    if let Some(only) = only {
        if let Some(lost) = missing(only, |one| all.iter().any(|&p| is_named(stage, p, one))) {
            let names: Vec<String> = all.iter().map(|&p| listed_name(stage, p, &all)).collect();
            return Err(stage.unsupported(format!("no mesh is named {lost:?}; there are {names:?}")));
        }
        let named = |p: usize| is_named(stage, p, only) || only.split(',').any(|one| is_named(stage, p, one.trim()));
        return Ok(all.iter().copied().filter(|&p| named(p)).collect());
    }
    all.retain(|&p| is_shown(stage, p));
    if all.is_empty() {
        return Err(stage.unsupported("there is no mesh in it (curves, points and volumes are not read)"));
    }
    Ok(all)
}

/// Meshes in the order in which our own files number them, else as they are.
fn in_scene_order(stage: &Stage, prims: &[usize]) -> Vec<usize> {
    let number = |&prim: &usize| Some(extras::unpack::<MeshExtras>(stage, prim)?.part?.number);
    let numbers: Option<Vec<usize>> = prims.iter().map(number).collect();
    let mut order: Vec<usize> = (0..prims.len()).collect();
    if let Some(numbers) = numbers {
        order.sort_by_key(|&at| numbers[at]);
    }
    order.into_iter().map(|at| prims[at]).collect()
}

/// Geometry that is no mesh.
fn warn_of_other_geometry(stage: &Stage) {
    let others = stage.prims.iter().filter(|prim| OTHER_GEOMETRY.contains(&prim.type_name.as_str()));
    let others = others.map(|prim| format!("{} ({})", prim.path, prim.type_name)).collect();
    warning::left_out_all(stage.file(), "what is no mesh:", others);
}

/// By its own name, the one shown to users, its object's (Blender has the mesh below it), or its path.
fn is_named(stage: &Stage, prim: usize, name: &str) -> bool {
    let own = &stage.prims[prim];
    let object = own.parent.map(|p| &stage.prims[p]).filter(|p| p.children.len() == 1);
    own.name == name
        || own.path == name
        || stage.display_name(prim) == name
        || object.is_some_and(|object| object.name == name)
}

fn listed_name(stage: &Stage, prim: usize, all: &[usize]) -> String {
    let name = stage.display_name(prim);
    let alone = all.iter().filter(|&&p| stage.display_name(p) == name).count() == 1;
    if alone { name } else { stage.prims[prim].path.clone() }
}

fn is_shown(stage: &Stage, prim: usize) -> bool {
    let word = |p: usize, name: &str| {
        let value = stage.attribute(p, name).ok().flatten().filter(|a| a.samples.len() < 2);
        value.and_then(|a| a.texts().ok()).and_then(|t| t.into_iter().next())
    };
    let hidden = stage.ancestry(prim).any(|p| word(p, "visibility").is_some_and(|v| v == "invisible"));
    let purpose = stage.ancestry(prim).find_map(|p| word(p, "purpose")).unwrap_or_default();
    !hidden && purpose != "guide" && purpose != "proxy"
}

/// Meshes of a file with their numbers of vertices.
pub fn list(stage: &Stage) -> Result<Vec<MeshEntry>, IoError> {
    let all = meshes(stage, None)?;
    let entry = |&prim: &usize| {
        let points = stage.attribute(prim, "points")?.map_or(Ok(Vec::new()), |a| a.f32s())?;
        Ok(MeshEntry { name: listed_name(stage, prim, &all), vertices: points.len() / 3 })
    };
    all.iter().map(entry).collect()
}

impl<'a> Model<'a> {
    /// Reads all meshes, or those of the name given.
    pub fn read(stage: &'a Stage, only: Option<&str>) -> Result<Self, IoError> {
        let prims = meshes(stage, only)?;
        let stem = stage.file().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let rate = stage.number("timeCodesPerSecond").or_else(|| stage.number("framesPerSecond"));
        let mut model = Self {
            stage,
            name: stem,
            parts: Vec::new(),
            skeletons: Vec::new(),
            surface: Surface::default(),
            rest: Vec::new(),
            has_rest: false,
            codes_per_sec: rate.filter(|r| *r > 0.0 && r.is_finite()).unwrap_or(24.0),
            firsts: HashMap::new(),
        };
        let mut surface = SurfaceBuilder::default();
        let mut materials = Materials::default();
        let mut found = Vec::new();
        for &prim in &in_scene_order(stage, &prims) {
            found.extend(model.add(prim, &mut surface, &mut materials)?);
        }
        if model.rest.is_empty() {
            return Err(stage.unsupported("its meshes have no points"));
        }
        model.drop_unfit_extras();
        model.surface = surface.finish(stage, materials);
        warn_of_other_geometry(stage);
        model.surface.space = space(stage);
        let skeletons: Vec<usize> = model.skeletons.iter().map(|skeleton| skeleton.prim).collect();
        let first = found.first().map(|one| one.prim);
        model.surface.parts = parts::scene(stage, found, &skeletons)?;
        if let (false, Some(prim)) = (model.surface.parts.is_empty(), first) {
            let own = extras::unpack::<MeshExtras>(stage, prim).filter(|own| own.part.is_some());
            own.into_iter().for_each(|own| model.restore(MeshExtras { name: None, ..own }));
        }
        if let [prim] = prims.as_slice() {
            model.name = stage.display_name(*prim);
            if let Some(own) = extras::unpack::<MeshExtras>(stage, *prim) {
                model.restore(own);
            }
        }
        Ok(model)
    }

    fn add(
        &mut self,
        prim: usize,
        surface: &mut SurfaceBuilder,
        materials: &mut Materials,
    ) -> Result<Option<Found>, IoError> {
        let stage = self.stage;
        let Some(mut mesh) = Mesh::read(stage, prim)? else { return Ok(None) };
        let points = mesh.positions(None)?;
        let (first, count) = (self.rest.len(), points.len());
        if first + count > MAX_VERTICES {
            return Err(stage.unsupported(format!("its meshes have more than {MAX_VERTICES} vertices in all")));
        }
        let (binding, loose_shapes) = self.binding(&mesh, count)?;
        let world = match &binding {
            Some((s, binding)) => self.skeletons[*s].place.world(None)? * binding.skeleton_from_mesh,
            None => mesh.place.world(None)?,
        };
        self.has_rest |= binding.is_some()
            || loose_shapes.is_some()
            || (mesh.points.default.is_some() && !mesh.points.samples.is_empty());
        self.rest.extend(placed(world, &points));
        let uv_names: Vec<String> = mesh.uv_sets.iter().map(|uv| uv.name.clone()).collect();
        if let Some(own) = extras::unpack::<MeshExtras>(stage, prim) {
            for name in &own.materials {
                let found = stage.prims.iter().position(|p| p.path == *name && p.type_name == "Material");
                found.map(|prim| materials.number(stage, prim, &uv_names));
            }
        }
        let faces = materials.of_faces(stage, prim, mesh.sizes.len(), &uv_names)?;
        // Prims that refer to one prim are instances of one mesh, if they have the same materials.
        let sources = ["points", "faceVertexIndices"].map(|name| stage.source(prim, name));
        let at = self.parts.len();
        let shown = *self.firsts.entry((sources, faces.clone())).or_insert(at);
        let own_names = extras::unpack::<MeshExtras>(stage, prim).map(|own| own.uv_names);
        let part = ScenePart {
            node: 0,
            mesh: String::new(),
            vertices: count,
            faces: mesh.sizes.len(),
            uv_sets: own_names.filter(|names| names.len() == uv_names.len()).unwrap_or(uv_names),
            colors: mesh.colors.is_some(),
            still: false,
            instance_of: (shown < at).then_some(shown),
        };
        surface.add(&mut mesh, faces, first as u32, world.matrix3);
        self.parts.push(Part { mesh, count, binding, loose_shapes });
        Ok(Some(Found { prim, part }))
    }

    fn binding(&mut self, mesh: &Mesh, vertices: usize) -> Result<Bound, IoError> {
        let stage = self.stage;
        let Some(prim) = inherited(stage, mesh.prim, "skel:skeleton") else { return Ok((None, None)) };
        let weighted = stage.attribute(mesh.prim, "primvars:skel:jointIndices")?.is_some();
        let shapes = if weighted { Vec::new() } else { read_shapes(stage, mesh.prim, vertices)? };
        if !weighted && shapes.is_empty() {
            return Ok((None, None));
        }
        let path = &stage.prims[mesh.prim].path;
        if !stage.ancestry(mesh.prim).any(|p| stage.prims[p].type_name == "SkelRoot") {
            warning::left_out(stage.file(), format!("the skinning of {path}, which is below no SkelRoot"));
            return Ok((None, None));
        }
        let method =
            stage.attribute(mesh.prim, "primvars:skel:skinningMethod")?.map_or(Ok(Vec::new()), |a| a.texts())?;
        if method.iter().any(|method| method == "dualQuaternion") {
            warning::left_out(stage.file(), format!("dual quaternions of {path}: its skin is read as a linear one"));
        }
        let known = self.skeletons.iter().position(|s| s.prim == prim);
        let skeleton = match known {
            Some(known) => known,
            None => {
                let bound = inherited(stage, prim, "skel:animationSource");
                self.skeletons.push(Skeleton::read(stage, prim, bound)?);
                self.skeletons.len() - 1
            }
        };
        if !weighted {
            return Ok((None, Some((skeleton, shapes))));
        }
        let binding = Binding::read(stage, mesh, vertices, &self.skeletons[skeleton])?;
        Ok((binding.map(|binding| (skeleton, binding)), None))
    }

    /// Extras that another program carried along, over weights that name joints which are no bones there.
    fn drop_unfit_extras(&mut self) {
        for (s, skeleton) in self.skeletons.iter_mut().enumerate() {
            let Some(own) = &skeleton.extras else { continue };
            let mut is_bone = vec![false; skeleton.joints.len()];
            own.joints.iter().for_each(|j| is_bone[*j as usize] = true);
            let bindings = self.parts.iter().filter_map(|part| part.binding.as_ref()).filter(|(own, _)| *own == s);
            let weights = bindings.map(|(_, binding)| &binding.weights);
            let fits = |w: &SparseWeights| (0..w.vertex_count()).all(|i| w.of(i).all(|(j, _)| is_bone[j]));
            if !weights.into_iter().all(fits) {
                skeleton.extras = None;
            }
        }
    }

    /// What our own files say about a mesh.
    fn restore(&mut self, own: MeshExtras) {
        if let Some(name) = own.name {
            self.name = name;
        }
        for (set, name) in self.surface.uv_sets.iter_mut().zip(own.uv_names) {
            set.name = name;
        }
        let rename = |attribute: &mut String, name: Option<String>| name.into_iter().for_each(|n| *attribute = n);
        if let Some(CornerAttribute { name, .. }) = &mut self.surface.colors {
            rename(name, own.color_name);
        }
        if let Some(CornerAttribute { name, .. }) = &mut self.surface.normals {
            rename(name, own.normals_name);
        }
        for image in &mut self.surface.images {
            if let Some((_, name)) = own.images.iter().find(|(file, _)| *file == image.name) {
                image.name.clone_from(name);
            }
        }
        if own.unknown_up {
            self.surface.space.up = None;
        }
        if own.unknown_unit {
            self.surface.space.metres_per_unit = None;
        }
    }

    /// Positions of all meshes at a time, with the bound animation of each skeleton.
    pub fn frame(&self, time: Option<f64>) -> Result<Vec<Vec3>, IoError> {
        let mut bones = Vec::new();
        for skeleton in &self.skeletons {
            let pose = skeleton.pose(skeleton.animations.first(), time)?;
            let world = skeleton.place.world(time)?;
            bones.push((pose, world));
        }
        let mut out = Vec::with_capacity(self.rest.len());
        for part in &self.parts {
            let Some((s, binding)) = &part.binding else {
                let points = self.shaped(part, time)?;
                // One mesh is counted where all frames are compared.
                if points.len() != part.count && self.parts.len() > 1 {
                    return Err(self.changed(part, time, points.len()));
                }
                out.extend(placed(part.mesh.place.world(time)?, &points));
                continue;
            };
            let skeleton = &self.skeletons[*s];
            let points = self.shaped(part, time)?;
            let (pose, world) = &bones[*s];
            let posed = pose.iter().zip(&skeleton.bind);
            let posed: Vec<DAffine3> =
                posed.map(|(m, bind)| *world * *m * bind.inverse() * binding.skeleton_from_mesh).collect();
            out.extend(lbs(&points, &binding.weights, &posed));
        }
        Ok(out)
    }

    /// A mesh that has another number of vertices at a time.
    fn changed(&self, part: &Part, time: Option<f64>, found: usize) -> IoError {
        let clip = self.stage.selected().map_or(String::new(), |clip| format!("clip {clip:?}, "));
        let (name, expected) = (self.stage.display_name(part.mesh.prim), part.count);
        let code = time.unwrap_or_default();
        self.stage.unsupported(format!(
            "{clip}mesh {name:?} has {found} vertices at time code {code}, but {expected} at first; \
             only a mesh that keeps its vertices can be read"
        ))
    }

    /// Points of a mesh with its blend shapes, not skinned yet.
    fn shaped(&self, part: &Part, time: Option<f64>) -> Result<Vec<Vec3>, IoError> {
        let mut points = part.mesh.positions(time)?;
        let Some(skeleton) = part.skeleton() else { return Ok(points) };
        points.resize(part.count, Vec3::ZERO);
        let Some(animation) = self.skeletons[skeleton].animations.first().filter(|_| !part.shapes().is_empty()) else {
            return Ok(points);
        };
        let weights = animation.shape_weights(time)?;
        let mut exact: Vec<DVec3> = points.iter().map(|p| p.as_dvec3()).collect();
        for shape in part.shapes() {
            shape.add(weights.get(shape.name()).copied().unwrap_or(0.0), &mut exact);
        }
        Ok(exact.into_iter().map(|p| p.as_vec3()).collect())
    }

    /// Whether all that moves is prims, each as a whole: no skeleton, no shapes, no points.
    pub fn moves_by_prims(&self) -> bool {
        let whole = |part: &Part| part.mesh.points.samples.len() < 2 && part.shapes().is_empty();
        self.skeletons.is_empty()
            && self.parts.iter().all(whole)
            && self.parts.iter().any(|part| part.mesh.place.times().next().is_some())
    }

    /// Keys of everything that moves, in time codes.
    pub fn keys(&self) -> Vec<f64> {
        let mut keys = Vec::new();
        for part in &self.parts {
            if part.binding.is_none() {
                keys.extend(part.mesh.points.samples.iter().map(|(time, _)| *time));
                keys.extend(part.mesh.place.times());
            }
        }
        for skeleton in &self.skeletons {
            keys.extend(skeleton.place.times());
            keys.extend(skeleton.animations.first().into_iter().flat_map(|a| a.times(true)));
        }
        keys
    }
}

/// Up axis and unit, where the file states them.
fn space(stage: &Stage) -> Space {
    let up = stage.word("upAxis").and_then(|axis| match axis.as_str() {
        "Y" | "y" => Some(UpAxis::Y),
        "Z" | "z" => Some(UpAxis::Z),
        _ => None,
    });
    // USD's own fallbacks: y up, centimetres.
    let metres_per_unit = stage.number("metersPerUnit").filter(|m| m.is_finite() && *m > 0.0);
    Space { up: Some(up.unwrap_or(UpAxis::Y)), metres_per_unit: Some(metres_per_unit.unwrap_or(0.01)) }
}

/// Points in the world; bit for bit where that is their own space.
fn placed(world: DAffine3, points: &[Vec3]) -> Vec<Vec3> {
    if world == DAffine3::IDENTITY {
        return points.to_vec();
    }
    points.iter().map(|p| world.transform_point3(p.as_dvec3()).as_vec3()).collect()
}
