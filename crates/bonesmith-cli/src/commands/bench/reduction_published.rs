//! Published figures of weight reduction: table 3 of the course notes of 2014 (= table 4.3 of Le's thesis), and table 4.2
//! of the thesis.

/// Where influences are taken from, and how many stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    EightToFour,
    DenseToFour,
    DenseToEight,
}

impl Task {
    pub const ALL: [Self; 3] = [Self::EightToFour, Self::DenseToFour, Self::DenseToEight];

    pub fn name(self) -> &'static str {
        match self {
            Self::EightToFour => "8 to 4",
            Self::DenseToFour => "dense to 4",
            Self::DenseToEight => "dense to 8",
        }
    }

    /// Influences of the rig to start from; `None` for all.
    pub fn given(self) -> Option<usize> {
        (self == Self::EightToFour).then_some(8)
    }

    pub fn wanted(self) -> usize {
        if self == Self::DenseToEight { 8 } else { 4 }
    }
}

/// One sequence and number of bones.
pub struct Row {
    pub sequence: &'static str,
    pub bones: usize,
    /// E of k-largest, smooth, two-layer without examples, geometric, Poisson, two-layer with examples; by task.
    pub errors: [[f64; 6]; 3],
    /// E of the decompositions that were reduced: with 8 influences, and dense.
    pub own: [f64; 2],
    /// Delta_W of k-largest, smooth, two-layer; by task.
    pub changes: [[f64; 3]; 3],
}

/// The rows whose sequences can be had.
pub const ROWS: &[Row] = &[
    Row {
        sequence: "samba",
        bones: 10,
        errors: [[10.6, 11.5, 5.0, 9.4, 10.5, 4.8], [11.8, 12.7, 4.8, 10.5, 11.6, 4.7], [5.1, 5.3, 4.8, 4.8, 5.0, 4.8]],
        own: [4.9, 4.8],
        changes: [[19.6, 24.5, 1.2], [21.9, 26.6, 1.1], [1.8, 2.4, 0.2]],
    },
    Row {
        sequence: "samba",
        bones: 20,
        errors: [[5.7, 6.5, 2.3, 5.0, 5.8, 2.1], [7.6, 8.3, 2.4, 6.8, 7.6, 2.0], [3.8, 4.4, 2.0, 3.1, 3.7, 1.9]],
        own: [2.2, 1.9],
        changes: [[14.0, 18.0, 1.7], [18.1, 22.2, 2.4], [5.0, 6.5, 0.9]],
    },
    Row {
        sequence: "horse-gallop",
        bones: 15,
        errors: [[9.5, 10.3, 2.6, 7.0, 8.2, 2.3], [20.7, 23.5, 2.4, 10.1, 11.5, 2.0], [5.9, 6.9, 1.9, 3.9, 4.7, 1.9]],
        own: [2.5, 1.9],
        changes: [[13.0, 17.3, 0.9], [157.7, 161.5, 1.3], [4.9, 6.6, 0.3]],
    },
    Row {
        sequence: "horse-gallop",
        bones: 30,
        errors: [[5.4, 5.7, 1.2, 3.8, 4.5, 1.0], [18.1, 20.8, 3.4, 12.3, 14.7, 1.6], [9.6, 11.6, 1.6, 5.3, 6.7, 0.8]],
        own: [0.9, 0.5],
        changes: [[7.3, 9.6, 0.8], [23.1, 29.6, 2.4], [9.1, 12.4, 0.9]],
    },
    Row {
        sequence: "horse-collapse",
        bones: 20,
        errors: [[12.0, 13.4, 3.0, 7.2, 9.0, 2.1], [17.9, 20.3, 3.5, 11.0, 13.5, 2.1], [8.4, 10.5, 1.9, 4.2, 5.5, 1.4]],
        own: [1.9, 1.3],
        changes: [[15.9, 22.4, 2.8], [28.8, 37.0, 4.0], [10.1, 14.2, 1.5]],
    },
    Row {
        sequence: "horse-collapse",
        bones: 40,
        errors: [[8.2, 8.4, 2.8, 4.4, 5.6, 2.0], [17.8, 20.0, 4.8, 10.1, 12.6, 2.5], [10.9, 12.8, 2.9, 4.9, 6.4, 1.3]],
        own: [1.3, 0.6],
        changes: [[10.8, 14.7, 3.3], [23.6, 29.4, 5.1], [11.0, 14.6, 2.7]],
    },
];

impl Row {
    /// What `--only` is looked for in.
    pub fn label(&self) -> String {
        format!("{} {}", self.sequence, self.bones)
    }
}
