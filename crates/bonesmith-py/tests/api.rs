//! `python/bonesmith/_api.py` is made from the tables of options of the library: signatures, types, defaults and docstrings. This test compares the
//! file with the tables. `BONESMITH_BLESS=1 cargo test -p bonesmith-py` writes it.

use std::fmt::Write;
use std::path::Path;

use bonesmith::options::{COMPACT, COMPRESS, DDM, FIT, LOAD, LOD, MOTION, OptionInfo, REDUCE, REFIT, SHAPES, SWEEP};

/// One function of Python.
struct Function {
    name: &'static str,
    /// What it does: one line, then more.
    about: &'static str,
    /// Arguments before the options: name, annotation, default ("" for none), meaning.
    positional: &'static [(&'static str, &'static str, &'static str, &'static str)],
    options: Vec<&'static OptionInfo>,
    /// Arguments after the options.
    more: &'static [(&'static str, &'static str, &'static str, &'static str)],
    returns: (&'static str, &'static str),
    /// `{options}` stands for the options as a dict, `{how}` for threads and progress.
    body: &'static str,
    /// Returns other types by the value of an option: the option, its type, what is returned.
    overloads: &'static [(&'static str, &'static str, &'static str)],
}

const VERTS: (&str, &str, &str, &str) = (
    "verts",
    "ArrayLike | Model | Sequence[Model]",
    "",
    "[F, N, 3] positions, or an animation. A float32 array that is contiguous is not copied: it must not change during the call. A list of \
     animations: clips of one mesh.",
);
const FACES: (&str, &str, &str, &str) = (
    "faces",
    "ArrayLike | Sequence[Sequence[int]] | None",
    "None",
    "[M, corners] vertices of each face, or lists of them. Without faces there are no normals.",
);
const REST: (&str, &str, &str, &str) = ("rest", "ArrayLike | None", "None", "[N, 3] rest pose; None: the first frame.");
const TIMES: (&str, &str, &str, &str) = ("times", "ArrayLike | None", "None", "[F] seconds of the frames, rising.");
const FPS: (&str, &str, &str, &str) =
    ("fps", "float | None", "None", "Frames per second where there are no times; None: 24.");
const NAME: (&str, &str, &str, &str) = ("name", "str | None", "None", "Short name, for outputs.");
const RIG: (&str, &str, &str, &str) = ("rig", "Rig", "", "The rig; it is not changed.");
const CLIPS: (&str, &str, &str, &str) = (
    "animation",
    "ArrayLike | Model | Sequence[Model]",
    "",
    "The animation of the rig's mesh: [F, N, 3] positions, a model, or a list of clips.",
);
const EXAMPLES: (&str, &str, &str, &str) = (
    "examples",
    "ArrayLike | Model | None",
    "None",
    "Poses to keep: the animation, frame by frame as in all clips of the rig or in one of them; None: the rig's own poses.",
);
const THREADS: (&str, &str, &str, &str) =
    ("threads", "int | None", "None", "Threads to use, 1 to 1024; None: all cores. The result does not depend on it.");
const PROGRESS: (&str, &str, &str, &str) = (
    "progress",
    "Progress | None",
    "None",
    "Called as progress(stage, step, total, error) from the calling thread, at most 30 times a second; total and error may be None. If it \
     returns False, the work ends with `Cancelled`; what it raises ends the work, too.",
);

fn without(options: &'static [OptionInfo], names: &[&str]) -> Vec<&'static OptionInfo> {
    options.iter().filter(|option| !names.contains(&option.name)).collect()
}

fn functions() -> Vec<Function> {
    let of_skeleton = ["skeleton", "detail", "root", "skeleton_method", "skeleton_start", "no_symmetry"];
    let not_swept = of_skeleton.into_iter().chain(["bones", "target_error", "eigenskin", "others"]);
    let not_swept: Vec<&str> = not_swept.chain(MOTION.iter().map(|option| option.name)).collect();
    let swept = SWEEP.iter().chain(without(FIT, &not_swept)).collect();
    let not_mush = ["variant", "compress", "layer_influences", "master_influences", "range_of_motion"];
    let not_mush: Vec<&str> =
        not_mush.into_iter().chain(["translation_range", "without", "smooth", "max_rounds"]).collect();
    let work = &[THREADS, PROGRESS];
    vec![
        Function {
            name: "load",
            about: "Read a file: a rig of any kind where there is one, else an animation.\n\nThe format is detected from the content, then from the extension. See `load_animation` and `load_rig`.",
            positional: &[(
                "path",
                "PathLike | Sequence[PathLike]",
                "",
                "A file, a folder or pattern of OBJ or PLY files, or a list such as a point cache and its OBJ.",
            )],
            options: LOAD.iter().collect(),
            more: &[(
                "normalise",
                "bool",
                "False",
                "Accept weights of an npz that are negative or do not sum to 1, and correct them.",
            )],
            returns: (
                "Model",
                "`Animation`, `Rig`, `TwoLayerRig`, `DdmRig`, `CorrectiveRig`, `ShapeBones` or `Basis`.",
            ),
            body: "return read(path, {options}, bake=False, normalise=normalise)",
            overloads: &[],
        },
        Function {
            name: "load_animation",
            about: "Read a file as an animation: rigs and morph targets are baked.",
            positional: &[("path", "PathLike | Sequence[PathLike]", "", "As for `load`.")],
            options: LOAD.iter().collect(),
            more: &[],
            returns: ("Animation", ""),
            body: "found = read(path, {options}, bake=True, normalise=False)\n    assert isinstance(found, Animation)\n    return found",
            overloads: &[],
        },
        Function {
            name: "fit",
            about: "Fit bones, weights and bone motion to a mesh animation.",
            positional: &[VERTS, FACES, REST],
            options: FIT.iter().collect(),
            more: &[TIMES, FPS, NAME, THREADS, PROGRESS],
            returns: (
                "Rig | Basis",
                "A `Rig`; a `CorrectiveRig` with `eigenskin`; a `Basis` with the methods cpca and svd.",
            ),
            body: "options: dict[str, Any] = {options}\n    how = {how}\n    clips = clips_of(verts)\n    if clips is not None:\n        return cast(Rig, wrapped(_native.fit_clips(clips, options, how)))\n    return cast(Rig, wrapped(_native.fit(handle_of(verts, faces, rest, times, fps, name), options, how)))",
            overloads: &[("method", "RigMethod", "Rig"), ("method", "BasisMethod", "Basis")],
        },
        Function {
            name: "sweep",
            about: "Error against the number of bones, in one run.",
            positional: &[VERTS, FACES, REST],
            options: swept,
            more: &[TIMES, FPS, NAME, THREADS, PROGRESS],
            returns: ("Sweep", "The errors, and the number of bones beyond which more buy less."),
            body: "options: dict[str, Any] = {options}\n    numbers = [int(count) for count in options.pop(\"counts\")]\n    handle = handle_of(verts, faces, rest, times, fps, name)\n    return Sweep(_native.sweep(handle, numbers, options, {how}))",
            overloads: &[],
        },
        Function {
            name: "shapes",
            about: "Fit bones to the shapes of a face: transforms that are linear in the weights of the shapes, with few numbers.",
            positional: &[
                (
                    "shapes",
                    "ArrayLike | Model",
                    "",
                    "[S, N, 3] positions with each shape at weight 1, or an animation with a frame for each shape.",
                ),
                (
                    "neutral",
                    "ArrayLike | None",
                    "None",
                    "[N, 3] the face that no shape moves; None: that of the animation.",
                ),
                (
                    "names",
                    "Sequence[str] | None",
                    "None",
                    "[S] names of the shapes, all different; None: shape_0, shape_1, ...",
                ),
                FACES,
            ],
            options: SHAPES.iter().collect(),
            more: &[NAME, THREADS, PROGRESS],
            returns: ("ShapeBones", "The bones that the shapes drive."),
            body: "if neutral is None and not isinstance(shapes, Model):\n        raise TypeError(\"neutral is needed where shapes are an array\")\n    handle = handle_of(shapes, faces, neutral, None, None, name)\n    words = None if names is None else [str(word) for word in names]\n    return cast(ShapeBones, wrapped(_native.shapes(handle, words, {options}, {how})))",
            overloads: &[],
        },
        Function {
            name: "refit",
            about: "Fit weights, motion or both of a rig to animations of its mesh. Bones, names, tree and rest pose stay.",
            positional: &[RIG, CLIPS],
            options: REFIT.iter().collect(),
            more: work,
            returns: ("Rig", "The rig with new weights, motion or both."),
            body: "handles = clips_of(animation) or [handle_of(animation, name=rig.name)]\n    return cast(Rig, wrapped(_native.refit(rig_handle(rig), handles, {options}, {how})))",
            overloads: &[],
        },
        Function {
            name: "add_bones",
            about: "Add bones to a rig where the error is largest: helper_001, ... each a child of the bone it follows best.",
            positional: &[RIG, CLIPS, ("count", "int", "", "Number of new bones, 1 or more.")],
            options: without(REFIT, &["add_bones"]),
            more: work,
            returns: ("Rig", "The rig with new bones and weights."),
            body: "handles = clips_of(animation) or [handle_of(animation, name=rig.name)]\n    options: dict[str, Any] = {options}\n    options[\"add_bones\"] = count\n    return cast(Rig, wrapped(_native.refit(rig_handle(rig), handles, options, {how})))",
            overloads: &[],
        },
        Function {
            name: "reduce",
            about: "Remove influences: fewer bones per vertex, the same bones.",
            positional: &[RIG, EXAMPLES],
            options: REDUCE.iter().collect(),
            more: work,
            returns: ("Rig", "The rig with fewer influences."),
            body: "handle = None if examples is None else handle_of(examples)\n    return cast(Rig, wrapped(_native.reduce(rig_handle(rig), handle, {options}, {how})))",
            overloads: &[],
        },
        Function {
            name: "lod",
            about: "Levels of detail: nested subsets of bones that one animation drives.",
            positional: &[RIG, EXAMPLES],
            options: LOD.iter().collect(),
            more: work,
            returns: (
                "list[Rig]",
                "The levels, finest first; each has its own bones and weights, and the motion of all.",
            ),
            body: "handle = None if examples is None else handle_of(examples)\n    made = _native.lod(rig_handle(rig), handle, {options}, {how})\n    return [cast(Rig, wrapped(level)) for level in made]",
            overloads: &[],
        },
        Function {
            name: "compress",
            about: "Compress weights to two layers: few influences with the quality of many.\n\nStart from a rig with many influences: ``fit(..., influences=\"all\")``.",
            positional: &[RIG, EXAMPLES],
            options: COMPRESS.iter().collect(),
            more: work,
            returns: ("TwoLayerRig", "The rig with virtual bones."),
            body: "handle = None if examples is None else handle_of(examples)\n    return cast(TwoLayerRig, wrapped(_native.compress(rig_handle(rig), handle, {options}, {how})))",
            overloads: &[],
        },
        Function {
            name: "compact",
            about: "Write a small file: fewer keys, quantised arrays, EXT_meshopt_compression, within a bound on the additional error.\n\nThe error is that of the file, read back, against the animation that the rig was made from; against the rig itself where there is none.",
            positional: &[RIG, ("path", "PathLike", "", "The file: .glb or .gltf.")],
            options: COMPACT.iter().collect(),
            more: work,
            returns: (
                "dict[str, Any]",
                "Figures of the file and of one that loses nothing: bytes and bytes_before, e_rms and e_rms_before, bound, max, contacts, parts and more.",
            ),
            body: "return _native.compact(rig_handle(rig), file_to_write(path), {options}, {how})",
            overloads: &[],
        },
        Function {
            name: "ddm",
            about: "Direct Delta Mush: smooth joints from a rigid bind; and its compression.",
            positional: &[RIG],
            options: DDM.iter().collect(),
            more: work,
            returns: ("DdmRig", "The rig with multi-weights. Its metrics are against variant 0 in float64."),
            body: "return cast(DdmRig, wrapped(_native.ddm(rig_handle(rig), {options}, {how})))",
            overloads: &[],
        },
        Function {
            name: "delta_mush",
            about: "Classic Delta Mush of every frame of a rig's clips.",
            positional: &[RIG],
            options: without(DDM, &not_mush),
            more: work,
            returns: ("Animation", "The smoothed frames."),
            body: "return cast(Animation, wrapped(_native.delta_mush(rig_handle(rig), {options}, {how})))",
            overloads: &[],
        },
    ]
}

/// A default as Python writes it.
fn python(default: &str) -> String {
    match default {
        "null" => "None".into(),
        "false" => "False".into(),
        "true" => "True".into(),
        // Lists as tuples: defaults of Python must not change.
        list if list.starts_with('[') => list.replace('[', "(").replace(']', ")"),
        other => other.into(),
    }
}

impl Function {
    fn signature(&self, overload: Option<&(&str, &str, &str)>) -> String {
        let mut text = format!("def {}(\n", self.name);
        let row = |text: &mut String, name: &str, hint: &str, default: &str| {
            let default = if default.is_empty() { String::new() } else { format!(" = {default}") };
            let _ = writeln!(text, "    {name}: {hint}{default},");
        };
        for (name, hint, default, _) in self.positional {
            row(&mut text, name, hint, default);
        }
        text += "    *,\n";
        for option in &self.options {
            let own = overload.filter(|(name, ..)| *name == option.name);
            let fits = own.is_none_or(|(_, hint, _)| *hint != "BasisMethod");
            let default = if fits { python(option.default) } else { String::new() };
            row(&mut text, option.name, own.map_or(option.hint, |(_, hint, _)| hint), &default);
        }
        for (name, hint, default, _) in self.more {
            row(&mut text, name, hint, default);
        }
        let returns = overload.map_or(self.returns.0, |(.., returns)| returns);
        let _ = writeln!(text, ") -> {returns}:{}", if overload.is_some() { " ..." } else { "" });
        text
    }

    fn docstring(&self) -> String {
        let (first, more) = self.about.split_once("\n\n").unwrap_or((self.about, ""));
        let mut text = String::new();
        let _ = writeln!(text, "    \"\"\"{first}");
        if !more.is_empty() {
            let _ = write!(text, "\n{}", wrapped(more, 4));
        }
        text += "\n    Parameters\n    ----------\n";
        let mut entry = |name: &str, hint: &str, default: &str, meaning: &str| {
            let default = if default.is_empty() { String::new() } else { format!(", default: {default}") };
            let _ = write!(text, "    {name} : {hint}{default}\n{}", wrapped(meaning, 8));
        };
        for (name, hint, default, meaning) in self.positional {
            entry(name, hint, default, meaning);
        }
        for option in &self.options {
            let note = if option.default_note.is_empty() { "" } else { "; by default " };
            let meaning = format!("{}{note}{}.", option.help, option.default_note);
            entry(option.name, option.hint, &python(option.default), &meaning);
        }
        for (name, hint, default, meaning) in self.more {
            entry(name, hint, default, meaning);
        }
        let _ = write!(text, "\n    Returns\n    -------\n    {}\n{}", self.returns.0, wrapped(self.returns.1, 8));
        text + "    \"\"\"\n"
    }

    fn code(&self) -> String {
        let mut text = String::new();
        for overload in self.overloads {
            text += "@overload\n";
            text += &self.signature(Some(overload));
        }
        text += &self.signature(None);
        text += &self.docstring();
        let names: Vec<String> =
            self.options.iter().map(|option| format!("        \"{0}\": {0},\n", option.name)).collect();
        let options = format!("{{\n{}    }}", names.concat());
        let how = "{\"threads\": threads, \"progress\": progress}";
        let _ = writeln!(text, "    {}", self.body.replace("{options}", &options).replace("{how}", how));
        text
    }
}

/// Words in lines of at most 120 characters.
fn wrapped(words: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        if lines.last().is_some_and(|line| !line.is_empty() && indent + line.len() + word.len() > 119) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().filter(|line| !line.is_empty()).map(|line| format!("{:indent$}{line}\n", "")).collect()
}

/// The words that options choose from, as types.
fn aliases() -> String {
    let named = [
        ("BoneKind", FIT, "bone_kind"),
        ("FitMethod", FIT, "method"),
        ("Effort", FIT, "effort"),
        ("SkeletonMethod", FIT, "skeleton_method"),
        ("Solve", REFIT, "solve"),
        ("Align", REFIT, "align"),
        ("RootMotion", REFIT, "root_motion"),
        ("UpAxis", REFIT, "up"),
        ("ReduceMethod", REDUCE, "method"),
        ("Laplacian", REDUCE, "laplacian"),
        ("ShapeKind", SHAPES, "kind"),
        ("Axis", SHAPES, "mirror"),
    ];
    let mut text = String::new();
    let literal = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    for (alias, table, name) in named {
        let option = table.iter().find(|option| option.name == name).expect("an option");
        let choices = option.values.replace(" or ", ", ");
        let words: Vec<&str> = choices.split(", ").collect();
        let _ = writeln!(text, "{alias} = Literal[{}]", literal(&words));
        if alias == "FitMethod" {
            let (bases, rigs): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| ["cpca", "svd"].contains(word));
            let _ =
                writeln!(text, "RigMethod = Literal[{}]\nBasisMethod = Literal[{}]", literal(&rigs), literal(&bases));
        }
    }
    text
}

fn module() -> String {
    let mut text = String::from(
        "\"\"\"Functions with the options of the command line. Made from the library's tables by `tests/api.rs`; not to be edited.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Sequence, Union, cast, overload\n\n\
         from bonesmith import _native\n\
         from bonesmith._files import clips_of, read\n\
         from bonesmith._models import Animation, Basis, DdmRig, Model, Rig, ShapeBones, TwoLayerRig, file_to_write, handle_of, rig_handle, wrapped\n\
         from bonesmith._sweep import Sweep\n\n\
         if TYPE_CHECKING:\n    import os\n    from typing import Mapping\n\n    from numpy.typing import ArrayLike\n\n    \
         PathLike = Union[str, os.PathLike[str]]\n\n\
         #: What a progress function is like; ``False`` cancels.\n\
         Progress = Callable[[str, int, Optional[int], Optional[float]], Optional[bool]]\n\n",
    );
    text += &aliases();
    for function in functions() {
        text += "\n\n";
        text += &function.code();
    }
    text
}

#[test]
fn the_functions_of_python_are_those_of_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/bonesmith/_api.py");
    let wanted = module();
    if std::env::var_os("BONESMITH_BLESS").is_some() {
        std::fs::write(&path, &wanted).expect("a file that can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = wanted.lines().zip(found.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| found.lines().count().min(wanted.lines().count()));
    assert!(
        found == wanted,
        "{}, line {}: another text than the tables give; BONESMITH_BLESS=1 cargo test -p bonesmith-py writes it",
        path.display(),
        line + 1
    );
}

/// A help text, a default or a name that changes must change the file.
#[test]
fn every_option_is_in_the_text() {
    let text = module();
    for option in [FIT, REFIT, SHAPES, REDUCE, COMPRESS, COMPACT, DDM, LOAD, SWEEP].into_iter().flatten() {
        let row = format!("    {}: {} = {},\n", option.name, option.hint, python(option.default));
        assert!(text.contains(&row), "{row}");
        let words: Vec<&str> = option.help.split_whitespace().take(4).collect();
        assert!(text.contains(&words.join(" ")), "{}", option.help);
    }
}
