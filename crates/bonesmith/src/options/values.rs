//! Values by name, checked against a table of options.

use std::collections::BTreeMap;

use bonesmith_core::fit::FitError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::OptionInfo;
use crate::error::Error;
use crate::mask::VertexMask;

/// Values of the options of one command. An option that has the value of its default counts as not given.
#[derive(Clone, Debug)]
pub struct Values {
    options: &'static [OptionInfo],
    given: BTreeMap<&'static str, Value>,
}

impl Values {
    /// Checks the names.
    pub fn new(
        options: &'static [OptionInfo],
        values: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, Error> {
        let mut given = BTreeMap::new();
        for (name, value) in values {
            let Some(option) = options.iter().find(|option| option.name == name) else {
                let names: Vec<&str> = options.iter().map(|option| option.name).collect();
                return Err(Error::unsupported(format!("{name} is not an option; there are {}", names.join(", "))));
            };
            if !same(&value, &option.default_value()) {
                given.insert(option.name, value);
            }
        }
        Ok(Self { options, given })
    }

    /// The value of an option, where one is given.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.given.get(name)
    }

    /// The value of an option where it is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(Value::as_str)
    }

    /// Whether an option has another value than its default.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The value of an option as a type.
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.value(name) else { return Ok(None) };
        T::deserialize(value).map(Some).map_err(|_| self.refused(name))
    }

    /// As [`Values::get`], with the default of the library.
    pub(crate) fn or<T: DeserializeOwned>(&self, name: &str, default: T) -> Result<T, Error> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// Numbers of vertices: `"color"`, a file, or a list of numbers.
    pub(super) fn mask(&self, name: &str) -> Result<VertexMask, Error> {
        match self.value(name) {
            None => Ok(VertexMask::None),
            Some(Value::String(word)) if word == "color" => Ok(VertexMask::Colours),
            Some(Value::String(path)) => Ok(VertexMask::File(path.into())),
            Some(_) => Ok(VertexMask::Values(self.or(name, Vec::new())?)),
        }
    }

    /// The value is none that the option may have.
    pub(super) fn refused(&self, name: &str) -> Error {
        let option = self.options.iter().find(|option| option.name == name);
        let (name, range) = option.map_or(("", ""), |option| (option.name, option.values));
        let value = match self.value(name) {
            Some(Value::String(text)) => format!("{text:?}"),
            Some(Value::Array(values)) if values.len() > 4 => format!("a list of {} values", values.len()),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        FitError::OutOfRange { name, value, range }.into()
    }
}

/// Whether two values are the same; 1 and 1.0 are.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{FIT, REDUCE};
    use super::*;

    #[test]
    fn values_are_checked_by_name_and_type() {
        let values = |name: &str, value: Value| Values::new(FIT, [(name.to_owned(), value)]);
        assert!(values("bonse", json!(3)).unwrap_err().to_string().contains("bonse is not an option; there are bones"));
        assert!(!values("smooth", json!(0)).unwrap().is_given("smooth"));
        assert!(!values("smooth", json!(0.0)).unwrap().is_given("smooth"));
        let wrong = values("effort", json!("lazy")).unwrap();
        let error = crate::FitOptions::from_values(&wrong).unwrap_err();
        assert_eq!(error.to_string(), "effort is \"lazy\"; it must be fast, balanced or best");
        assert_eq!(error.option(), Some("effort"));
        let error = Values::new(REDUCE, [("influences".to_owned(), json!(-1))]).unwrap().reduce().unwrap_err();
        assert_eq!(error.option(), Some("influences"));
    }
}
