//! Python's values as JSON and back: what the library's tables of options take.

use bonesmith::options::{self as tables, OptionInfo, Values};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde_json::{Map, Value};

use crate::errors;

/// A value of Python. Numbers of NumPy are numbers, arrays are lists, paths are text.
pub fn to_json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if value.cast::<PyInt>().is_ok() {
        // Beyond 64 bits it is out of every range.
        let whole = value.extract::<i64>().map(Value::from).or_else(|_| value.extract::<u64>().map(Value::from));
        return Ok(whole.unwrap_or_else(|_| Value::from(value.to_string())));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        // JSON has no word for these; no option accepts them.
        return Ok(serde_json::Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::from));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.extract::<String>()?.into());
    }
    if let Ok(map) = value.cast::<PyDict>() {
        let mut object = Map::new();
        for (key, value) in map {
            object.insert(key.extract()?, to_json(&value)?);
        }
        return Ok(object.into());
    }
    if value.hasattr("__fspath__")? {
        return to_json(&value.call_method0("__fspath__")?);
    }
    // Arrays and numbers of NumPy become lists and numbers.
    if value.hasattr("tolist")? {
        return to_json(&value.call_method0("tolist")?);
    }
    if value.hasattr("keys")? {
        return to_json(&value.py().get_type::<PyDict>().call1((value,))?);
    }
    let items = value.try_iter().map_err(|_| PyTypeError::new_err(format!("{value} is no value of an option")))?;
    Ok(Value::Array(items.map(|item| to_json(&item?)).collect::<PyResult<_>>()?))
}

/// JSON as Python's own types.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (None, Some(whole)) => whole.into_pyobject(py)?.into_any(),
            _ => number.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let items = items.iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Object(map) => {
            let object = PyDict::new(py);
            for (key, value) in map {
                object.set_item(key, to_python(py, value)?)?;
            }
            object.into_any()
        }
    })
}

/// Arguments by name as values of a table.
pub fn values(py: Python<'_>, table: &'static [OptionInfo], given: &Bound<'_, PyDict>) -> PyResult<Values> {
    let mut values = Vec::with_capacity(given.len());
    for (name, value) in given {
        values.push((name.extract::<String>()?, to_json(&value)?));
    }
    Values::new(table, values).map_err(|error| errors::raise(py, error))
}

/// A table of options as data, for tests: name, default, type, help.
#[pyfunction]
pub fn options<'py>(py: Python<'py>, table: &str) -> PyResult<Bound<'py, PyAny>> {
    let all = [
        ("fit", tables::FIT),
        ("refit", tables::REFIT),
        ("reduce", tables::REDUCE),
        ("compress", tables::COMPRESS),
        ("ddm", tables::DDM),
        ("sweep", tables::SWEEP),
        ("shapes", tables::SHAPES),
        ("lod", tables::LOD),
        ("load", tables::LOAD),
        ("compact", tables::COMPACT),
        ("report", tables::REPORT),
    ];
    let found = all.iter().find(|(name, _)| *name == table);
    let (_, rows) = found.ok_or_else(|| PyKeyError::new_err(table.to_owned()))?;
    let row = |option: &OptionInfo| {
        let mut row = Map::new();
        row.insert("name".into(), option.name.into());
        row.insert("default".into(), option.default_value());
        row.insert("hint".into(), option.hint.into());
        row.insert("help".into(), option.help.into());
        Value::Object(row)
    };
    to_python(py, &Value::Array(rows.iter().map(row).collect()))
}
