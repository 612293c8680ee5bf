//! A rig as an engine accepts it: what can be solved without a loss that shows is solved here, the rest is refused with what helps.

use bonesmith_core::clips::single_root;
use bonesmith_core::{Model, Rig, Topology};

use super::table::{Rule, Severity, Target};
use crate::error::Error;
use crate::saved::Layout;
use bonesmith_io::Format;
use std::path::Path;

/// What was done to suit a target.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Suited {
    /// In words, one each.
    pub changes: Vec<String>,
    /// How the rig is written.
    pub layout: Layout,
}

impl Target {
    /// Influences of a vertex at most, with the engine's default settings.
    pub fn max_influences(&self) -> Option<usize> {
        self.influences_of(Severity::Advice)
    }

    /// Influences of a vertex beyond which the engine refuses a file or shows it wrong, whatever its settings.
    pub fn influence_limit(&self) -> Option<usize> {
        self.influences_of(Severity::Limit)
    }

    fn influences_of(&self, least: Severity) -> Option<usize> {
        self.limits.iter().filter(|limit| limit.severity >= least).find_map(|limit| match limit.rule {
            Rule::Influences(most) => Some(most),
            _ => None,
        })
    }

    /// Refuses an animation whose rig the target will not take, whatever a fit makes of it: its clips, its faces.
    pub fn check_animation(&self, topology: &Topology, clips: usize) -> Result<(), Error> {
        let mut limits = self.limits.iter().filter(|limit| limit.severity == Severity::Limit);
        let refused = |what: String| self.refused(&what);
        limits.try_for_each(|limit| of_animation(limit.rule, topology, clips)).map_err(refused)
    }

    /// Refuses more bones than one skin may have, in a format that does not hold several.
    pub fn check_bones(&self, bones: usize, path: &Path) -> Result<(), Error> {
        let several = Format::from_extension(path).is_some_and(|format| Format::writing_skins().contains(&format));
        match self.max_joints().filter(|most| bones > *most && !several) {
            Some(most) => {
                Err(self
                    .refused(&format!("{bones} bones, and one skin may have {most}: write .glb, or fit fewer bones")))
            }
            None => Ok(()),
        }
    }

    fn refused(&self, what: &str) -> Error {
        Error::unsupported(format!("target {}: {what}", self.name))
    }

    /// Joints of a skin at most.
    pub fn max_joints(&self) -> Option<usize> {
        self.limits.iter().find_map(|limit| match limit.rule {
            Rule::Joints(most) => Some(most),
            _ => None,
        })
    }

    /// Kinds of files that are imported.
    pub fn files(&self) -> &'static [Format] {
        let files = self.limits.iter().find_map(|limit| match limit.rule {
            Rule::Files(kinds) => Some(kinds),
            _ => None,
        });
        files.unwrap_or(&[])
    }

    fn has(&self, rule: Rule) -> bool {
        self.limits.iter().any(|limit| limit.rule == rule)
    }
}

/// Changes a rig so that the target accepts it as `path`: root bone, names, weights that sum to one as the engine stores them, the layout of
/// skins. Refused where it has more influences, scales or clips than the target takes.
pub fn suited(model: &mut Model, target: &'static Target, path: &Path) -> Result<Suited, Error> {
    let format = Format::from_extension(path);
    if let Some(format) = format.filter(|format| !target.files().contains(format)) {
        let kinds: Vec<&str> = target.files().iter().map(|kind| kind.ending()).collect();
        return Err(target.refused(&format!("it does not import {}; write {}", format.name(), kinds.join(", "))));
    }
    let kind = model.view().kind().text();
    let (rig, has_shapes) = match model {
        Model::Rig(rig) => (rig, false),
        Model::Corrective(corrective) => (&mut corrective.rig, true),
        _ => return Err(target.refused(&format!("it takes rigs with or without shapes, and this is {kind}"))),
    };
    refuse(rig, target).map_err(|what| target.refused(&what))?;
    target.check_bones(rig.bone_count(), path)?;
    let mut suited = Suited::default();
    if target.has(Rule::OneRoot) || target.has(Rule::FreeRoot) {
        let at_origin = target.has(Rule::RootAtOrigin);
        let unweighted = target.has(Rule::FreeRoot);
        if single_root(rig, at_origin, unweighted) {
            suited.changes.push("a root bone that moves no vertex".to_owned());
        }
    }
    rename(rig, target, format, &mut suited);
    if let Some(bits) = target.limits.iter().find_map(|limit| match limit.rule {
        Rule::WeightBits(bits) => Some(bits),
        _ => None,
    }) {
        rig.weights = rig.weights.quantised((1 << bits) - 1);
        suited.changes.push(format!("weights that sum to one in {bits} bits"));
    }
    if let Some(most) = target.max_joints().filter(|most| rig.bone_count() > *most) {
        if has_shapes {
            let bones = rig.bone_count();
            return Err(target.refused(&format!(
                "{bones} bones with shapes, and one skin may have {most}: shapes are written with one skin"
            )));
        }
        suited.layout = Layout::Skins { max_joints: most };
        suited.changes.push(format!("skins of at most {most} joints"));
    }
    Ok(suited)
}

/// What cannot be solved here.
fn refuse(rig: &Rig, target: &Target) -> Result<(), String> {
    let limits = || target.limits.iter().filter(|limit| limit.severity == Severity::Limit);
    for limit in limits() {
        match limit.rule {
            Rule::Influences(most) if rig.weights.max_influences() > most => {
                let influences = rig.weights.max_influences();
                return Err(format!(
                    "{influences} influences per vertex, at most {most}: influences must be {most} or fewer"
                ));
            }
            Rule::NoScale if rig.kind != bonesmith_core::BoneKind::Rigid => {
                return Err("bones must not scale: bone_kind must be rigid".to_owned());
            }
            rule => of_animation(rule, &rig.surface.topology, rig.clips.len())?,
        }
    }
    Ok(())
}

/// What cannot be solved here and does not depend on a fit.
fn of_animation(rule: Rule, topology: &Topology, clips: usize) -> Result<(), String> {
    match rule {
        Rule::Clips(most) if clips > most => Err(format!("{clips} animations, at most {most}: choose one clip")),
        Rule::Triangles(most) => {
            let triangles: usize = topology.faces().map(|face| face.len().saturating_sub(2)).sum();
            match triangles > most {
                true => Err(format!("{triangles} triangles, at most {most}: the mesh must be decimated first")),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Names without characters that the target reserves, different in more than case, and not those of meshes and their nodes where that matters.
fn rename(rig: &mut Rig, target: &Target, format: Option<Format>, suited: &mut Suited) {
    let reserved: String = target
        .limits
        .iter()
        .filter_map(|limit| if let Rule::NoCharacters(set) = limit.rule { Some(set) } else { None })
        .collect();
    let ignores_case = target.has(Rule::NamesIgnoreCase);
    let key = |name: &str| if ignores_case { name.to_lowercase() } else { name.to_owned() };
    let apart = |rule: &Rule| matches!(rule, Rule::OwnNames(kinds) if format.is_some_and(|own| kinds.contains(&own)));
    let mut taken = std::collections::HashSet::new();
    if target.limits.iter().any(|limit| apart(&limit.rule)) {
        let parts = &rig.surface.parts;
        let nodes = parts.nodes.iter().map(|node| &node.name).chain(parts.meshes.iter().map(|part| &part.mesh));
        taken.extend(nodes.chain([&rig.name]).map(|name| key(name)));
    }
    let mut renamed = 0;
    for bone in &mut rig.bones {
        let plain: String = bone.name.chars().map(|c| if reserved.contains(c) { '_' } else { c }).collect();
        let mut name = plain.clone();
        let mut number = 2;
        while !taken.insert(key(&name)) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        renamed += usize::from(name != bone.name);
        bone.name = name;
    }
    if renamed > 0 {
        suited.changes.push(format!("{renamed} bones renamed"));
    }
}
