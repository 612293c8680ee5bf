//! What a viewer notices, in words: which regions, in which frames.
//!
//! The unit is what a screen shows: where the model fills a view 1000 pixels high, a thousandth of the radius is half a pixel. A region is
//! visible in a frame when the root mean square distance of its vertices is above [`VISIBLE_DISTANCE`], when one vertex is off by more than
//! [`VISIBLE_SPIKE`], or when its skinned normals are off by more than [`VISIBLE_DEGREES`] in the mean.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::metrics::regions::Regions;

/// Root mean square distance of a region in a frame, thousandths of the radius: 3 pixels.
pub const VISIBLE_DISTANCE: f64 = 6.0;

/// Distance of a single vertex, thousandths of the radius: 10 pixels.
pub const VISIBLE_SPIKE: f64 = 20.0;

/// Mean angle of the skinned normals of a region in a frame.
pub const VISIBLE_DEGREES: f64 = 15.0;

/// Above so many times a limit the difference is obvious.
pub const OBVIOUS: f64 = 4.0;

/// Gaps up to so many frames do not interrupt a range.
const GAP: usize = 2;

/// Places and ranges that the sentence names; the others are counted.
const NAMED: usize = 3;

/// A place that is visible in this share of the frames is so throughout.
const THROUGHOUT: f64 = 0.9;

/// How easily a difference is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// No region is above a limit in any frame.
    HardToSee,
    /// Some region is, in some frame.
    Visible,
    /// Some region is far above it.
    Obvious,
}

/// What is off at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Positions.
    Shape,
    /// Skinned normals alone.
    Shading,
}

/// A region that is above a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VisiblePlace {
    /// Bone or place.
    pub region: String,
    /// Positions or shading.
    pub cause: Cause,
    /// First and last frame of each range.
    pub frames: Vec<(usize, usize)>,
    /// Names of the frames, where these are the shapes of a face; each is a range of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<String>,
    /// Whether these are nearly all frames.
    pub throughout: bool,
    /// How many times the limit, in the worst frame.
    pub excess: f64,
}

/// What a viewer notices.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// In one word.
    pub visibility: Visibility,
    /// Regions above a limit, the worst first.
    pub places: Vec<VisiblePlace>,
    /// Whether more than half of the vertices are in regions whose shape is above a limit.
    pub widespread: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.visibility {
            Visibility::HardToSee => return f.write_str("hard to see"),
            Visibility::Visible => f.write_str("visible")?,
            Visibility::Obvious => f.write_str("clearly visible")?,
        }
        let of = |cause: Cause| self.places.iter().filter(move |place| place.cause == cause);
        let has_shape = of(Cause::Shape).next().is_some();
        if has_shape {
            f.write_str(if self.widespread { " almost everywhere, most on " } else { " on " })?;
            named(f, &of(Cause::Shape).collect::<Vec<_>>())?;
        }
        // Of a region whose shape is off, the sentence says no more.
        let shape_is_off = |place: &VisiblePlace| of(Cause::Shape).any(|other| other.region == place.region);
        let shading: Vec<&VisiblePlace> = of(Cause::Shading).filter(|place| !shape_is_off(place)).collect();
        if !shading.is_empty() {
            f.write_str(if has_shape { "; in the shading of " } else { " in the shading of " })?;
            named(f, &shading)?;
        }
        Ok(())
    }
}

/// The first places by name, the others by number.
fn named(f: &mut fmt::Formatter<'_>, places: &[&VisiblePlace]) -> fmt::Result {
    let named: Vec<String> = places.iter().take(NAMED).map(|place| place.to_string()).collect();
    f.write_str(&named.join("; "))?;
    match places.len().saturating_sub(NAMED) {
        0 => Ok(()),
        1 => f.write_str("; and one more place"),
        more => write!(f, "; and {more} more places"),
    }
}

impl fmt::Display for VisiblePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.throughout {
            return write!(f, "{} throughout", self.region);
        }
        if !self.shapes.is_empty() {
            let more = if self.shapes.len() > NAMED { " and more" } else { "" };
            return write!(f, "{} in {}{more}", self.region, self.shapes[..self.shapes.len().min(NAMED)].join(", "));
        }
        let range = |&(first, last): &(usize, usize)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        let named: Vec<String> = self.frames.iter().take(NAMED).map(range).collect();
        let one = matches!(self.frames[..], [(first, last)] if first == last);
        let more = if self.frames.len() > NAMED { " and more" } else { "" };
        write!(f, "{} in {} {}{more}", self.region, if one { "frame" } else { "frames" }, named.join(", "))
    }
}

impl Serialize for Verdict {
    /// With the sentence.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Verdict", 3)?;
        out.serialize_field("visibility", &self.visibility)?;
        out.serialize_field("text", &self.to_string())?;
        out.serialize_field("places", &self.places)?;
        out.end()
    }
}

/// Errors of the regions, frame by frame: how many times each limit.
pub(super) struct Seen<'a> {
    regions: Regions,
    radius: f64,
    /// [F] names of frames that are shapes: each stands for itself.
    shapes: &'a [String],
    /// [F, R] positions and shading.
    excess: Vec<[f32; 2]>,
}

impl<'a> Seen<'a> {
    pub fn new(regions: Regions, radius: f64, shapes: &'a [String]) -> Self {
        Self { regions, radius, shapes, excess: Vec::new() }
    }

    /// Adds a frame: [N] squared distances; [G] vertices and their angles in radians, not a number where there is none.
    pub fn add(&mut self, squared: &[f32], vertices: &[u32], angles: &[f32]) {
        #[derive(Clone, Copy, Default)]
        struct Sums {
            squared: f64,
            largest: f32,
            angle: f64,
            angles: u32,
        }
        let mut sums = vec![Sums::default(); self.regions.count()];
        for (&region, &d) in self.regions.of_vertex.iter().zip(squared) {
            let sum = &mut sums[usize::from(region)];
            sum.squared += f64::from(d);
            sum.largest = sum.largest.max(d);
        }
        for (&i, &angle) in vertices.iter().zip(angles).filter(|(_, angle)| angle.is_finite()) {
            let sum = &mut sums[usize::from(self.regions.of_vertex[i as usize])];
            sum.angle += f64::from(angle);
            sum.angles += 1;
        }
        let unit = 1000.0 / self.radius;
        self.excess.extend(sums.iter().zip(&self.regions.names).map(|(sum, (_, vertices))| {
            let rms = unit * (sum.squared / (*vertices).max(1) as f64).sqrt() / VISIBLE_DISTANCE;
            let spike = unit * f64::from(sum.largest).sqrt() / VISIBLE_SPIKE;
            let degrees = (sum.angle / f64::from(sum.angles.max(1))).to_degrees();
            [rms.max(spike) as f32, (degrees / VISIBLE_DEGREES) as f32]
        }));
    }

    pub fn finish(self) -> Verdict {
        let regions = self.regions.count().max(1);
        let total = self.excess.len() / regions;
        let (mut places, mut off, mut all) = (Vec::new(), 0, 0);
        for (region, (name, vertices)) in self.regions.names.iter().enumerate() {
            let rows = || self.excess.chunks_exact(regions).map(move |row| row[region]);
            for (at, cause) in [Cause::Shape, Cause::Shading].into_iter().enumerate() {
                let excess = rows().map(|row| f64::from(row[at])).fold(0.0, f64::max);
                // Where the shape is off already, shading says nothing new.
                let own = |row: [f32; 2]| row[at] > 1.0 && (at == 0 || row[0] <= 1.0);
                let seen = rows().enumerate().filter(|(_, row)| own(*row)).map(|(t, _)| t);
                let shapes: Vec<String> = seen.clone().filter_map(|t| self.shapes.get(t).cloned()).collect();
                let frames = if shapes.is_empty() { ranges(seen) } else { seen.map(|t| (t, t)).collect() };
                if !frames.is_empty() {
                    let count = rows().filter(|row| own(*row)).count();
                    let throughout = total > 1 && count as f64 >= THROUGHOUT * total as f64;
                    places.push(VisiblePlace { region: name.clone(), cause, frames, shapes, throughout, excess });
                    off += if cause == Cause::Shape { *vertices } else { 0 };
                }
            }
            all += vertices;
        }
        places.sort_by(|a, b| b.excess.total_cmp(&a.excess));
        let visibility = match places.first() {
            None => Visibility::HardToSee,
            Some(worst) if worst.excess > OBVIOUS => Visibility::Obvious,
            Some(_) => Visibility::Visible,
        };
        Verdict { visibility, places, widespread: 2 * off > all }
    }
}

/// Rising frames as ranges.
fn ranges(frames: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for t in frames {
        match ranges.last_mut() {
            Some((_, last)) if t <= *last + 1 + GAP => *last = t,
            _ => ranges.push((t, t)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::MeshSequence;
    use crate::metrics::evaluate;
    use crate::synthetic::{PosedRigParams, posed_rig};
    use glam::DVec3;

    #[test]
    fn frames_are_ranges() {
        assert_eq!(ranges([1, 2, 3, 6, 10, 11].into_iter()), [(1, 6), (10, 11)]);
        assert_eq!(ranges(std::iter::empty()), []);
    }

    /// One bone is moved away in some frames: the sentence names it and them.
    #[test]
    fn what_is_off_is_named() {
        let params = PosedRigParams { frames: 20, ..PosedRigParams::default() };
        let made = posed_rig(5, &params);
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let mut rig = made.rig;
        let exact = evaluate(&rig, 0, &sequence).unwrap();
        let shape = |verdict: &Verdict| verdict.places.iter().filter(|p| p.cause == Cause::Shape).count();
        assert_eq!(shape(&exact.verdict), 0, "{}", exact.verdict);
        rig.bones[1].name = "tail".to_owned();
        let bones = rig.bones.len();
        for t in 6..=9 {
            let bone = &mut rig.clips[0].posed_from_rest[t * bones + 1];
            bone.translation += DVec3::X * 0.05 * exact.radius_model_units;
        }
        let off = evaluate(&rig, 0, &sequence).unwrap().verdict;
        let worst = &off.places[0];
        assert_eq!((worst.region.as_str(), worst.cause, &worst.frames[..]), ("tail", Cause::Shape, &[(6, 9)][..]));
        assert!(
            off.visibility >= Visibility::Visible && off.to_string().contains("visible on tail in frames 6-9"),
            "{off}"
        );
    }

    #[test]
    fn sentences_count_what_they_do_not_name() {
        let place = |k: usize, cause| VisiblePlace {
            region: format!("part {k}"),
            cause,
            frames: vec![(k, k)],
            shapes: Vec::new(),
            throughout: k == 1,
            excess: 1.5,
        };
        let places = (0..5).map(|k| place(k, Cause::Shape)).chain([place(9, Cause::Shading)]).collect();
        let mut verdict = Verdict { visibility: Visibility::Visible, places, widespread: false };
        assert_eq!(
            verdict.to_string(),
            "visible on part 0 in frame 0; part 1 throughout; part 2 in frame 2; and 2 more places; in the shading of part 9 in frame 9"
        );
        verdict.widespread = true;
        verdict.places.retain(|place| place.region == "part 2");
        assert_eq!(verdict.to_string(), "visible almost everywhere, most on part 2 in frame 2");
        verdict.places[0].shapes = ["jawOpen", "smile_L", "smile_R", "frown"].map(str::to_owned).to_vec();
        assert_eq!(
            verdict.to_string(),
            "visible almost everywhere, most on part 2 in jawOpen, smile_L, smile_R and more"
        );
        verdict.places[0].shapes.clear();
        verdict.places[0].cause = Cause::Shading;
        assert_eq!(verdict.to_string(), "visible in the shading of part 2 in frame 2");
        let none = Verdict { visibility: Visibility::HardToSee, places: Vec::new(), widespread: false };
        assert_eq!(none.to_string(), "hard to see");
    }
}
