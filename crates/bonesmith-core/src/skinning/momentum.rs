//! Momentum: unknowns are carried on in the direction they moved.
//!
//! Taking turns over two groups of unknowns creeps along curved valleys. So one group is first carried on, by Nesterov's schedule
//! `beta = (n - 1) / (n + 2)` in round `n` [Nesterov1983], and the other group is then solved for it. That group is optimal for *any*
//! value of the first, so this is safe: where the error rises, the step ahead is taken back and momentum starts again.

/// How far ahead of the last round the next one starts.
pub(crate) struct Momentum<T> {
    /// Largest factor; 0: none.
    most: f64,
    /// The unknowns after the last round, without the step ahead.
    last: Option<T>,
    ahead: bool,
    /// Rounds since momentum started.
    age: f64,
}

impl<T: Clone> Momentum<T> {
    pub fn new(most: f64) -> Self {
        Self { most, last: None, ahead: false, age: 0.0 }
    }

    /// Whether the unknowns are ahead of the last round.
    pub fn is_ahead(&self) -> bool {
        self.ahead
    }

    /// Carries the unknowns on; `extrapolate(new, old, beta)` is `new + beta (new - old)` within what they may be.
    pub fn look_ahead(&mut self, unknowns: &mut T, extrapolate: impl FnOnce(&T, T, f64) -> T) {
        self.age += 1.0;
        let beta = ((self.age - 1.0) / (self.age + 2.0)).min(self.most);
        self.ahead = beta > 0.0 && self.last.is_some();
        self.last = Some(match self.last.take() {
            Some(last) if self.ahead => {
                let ahead = extrapolate(unknowns, last, beta);
                std::mem::replace(unknowns, ahead)
            }
            _ => unknowns.clone(),
        });
    }

    /// Back to where the last round ended, so that the unknowns are what its error belongs to; momentum starts again. False if
    /// they were not ahead.
    pub fn step_back(&mut self, unknowns: &mut T) -> bool {
        let ahead = self.ahead;
        if let Some(last) = self.last.take().filter(|_| ahead) {
            *unknowns = last;
        }
        self.reset();
        ahead
    }

    /// Starts again from wherever the unknowns are.
    pub fn reset(&mut self) {
        *self = Self::new(self.most);
    }
}
