//! Random numbers of the fuzz tests.

/// Xorshift: the same numbers in every run, without a library.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    /// An offset in a file: anywhere, or near the start or the end, where structure usually is.
    pub fn offset(&mut self, bytes: usize) -> usize {
        match self.below(4) {
            0 => self.below(bytes.min(4096)),
            1 => bytes - 1 - self.below(bytes.min(16384)),
            _ => self.below(bytes),
        }
    }
}
