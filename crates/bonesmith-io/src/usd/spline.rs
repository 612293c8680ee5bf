//! Curves of one number over time (`attribute.spline`): knots with tangents, as text and as the bytes of binary layers.
//!
//! A segment of a Bezier curve has its inner control points at `width` from its ends, along the tangents' slopes; a Hermite segment is one whose widths
//! are a third of it. Where tangents are so long that a time had several values, both are shortened by the same factor.

use super::half::half_to_f32;

/// Most knots; real curves have one per frame at most.
const MAX_KNOTS: usize = 1 << 20;
/// Most samples of one curve.
const MAX_SAMPLES: f64 = 100_000.0;
/// Halvings of the parameter of a Bezier curve.
const HALVINGS: usize = 60;

/// How a value goes on from one knot to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Held,
    Linear,
    Curve,
}

/// What lies outside the knots.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outside {
    Held,
    Linear,
    Sloped(f64),
    /// From the first knot again: higher by what a period gains, or not; or back and forth.
    Repeat,
    Reset,
    Oscillate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    time: f64,
    value: f64,
    /// Value at the end of the segment before it.
    before: f64,
    /// Width and slope of the tangents before and after it.
    tangents: [(f64, f64); 2],
    next: Segment,
}

/// A curve with one knot at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Spline {
    hermite: bool,
    outside: [Outside; 2],
    /// Times rise.
    knots: Vec<Knot>,
}

impl Spline {
    /// From `{ bezier, pre: held, post: sloped(0.5), 1: 8; pre (0, 0); post curve (1.3, 2), ... }`.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let inside = text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or("a spline in braces")?;
        let mut spline = Self { hermite: false, outside: [Outside::Held; 2], knots: Vec::new() };
        for item in split(inside, ',').into_iter().map(str::trim).filter(|item| !item.is_empty()) {
            match item.split_once(':').map(|(key, rest)| (key.trim(), rest.trim())) {
                None if item == "hermite" => spline.hermite = true,
                None if item == "bezier" => {}
                Some(("pre", mode)) => spline.outside[0] = outside(mode)?,
                Some(("post", mode)) => spline.outside[1] = outside(mode)?,
                Some(("loop", _)) => return Err("inner loops".into()),
                Some((time, rest)) => spline.knots.push(knot(time, rest)?),
                None => return Err(format!("{item:?}")),
            }
        }
        spline.checked()
    }

    /// From the bytes of a binary layer, version 1.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut at = Bytes { bytes };
        let [head, modes] = at.take()?;
        if head & 15 != 1 {
            return Err(format!("splines of version {}", head & 15));
        }
        let width = match head >> 4 & 3 {
            2 => 4,
            3 => 2,
            _ => 8,
        };
        if modes & 64 != 0 {
            return Err("inner loops".into());
        }
        let mut spline = Self { hermite: head & 128 != 0, outside: [Outside::Held; 2], knots: Vec::new() };
        for (side, mode) in [modes & 7, modes >> 3 & 7].into_iter().enumerate() {
            spline.outside[side] = match mode {
                2 => Outside::Linear,
                3 => Outside::Sloped(at.f64()?),
                4 => Outside::Repeat,
                5 => Outside::Reset,
                6 => Outside::Oscillate,
                _ => Outside::Held,
            };
        }
        let count = at.take().map(u32::from_le_bytes)? as usize;
        if count > MAX_KNOTS {
            return Err(format!("{count} knots"));
        }
        for _ in 0..count {
            let [flags] = at.take()?;
            let (time, value) = (at.f64()?, at.number(width)?);
            let before = if flags & 1 == 1 { at.number(width)? } else { value };
            let widths = if spline.hermite { [0.0; 2] } else { [at.f64()?, at.f64()?] };
            let slopes = [at.number(width)?, at.number(width)?];
            let next = match flags >> 1 & 3 {
                2 => Segment::Linear,
                3 => Segment::Curve,
                _ => Segment::Held,
            };
            let tangents = [(widths[0], slopes[0]), (widths[1], slopes[1])];
            spline.knots.push(Knot { time, value, before, tangents, next });
        }
        spline.checked()
    }

    fn checked(mut self) -> Result<Self, String> {
        let finite = |k: &Knot| {
            let [(a, b), (c, d)] = k.tangents;
            [k.time, k.value, k.before, a, b, c, d].iter().all(|x| x.is_finite())
        };
        if self.knots.is_empty() || self.knots.len() > MAX_KNOTS || !self.knots.iter().all(finite) {
            return Err(format!("{} knots with finite numbers", self.knots.len()));
        }
        self.knots.sort_by(|a, b| a.time.total_cmp(&b.time));
        self.knots.dedup_by(|later, earlier| later.time == earlier.time);
        Ok(self)
    }

    /// The value at a time.
    pub fn at(&self, time: f64) -> f64 {
        let (first, last) = (self.knots[0], self.knots[self.knots.len() - 1]);
        let span = last.time - first.time;
        let (mode, edge) = match (time < first.time, time >= last.time) {
            (true, _) => (self.outside[0], self.knots.len().min(2) - 1),
            (_, true) => (self.outside[1], self.knots.len() - 1),
            _ => return self.inside(time),
        };
        // A knot of two values has the one before it up to its time.
        let (end, value) = if time < first.time { (first, first.before) } else { (last, last.value) };
        let off = time - end.time;
        let periods = ((time - first.time) / span).floor();
        let within = first.time + (time - first.time) - periods * span;
        match mode {
            Outside::Sloped(slope) => value + slope * off,
            Outside::Linear if end.before != end.value => value,
            Outside::Linear => value + self.slope_at(edge, time < first.time) * off,
            // The last knot belongs to the next period.
            Outside::Repeat if span > 0.0 => self.inside(within) + periods * (last.value - first.value),
            Outside::Reset if span > 0.0 => self.inside(within),
            Outside::Oscillate if span > 0.0 && periods.rem_euclid(2.0) == 1.0 => {
                self.inside(first.time + last.time - within)
            }
            Outside::Oscillate if span > 0.0 => self.inside(within),
            _ => value,
        }
    }

    /// Slope that the curve leaves its ends with: into segment `edge - 1`, at its start or its end.
    fn slope_at(&self, edge: usize, start: bool) -> f64 {
        let Some(before) = edge.checked_sub(1) else { return 0.0 };
        let (a, b) = (&self.knots[before], &self.knots[edge]);
        match (a.next, start) {
            (Segment::Held, _) => 0.0,
            (Segment::Linear, _) => (b.before - a.value) / (b.time - a.time),
            (Segment::Curve, true) => a.tangents[1].1,
            (Segment::Curve, false) => b.tangents[0].1,
        }
    }

    fn inside(&self, time: f64) -> f64 {
        let next = self.knots.partition_point(|k| k.time <= time);
        let Some(a) = next.checked_sub(1).map(|at| &self.knots[at]) else { return self.knots[0].value };
        let Some(b) = self.knots.get(next) else { return a.value };
        let length = b.time - a.time;
        match a.next {
            Segment::Held => a.value,
            Segment::Linear => a.value + (b.before - a.value) * ((time - a.time) / length),
            Segment::Curve => {
                let (w0, w1) = match self.hermite {
                    true => (length / 3.0, length / 3.0),
                    false => widths(a.tangents[1].0, b.tangents[0].0, length),
                };
                let cubic = |p: [f64; 4], u: f64| {
                    let v = 1.0 - u;
                    v * v * v * p[0] + 3.0 * v * v * u * p[1] + 3.0 * v * u * u * p[2] + u * u * u * p[3]
                };
                let times = [0.0, w0, length - w1, length];
                let values = [a.value, a.value + w0 * a.tangents[1].1, b.before - w1 * b.tangents[0].1, b.before];
                // Times rise with the parameter.
                let (mut low, mut high) = (0.0, 1.0);
                for _ in 0..HALVINGS {
                    let middle = 0.5 * (low + high);
                    match cubic(times, middle) < time - a.time {
                        true => low = middle,
                        false => high = middle,
                    }
                }
                cubic(values, 0.5 * (low + high))
            }
        }
    }

    /// Times and values: every knot and every whole time code from the first knot to the last, or to the ends of `range` where the curve goes on outside.
    pub fn samples(&self, range: Option<(f64, f64)>) -> Result<Vec<(f64, f64)>, String> {
        let (mut first, mut last) = (self.knots[0].time, self.knots[self.knots.len() - 1].time);
        if let Some((start, end)) = range {
            first = if self.outside[0] == Outside::Held { first } else { first.min(start) };
            last = if self.outside[1] == Outside::Held { last } else { last.max(end) };
        }
        if last - first > MAX_SAMPLES {
            return Err(format!("a spline over {} time codes", last - first));
        }
        let mut times: Vec<f64> = self.knots.iter().map(|k| k.time).chain([first, last]).collect();
        // By count: far from zero one more is the same number.
        let whole = (0..=(last - first) as usize).map(|k| first.ceil() + k as f64);
        times.extend(whole.filter(|code| *code <= last));
        times.sort_by(f64::total_cmp);
        times.dedup();
        Ok(times.into_iter().map(|time| (time, self.at(time))).collect())
    }
}

/// Widths of the tangents of a segment with which its times rise: a and b, in lengths, where neither is above 1 or a + b - sqrt(ab) is not; longer
/// ones are divided by that.
fn widths(first: f64, second: f64, length: f64) -> (f64, f64) {
    let share = |width: f64| (width.max(0.0) / length).min(1e6);
    let (a, b) = (share(first), share(second));
    let over = a + b - (a * b).sqrt();
    let shrink = if a.max(b) > 1.0 && over > 1.0 { over } else { 1.0 };
    (a * length / shrink, b * length / shrink)
}

struct Bytes<'a> {
    bytes: &'a [u8],
}

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or("more bytes of a spline")?;
        self.bytes = rest;
        Ok(*head)
    }

    fn f64(&mut self) -> Result<f64, String> {
        self.take().map(f64::from_le_bytes)
    }

    fn number(&mut self, width: usize) -> Result<f64, String> {
        match width {
            2 => self.take().map(|b| f64::from(half_to_f32(u16::from_le_bytes(b)))),
            4 => self.take().map(|b| f64::from(f32::from_le_bytes(b))),
            _ => self.f64(),
        }
    }
}

/// Parts between separators that are in no brackets and no string.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut start, mut quoted) = (Vec::new(), 0i32, 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '{' | '[' if !quoted => depth += 1,
            ')' | '}' | ']' if !quoted => depth -= 1,
            c if c == separator && depth == 0 && !quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn number(text: &str) -> Result<f64, String> {
    fast_float2::parse(text.trim()).map_err(|_| format!("a number in place of {text:?}"))
}

/// Numbers within the first pair of brackets.
fn in_brackets(text: &str) -> Result<Vec<f64>, String> {
    let inside = text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(inside, _)| inside);
    inside.map_or(Ok(Vec::new()), |inside| inside.split(',').map(number).collect())
}

fn outside(mode: &str) -> Result<Outside, String> {
    let word: String = mode.chars().take_while(|c| c.is_ascii_alphabetic() || *c == ' ').collect();
    Ok(match word.trim() {
        "linear" => Outside::Linear,
        "sloped" => Outside::Sloped(in_brackets(mode)?.first().copied().unwrap_or(0.0)),
        "loop repeat" => Outside::Repeat,
        "loop reset" => Outside::Reset,
        "loop oscillate" => Outside::Oscillate,
        _ => Outside::Held,
    })
}

/// `8`, or `7.25 & 6.5`, then tangents and how the value goes on.
fn knot(time: &str, rest: &str) -> Result<Knot, String> {
    let mut parts = split(rest, ';').into_iter().map(str::trim);
    let values = parts.next().unwrap_or_default();
    let (before, value) = match values.split_once('&') {
        Some((before, value)) => (number(before)?, number(value)?),
        None => (number(values)?, number(values)?),
    };
    let mut knot = Knot { time: number(time)?, value, before, tangents: [(0.0, 0.0); 2], next: Segment::Held };
    for part in parts {
        let tangent = match in_brackets(part)?.as_slice() {
            [width, slope, ..] => (*width, *slope),
            [slope] => (0.0, *slope),
            [] => (0.0, 0.0),
        };
        if part.starts_with("pre") {
            knot.tangents[0] = tangent;
        } else if let Some(how) = part.strip_prefix("post") {
            knot.tangents[1] = tangent;
            knot.next = match how.split(['(', '{']).next().unwrap_or_default().split_whitespace().next() {
                Some("linear") => Segment::Linear,
                Some("curve") => Segment::Curve,
                _ => Segment::Held,
            };
        }
    }
    Ok(knot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{
        bezier,
        post: sloped(0.5),
        1: 8; pre (0, 0); post curve (1.3, 2),
        7: 7.25 & 6.5; pre (2, -1); post curve (1, 0.5),
        12: 1; pre (1, 0); post linear,
        15: 3; post held,
        20: 5; post held,
    }";

    /// Values of usd-core 26.11 (`Ts.Spline.Eval`) for the same curve.
    #[test]
    fn values_are_those_of_pixar() {
        let spline = Spline::from_text(TEXT).unwrap();
        let known = [
            (0.0, 8.0),
            (1.0, 8.0),
            (2.0, 9.155100365022074),
            (4.0, 9.276185788285204),
            (7.0, 6.5),
            (9.0, 4.647031114087495),
            (12.0, 1.0),
            (13.0, 1.6666666666666665),
            (16.0, 3.0),
            (25.0, 7.5),
        ];
        for (time, value) in known {
            assert!((spline.at(time) - value).abs() < 1e-6, "{time}: {} {value}", spline.at(time));
        }
        let samples = spline.samples(Some((-3.0, 22.0))).unwrap();
        assert_eq!((samples[0].0, samples[samples.len() - 1]), (1.0, (22.0, 6.0)));
        assert_eq!(samples.len(), 22);
    }

    #[test]
    fn outside_the_knots() {
        let of = |post: &str| {
            Spline::from_text(&format!("{{ pre: linear, post: {post}, 0: 0; post linear, 4: 2; post held }}")).unwrap()
        };
        assert_eq!(of("held").at(-2.0), -1.0);
        assert_eq!([of("held").at(5.0), of("loop repeat").at(5.0), of("loop reset").at(5.0)], [2.0, 2.5, 0.5]);
        assert_eq!([of("loop oscillate").at(5.0), of("loop oscillate").at(9.0)], [1.5, 0.5]);
        // Knots of two values at both ends, as usd-core 26.11 has them: held, the value before in front.
        let two =
            Spline::from_text("{ pre: linear, post: linear, 0: 5 & 1; post linear, 4: 7 & 3; post linear }").unwrap();
        assert_eq!([-2.0, 0.0, 2.0, 4.0, 6.0].map(|time| two.at(time)), [5.0, 1.0, 4.0, 3.0, 3.0]);
    }

    #[test]
    fn broken_ones_are_refused() {
        for text in
            ["", "{}", "{ 1: }", "{ 1: x }", "{ loop: (1, 2, 3, 4, 5), 1: 2 }", "{ 1: 2; pre (a, b) }", "{ nan: 1 }"]
        {
            assert!(Spline::from_text(text).is_err(), "{text}");
        }
        // Far from zero the next time code is the same number.
        assert_eq!(Spline::from_text("{ 1e300: 1 }").unwrap().samples(None).unwrap(), [(1e300, 1.0)]);
        assert!(Spline::from_text("{ 0: 1, 1e300: 1 }").unwrap().samples(None).is_err());
        for bytes in [&[][..], &[0x21], &[0x21, 0, 1, 0, 0, 0], &[0x22, 0], &[0x21, 64], &[0x11, 0, 255, 255, 255, 255]]
        {
            assert!(Spline::from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }
}
