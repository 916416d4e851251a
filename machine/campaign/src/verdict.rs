// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a cut may leave: the invariants as a function of the loader's decision and of the run's
//! progress.

use remanence_format::{
    REM_COLD_ALREADY_CONSUMED, REM_COLD_BLOCK_VERSION, REM_COLD_CONSUMED_INVALID,
    REM_COLD_KERNEL_DIFFERS, REM_COLD_MACHINE_UNKNOWN, REM_COLD_NO_BLOCK, REM_COLD_NOT_COMMITTED,
    REM_NOTE_OFFSET,
};
use serde::Serialize;

use crate::judge::{Decision, reason_name};
use crate::run::Run;

/// The verdict on one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Entered, and equal to the committed image.
    Resumed,
    /// Not entered, with a reason that is legal here.
    Cold,
    /// An invariant is broken.
    Violation(Broken),
}

/// Which rule an image breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Broken {
    /// An image is entered whose commit word was never stored (1).
    NeverCommitted,
    /// An image can be entered a second time (2).
    EnteredTwice,
    /// An image is entered that differs from the committed one (1, 3).
    Differs {
        /// Number of lines that differ.
        lines: usize,
        /// Offset of the first in NVRAM.
        first: u64,
    },
    /// A committed image that was not consumed is refused (3).
    Refused,
    /// The machine reported that it stopped, and its image cannot be entered (3).
    ReportedTooEarly,
    /// The record is damaged, though only power was lost (3).
    Damaged,
    /// The same machine is mistaken for another one (6).
    OtherMachine,
    /// Memory changed after the commit, and no store did that (1).
    Unseen {
        /// Number of lines that changed.
        lines: usize,
        /// Offset of the first in NVRAM.
        first: u64,
    },
    /// A cold boot whose reason is not what happened: no image where there was one, or an image
    /// that is called consumed and never was (3).
    WrongReason,
}

impl Broken {
    /// Its name in outcomes and in lists of planted bugs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NeverCommitted => "never-committed",
            Self::EnteredTwice => "entered-twice",
            Self::Differs { .. } => "differs",
            Self::Refused => "refused",
            Self::ReportedTooEarly => "reported-too-early",
            Self::Damaged => "damaged",
            Self::OtherMachine => "other-machine",
            Self::Unseen { .. } => "unseen",
            Self::WrongReason => "wrong-reason",
        }
    }

    /// Description in one line.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::NeverCommitted => "an image is entered that was never committed".into(),
            Self::EnteredTwice => "an image that has been entered can be entered again".into(),
            Self::Differs { lines, first } => format!(
                "the image entered is not the one that was committed: {lines} lines differ, \
                 the first at NVRAM + {first:#x}"
            ),
            Self::Refused => "a committed image is refused before anybody consumed it".into(),
            Self::ReportedTooEarly => {
                "the machine reported STOPPED, and no image can be entered".into()
            }
            Self::Damaged => "the record is damaged by nothing but the cut".into(),
            Self::OtherMachine => "the machine is taken for another one".into(),
            Self::Unseen { lines, first } => format!(
                "{lines} lines changed after the commit without a store, the first at \
                 NVRAM + {first:#x}"
            ),
            Self::WrongReason => "the reason of the cold boot is not what happened".into(),
        }
    }
}

/// Whether a reason says that there is no block to decide by.
#[must_use]
pub fn is_no_block(reason: u32) -> bool {
    matches!(
        reason,
        REM_COLD_NO_BLOCK | REM_COLD_BLOCK_VERSION | REM_COLD_CONSUMED_INVALID
    )
}

/// Judges the media that `run` has at this moment, with any lines evicted early.
#[must_use]
pub fn judge(run: &Run<'_>, decision: &Decision) -> Verdict {
    let broken = if decision.resumes() {
        entered(run, decision.sequence)
    } else {
        refused(run, decision)
    };
    match broken {
        Some(broken) => Verdict::Violation(broken),
        None if decision.resumes() => Verdict::Resumed,
        None => Verdict::Cold,
    }
}

/// Whether a cold boot tells what became of the newest image.
fn is_told(run: &Run<'_>, decision: &Decision) -> bool {
    let progress = &run.progress;
    if decision.reason == REM_COLD_NOT_COMMITTED {
        return progress.committed == 0;
    }
    let newest = run.reference.as_ref().map(|reference| reference.sequence);
    progress.committed != 0 && (newest != Some(decision.sequence) || !progress.born_consumed)
}

fn entered(run: &Run<'_>, sequence: u32) -> Option<Broken> {
    let reference = run
        .reference
        .as_ref()
        .filter(|reference| reference.sequence == sequence);
    let Some(reference) = reference else {
        return Some(Broken::NeverCommitted);
    };
    if run.progress.entered >= sequence {
        return Some(Broken::EnteredTwice);
    }
    let (differs, unseen) = (reference.differs(), reference.unseen());
    if let Some(&first) = differs.first() {
        let lines = differs.len();
        return Some(Broken::Differs { lines, first });
    }
    let first = *unseen.first()?;
    let lines = unseen.len();
    Some(Broken::Unseen { lines, first })
}

fn refused(run: &Run<'_>, decision: &Decision) -> Option<Broken> {
    let progress = &run.progress;
    match decision.reason {
        REM_COLD_NO_BLOCK | REM_COLD_CONSUMED_INVALID if !progress.block_was_valid => None,
        REM_COLD_NOT_COMMITTED | REM_COLD_ALREADY_CONSUMED => {
            if progress.durable > progress.consumed_stored {
                Some(Broken::Refused)
            } else if progress.told_stopped {
                Some(Broken::ReportedTooEarly)
            } else {
                (!is_told(run, decision)).then_some(Broken::WrongReason)
            }
        }
        REM_COLD_KERNEL_DIFFERS..=REM_COLD_MACHINE_UNKNOWN => Some(Broken::OtherMachine),
        _ => Some(Broken::Damaged),
    }
}

/// Everything that the outcome of a boot depends on: images of one class are booted once.
#[must_use]
pub fn class(run: &Run<'_>, decision: &Decision) -> String {
    let disks: Vec<String> = run
        .disks
        .iter()
        .map(|(number, disk)| format!("{number}:{:016x}", disk.digest()))
        .collect();
    let name = reason_name(decision.reason);
    if decision.resumes() {
        return format!("{name}/{}/{}", decision.sequence, disks.join(","));
    }
    // The next kernel reads the words and the block's header, and nothing else before it has
    // written it.
    let words = (0..REM_NOTE_OFFSET)
        .step_by(4096)
        .map(|at| crate::media::line_digest(at / 64, &run.media.line(at)))
        .fold(0u64, u64::wrapping_add);
    format!("{name}/{words:016x}/{}", disks.join(","))
}
