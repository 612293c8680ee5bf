//! A layer to be written: prims, properties and values, for the text and the binary form alike.

use std::ops::Range;

use bonesmith_core::MeshSequence;
use glam::Vec3;

/// A layer.
#[derive(Default)]
pub struct Doc<'a> {
    /// Metadata of the layer.
    pub metadata: Vec<(&'static str, Value<'a>)>,
    /// Top prims.
    pub prims: Vec<Prim<'a>>,
}

/// A prim.
pub struct Prim<'a> {
    /// Schema.
    pub type_name: &'static str,
    /// A valid identifier, unique among its siblings.
    pub name: String,
    /// Metadata.
    pub metadata: Vec<(&'static str, Value<'a>)>,
    /// Attributes and relationships.
    pub properties: Vec<Property<'a>>,
    /// Below it.
    pub children: Vec<Prim<'a>>,
    /// Adds to a prim that is defined elsewhere.
    pub over: bool,
    /// One set of variants.
    pub variants: Option<Variants<'a>>,
}

/// A set of variants of a prim.
pub struct Variants<'a> {
    /// Its name.
    pub set: &'static str,
    /// The variants by name: what each adds to the prim. The first is selected.
    pub of: Vec<Prim<'a>>,
}

/// An attribute or relationship.
pub struct Property<'a> {
    /// With namespaces.
    pub name: String,
    /// Type of an attribute: "point3f[]"; empty for a relationship.
    pub type_name: &'static str,
    /// Cannot be animated.
    pub uniform: bool,
    /// Not part of a schema.
    pub custom: bool,
    /// Value without time.
    pub default: Option<Value<'a>>,
    /// Time codes, rising, and values.
    pub samples: Vec<(f64, Value<'a>)>,
    /// What it is connected to, or the targets of a relationship.
    pub targets: Vec<String>,
    /// Metadata.
    pub metadata: Vec<(&'static str, Value<'a>)>,
}

/// A value; arrays of tuples as rows.
#[derive(Clone)]
pub enum Value<'a> {
    /// An identifier-like name.
    Token(String),
    /// Free text.
    Text(String),
    /// A file.
    Asset(String),
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i32),
    /// A number.
    Float(f32),
    /// A number.
    Double(f64),
    /// Three numbers.
    Float3([f32; 3]),
    /// Four numbers.
    Float4([f32; 4]),
    /// Three numbers.
    Double3([f64; 3]),
    /// A rotation: w, x, y, z.
    Quat([f32; 4]),
    /// Row by row, for row vectors.
    Matrix([f64; 16]),
    /// Names.
    Tokens(Vec<String>),
    /// Names put before those of weaker layers.
    Prepend(Vec<String>),
    /// A prim of this layer (a path) of which another has everything that it does not have itself.
    Reference(String),
    /// Whole numbers.
    Ints(Vec<i32>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Pairs.
    Float2s(&'a [[f32; 2]]),
    /// Triples.
    Float3s(Vec<[f32; 3]>),
    /// Positions, not copied.
    Points(&'a [Vec3]),
    /// Positions of some vertices in a frame of an animation, read when they are written.
    Frame(&'a MeshSequence, usize, Range<usize>),
    /// Triples that are stored as half floats; exact only if they are such.
    Half3s(Vec<[f32; 3]>),
    /// Rotations: w, x, y, z.
    Quats(Vec<[f32; 4]>),
    /// Matrices, as `Matrix`.
    Matrices(Vec<[f64; 16]>),
    /// Texts by name.
    Dictionary(Vec<(&'static str, String)>),
}

impl<'a> Prim<'a> {
    /// Nothing in it.
    pub fn new(type_name: &'static str, name: impl Into<String>) -> Self {
        Self {
            type_name,
            name: name.into(),
            metadata: Vec::new(),
            properties: Vec::new(),
            children: Vec::new(),
            over: false,
            variants: None,
        }
    }

    /// Adds to a prim that is defined elsewhere.
    pub fn over(name: impl Into<String>) -> Self {
        Self { over: true, ..Self::new("", name) }
    }

    /// The prim at a path of names below this one, made of overs where it is not there.
    pub fn below(&mut self, path: &str) -> &mut Self {
        let mut at = self;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let known = at.children.iter().position(|child| child.name == name);
            let child = known.unwrap_or_else(|| {
                at.children.push(Self::over(name));
                at.children.len() - 1
            });
            at = &mut at.children[child];
        }
        at
    }

    /// Adds metadata.
    pub fn meta(mut self, key: &'static str, value: Value<'a>) -> Self {
        self.metadata.push((key, value));
        self
    }

    /// Adds a property.
    pub fn with(mut self, property: Property<'a>) -> Self {
        self.properties.push(property);
        self
    }
}

impl<'a> Property<'a> {
    /// An attribute without a value.
    pub fn new(type_name: &'static str, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            type_name,
            uniform: false,
            custom: false,
            default: None,
            samples: Vec::new(),
            targets: Vec::new(),
            metadata: Vec::new(),
        }
    }

    /// An attribute with a value.
    pub fn of(type_name: &'static str, name: impl Into<String>, value: Value<'a>) -> Self {
        Self { default: Some(value), ..Self::new(type_name, name) }
    }

    /// An attribute that cannot be animated.
    pub fn uniform(type_name: &'static str, name: impl Into<String>, value: Value<'a>) -> Self {
        Self { uniform: true, ..Self::of(type_name, name, value) }
    }

    /// A relationship to one prim.
    pub fn rel(name: impl Into<String>, target: impl Into<String>) -> Self {
        Self { targets: vec![target.into()], uniform: true, ..Self::new("", name) }
    }

    /// An attribute that takes its value from another.
    pub fn connected(type_name: &'static str, name: impl Into<String>, source: impl Into<String>) -> Self {
        Self { targets: vec![source.into()], ..Self::new(type_name, name) }
    }

    /// Adds metadata.
    pub fn meta(mut self, key: &'static str, value: Value<'a>) -> Self {
        self.metadata.push((key, value));
        self
    }

    /// Adds an interpolation.
    pub fn interpolated(self, how: &str) -> Self {
        self.meta("interpolation", Value::Token(how.into()))
    }
}
