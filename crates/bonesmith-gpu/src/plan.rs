//! How much of a batch one dispatch does: what the device can bind and count sets the size.

use std::ops::Range;

use crate::error::GpuError;
use crate::layout::SLICE;

/// Offsets of bindings are multiples of 256 bytes: this many origins.
const ORIGINS_ALIGNED: usize = 16;

/// What one instance takes, and what is allowed.
#[derive(Clone, Debug)]
pub(crate) struct Demand<'a> {
    /// [slices + 1] first influence of each slice.
    pub starts: &'a [u32],
    /// Words per influence.
    pub words: usize,
    /// Numbers per row.
    pub planes: usize,
    /// Bytes written per row.
    pub row_bytes: u64,
    /// Bytes of bones read per instance.
    pub bone_bytes: u64,
    pub instances: usize,
    pub workgroup: u32,
    pub tile: u32,
    /// Instances whose origins can be bound at once.
    pub instance_origins: usize,
    /// Most bytes of a binding, a multiple of 256.
    pub binding_bytes: u64,
    /// Most workgroups along an axis.
    pub workgroups: u32,
}

/// Slices and instances of one dispatch: all slices of some instances, or some slices of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub slices: Range<usize>,
    pub instances: Range<usize>,
}

impl Demand<'_> {
    fn slices(&self) -> usize {
        self.starts.len() - 1
    }

    /// Bytes of one slice of influences.
    fn influence_bytes(&self) -> u64 {
        (self.words * SLICE * 4) as u64
    }

    /// First influence to bind for slices from `first` on: even, so that its offset is a multiple of 256 bytes.
    pub fn first_influence(&self, first: usize) -> u32 {
        self.starts[first] & !1
    }

    /// First origin to bind for instances from `first` on: its offset is a multiple of 256 bytes.
    pub fn first_origin(&self, first: usize) -> usize {
        first / ORIGINS_ALIGNED * ORIGINS_ALIGNED
    }

    /// Whether these slices of one instance can be bound and counted.
    fn fits(&self, slices: &Range<usize>) -> bool {
        let count = slices.len() as u64;
        let influences = u64::from(self.starts[slices.end] - self.first_influence(slices.start));
        let groups = (count * SLICE as u64).div_ceil(u64::from(self.workgroup));
        influences * self.influence_bytes() <= self.binding_bytes
            && count * (self.planes * SLICE * 4) as u64 <= self.binding_bytes
            && count * SLICE as u64 * self.row_bytes <= self.binding_bytes
            && groups <= u64::from(self.workgroups)
    }

    /// All dispatches, in order.
    pub fn chunks(&self) -> Result<Vec<Chunk>, GpuError> {
        if self.instance_origins < ORIGINS_ALIGNED {
            let what = "origins of the instances of a dispatch".to_owned();
            return Err(GpuError::Limit { what, needs: ORIGINS_ALIGNED as u64, limit: self.instance_origins as u64 });
        }
        let ranges = self.slice_ranges()?;
        let instance_bytes = self.bone_bytes.max((self.slices() * SLICE) as u64 * self.row_bytes);
        let most = match ranges.len() {
            1 => {
                let by_bytes = self.binding_bytes / instance_bytes.max(1);
                let most = by_bytes.min(u64::from(self.workgroups) * u64::from(self.tile)).max(1) as usize;
                // Origins before the first one are bound with it, up to an offset that may be used.
                most.min(self.instance_origins - (ORIGINS_ALIGNED - 1))
            }
            // An instance in pieces has its rows too far apart for one binding.
            _ => 1,
        };
        let mut chunks = Vec::new();
        for first in (0..self.instances).step_by(most) {
            let instances = first..self.instances.min(first + most);
            chunks.extend(ranges.iter().map(|slices| Chunk { slices: slices.clone(), instances: instances.clone() }));
        }
        Ok(chunks)
    }

    /// Pieces of an instance, in pairs of slices: offsets are multiples of 256 bytes then.
    fn slice_ranges(&self) -> Result<Vec<Range<usize>>, GpuError> {
        if self.bone_bytes > self.binding_bytes {
            let what = "bones of one instance (bytes)".to_owned();
            return Err(GpuError::Limit { what, needs: self.bone_bytes, limit: self.binding_bytes });
        }
        let slices = self.slices();
        let mut ranges = Vec::new();
        let mut first = 0;
        while first < slices {
            let fits = |pairs: usize| self.fits(&(first..slices.min(first + 2 * pairs)));
            let rest = (slices - first).div_ceil(2);
            // Largest number of pairs that fits: `fits` is true up to it and false beyond.
            let (mut low, mut high) = (0, rest);
            while low < high {
                let middle = (low + high).div_ceil(2);
                if fits(middle) { low = middle } else { high = middle - 1 }
            }
            if low == 0 {
                let what = format!("rows {} to {} (bytes)", first * SLICE, (first + 2) * SLICE);
                let needs = u64::from(self.starts[slices.min(first + 2)] - self.starts[first]) * self.influence_bytes();
                return Err(GpuError::Limit { what, needs, limit: self.binding_bytes });
            }
            let end = slices.min(first + 2 * low);
            ranges.push(first..end);
            first = end;
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(starts: &[u32]) -> Demand<'_> {
        Demand {
            starts,
            words: 1,
            planes: 6,
            row_bytes: 24,
            bone_bytes: 48 * 32,
            instances: 7,
            workgroup: 64,
            tile: 4,
            instance_origins: 4096,
            binding_bytes: 1 << 27,
            workgroups: 65535,
        }
    }

    /// Every slice of every instance exactly once, within the limits.
    fn covers(demand: &Demand) -> usize {
        let chunks = demand.chunks().unwrap();
        let mut seen = vec![0; demand.slices() * demand.instances];
        for chunk in &chunks {
            assert!(demand.fits(&chunk.slices));
            let whole = chunk.slices.len() == demand.slices();
            assert!(whole || chunk.instances.len() == 1);
            let bytes = (demand.slices() * SLICE * chunk.instances.len()) as u64 * demand.row_bytes;
            assert!(!whole || chunk.instances.len() == 1 || bytes <= demand.binding_bytes);
            assert_eq!(chunk.slices.start % 2, 0);
            let first_origin = demand.first_origin(chunk.instances.start);
            assert!(
                first_origin.is_multiple_of(ORIGINS_ALIGNED)
                    && chunk.instances.end - first_origin <= demand.instance_origins
            );
            for t in chunk.instances.clone() {
                chunk.slices.clone().for_each(|s| seen[t * demand.slices() + s] += 1);
            }
        }
        assert!(seen.iter().all(|n| *n == 1));
        chunks.len()
    }

    #[test]
    fn one_dispatch_where_possible() {
        let starts: Vec<u32> = (0..=100).map(|s| 3 * s).collect();
        assert_eq!(covers(&demand(&starts)), 1);
    }

    #[test]
    fn several_where_not() {
        let starts: Vec<u32> = (0..=101).map(|s| 3 * s).collect();
        let whole = demand(&starts);
        // Two instances at a time.
        assert_eq!(covers(&Demand { binding_bytes: 2 * 101 * 768 + 256, ..whole.clone() }), 4);
        // Instances in pieces, by bytes and by workgroups.
        assert!(covers(&Demand { binding_bytes: 40 * 768, ..whole.clone() }) >= 3 * 7);
        assert_eq!(covers(&Demand { workgroups: 10, ..whole.clone() }), 6 * 7);
        assert_eq!(covers(&Demand { workgroups: 1, instances: 9, ..whole.clone() }), 51 * 9);
        // By the origins that a uniform buffer holds.
        assert_eq!(covers(&Demand { instance_origins: 32, instances: 100, ..whole.clone() }), 6);
        assert_eq!(covers(&Demand { instance_origins: 16, instances: 3, ..whole }), 3);
    }

    #[test]
    fn what_cannot_be_split_is_an_error() {
        let starts = [0, 4];
        let bones = Demand { bone_bytes: 1 << 20, binding_bytes: 1 << 16, ..demand(&starts) };
        assert!(matches!(bones.chunks(), Err(GpuError::Limit { needs, .. }) if needs == 1 << 20));
        assert!(matches!(Demand { binding_bytes: 256, ..demand(&starts) }.chunks(), Err(GpuError::Limit { .. })));
        assert!(matches!(
            Demand { instance_origins: 15, ..demand(&starts) }.chunks(),
            Err(GpuError::Limit { limit: 15, .. })
        ));
    }
}
