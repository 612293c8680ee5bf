//! Published figures of whole methods: table 2 of Kavan et al. 2010, table 1 of the course notes of 2014 (= table 3.3 of
//! Le's thesis). Only rows whose sequences can be had.

/// One method on one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// As `--method` takes it.
    pub method: &'static str,
    pub e_rms: Option<f64>,
    /// After EigenSkin.
    pub corrected: Option<f64>,
    pub minutes: Option<f64>,
}

impl Published {
    pub const OURS: Self = Self { method: "bonesmith", e_rms: None, corrected: None, minutes: None };

    pub fn is_printed(&self) -> bool {
        self.method != Self::OURS.method
    }

    pub fn is_rig(&self) -> bool {
        !matches!(self.method, "cpca" | "svd")
    }
}

/// One sequence and number of bones.
pub struct Row {
    pub sequence: &'static str,
    pub bones: usize,
    pub figures: &'static [Published],
}

impl Row {
    /// What `--only` is looked for in.
    pub fn label(&self) -> String {
        format!("{} {}", self.sequence, self.bones)
    }
}

const fn shaped(method: &'static str, e_rms: f64, corrected: f64, minutes: f64) -> Published {
    Published { method, e_rms: Some(e_rms), corrected: Some(corrected), minutes: Some(minutes) }
}

const fn timed(method: &'static str, e_rms: f64, seconds: f64) -> Published {
    Published { method, e_rms: Some(e_rms), corrected: None, minutes: Some(seconds / 60.0) }
}

const fn plain(method: &'static str, e_rms: f64) -> Published {
    Published { method, e_rms: Some(e_rms), corrected: None, minutes: None }
}

/// Times of the course notes cannot be separated in the text we have.
const fn bracket(method: &'static str, e_rms: f64, corrected: f64) -> Published {
    Published { method, e_rms: Some(e_rms), corrected: Some(corrected), minutes: None }
}

const fn row(sequence: &'static str, bones: usize, figures: &'static [Published]) -> Row {
    Row { sequence, bones, figures }
}

/// Rank-10 EigenSkin in brackets.
pub const KAVAN2: &[Row] = &[
    row(
        "pcow",
        18,
        &[
            shaped("sma", 17.0, 9.2, 2.3),
            shaped("sad", 16.0, 9.1, 2.8),
            timed("fsd", 3.6, 5.0),
            plain("cpca", 7.3),
            plain("svd", 1.3),
        ],
    ),
    row(
        "horse-collapse",
        6,
        &[
            shaped("sma", 48.0, 1.3, 2.7),
            shaped("sad", 26.0, 0.8, 3.5),
            timed("fsd", 8.3, 3.5),
            plain("cpca", 12.4),
            plain("svd", 1.0),
        ],
    ),
    row(
        "samba",
        30,
        &[
            shaped("sma", 8.6, 3.6, 10.3),
            shaped("sad", 11.4, 6.0, 20.2),
            timed("fsd", 1.5, 15.8),
            plain("cpca", 4.0),
            plain("svd", 0.2),
        ],
    ),
    row(
        "horse-gallop",
        30,
        &[
            shaped("sma", 2.3, 0.3, 2.7),
            shaped("sad", 4.9, 2.9, 6.0),
            timed("fsd", 1.3, 4.3),
            plain("cpca", 2.4),
            plain("svd", 2e-5),
        ],
    ),
];

/// Rank-5 EigenSkin in brackets.
pub const SSDR1: &[Row] = &[
    row("cat-poses", 10, &[bracket("lssp", 12.6, 5.6), bracket("ssdr", 13.0, 5.7)]),
    row("cat-poses", 15, &[bracket("lssp", 10.7, 6.1), bracket("ssdr", 6.5, 2.7)]),
    row("cat-poses", 20, &[bracket("ssdr", 4.7, 2.0)]),
    row("cat-poses", 25, &[bracket("sma", 8.5, 3.1), bracket("lssp", 6.2, 3.3), bracket("ssdr", 3.4, 1.4)]),
    row("chickenCrossing", 10, &[bracket("lssp", 20.9, 14.9), bracket("ssdr", 21.8, 20.4)]),
    row("chickenCrossing", 20, &[bracket("lssp", 10.1, 9.7), bracket("ssdr", 8.7, 5.7)]),
    row("chickenCrossing", 28, &[bracket("sma", 12.5, 4.2), bracket("lssp", 6.2, 5.1), bracket("ssdr", 8.1, 5.4)]),
    row("face-poses", 9, &[bracket("ssdr", 12.0, 5.7)]),
    row("face-poses", 27, &[bracket("ssdr", 7.0, 3.6)]),
    row("face-poses", 36, &[bracket("sma", 37.6, 8.5)]),
    row("horse-collapse", 3, &[bracket("sma", 139.5, 5.1), bracket("lssp", 51.0, 3.1), bracket("ssdr", 26.5, 4.1)]),
    row("horse-collapse", 10, &[bracket("lssp", 15.5, 2.6), bracket("ssdr", 7.4, 2.1)]),
    row("horse-collapse", 20, &[bracket("lssp", 6.0, 2.0), bracket("ssdr", 5.0, 1.6)]),
    row("horse-gallop", 10, &[bracket("lssp", 28.1, 7.1), bracket("ssdr", 8.3, 3.6)]),
    row("horse-gallop", 20, &[bracket("lssp", 15.7, 5.3), bracket("ssdr", 3.6, 1.8)]),
    row("horse-gallop", 33, &[bracket("sma", 9.5, 1.5), bracket("lssp", 12.5, 4.6), bracket("ssdr", 2.2, 1.1)]),
    row("horse-poses", 10, &[bracket("lssp", 18.8, 7.7), bracket("ssdr", 9.0, 3.9)]),
    row("horse-poses", 20, &[bracket("lssp", 20.6, 7.8), bracket("ssdr", 3.8, 1.8)]),
    row("horse-poses", 30, &[bracket("lssp", 2.8, 1.4), bracket("ssdr", 2.2, 0.9)]),
    row("horse-poses", 42, &[bracket("sma", 4.7, 1.4), bracket("lssp", 2.2, 1.2)]),
    row("lion-poses", 10, &[bracket("lssp", 22.1, 11.0), bracket("ssdr", 11.3, 5.0)]),
    row("lion-poses", 21, &[bracket("sma", 62.8, 5.7), bracket("lssp", 7.7, 3.9), bracket("ssdr", 4.4, 2.2)]),
    row("pcow", 10, &[bracket("lssp", 16.5, 13.2), bracket("ssdr", 14.4, 11.9)]),
    row("pcow", 24, &[bracket("sma", 24.8, 13.2), bracket("lssp", 7.2, 6.7), bracket("ssdr", 5.7, 4.8)]),
    row("pdance", 10, &[bracket("lssp", 8.0, 4.9), bracket("ssdr", 6.3, 3.4)]),
    row("pdance", 24, &[bracket("sma", 3.8, 1.6), bracket("lssp", 3.4, 2.3), bracket("ssdr", 1.3, 0.8)]),
];
