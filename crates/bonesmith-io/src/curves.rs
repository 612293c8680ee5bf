//! Curves of shape weights: a weight of every shape in every frame, as CSV or npz.

use std::path::Path;

use bonesmith_core::mesh::sequence::DEFAULT_FPS;

use crate::{Format, IoError, detect, npz};

/// Weights of shapes over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// [C] names of the columns.
    pub names: Vec<String>,
    /// [F] seconds, rising.
    pub times_secs: Vec<f64>,
    /// [F][C] weights.
    pub weights: Vec<Vec<f32>>,
}

/// Frames per second of a time code that has a number of frames, as face capture writes it.
const TIMECODE_FPS: f64 = 60.0;

/// Reads curves. A CSV file has a line of names, then one line for each frame; a first column named time, seconds, frame or timecode is the clock. An
/// npz has `weights` [F, C], `names` [C] and, if any, `times` [F]. Without times `fps` applies, or 24.
pub fn load_curves(path: &Path, fps: Option<f64>) -> Result<Curves, IoError> {
    let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let mut curves = match is_csv {
        true => parse_csv(path)?,
        false if detect(path)? == Format::Npz => npz::load_curves(path)?,
        false => return Err(IoError::unsupported(path, "curves of shape weights are .csv or .npz")),
    };
    if curves.weights.is_empty() || curves.names.is_empty() {
        return Err(IoError::malformed(path, "there are no weights"));
    }
    if curves.times_secs.is_empty() {
        let rate = fps.unwrap_or(DEFAULT_FPS);
        curves.times_secs = (0..curves.weights.len()).map(|t| t as f64 / rate).collect();
    }
    if curves.times_secs.len() != curves.weights.len() {
        let (times, frames) = (curves.times_secs.len(), curves.weights.len());
        return Err(IoError::malformed(path, format!("{times} times for {frames} frames")));
    }
    // A clip that starts at 0 is what engines want.
    let first = curves.times_secs.first().copied().unwrap_or(0.0);
    curves.times_secs.iter_mut().for_each(|t| *t -= first);
    if let Some(t) =
        (curves.times_secs.windows(2).position(|pair| pair[1].is_nan() || pair[1] <= pair[0])).map(|t| t + 1)
    {
        return Err(IoError::malformed(path, format!("frame {t} is not after the frame before it")));
    }
    for (t, row) in curves.weights.iter().enumerate() {
        if let Some(at) = row.iter().position(|weight| !weight.is_finite()) {
            let what = format!("frame {t}: the weight of {:?} is {}", curves.names[at], row[at]);
            return Err(IoError::malformed(path, what));
        }
    }
    Ok(curves)
}

fn parse_csv(path: &Path) -> Result<Curves, IoError> {
    let bytes = crate::opens::read(path).map_err(|e| IoError::os(path, e))?;
    crate::opens::count();
    let text = String::from_utf8(bytes).map_err(|_| IoError::malformed(path, "not text in UTF-8"))?;
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, head)) = lines.next() else { return Err(IoError::malformed(path, "the file is empty")) };
    let cells = |line: &str| line.split(',').map(|cell| cell.trim().trim_matches('"').to_owned()).collect::<Vec<_>>();
    let head = cells(head);
    let clock = ["time", "seconds", "secs", "timecode"];
    let counts = ["frame", "blendshapecount"];
    let is = |name: &String, list: &[&str]| list.contains(&name.to_ascii_lowercase().as_str());
    let time = head.iter().position(|name| is(name, &clock));
    let columns: Vec<usize> =
        (0..head.len()).filter(|&c| Some(c) != time && !is(&head[c], &counts) && !head[c].is_empty()).collect();
    let mut curves = Curves { names: columns.iter().map(|&c| head[c].clone()).collect(), ..Curves::default() };
    for (number, line) in lines {
        let row = cells(line);
        let bad = |c: usize| {
            let cell = row.get(c).map_or("", String::as_str);
            IoError::malformed(path, format!("line {}: {cell:?} is no number for {:?}", number + 1, head[c]))
        };
        if let Some(c) = time {
            curves.times_secs.push(row.get(c).and_then(|cell| seconds(cell)).ok_or_else(|| bad(c))?);
        }
        let weight = |&c: &usize| row.get(c).and_then(|cell| cell.parse::<f32>().ok()).ok_or_else(|| bad(c));
        curves.weights.push(columns.iter().map(weight).collect::<Result<_, _>>()?);
    }
    Ok(curves)
}

/// Seconds, or a time code `hours:minutes:seconds:frames`.
fn seconds(text: &str) -> Option<f64> {
    let parts: Option<Vec<f64>> = text.split(':').map(|part| part.parse().ok()).collect();
    match parts?.as_slice() {
        [secs] => Some(*secs),
        [hours, minutes, secs] => Some(3600.0 * hours + 60.0 * minutes + secs),
        [hours, minutes, secs, frames] => Some(3600.0 * hours + 60.0 * minutes + secs + frames / TIMECODE_FPS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Curves, IoError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curves.csv");
        std::fs::write(&path, text).unwrap();
        load_curves(&path, None)
    }

    #[test]
    fn tables_and_captures_are_read() {
        let curves = read("time,jawOpen,smile\n0.5,0,1\n1.0,0.25,0.5\n").unwrap();
        assert_eq!((curves.names.len(), &curves.times_secs), (2, &vec![0.0, 0.5]));
        assert_eq!(curves.weights, [[0.0, 1.0], [0.25, 0.5]]);
        let capture = "Timecode,BlendshapeCount,EyeBlinkLeft\n13:00:01:30.5,61,0.1\n13:00:02:00,61,0.2\n";
        let curves = read(capture).unwrap();
        assert_eq!(curves.names, ["EyeBlinkLeft"]);
        assert!((curves.times_secs[1] - (1.0 - 30.5 / 60.0)).abs() < 1e-9, "{:?}", curves.times_secs);
        assert_eq!(read("a,b\n1,2\n3,4\n").unwrap().times_secs, [0.0, 1.0 / 24.0]);
    }

    #[test]
    fn bad_curves_name_line_and_column() {
        let error = read("time,jawOpen\n0,0\n1,open\n").unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("jawOpen"), "{error}");
        assert!(read("time,a\n0,1\n0,1\n").unwrap_err().to_string().contains("frame 1"));
        assert!(read("time,a\n0,nan\n").unwrap_err().to_string().contains("frame 0"));
        assert!(read("").is_err() && read("time,a\n").is_err());
    }
}
