//! What an engine objects to in a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bonesmith_core::{BoneKind, Clip, ModelRef, Rig};
use bonesmith_io::{Format, Inspection, LoadOptions, StoredSkins};
use glam::DAffine3;
use serde::Serialize;

use super::table::{Limit, Rule, Severity, Target};
use crate::error::Error;
use crate::text::count;
use crate::warning::Noted;

/// Frames are evenly spaced within this share of a step.
const EVEN: f64 = 0.01;
/// A root within this share of the model's size is at the origin.
const AT_ORIGIN: f64 = 1e-4;
/// Scales within this of one are rounding.
const SCALE_SLACK: f64 = 1e-4;

/// One objection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The engine.
    pub target: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What the limit is about.
    pub limit: String,
    /// What the file has.
    pub value: String,
    /// Mesh, bone, vertex or clip.
    pub at: String,
    /// What happens.
    pub effect: &'static str,
    /// What helps, if anything here does.
    pub help: Option<Remedy>,
    /// Title of the page that states the limit.
    pub source: &'static str,
    /// Its address; empty for a convention.
    pub url: &'static str,
}

/// A command and an option that help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The command.
    pub command: &'static str,
    /// Its option.
    pub option: &'static str,
    /// The value of the option.
    pub value: String,
}

/// A model, and the file that it is in or will be in.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The model.
    pub model: ModelRef<'a>,
    /// Its format.
    pub format: Option<Format>,
    /// Skins and weights as stored, where the format has them.
    pub stored: Option<&'a StoredSkins>,
    /// Names that several nodes have, where the format is FBX.
    pub shared_names: &'a [String],
}

/// Reads a file and lists what the targets object to.
pub fn check_file(path: &Path, targets: &[&'static Target]) -> Result<Noted<Vec<Finding>>, Error> {
    Noted::collect(|| {
        let found = bonesmith_io::inspect(&[path.to_owned()], &LoadOptions::default())?;
        let subject = Subject::of(&found);
        Ok(targets.iter().flat_map(|target| check(&subject, target)).collect())
    })
}

impl<'a> Subject<'a> {
    /// A file that was read.
    pub fn of(found: &'a Inspection) -> Self {
        Self {
            model: found.model.view(),
            format: found.format,
            stored: found.stored.as_ref(),
            shared_names: &found.shared_names,
        }
    }
}

/// What a target objects to; limits come before advice.
pub fn check(subject: &Subject<'_>, target: &'static Target) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        target.limits.iter().flat_map(|limit| Check { subject, target, limit }.run()).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// One limit, looked at.
struct Check<'a> {
    subject: &'a Subject<'a>,
    target: &'static Target,
    limit: &'a Limit,
}

impl Check<'_> {
    fn run(&self) -> Vec<Finding> {
        let model = self.subject.model;
        match (self.limit.rule, model.rig()) {
            (Rule::Files(kinds), _) => self.files(kinds),
            (Rule::Triangles(most), _) => self.triangles(most),
            (Rule::WeightSums, _) => self.weight_sums(),
            (Rule::OwnNames(kinds), _) => self.own_names(kinds),
            (_, None) => Vec::new(),
            (Rule::Influences(most), Some(rig)) => self.influences(rig, most),
            (Rule::Joints(most), Some(rig)) => self.joints(rig, most),
            (Rule::WeightBits(bits), Some(rig)) => self.weight_bits(rig, bits),
            (Rule::OneRoot, Some(rig)) => self.one_root(rig),
            (Rule::RootAtOrigin, Some(rig)) => self.root_at_origin(rig),
            (Rule::FreeRoot, Some(rig)) => self.free_root(rig),
            (Rule::NoScale, Some(rig)) => self.no_scale(rig),
            (Rule::NamesIgnoreCase, Some(rig)) => self.names(rig),
            (Rule::NoCharacters(set), Some(rig)) => self.characters(rig, set),
            (Rule::Clips(most), Some(rig)) => self.clips(rig, most),
            (Rule::EvenFrames, Some(rig)) => rig.clips.iter().filter_map(|clip| self.even(clip)).collect(),
        }
    }

    fn finding(&self, limit: String, value: String, at: String, help: Option<Remedy>) -> Finding {
        let Limit { severity, source, effect, .. } = *self.limit;
        Finding {
            target: self.target.name,
            severity,
            limit,
            value,
            at,
            effect,
            help,
            source: source.title,
            url: source.url,
        }
    }

    /// `convert` with this target corrects it.
    fn conversion(&self) -> Option<Remedy> {
        Some(Remedy { command: "convert", option: "target", value: self.target.name.to_owned() })
    }

    fn files(&self, kinds: &[Format]) -> Vec<Finding> {
        let Some(format) = self.subject.format.filter(|format| !kinds.contains(format)) else { return Vec::new() };
        let names: Vec<&str> = kinds.iter().map(|kind| kind.ending()).collect();
        let ending = names.first().copied().unwrap_or_default().to_owned();
        let help = Remedy { command: "convert", option: "output", value: ending };
        vec![self.finding(format!("files {}", names.join(", ")), format.name().to_owned(), String::new(), Some(help))]
    }

    fn triangles(&self, most: usize) -> Vec<Finding> {
        let topology = &self.subject.model.surface().topology;
        let triangles: usize = topology.faces().map(|face| face.len().saturating_sub(2)).sum();
        match triangles > most {
            true => vec![self.finding(
                format!("at most {most} triangles"),
                triangles.to_string(),
                format!("mesh {:?}", self.subject.model.name()),
                None,
            )],
            false => Vec::new(),
        }
    }

    fn influences(&self, rig: &Rig, most: usize) -> Vec<Finding> {
        let counts = (0..rig.vertex_count()).map(|i| rig.weights.of(i).count());
        let over: Vec<(usize, usize)> = counts.enumerate().filter(|(_, n)| *n > most).collect();
        let Some(&(vertex, worst)) = over.iter().max_by_key(|(i, n)| (*n, std::cmp::Reverse(*i))) else {
            return Vec::new();
        };
        let help = Remedy { command: "reduce", option: "influences", value: most.to_string() };
        vec![self.finding(
            format!("at most {} per vertex", count(most, "influence")),
            worst.to_string(),
            format!("vertex {vertex} and {} more", over.len() - 1),
            Some(help),
        )]
    }

    /// Joints of each skin of the file; where that is not known, joints that the faces of each material need.
    fn joints(&self, rig: &Rig, most: usize) -> Vec<Finding> {
        let help = || Some(Remedy { command: "convert", option: "max-joints", value: most.to_string() });
        let limit = || format!("at most {most} joints per skin");
        if let Some(stored) = self.subject.stored {
            let over = stored.skins.iter().filter(|(_, joints)| *joints > most);
            return over
                .map(|(name, joints)| self.finding(limit(), joints.to_string(), format!("skin {name:?}"), help()))
                .collect();
        }
        let over = section_joints(rig).into_iter().filter(|(_, bones)| bones.len() > most);
        over.map(|(material, bones)| {
            let name = material.and_then(|m| rig.surface.materials.get(m)).map(|material| material.name.clone());
            let at = name.map_or_else(|| format!("mesh {:?}", rig.name), |name| format!("material {name:?}"));
            self.finding(limit(), bones.len().to_string(), at, help())
        })
        .collect()
    }

    /// Weights that rounding each for itself would leave without a sum of one.
    fn weight_bits(&self, rig: &Rig, bits: u32) -> Vec<Finding> {
        let levels = f64::from((1u32 << bits) - 1);
        let sum = |i: usize| rig.weights.of(i).map(|(_, w)| (f64::from(w) * levels).round()).sum::<f64>();
        let off: Vec<(usize, f64)> =
            (0..rig.vertex_count()).map(|i| (i, sum(i))).filter(|(_, s)| *s != levels).collect();
        let distance = |sum: f64| (sum - levels).abs();
        let Some(&(vertex, worst)) = off.iter().max_by(|a, b| distance(a.1).total_cmp(&distance(b.1))) else {
            return Vec::new();
        };
        vec![self.finding(
            format!("weights of {bits} bits that sum to {levels}"),
            worst.to_string(),
            format!("vertex {vertex} and {} more", off.len() - 1),
            self.conversion(),
        )]
    }

    fn weight_sums(&self) -> Vec<Finding> {
        let stored = self.subject.stored.map_or(&[][..], |stored| &stored.weights);
        stored
            .iter()
            .filter(|weights| weights.off > 0)
            .map(|weights| {
                let whole = if weights.bits == 32 { 1 } else { (1u32 << weights.bits) - 1 };
                let limit = format!("stored weights of {} bits sum to {whole}", weights.bits);
                let at = format!("mesh {:?}, vertex {} and {} more", weights.mesh, weights.worst.0, weights.off - 1);
                self.finding(limit, weights.worst.1.to_string(), at, self.conversion())
            })
            .collect()
    }

    fn one_root(&self, rig: &Rig) -> Vec<Finding> {
        // Formats with a node above all joints have one root.
        let roots: Vec<&str> =
            rig.bones.iter().filter(|bone| bone.parent.is_none()).map(|bone| bone.name.as_str()).collect();
        match roots.len() {
            0 | 1 => Vec::new(),
            n => {
                let at = format!("bones {:?}, {:?} and {} more", roots[0], roots[1], n - 2);
                vec![self.finding("one root bone".to_owned(), n.to_string(), at, self.conversion())]
            }
        }
    }

    fn root_at_origin(&self, rig: &Rig) -> Vec<Finding> {
        let Some(root) = rig.bones.iter().find(|bone| bone.parent.is_none()) else { return Vec::new() };
        let size = rig.rest.iter().map(|p| p.length()).fold(0.0f32, f32::max);
        let place = root.world_from_bind;
        if place.abs_diff_eq(DAffine3::IDENTITY, AT_ORIGIN * f64::from(size).max(1.0)) {
            return Vec::new();
        }
        let [x, y, z] = place.translation.to_array();
        let value = format!("{x:.4} {y:.4} {z:.4}");
        vec![self.finding(
            "the root bone at the origin, not turned".to_owned(),
            value,
            format!("bone {:?}", root.name),
            self.conversion(),
        )]
    }

    fn free_root(&self, rig: &Rig) -> Vec<Finding> {
        let roots: BTreeSet<usize> = (0..rig.bone_count()).filter(|&j| rig.bones[j].parent.is_none()).collect();
        let follows = |i: &usize| rig.weights.of(*i).any(|(j, _)| roots.contains(&j));
        let Some(vertex) = (0..rig.vertex_count()).find(follows) else { return Vec::new() };
        let number = (0..rig.vertex_count()).filter(follows).count();
        let limit = "no vertex follows the root bone".to_owned();
        vec![self.finding(limit, count(number, "vertex"), format!("vertex {vertex}"), self.conversion())]
    }

    fn no_scale(&self, rig: &Rig) -> Vec<Finding> {
        if rig.kind == BoneKind::Rigid {
            return Vec::new();
        }
        let scales = |m: &DAffine3| {
            let [x, y, z] = [m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis];
            let off = [x.length() - 1.0, y.length() - 1.0, z.length() - 1.0, x.dot(y), y.dot(z), z.dot(x)];
            off.iter().any(|x| x.abs() > SCALE_SLACK)
        };
        let bones = rig.bone_count();
        let frames = rig.clips.iter().flat_map(|clip| &clip.posed_from_rest);
        let Some(at) = frames.clone().position(scales) else { return Vec::new() };
        let help = Remedy { command: "fit", option: "bone-kind", value: "rigid".to_owned() };
        let kind = format!("{:?} bones", rig.kind).to_lowercase();
        let at = format!("bone {:?}", rig.bones[at % bones].name);
        vec![self.finding("bones without scale".to_owned(), kind, at, Some(help))]
    }

    fn names(&self, rig: &Rig) -> Vec<Finding> {
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        for bone in &rig.bones {
            if let Some(other) = seen.insert(bone.name.to_lowercase(), &bone.name) {
                let at = format!("bones {other:?} and {:?}", bone.name);
                let limit = "names of bones that differ in more than case".to_owned();
                return vec![self.finding(limit, "the same".to_owned(), at, self.conversion())];
            }
        }
        Vec::new()
    }

    fn characters(&self, rig: &Rig, set: &str) -> Vec<Finding> {
        let bad = |name: &str| name.chars().any(|c| set.contains(c));
        let mut named = rig.bones.iter().filter(|bone| bad(&bone.name));
        let Some(first) = named.next() else { return Vec::new() };
        vec![self.finding(
            format!("names of bones without {}", set.chars().map(String::from).collect::<Vec<_>>().join(" ")),
            first.name.clone(),
            format!("bone {:?} and {} more", first.name, named.count()),
            self.conversion(),
        )]
    }

    fn own_names(&self, kinds: &[Format]) -> Vec<Finding> {
        let names = self.subject.shared_names;
        let [first, rest @ ..] = names else { return Vec::new() };
        if !self.subject.format.is_some_and(|format| kinds.contains(&format)) {
            return Vec::new();
        }
        let at = format!("nodes {first:?} and {} more", rest.len());
        vec![self.finding(self.limit.rule.text(), count(names.len(), "name"), at, self.conversion())]
    }

    fn clips(&self, rig: &Rig, most: usize) -> Vec<Finding> {
        if rig.clips.len() <= most {
            return Vec::new();
        }
        let names: Vec<&str> = rig.clips.iter().map(|clip| clip.name.as_str()).collect();
        let help = Remedy { command: "convert", option: "clip", value: names[0].to_owned() };
        let limit = format!("at most {} per file", count(most, "animation"));
        vec![self.finding(limit, names.len().to_string(), format!("clips {}", names.join(", ")), Some(help))]
    }

    fn even(&self, clip: &Clip) -> Option<Finding> {
        let steps: Vec<f64> = clip.times_secs.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (least, most) = steps.iter().fold((f64::INFINITY, 0.0f64), |(a, b), s| (a.min(*s), b.max(*s)));
        let uneven = steps.len() > 1 && most - least > EVEN * most;
        let help = || Remedy { command: "convert", option: "fps", value: "30".to_owned() };
        uneven.then(|| {
            let value = format!("steps of {least:.4} to {most:.4} s");
            self.finding("evenly spaced frames".to_owned(), value, format!("clip {:?}", clip.name), Some(help()))
        })
    }
}

/// The bones that the faces of each material need; of all vertices where there are no faces.
fn section_joints(rig: &Rig) -> BTreeMap<Option<usize>, BTreeSet<usize>> {
    let mut sections: BTreeMap<Option<usize>, BTreeSet<usize>> = BTreeMap::new();
    let topology = &rig.surface.topology;
    for (f, face) in topology.faces().enumerate() {
        let material = rig.surface.face_materials.get(f).map(|m| *m as usize);
        let bones = sections.entry(material).or_default();
        for &vertex in face {
            bones.extend(rig.weights.of(vertex as usize).map(|(j, _)| j));
        }
    }
    if sections.is_empty() {
        sections.insert(None, (0..rig.vertex_count()).flat_map(|i| rig.weights.of(i).map(|(j, _)| j)).collect());
    }
    sections
}
