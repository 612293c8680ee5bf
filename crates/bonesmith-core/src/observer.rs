//! Progress of long stages, and how they are cancelled.

use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Work between two reports takes about this long.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Makes the enum of stages and their words from one table.
macro_rules! stages {
    ($($(#[$doc:meta])* $name:ident = $words:literal),+ $(,)?) => {
        /// What a running piece of work is doing. `Display` and JSON have it in words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the words of each stand beside it")]
        pub enum Stage {
            $($(#[$doc])* $name),+
        }

        impl Stage {
            /// Every stage.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// In words for a person.
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words),+
                }
            }
        }
    };
}

stages! {
    // Files.
    Reading = "reading",
    ComparingWithTheRig = "comparing with the rig",
    Measuring = "measuring",
    MeasuringTheFile = "measuring the file",
    Writing = "writing",
    WritingTheReport = "writing the report",
    MakingTheAnimation = "making the animation",
    MeasuringBandwidth = "measuring bandwidth",
    MeasuringKernels = "measuring kernels",
    // Fits. Rounds of the search see a sample of the sequence, those of weights and bones all of it.
    Prepare = "prepare",
    FirstBones = "first bones",
    MergingPieces = "merging pieces",
    Search = "search",
    NumberOfBones = "number of bones",
    BonesOnMoreVertices = "bones on more vertices",
    WeightsAndBones = "weights and bones",
    Shading = "shading",
    OtherNorm = "other norm",
    FewerInfluences = "fewer influences",
    FewerNumbers = "fewer numbers",
    // Refits.
    Weights = "weights",
    Motion = "motion",
    WeightsAndMotion = "weights and motion",
    HelperBones = "helper bones",
    // Skeletons.
    OneBone = "one bone",
    ExactBones = "exact bones",
    FreeBones = "free bones",
    Clusters = "clusters",
    Tree = "tree",
    Links = "links",
    SoftJoints = "soft joints",
    AllFrames = "all frames",
    WeightsAndJoints = "weights and joints",
    // Published methods.
    Subspace = "subspace",
    ClustersAndComponents = "clusters and components",
    SpectralClusters = "spectral clusters",
    RotationsOfTriangles = "rotations of triangles",
    MeanShift = "mean shift",
    BonesAndWeights = "bones and weights",
    Transformations = "transformations",
    SingularValues = "singular values",
    KMeans = "k-means",
    // Corrective shapes.
    Residuals = "residuals",
    CorrectiveShapes = "corrective shapes",
    // Reduction, compression and Direct Delta Mush.
    Poses = "poses",
    SmoothWeights = "smooth weights",
    PoissonEquation = "Poisson equation",
    ChoosingBones = "choosing bones",
    SmoothingErrors = "smoothing errors",
    VirtualBones = "virtual bones",
    FewestVirtualBones = "fewest virtual bones",
    RestPoseBonesAndLayers = "rest pose, bones and layers",
    SingleLayerWeights = "single-layer weights",
    SmoothingWeights = "smoothing weights",
    BothLayers = "both layers",
    RealPoses = "real poses",
    SmoothingEveryFrame = "smoothing every frame",
    // Levels of detail.
    Levels = "levels",
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.words())
    }
}

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}

/// What an error of a [`Round`] is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Measure {
    /// E_RMS, of what the round saw.
    ERms,
    /// Root mean square change of the weights, in thousandths.
    Weights,
    /// E of the compression of Direct Delta Mush, in squared model units [Le2021 eq. 11a].
    DdmEnergy,
}

/// One round of an iterative stage: an entry of its history. In JSON an E_RMS has the key `e_rms`, too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// What the round was part of.
    pub stage: Stage,
    /// Bones at that time; virtual bones in a compression.
    pub bones: usize,
    /// Error after the round.
    pub error: f64,
    /// What the error is measured in.
    pub measure: Measure,
}

impl Serialize for Round {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { stage, bones, error, measure } = self;
        let is_e_rms = *measure == Measure::ERms;
        let mut round = serializer.serialize_struct("Round", 4 + usize::from(is_e_rms))?;
        round.serialize_field("stage", stage)?;
        round.serialize_field("bones", bones)?;
        round.serialize_field("error", error)?;
        round.serialize_field("measure", measure)?;
        if is_e_rms {
            round.serialize_field("e_rms", error)?;
        }
        round.end()
    }
}

/// One report from a running stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is running.
    pub stage: Stage,
    /// Steps done in this stage.
    pub step: usize,
    /// Steps expected in this stage; `None` while unknown.
    pub steps: Option<usize>,
    /// Current error in E_RMS, where the stage has one.
    pub e_rms: Option<f64>,
}

/// Receives progress; returns [`ControlFlow::Break`] to cancel.
///
/// A cancelled stage returns an error whose source is [`Cancelled`], and changes nothing.
pub trait Observer: Send {
    /// Called from one thread, at least once a second by any stage that takes longer than that.
    fn report(&mut self, progress: &Progress) -> ControlFlow<()>;
}

/// A function of the progress is an observer.
impl<F: FnMut(&Progress) -> ControlFlow<()> + Send> Observer for F {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        self(progress)
    }
}

/// The observer cancelled the stage. The only such type: every error of a stage has it as its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Called now and then by a part that has no stages of its own; an error ends the part.
pub(crate) type Check<'a> = &'a mut dyn FnMut() -> Result<(), Cancelled>;

/// An observer that ignores progress and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn report(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Counts the steps of one stage after another and reports them.
pub(crate) struct Stages<'a> {
    observer: &'a mut dyn Observer,
    /// The present stage.
    pub stage: Stage,
    step: usize,
    steps: Option<usize>,
}

impl<'a> Stages<'a> {
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self { observer, stage: Stage::Prepare, step: 0, steps: None }
    }

    /// Begins a stage of about `steps` steps.
    pub fn begin(&mut self, stage: Stage, steps: Option<usize>) -> Result<(), Cancelled> {
        (self.stage, self.step, self.steps) = (stage, 0, steps);
        self.report(None)
    }

    /// One more step is done; there may turn out to be more than expected.
    pub fn step(&mut self, e_rms: Option<f64>) -> Result<(), Cancelled> {
        self.step += 1;
        self.steps = self.steps.map(|steps| steps.max(self.step));
        self.report(e_rms)
    }

    /// `step` steps are done.
    pub fn at(&mut self, step: usize, e_rms: Option<f64>) -> Result<(), Cancelled> {
        self.step = step;
        self.report(e_rms)
    }

    /// `solve` of 0 to `count - 1`, side by side within blocks, with a report after each block. How large the blocks are depends on the
    /// time that they take, the result does not.
    pub fn map<S, T: Send>(
        &mut self,
        count: usize,
        scratch: impl Fn() -> S + Send + Sync,
        solve: impl Fn(&mut S, usize) -> T + Send + Sync,
    ) -> Result<Vec<T>, Cancelled> {
        let (mut solved, mut block) = (Vec::with_capacity(count), rayon::current_num_threads());
        while solved.len() < count {
            let (begin, clock) = (solved.len(), Instant::now());
            let end = (begin + block).min(count);
            solved.par_extend((begin..end).into_par_iter().map_init(&scratch, &solve));
            self.report(None)?;
            match clock.elapsed() {
                taken if taken < REPORT_EVERY / 2 => block *= 2,
                taken if taken > REPORT_EVERY * 2 => block = (block / 2).max(1),
                _ => {}
            }
        }
        Ok(solved)
    }

    /// Runs one long piece of work that cannot report itself on a thread of its own. After a cancellation the thread goes on until
    /// the work is done, and its result is dropped.
    pub fn wait<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Cancelled> {
        let (sender, receiver) = sync_channel(1);
        let thread = std::thread::spawn(move || drop(sender.send(work())));
        loop {
            match receiver.recv_timeout(REPORT_EVERY) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => self.report(None)?,
                Err(RecvTimeoutError::Disconnected) => match thread.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => unreachable!("the result is sent before the thread ends"),
                },
            }
        }
    }

    /// Work goes on within a step.
    pub fn report(&mut self, e_rms: Option<f64>) -> Result<(), Cancelled> {
        let progress = Progress { stage: self.stage, step: self.step, steps: self.steps, e_rms };
        match self.observer.report(&progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Cancelled),
        }
    }

    /// The observer itself, for a stage inside this one.
    pub fn observer(&mut self) -> &mut dyn Observer {
        self.observer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cancels at the report of this number.
    struct CancelAt(usize);

    impl Observer for CancelAt {
        fn report(&mut self, _: &Progress) -> ControlFlow<()> {
            self.0 = self.0.saturating_sub(1);
            if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    #[test]
    fn stages_have_words_of_their_own() {
        let words: std::collections::BTreeSet<_> = Stage::ALL.iter().map(|stage| stage.words()).collect();
        assert_eq!(words.len(), Stage::ALL.len());
    }

    #[test]
    fn maps_are_in_order_and_cancelled_between_blocks() {
        let squares = Stages::new(&mut Silent).map(1000, || 0, |_, i| i * i).unwrap();
        assert!(squares.iter().enumerate().all(|(i, square)| *square == i * i) && squares.len() == 1000);
        let slow = |_: &mut (), _| std::thread::sleep(REPORT_EVERY);
        assert_eq!(Stages::new(&mut CancelAt(2)).map(1_000_000, || (), slow), Err(Cancelled));
    }

    #[test]
    fn long_work_is_waited_for_or_left_behind() {
        assert_eq!(Stages::new(&mut Silent).wait(|| 7), Ok(7));
        let (sender, receiver) = sync_channel::<()>(1);
        let endless = move || receiver.recv().is_ok();
        assert_eq!(Stages::new(&mut CancelAt(2)).wait(endless), Err(Cancelled));
        drop(sender);
    }
}
