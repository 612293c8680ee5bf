//! Levels of detail: nested subsets of bones that one animation drives.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bonesmith_core::fit::{BoneCount, FitParams, fit};
use bonesmith_core::lod::{self as solver, LodParams, Lods, carry};
use bonesmith_core::metrics;
use bonesmith_core::refit::{Locks, RefitParams, Solve, Subject, refit};
use bonesmith_core::{MeshSequence, Model, Observer, RawSequence, Rig, Stage, Surface};
use bonesmith_io::{Format, LodMesh};
use serde::Serialize;

use crate::error::Error;
use crate::saved::{Layout, Saved};
use crate::simplify::SourceRig;
use crate::warning::{Noted, Warning};

/// Levels of a rig.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Levels {
    /// The finest level, with the motion that all share.
    pub rig: Rig,
    /// Each level as a rig of its own, finest first.
    pub rigs: Vec<Rig>,
    /// Each level on the bones of the finest one.
    meshes: Vec<Rig>,
    /// Figures of each level.
    pub parts: Vec<LevelPart>,
    /// Seconds of all of it.
    pub wall_secs: f64,
}

/// The figures of one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LevelPart {
    /// Bones that move its vertices.
    pub bones: usize,
    /// Maximum number of influences of a vertex.
    pub influences: usize,
    /// Vertices of its mesh.
    pub vertices: usize,
    /// Against the examples, or the poses of the rig; of a mesh of its own, against the poses carried over to it.
    pub e_rms: f64,
    /// That of a fit with as many bones and influences; where the motion was refitted, and the mesh is that of the rig.
    pub own_e_rms: Option<f64>,
    /// Its file, where it has one of its own.
    pub file: Option<PathBuf>,
    /// E_RMS of the file, read back.
    pub file_e_rms: Option<f64>,
}

impl LevelPart {
    /// How many times the error of a fit of its own size the level has.
    pub fn ratio(&self) -> Option<f64> {
        self.own_e_rms.filter(|own| *own > 0.0).map(|own| self.e_rms / own)
    }
}

/// Makes levels. `meshes` are decimated meshes of the coarser levels: from the second level on, in order, in the rest pose of the rig.
pub fn lod(
    source: &SourceRig,
    params: &LodParams,
    meshes: &[MeshSequence],
    observer: &mut dyn Observer,
) -> Result<Levels, Error> {
    let started = Instant::now();
    if meshes.len() >= params.levels.len().max(1) {
        let what = format!("mesh_lod: {} meshes for {} levels after the first", meshes.len(), params.levels.len() - 1);
        return Err(Error::unsupported(what));
    }
    let own = own_errors(source, params, observer)?;
    let lods = solver::lod(&source.rig, source.examples.as_ref(), params, &own, observer)?;
    let mut levels = Levels::of(&lods, &own);
    for (at, mesh) in meshes.iter().enumerate() {
        levels.take_mesh(source, &lods, at + 1, params.levels[at + 1].1, mesh, observer)?;
    }
    levels.wall_secs = started.elapsed().as_secs_f64();
    Ok(levels)
}

impl Levels {
    fn of(lods: &Lods, own: &[f64]) -> Self {
        let rigs: Vec<Rig> = (0..lods.levels.len()).map(|level| lods.level_rig(level)).collect();
        let mesh = |level: &solver::Level| {
            let (weights, rest) = (level.weights.clone(), level.rest.clone());
            Rig { weights, rest, ..without_clips(&lods.rig) }
        };
        let part = |(at, level): (usize, &solver::Level)| LevelPart {
            bones: level.bones.len(),
            influences: level.weights.max_influences(),
            vertices: lods.rig.vertex_count(),
            e_rms: level.e_rms,
            own_e_rms: own.get(at).copied(),
            file: None,
            file_e_rms: None,
        };
        Self {
            rig: lods.rig.clone(),
            rigs,
            meshes: lods.levels.iter().map(mesh).collect(),
            parts: lods.levels.iter().enumerate().map(part).collect(),
            wall_secs: 0.0,
        }
    }

    /// Puts a mesh of its own in the place of a level's: weights are carried over from the closest point of the surface, then fitted to
    /// the poses carried over.
    fn take_mesh(
        &mut self,
        source: &SourceRig,
        lods: &Lods,
        level: usize,
        influences: usize,
        mesh: &MeshSequence,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        Error::unless_cancelled(observer, Stage::Poses)?;
        let points = carry::attach(&source.rig.rest, &source.rig.surface.topology, mesh.rest());
        let poses = carried_poses(source, &points, mesh)?;
        let own = &self.rigs[level];
        let weights = carry::carried(&own.weights, &points, influences);
        let surface = Arc::new(Surface::clone(mesh.surface()));
        let start = Rig { rest: mesh.rest().to_vec(), surface, weights, name: own.name.clone(), ..own.clone() };
        let motion: Vec<_> = start.clips.iter().flat_map(|clip| clip.posed_from_rest.iter().copied()).collect();
        let subject = Subject { sequence: &poses, motion: Some(&motion), binds: None };
        let task = RefitParams { solve: Solve::Weights, influences: Some(influences), ..RefitParams::default() };
        let fitted = refit(&start, &[subject], &Locks::default(), &task, observer)?;
        let Some(mut fitted) = fitted.rigs.into_iter().next() else { return Ok(()) };
        fitted.clips = start.clips;
        let clips: Vec<usize> = (0..fitted.clips.len()).collect();
        let part = &mut self.parts[level];
        (part.e_rms, part.own_e_rms) = (metrics::evaluate_clips(&fitted, &clips, &poses)?.e_rms, None);
        (part.vertices, part.influences) = (fitted.vertex_count(), fitted.weights.max_influences());
        // On the bones of the finest level, by name.
        let place = |j: usize| lods.rig.bones.iter().position(|bone| bone.name == fitted.bones[j].name).unwrap_or(0);
        let mut weights = bonesmith_core::SparseWeights::new(fitted.vertex_count(), influences);
        for i in 0..fitted.vertex_count() {
            let row: Vec<(usize, f64)> = fitted.weights.of(i).map(|(j, w)| (place(j), f64::from(w))).collect();
            weights.set(i, &row);
        }
        let rest = fitted.rest.clone();
        self.meshes[level] = Rig { rest, surface: fitted.surface.clone(), weights, ..without_clips(&lods.rig) };
        self.rigs[level] = fitted;
        Ok(())
    }

    /// Writes all levels into one file, which must be a glTF.
    pub fn save(&self, path: impl AsRef<Path>, observer: &mut dyn Observer) -> Result<Vec<Warning>, Error> {
        Error::unless_cancelled(observer, Stage::Writing)?;
        let path = path.as_ref();
        if !matches!(Format::from_extension(path), Some(Format::Glb | Format::Gltf)) {
            let what = "levels in one file are written as .glb or .gltf; other formats have a file for each level";
            return Err(Error::unsupported(what));
        }
        // Half the size on screen each.
        let coverage = |level: usize| 0.5f64.powi(level as i32 + 1);
        let last = self.meshes.len() - 1;
        let mesh = |(at, mesh): (usize, &Rig)| LodMesh {
            mesh: mesh.clone(),
            coverage: if at == last { 0.0 } else { coverage(at) },
        };
        let meshes: Vec<LodMesh> = self.meshes.iter().enumerate().map(mesh).collect();
        let Noted { value: (), warnings } = Noted::collect(|| bonesmith_io::save_lods(&self.rig, &meshes, path))?;
        Ok(warnings)
    }

    /// Names of the files of the levels: `hero.fbx` gives `hero_lod0.fbx` and so on.
    pub fn file_names(path: &Path, levels: usize) -> Vec<PathBuf> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        (0..levels).map(|level| path.with_file_name(format!("{stem}_lod{level}.{ending}"))).collect()
    }

    /// Writes each level into a file of its own, reads it back and measures it where it has the mesh of the rig.
    pub fn save_each(
        &mut self,
        path: impl AsRef<Path>,
        source: &SourceRig,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Warning>, Error> {
        let files = Self::file_names(path.as_ref(), self.rigs.len());
        let reference = source.reference();
        let mut warnings = Vec::new();
        for ((rig, part), file) in self.rigs.iter().zip(&mut self.parts).zip(files) {
            let saved = Saved::write(rig, &file, Layout::Skin, observer)?;
            for warning in &saved.warnings {
                if !warnings.contains(warning) {
                    warnings.push(warning.clone());
                }
            }
            let fits = |sequence: &&MeshSequence| sequence.vertex_count() == rig.vertex_count();
            part.file_e_rms = match reference.filter(fits) {
                Some(sequence) => Some(saved.measure_clips(source.clips(), sequence)?.e_rms),
                None => None,
            };
            part.file = Some(file);
        }
        Ok(warnings)
    }

    /// A level as a model.
    pub fn model(&self, level: usize) -> Model {
        self.rigs[level].clone().into()
    }
}

/// E_RMS of a fit of each level's own size, which levels with a motion of their own are balanced against. None where the poses of some clips
/// are examples and those of others the rig's own: no sequence has both.
fn own_errors(source: &SourceRig, params: &LodParams, observer: &mut dyn Observer) -> Result<Vec<f64>, Error> {
    let Some(sequence) = source.reference().filter(|_| params.refit_motion) else { return Ok(Vec::new()) };
    if source.clips().len() != source.rig.clips.len() || source.rig.rotating_joint().is_some() {
        return Ok(Vec::new());
    }
    let error = |&(bones, influences): &(usize, usize)| {
        let bones = BoneCount::Exact(bones.min(source.rig.bone_count()));
        let task =
            FitParams { bones, influences: Some(influences), bone_kind: source.rig.kind, ..FitParams::default() };
        let fitted = fit(sequence, &task, observer)?;
        Ok(metrics::evaluate_clips(&fitted.rig, &[0], sequence)?.e_rms)
    };
    params.levels.iter().map(error).collect()
}

/// The poses of all clips on another mesh.
fn carried_poses(source: &SourceRig, points: &[carry::Attachment], mesh: &MeshSequence) -> Result<MeshSequence, Error> {
    // Own poses are those of all clips; without them the examples are.
    let Some(all) = source.own.as_ref().or(source.examples.as_ref()) else {
        return Err(Error::unsupported("mesh_lod needs a rig with an animation"));
    };
    let frames = (0..all.frame_count()).map(|t| carry::posed(points, &all.frame(t)).into()).collect();
    let raw = RawSequence {
        name: mesh.name().to_owned(),
        rest: Some(mesh.rest().to_vec().into()),
        frames,
        surface: Surface::clone(mesh.surface()),
        ..RawSequence::default()
    };
    Ok(MeshSequence::try_from(raw)?)
}

fn without_clips(rig: &Rig) -> Rig {
    Rig { clips: Vec::new(), ..rig.clone() }
}
