//! What engines accept, as data. Each limit has its source: a page of the engine's own documentation or source, or, where none says it,
//! a convention. `docs/engines.md` has the same table, made from this one.

use bonesmith_io::Format;

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Influences of a vertex at most.
    Influences(usize),
    /// Joints of one skin at most; for engines that draw a mesh by material, joints that the faces of one material need.
    Joints(usize),
    /// Triangles of one mesh at most.
    Triangles(usize),
    /// Weights are stored in so many bits and must sum to one there.
    WeightBits(u32),
    /// Weights as the file stores them sum to one.
    WeightSums,
    /// One root bone.
    OneRoot,
    /// The root bone is at the origin, without rotation.
    RootAtOrigin,
    /// No vertex follows the root bone.
    FreeRoot,
    /// Bones do not scale.
    NoScale,
    /// Names of bones differ in more than case.
    NamesIgnoreCase,
    /// Names of bones have none of these characters.
    NoCharacters(&'static str),
    /// In files of these kinds no two nodes have one name: bones, meshes, what holds them.
    OwnNames(&'static [Format]),
    /// Animations of one file at most.
    Clips(usize),
    /// Frames of a clip are evenly spaced.
    EvenFrames,
    /// Kinds of files that are imported.
    Files(&'static [Format]),
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The engine imports it with a loss or with settings that are not its defaults.
    Advice,
    /// The engine refuses it or shows it wrong.
    Limit,
}

/// Where a limit is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Title of the page.
    pub title: &'static str,
    /// Address of the page; empty for a convention.
    pub url: &'static str,
}

impl Source {
    /// Whether no page of the engine states it.
    pub fn is_convention(&self) -> bool {
        self.url.is_empty()
    }
}

/// One limit of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// The limit.
    pub rule: Rule,
    /// How much it matters.
    pub severity: Severity,
    /// Where it is stated.
    pub source: Source,
    /// What happens beyond it.
    pub effect: &'static str,
}

/// An engine, or a strict reading of a format.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// As options name it.
    pub name: &'static str,
    /// As people name it.
    pub title: &'static str,
    /// Its limits.
    pub limits: &'static [Limit],
}

impl Target {
    /// The target of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// All names, for messages.
    pub fn names() -> String {
        TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ")
    }
}

const fn limit(rule: Rule, source: Source, effect: &'static str) -> Limit {
    Limit { rule, severity: Severity::Limit, source, effect }
}

const fn advice(rule: Rule, source: Source, effect: &'static str) -> Limit {
    Limit { rule, severity: Severity::Advice, source, effect }
}

const fn page(title: &'static str, url: &'static str) -> Source {
    Source { title, url }
}

const fn convention(title: &'static str) -> Source {
    Source { title, url: "" }
}

const UNREAL_PATHS: Source = page(
    "Skeletal Mesh Rendering Paths",
    "https://dev.epicgames.com/documentation/en-us/unreal-engine/skeletal-mesh-rendering-paths-in-unreal-engine",
);
const UNREAL_INFLUENCES: Source = page(
    "FGPUBaseSkinVertexFactory::GetBoneInfluenceLimitForAsset",
    "https://dev.epicgames.com/documentation/en-us/unreal-engine/API/Runtime/Engine/FGPUBaseSkinVertexFactory/GetBoneInfluenceLimitForAsset",
);
const UNITY_WEIGHTS: Source =
    page("ModelImporter.skinWeights", "https://docs.unity3d.com/ScriptReference/ModelImporter-skinWeights.html");
const GODOT_MESH: Source = page("Mesh", "https://docs.godotengine.org/en/stable/classes/class_mesh.html");
const BEVY_JOINTS: Source = page(
    "bevy_pbr render/skin.rs, MAX_JOINTS",
    "https://docs.rs/bevy_pbr/0.19.1/x86_64-unknown-linux-gnu/src/bevy_pbr/render/skin.rs.html",
);
const BEVY_SHADER: Source =
    page("bevy_pbr render/skinning.wgsl", "https://docs.rs/crate/bevy_pbr/latest/source/src/render/skinning.wgsl");
const THREE_WEIGHTS: Source =
    page("Allow >4 bones to skin a vertex (issue 26137)", "https://github.com/mrdoob/three.js/issues/26137");
const ROBLOX: Source =
    page("General specifications", "https://create.roblox.com/docs/en-us/art/modeling/specifications");
const ROBLOX_IMPORTER: Source = page("Importer", "https://create.roblox.com/docs/en-us/studio/importer");
const GLTF: Source =
    page("glTF 2.0 Specification, 3.7.3 Skins", "https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html#skins");

const GLTF_FILES: &[Format] = &[Format::Glb, Format::Gltf];

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "unreal",
        title: "Unreal Engine 5",
        limits: &[
            limit(
                Rule::Joints(256),
                UNREAL_PATHS,
                "bone indices have 8 bits by default: a section with more bones is divided, or needs Support 16-bit Bone Index",
            ),
            limit(
                Rule::Influences(8),
                UNREAL_INFLUENCES,
                "the project's limit drops the smallest weights; more than 8 need unlimited bone influences",
            ),
            advice(
                Rule::WeightBits(8),
                convention(
                    "skin weights have 8 bits in render data unless high precision weights are on (release notes of 5.2)",
                ),
                "weights are rounded at import",
            ),
            limit(
                Rule::OneRoot,
                convention("message of the FBX importer: only a single root bone is supported"),
                "the importer refuses a hierarchy with several roots",
            ),
            limit(
                Rule::NamesIgnoreCase,
                convention("names of bones are FName, which ignores case"),
                "two bones become one",
            ),
            advice(
                Rule::EvenFrames,
                convention("animations are sampled at one rate at import"),
                "frames are resampled",
            ),
            limit(
                Rule::Files(&[Format::Fbx, Format::Glb, Format::Gltf, Format::Usda, Format::Usdc]),
                convention("importers of the engine: FBX, glTF and USD"),
                "the file is not imported",
            ),
        ],
    },
    Target {
        name: "unity",
        title: "Unity 6",
        limits: &[
            advice(
                Rule::Influences(4),
                UNITY_WEIGHTS,
                "the default import keeps 4 per vertex; up to 255 need Custom skin weights and the quality setting Unlimited",
            ),
            limit(
                Rule::NoCharacters("/"),
                convention("animation curves find bones by paths that are divided by /"),
                "the bone does not move",
            ),
            limit(
                Rule::Files(&[Format::Fbx]),
                convention("the engine imports FBX itself; glTF needs the package com.unity.cloud.gltfast"),
                "the file is not imported without a package",
            ),
        ],
    },
    Target {
        name: "godot",
        title: "Godot 4",
        limits: &[
            limit(Rule::Influences(8), GODOT_MESH, "a vertex has 4 or 8 influences; the others are dropped"),
            advice(
                Rule::WeightBits(16),
                convention("surfaces store weights as 16-bit unsigned numbers"),
                "weights are rounded at import",
            ),
            limit(
                Rule::NoCharacters(":/"),
                convention("Skeleton3D refuses names of bones with : or /"),
                "the bone is renamed or refused",
            ),
            limit(
                Rule::Files(&[Format::Glb, Format::Gltf, Format::Fbx]),
                convention("importers of the engine: glTF, and FBX by ufbx"),
                "the file is not imported",
            ),
        ],
    },
    Target {
        name: "three",
        title: "three.js",
        limits: &[
            limit(Rule::Influences(4), THREE_WEIGHTS, "only the first four of a vertex are used, scaled to one"),
            limit(
                Rule::NoCharacters("[].:/"),
                convention("PropertyBinding removes reserved characters from names of nodes"),
                "two bones may get one name",
            ),
            limit(
                Rule::OwnNames(&[Format::Fbx]),
                convention("FBXLoader binds curves to nodes by name; GLTFLoader makes names unique"),
                "curves of a bone move the mesh of its name",
            ),
            limit(
                Rule::Files(&[Format::Glb, Format::Gltf, Format::Fbx]),
                convention("GLTFLoader, FBXLoader"),
                "no loader",
            ),
        ],
    },
    Target {
        name: "bevy",
        title: "Bevy",
        limits: &[
            limit(Rule::Joints(256), BEVY_JOINTS, "joints beyond the limit are not uploaded: the mesh is shown wrong"),
            limit(Rule::Influences(4), BEVY_SHADER, "the shader blends four"),
            limit(Rule::Files(GLTF_FILES), convention("bevy_gltf is the only importer of the engine"), "no loader"),
        ],
    },
    Target {
        name: "roblox",
        title: "Roblox",
        limits: &[
            limit(Rule::Influences(4), ROBLOX, "the importer drops the others"),
            limit(Rule::Triangles(20_000), ROBLOX, "the mesh is refused"),
            limit(Rule::OneRoot, convention("the importer builds one tree of bones"), "bones are detached"),
            limit(Rule::RootAtOrigin, ROBLOX, "the model is shifted"),
            limit(Rule::FreeRoot, ROBLOX, "vertices of the root do not follow it"),
            limit(Rule::NoScale, ROBLOX, "bones have scale 1: stretch and scale are lost"),
            limit(Rule::Clips(1), ROBLOX, "only one animation track is imported"),
            advice(
                Rule::WeightBits(8),
                convention("weights have 8 bits in the engine's mesh format"),
                "weights are rounded at import",
            ),
            limit(Rule::Files(&[Format::Fbx, Format::Gltf, Format::Glb]), ROBLOX_IMPORTER, "the file is not imported"),
        ],
    },
    Target {
        name: "gltf-strict",
        title: "any reader of glTF 2.0",
        limits: &[
            limit(Rule::Influences(4), GLTF, "readers must support one set of joints and weights only"),
            limit(
                Rule::WeightSums,
                GLTF,
                "stored as bytes or shorts, weights must sum to 255 or 65535, as floats to 1: the error is multiplied by the joint's place",
            ),
            limit(Rule::Files(GLTF_FILES), GLTF, "it is no glTF"),
        ],
    },
];

impl Rule {
    /// In words.
    pub fn text(self) -> String {
        match self {
            Self::Influences(most) => format!("at most {most} influences per vertex"),
            Self::Joints(most) => format!("at most {most} joints per skin or section"),
            Self::Triangles(most) => format!("at most {most} triangles per mesh"),
            Self::WeightBits(bits) => format!("weights of {bits} bits that sum to one"),
            Self::WeightSums => "stored weights that sum to one".to_owned(),
            Self::OneRoot => "one root bone".to_owned(),
            Self::RootAtOrigin => "the root bone at the origin".to_owned(),
            Self::FreeRoot => "no vertex follows the root bone".to_owned(),
            Self::NoScale => "bones without scale".to_owned(),
            Self::NamesIgnoreCase => "names of bones that differ in more than case".to_owned(),
            Self::NoCharacters(set) => {
                let set: Vec<String> = set.chars().map(|c| format!("`{c}`")).collect();
                format!("names of bones without {}", set.join(" "))
            }
            Self::OwnNames(kinds) => {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.ending()).collect();
                format!("in {} no bone with the name of a mesh or of another node", kinds.join(", "))
            }
            Self::Clips(most) => format!("at most {most} animation per file"),
            Self::EvenFrames => "evenly spaced frames".to_owned(),
            Self::Files(kinds) => {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.ending()).collect();
                format!("files {}", kinds.join(", "))
            }
        }
    }
}

/// All limits as a table of Markdown, for the documentation.
pub fn markdown_table() -> String {
    let mut text = "| engine | limit | kind | beyond it | source |\n|---|---|---|---|---|\n".to_owned();
    for target in TARGETS {
        for limit in target.limits {
            let kind = if limit.severity == Severity::Limit { "limit" } else { "advice" };
            let source = match limit.source.is_convention() {
                true => format!("convention: {}", limit.source.title),
                false => format!("[{}]({})", limit.source.title, limit.source.url),
            };
            text += &format!(
                "| `{}`: {} | {} | {kind} | {} | {source} |\n",
                target.name,
                target.title,
                limit.rule.text(),
                limit.effect
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "<!-- table of targets: BONESMITH_BLESS=1 cargo test -p bonesmith targets -->\n";
    const END: &str = "<!-- end of the table -->\n";

    /// The table in the documentation is the table of the program.
    #[test]
    fn the_documentation_has_the_table_of_the_targets() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/engines.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once(START).unwrap();
        let (table, after) = rest.split_once(END).unwrap();
        if std::env::var_os("BONESMITH_BLESS").is_some_and(|value| value == "1") {
            std::fs::write(path, format!("{before}{START}{}{END}{after}", markdown_table())).unwrap();
            return;
        }
        assert_eq!(table, markdown_table(), "docs/engines.md is old: run with BONESMITH_BLESS=1");
    }

    #[test]
    fn names_are_unique_and_every_limit_has_a_source() {
        for (at, target) in TARGETS.iter().enumerate() {
            assert!(TARGETS[..at].iter().all(|other| other.name != target.name));
            assert_eq!(Target::named(target.name).map(|found| found.title), Some(target.title));
            for limit in target.limits {
                assert!(!limit.source.title.is_empty() && !limit.effect.is_empty());
                assert!(limit.source.is_convention() || limit.source.url.starts_with("https://"));
            }
            assert!(!target.files().is_empty() && target.max_influences().is_none_or(|most| most >= 4));
        }
        assert!(Target::named("no such engine").is_none());
    }
}
