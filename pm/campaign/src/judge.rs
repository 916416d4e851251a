// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One window of a recording.

use std::fmt::{Display, Formatter, Result as Written};

use remanence_crash_states::recorded::{RecordedError, Window};
use remanence_crash_states::{Event, History, Limits, Visit};

use crate::region::{self, Promise, Touched};

/// Lines of a moment that are looked at alone new and alone old, where there are many.
const ALONE_MAX: usize = 100;

/// Why a recording cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JudgeError {
    /// It is damaged, or ends inside a window.
    Recorded(RecordedError),
    /// It has no window.
    NoWindow,
    /// A window holds no region with the segment of the promise.
    NoPromise,
    /// The reports of a window are not those of one operation after the other.
    Reports,
}

impl Display for JudgeError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            Self::Recorded(error) => write!(f, "{error}"),
            Self::NoWindow => write!(f, "the recording has no window"),
            Self::NoPromise => write!(f, "a window without promises"),
            Self::Reports => write!(f, "the reports of a window are damaged"),
        }
    }
}

impl std::error::Error for JudgeError {}

impl From<RecordedError> for JudgeError {
    fn from(error: RecordedError) -> Self {
        Self::Recorded(error)
    }
}

/// Names of what may be wrong with an image; planted bugs refer to them.
pub mod verdict {
    /// The core refuses the region.
    pub const DOES_NOT_OPEN: &str = "does-not-open";
    /// The core takes what the cut left for damage.
    pub const DAMAGED: &str = "damaged";
    /// Neither what was promised nor what is promised next.
    pub const NOT_ATOMIC: &str = "not-atomic";
    /// An operation had returned, and a copy was not written.
    pub const COPY_NOT_WRITTEN: &str = "copy-not-written";
    /// Opened again it is another, or is repaired again.
    pub const NOT_STABLE: &str = "not-stable";
}

/// What is wrong with an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// One of [`verdict`].
    pub verdict: &'static str,
    /// For people.
    pub what: String,
}

impl Display for Broken {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str(&self.what)
    }
}

/// What came of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Operations that returned.
    pub operations: usize,
    /// Moments at which images were looked at.
    pub moments: u64,
    /// Images that were looked at.
    pub images: u64,
    /// Line of `work.c` that found something wrong, or 0.
    pub guest_line: u64,
    /// The first image that is wrong, made small.
    pub broken: Option<Broken>,
}

/// Looks at the images of a window: all of a moment where there are at most `limit`, else the extreme
/// ones and so many that `seed` chooses.
///
/// # Errors
/// The window cannot be judged.
pub fn judge(window: &Window, limit: u64, seed: u64) -> Result<Judged, JudgeError> {
    let watched = region::promise_offset(&window.view).ok_or(JudgeError::NoPromise)?;
    let reports = window.reports(watched);
    let mut line = [0; 64];
    line.copy_from_slice(&window.view[watched..watched + 64]);
    let promises: Vec<Promise> = std::iter::once(&line)
        .chain(&reports.at_marks)
        .map(Promise::of_line)
        .collect();
    if promises
        .windows(2)
        .any(|two| two[1].done != two[0].done + 1)
    {
        return Err(JudgeError::Reports);
    }
    let events: Vec<Event> = window.history(0..window.media.len(), watched);
    let limits = Limits {
        all_max: limit,
        drawn: limit,
        alone_max: ALONE_MAX,
    };
    let mut history = History::in_domain(window.domain, window.media.clone(), limits, seed);
    let refused = history
        .follow(&events, &mut |visit| look(visit, &promises))
        .err();
    Ok(Judged {
        operations: reports.at_marks.len(),
        moments: history.moments(),
        images: history.images(),
        guest_line: Promise::of_line(&reports.end).broken,
        broken: refused.map(|refused| Broken {
            verdict: refused.what.verdict,
            what: format!("{refused}"),
        }),
    })
}

fn look(visit: &mut Visit<'_, '_>, promises: &[Promise]) -> Result<(), Broken> {
    let returned = visit.marks.len();
    let broken = |verdict: &'static str, what: String| {
        let what = format!("{what}, {returned} operations have returned");
        Err(Broken { verdict, what })
    };
    let mut touched = Touched::new();
    let image = visit.image.bytes_mut();
    let first = region::state(image, &mut touched);
    let again = first.and_then(|_| region::state(image, &mut touched));
    for (offset, bytes) in touched {
        visit.image.touch(offset, bytes);
    }
    let state = match first {
        Err(error) => return broken(verdict::DOES_NOT_OPEN, format!("error {error}")),
        Ok(state) => state,
    };
    let mut promised = promises[returned..].iter().take(2);
    if !promised.any(|promise| promise.digest == state.digest) {
        return broken(verdict::NOT_ATOMIC, "neither before nor after".to_owned());
    }
    // After what a reader finds: bytes that a cut has torn do not check either.
    if state.damaged > 0 {
        return broken(verdict::DAMAGED, format!("{} do not check", state.damaged));
    }
    // All copies are written by the time an operation returns.
    if visit.at_mark && visit.image.pick().is_oldest() && state.repaired > 0 {
        let what = format!("{} copies were repaired", state.repaired);
        return broken(verdict::COPY_NOT_WRITTEN, what);
    }
    match again {
        Ok(again) if again.repaired == 0 && again.digest == state.digest => Ok(()),
        again => broken(verdict::NOT_STABLE, format!("opened again: {again:?}")),
    }
}
