//! Published and measured E_RMS figures of other solvers, at most 4 influences: what a bench row is held against.
//!
//! `ssdr`: Le & Deng's smooth skinning decomposition with rigid bones, as tabulated in their course notes (table 1).
//! `dem_bones`: Dem Bones 1.2.1 with weightsSmooth 0 and transAffine 0, its most accurate setting, 1 thread; left
//! out where it gave fewer bones than asked for. `fsd`: Kavan, Sloan & O'Sullivan 2010, table 2. `ld_out`: the
//! authors' own output files of Le & Deng's solver, evaluated on the same data.

use bonesmith_core::BoneKind;

/// One sequence, one number of bones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// File stem.
    pub sequence: &'static str,
    pub bones: usize,
    pub kind: BoneKind,
    pub ssdr: Option<f64>,
    pub dem_bones: Option<f64>,
    pub fsd: Option<f64>,
    pub ld_out: Option<f64>,
}

/// A column of published figures: its name, and the figure of a row.
pub type Source = (&'static str, fn(&Row) -> Option<f64>);

/// Papers that published figures.
pub const SOURCES: [Source; 4] =
    [("SSDR", |r| r.ssdr), ("Dem Bones", |r| r.dem_bones), ("FSD", |r| r.fsd), ("L&D out", |r| r.ld_out)];

const NONE: Option<f64> = None;

const fn rigid(
    sequence: &'static str,
    bones: usize,
    ssdr: Option<f64>,
    dem_bones: Option<f64>,
    ld_out: Option<f64>,
) -> Row {
    Row { sequence, bones, kind: BoneKind::Rigid, ssdr, dem_bones, fsd: None, ld_out }
}

const fn affine(sequence: &'static str, bones: usize, fsd: Option<f64>, ld_out: Option<f64>) -> Row {
    Row { sequence, bones, kind: BoneKind::Affine, ssdr: None, dem_bones: None, fsd, ld_out }
}

/// All rows, rigid ones first.
pub const ROWS: &[Row] = &[
    //    sequence         bones  SSDR        Dem Bones   L&D out
    rigid("cat-poses", 10, Some(13.0), Some(10.4), NONE),
    rigid("cat-poses", 15, Some(6.5), Some(7.59), Some(6.641)),
    rigid("cat-poses", 20, Some(4.7), Some(5.78), Some(4.862)),
    rigid("cat-poses", 25, Some(3.4), Some(4.31), Some(3.445)),
    rigid("chickenCrossing", 10, Some(21.8), Some(95.5), NONE),
    rigid("chickenCrossing", 20, Some(8.7), Some(92.8), NONE),
    rigid("chickenCrossing", 28, Some(8.1), Some(91.6), NONE),
    rigid("face-poses", 9, Some(12.0), NONE, NONE),
    rigid("face-poses", 27, Some(7.0), NONE, NONE),
    rigid("horse-collapse", 3, Some(26.5), Some(22.6), NONE),
    rigid("horse-collapse", 10, Some(7.4), Some(8.33), Some(7.712)),
    rigid("horse-collapse", 20, Some(5.0), Some(5.25), NONE),
    rigid("horse-gallop", 10, Some(8.3), Some(9.69), NONE),
    rigid("horse-gallop", 20, Some(3.6), Some(4.42), NONE),
    rigid("horse-gallop", 30, NONE, Some(3.16), NONE),
    rigid("horse-gallop", 33, Some(2.2), Some(2.64), NONE),
    rigid("horse-poses", 10, Some(9.0), NONE, NONE),
    rigid("horse-poses", 20, Some(3.8), NONE, NONE),
    rigid("horse-poses", 30, Some(2.2), NONE, NONE),
    rigid("lion-poses", 10, Some(11.3), Some(11.2), NONE),
    rigid("lion-poses", 21, Some(4.4), Some(5.87), NONE),
    rigid("pcow", 10, Some(14.4), Some(11.5), NONE),
    rigid("pcow", 24, Some(5.7), Some(5.38), NONE),
    rigid("pdance", 10, Some(6.3), Some(4.67), NONE),
    rigid("pdance", 24, Some(1.3), Some(1.26), NONE),
    rigid("samba", 20, NONE, Some(5.30), NONE),
    //     sequence        bones  FSD        L&D out
    affine("cat-poses", 10, NONE, Some(7.858)),
    affine("cat-poses", 15, NONE, Some(5.278)),
    affine("cat-poses", 20, NONE, Some(3.860)),
    affine("cat-poses", 25, NONE, Some(2.943)),
    affine("chickenCrossing", 20, NONE, Some(7.675)),
    affine("chickenCrossing", 28, NONE, Some(4.409)),
    affine("horse-collapse", 6, Some(8.3), NONE),
    affine("horse-collapse", 10, NONE, Some(5.376)),
    affine("horse-collapse", 20, NONE, Some(3.736)),
    affine("horse-gallop", 10, NONE, Some(6.606)),
    affine("horse-gallop", 20, NONE, Some(3.274)),
    affine("horse-gallop", 30, Some(1.3), Some(2.056)),
    affine("horse-poses", 10, NONE, Some(7.785)),
    affine("horse-poses", 20, NONE, Some(3.304)),
    affine("lion-poses", 10, NONE, Some(7.225)),
    affine("lion-poses", 21, NONE, Some(3.777)),
    affine("pcow", 18, Some(3.6), NONE),
    affine("pcow", 24, NONE, Some(3.645)),
    affine("pdance", 10, NONE, Some(5.126)),
    affine("pdance", 24, NONE, Some(1.500)),
    affine("samba", 30, Some(1.5), NONE),
];

/// Rows for the animation the program makes itself; nobody has published figures for it.
pub const DEMO_ROWS: &[Row] = &[
    rigid("demo", 10, NONE, NONE, NONE),
    rigid("demo", 20, NONE, NONE, NONE),
    affine("demo", 10, NONE, NONE),
    affine("demo", 20, NONE, NONE),
];

impl Row {
    /// The lowest published figure and who has it.
    pub fn best_published(&self) -> Option<(&'static str, f64)> {
        let figures = SOURCES.iter().filter_map(|(name, of)| of(self).map(|e| (*name, e)));
        figures.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What `--only` is looked for in: "horse-gallop 30 affine".
    pub fn label(&self) -> String {
        format!("{} {} {}", self.sequence, self.bones, self.kind_name())
    }

    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            BoneKind::Rigid => "rigid",
            BoneKind::Trs => "trs",
            BoneKind::Affine => "affine",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there_once_and_has_a_figure() {
        for (at, row) in ROWS.iter().enumerate() {
            assert!(row.best_published().is_some_and(|(_, e)| e > 0.0), "{}", row.label());
            assert!(ROWS[..at].iter().all(|other| other.label() != row.label()), "{}", row.label());
        }
    }

    #[test]
    fn the_lowest_figure_is_the_one_to_beat() {
        let row = ROWS.iter().find(|r| r.label() == "horse-gallop 30 affine").unwrap();
        assert_eq!(row.best_published(), Some(("FSD", 1.3)));
    }
}
