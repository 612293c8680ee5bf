//! Multi-weights in sparse rows: the influences of bones on one vertex, or on one virtual bone.

use glam::{DMat3, DVec3, Vec3};

use crate::model::weights::check_affine_row;
use crate::solve::check::ensure;
use crate::solve::transform::inverse;

/// One influence as it is computed: `w, x y z, xx xy xz yy yz zz`.
pub(crate) type MultiWeight = [f64; 10];

/// A symmetric 4x4 matrix per influence, in float32, about the centre of its row.
///
/// Each influence holds the first `width` of ten numbers `w, x y z, xx xy xz yy yz zz` of the matrix
///
/// ```text
/// [ xx xy xz x ]
/// [ xy yy yz y ]      = T(-p_i) Omega_ij T(-p_i)^T        [Le2021 eq. 13d]
/// [ xz yz zz z ]
/// [ x  y  z  w ]
/// ```
///
/// Invariants, checked by [`MultiWeights::check`]:
/// 1. `starts` begins at 0, rises, and ends at the number of influences; every row has at least one.
/// 2. Width is 1, 4 or 10; all numbers and centres are finite.
/// 3. Bones exist, and a row names none twice; the `w` of a row sum to 1 within 1e-4.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiWeights {
    width: usize,
    starts: Vec<u32>,
    bones: Vec<u16>,
    values: Vec<f32>,
    centres: Vec<Vec3>,
}

/// Why multi-weights were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum MultiWeightsError {
    #[error("multi-weights: {what}")]
    Tables { what: String },
    #[error("multi-weights of row {row}: {what}")]
    Row { row: usize, what: String },
}

/// The symmetric matrix of `xx xy xz yy yz zz`.
pub(crate) fn symmetric(entries: &[f32]) -> DMat3 {
    let [xx, xy, xz, yy, yz, zz] = std::array::from_fn(|at| f64::from(entries[at]));
    DMat3::from_cols_array(&[xx, xy, xz, xy, yy, yz, xz, yz, zz])
}

/// `xx xy xz yy yz zz` of a symmetric matrix.
fn entries(m: &DMat3) -> [f32; 6] {
    [m.x_axis.x, m.y_axis.x, m.z_axis.x, m.y_axis.y, m.z_axis.y, m.z_axis.z].map(|entry| entry as f32)
}

impl MultiWeights {
    /// Tables as they are; [`MultiWeights::check`] checks the rows.
    pub fn from_tables(
        width: usize,
        starts: Vec<u32>,
        bones: Vec<u16>,
        values: Vec<f32>,
        centres: Vec<Vec3>,
    ) -> Result<Self, MultiWeightsError> {
        let bad = |what: String| MultiWeightsError::Tables { what };
        ensure([1, 4, 10].contains(&width), || bad(format!("{width} numbers per influence; 1, 4 or 10 are possible")))?;
        if bones.len().checked_mul(width) != Some(values.len()) {
            return Err(bad(format!("{} numbers for {} influences of {width}", values.len(), bones.len())));
        }
        let rows = starts.len().saturating_sub(1);
        ensure(rows == centres.len(), || bad(format!("{} centres for {rows} rows", centres.len())))?;
        let whole = starts.first() == Some(&0) && starts.last().map(|&end| end as usize) == Some(bones.len());
        if !whole || !starts.is_sorted() {
            return Err(bad(format!("the starts of the rows do not rise from 0 to {}", bones.len())));
        }
        Ok(Self { width, starts, bones, values, centres })
    }

    /// Rows of (bone, moments about the centre), rounded so that the stored `w` sum to 1.
    pub(crate) fn from_rows(rows: impl Iterator<Item = (DVec3, Vec<(u16, MultiWeight)>)>) -> Self {
        let mut all = Self { width: 10, starts: vec![0], bones: vec![], values: vec![], centres: vec![] };
        for (centre, mut row) in rows {
            row.sort_by(|a, b| b.1[0].total_cmp(&a.1[0]).then(a.0.cmp(&b.0)));
            let first = all.values.len();
            for (bone, moments) in &row {
                all.bones.push(*bone);
                all.values.extend(moments.iter().map(|m| *m as f32));
            }
            let others: f64 = (1..row.len()).map(|at| f64::from(all.values[first + 10 * at])).sum();
            all.values[first] = (1.0 - others) as f32;
            all.starts.push(all.bones.len() as u32);
            all.centres.push(centre.as_vec3());
        }
        all
    }

    /// Only the first `width` numbers of each influence.
    pub fn narrowed(&self, width: usize) -> Self {
        let width = width.min(self.width);
        let values = self.values.chunks_exact(self.width).flat_map(|v| &v[..width]).copied().collect();
        Self { width, values, ..self.clone() }
    }

    /// The same in other axes or another unit: `linear` is the linear part of `target_from_source`.
    pub fn placed(&self, linear: DMat3) -> Self {
        if linear == DMat3::IDENTITY {
            return self.clone();
        }
        let mut placed = self.clone();
        placed.centres.iter_mut().for_each(|p| *p = (linear * p.as_dvec3()).as_vec3());
        for value in placed.values.chunks_exact_mut(self.width) {
            if let [_, x, y, z, ..] = value {
                let lever = linear * DVec3::new((*x).into(), (*y).into(), (*z).into());
                (*x, *y, *z) = (lever.x as f32, lever.y as f32, lever.z as f32);
            }
            if let [_, _, _, _, square @ ..] = value
                && square.len() == 6
            {
                square.copy_from_slice(&entries(&(linear * symmetric(square) * linear.transpose())));
            }
        }
        placed
    }

    /// Rows: vertices, or virtual bones.
    pub fn count(&self) -> usize {
        self.centres.len()
    }

    /// Numbers per influence: 1, 4 or 10.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Influences of all rows.
    pub fn influences(&self) -> usize {
        self.bones.len()
    }

    /// Most influences of a row.
    pub fn max_influences(&self) -> usize {
        self.starts.windows(2).map(|s| (s[1] - s[0]) as usize).max().unwrap_or(0)
    }

    /// [rows + 1] first influence of each row.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// [influences] bone of each.
    pub fn bones(&self) -> &[u16] {
        &self.bones
    }

    /// [influences, width] numbers.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// [rows] centres of rotation `p`, relative to the model's origin.
    pub fn centres(&self) -> &[Vec3] {
        &self.centres
    }

    /// Centre of rotation of one row.
    pub fn centre(&self, row: usize) -> DVec3 {
        self.centres[row].as_dvec3()
    }

    /// Influences of a row: bone and `width` numbers.
    pub fn of(&self, row: usize) -> impl Iterator<Item = (usize, &[f32])> + '_ {
        let range = self.starts[row] as usize..self.starts[row + 1] as usize;
        range.map(|at| (self.bones[at] as usize, &self.values[at * self.width..(at + 1) * self.width]))
    }

    /// Inverse of `P - p p^T` of a row, `xx xy xz yy yz zz`: what variant 1 needs. Width 10 only.
    pub fn rest_inverse(&self, row: usize) -> [f32; 6] {
        entries(&inverse(&self.of(row).fold(DMat3::ZERO, |sum, (_, v)| sum + symmetric(&v[4..]))))
    }

    /// Bytes of the tables at run time.
    pub fn bytes(&self) -> usize {
        4 * self.starts.len() + 2 * self.bones.len() + 4 * self.values.len() + 12 * self.centres.len()
    }

    /// Checks all invariants against `bones` bones.
    pub fn check(&self, bones: usize) -> Result<(), MultiWeightsError> {
        for row in 0..self.count() {
            self.check_row(row, bones).map_err(|what| MultiWeightsError::Row { row, what })?;
        }
        Ok(())
    }

    fn check_row(&self, row: usize, bones: usize) -> Result<(), String> {
        ensure(self.centres[row].is_finite(), || "its centre is not finite".to_owned())?;
        if let Some((j, value)) = self.of(row).find_map(|(j, v)| v.iter().find(|v| !v.is_finite()).map(|v| (j, v))) {
            return Err(format!("bone {j} has the number {value}"));
        }
        check_affine_row(self.of(row).map(|(j, values)| (j, values[0])), bones)
    }
}
