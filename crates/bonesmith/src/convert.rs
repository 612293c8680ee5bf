//! The same rig or animation for another format.

use bonesmith_core::{CorrectiveRig, Model, ModelKind, RawSequence, Surface};
use bonesmith_io::{Format, LoadOptions, detect};

use crate::error::{Error, PickError};
use crate::input::{Input, find_clip};
use crate::warning::Noted;

/// What of a file is converted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// A rig as the animation it makes.
    pub bake: bool,
    /// Only this one of a rig's animations.
    pub clip: Option<String>,
    /// For what is written of plain rigs alone: shapes that no animation weighs are left out.
    pub plain: bool,
}

impl Input {
    /// Reads a model to be written as another: a rig of any kind where there is one, unless it is baked; else an animation. A basis
    /// becomes one too.
    pub fn convertible(&self, options: &ConvertOptions) -> Result<Noted<Model>, Error> {
        Noted::collect(|| self.read_convertible(options))
    }

    fn read_convertible(&self, options: &ConvertOptions) -> Result<Model, Error> {
        let (path, bake, clip) = (self.first_path(), options.bake, options.clip.as_deref());
        // The reader of FBX bakes more than the rig holds: shape keys, and motion between keys.
        let bakes_more = || matches!(detect(path), Ok(Format::Fbx));
        if bake && clip.is_none() && (self.fps.is_some() || bakes_more()) {
            return Ok(self.picked(bonesmith_io::load_sequence(&self.paths, &self.load_options())?)?.into());
        }
        let load = LoadOptions {
            keep_shapes: !bake && !options.plain && self.rest.is_none() && self.frames.is_none(),
            ..self.load_options()
        };
        let mut model = bonesmith_io::load_model_with(&self.paths, &load, |raw| self.picked(raw))?;
        self.keep_clips(&mut model)?;
        if let Some(name) = clip
            && model.view().rig().is_none()
        {
            return Err(PickError::NoClips { name: name.to_owned(), path: path.to_owned() }.into());
        }
        let only = clip.map(|name| find_clip(&model, Some(name))).transpose()?;
        match (&mut model, only) {
            (Model::Sequence(_), _) => Ok(model),
            (Model::Basis(_), _) => self.baked(&model, only),
            _ if bake => self.baked(&model, only),
            (other, Some(only)) => {
                other.keep_clips(&[only]);
                Ok(model)
            }
            (_, None) => Ok(model),
        }
    }

    /// The animation of all clips, or of one, at their own frames; of a rig without any, its rest pose.
    fn baked(&self, model: &Model, only: Option<usize>) -> Result<Model, Error> {
        let still = || RawSequence {
            name: model.view().name().to_owned(),
            frames: vec![model.view().rest().to_vec().into()],
            surface: Surface::clone(model.view().surface()),
            ..RawSequence::default()
        };
        let raw = model.view().baked(only).unwrap_or_else(still);
        Ok(self.picked(raw)?.into())
    }
}

/// The model in a form that the format can hold: two layers as one, a rig without its shapes, reported as a warning.
pub fn simplified_for(model: Model, path: &std::path::Path) -> Noted<Model> {
    let holds = |kind: ModelKind| Format::from_extension(path).is_some_and(|format| format.writes(kind));
    let mut warnings = Vec::new();
    let value = match model {
        Model::TwoLayer(two) if !holds(ModelKind::TwoLayer) => two.bake().into(),
        Model::Corrective(CorrectiveRig { rig, shapes }) if !holds(ModelKind::Corrective) => {
            let what = format!("{} shapes: this format is written without any", shapes.len());
            warnings.push(bonesmith_io::Warning::LeftOut { path: path.to_owned(), what }.into());
            rig.into()
        }
        Model::ShapeBones(face) if !holds(ModelKind::ShapeBones) => {
            let what =
                format!("what {} shapes do to bones: a clip has each shape in a frame of its own", face.shapes.len());
            warnings.push(bonesmith_io::Warning::LeftOut { path: path.to_owned(), what }.into());
            face.rig.into()
        }
        model => model,
    };
    Noted { value, warnings }
}
