// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crash campaign: what media is after a cut at any place of a recorded run, and whether the
//! loader then does what the invariants allow.
//!
//! Place in the flow: behind a recording (`remanence-recording`), before the database and the report
//! of `rem campaign`. Nothing is booted here: the loader's own core, compiled for the host, decides
//! ([`judge`]), and an image that is entered must be the one that was committed, line by line.
//!
//! | module | subject |
//! |---|---|
//! | [`media`] | media of a cut, changed in place, with a digest that follows |
//! | [`dirty`] | which images a cut may leave, by the rules of `remanence-crash-states` |
//! | [`disk`] | what a cut leaves of a disk |
//! | [`record`] | rules on the record block |
//! | [`run`] | the state at an event: media, the coherent view, the place in Stop or Go |
//! | [`reference`] | what an image must be: the coherent view at its commit |
//! | [`stack`] | which lines of it nobody will read: dead stack |
//! | [`verdict`] | what is legal where |
//! | [`survey`] | a first pass: what there is to cut |
//! | [`plan`] | which cuts to judge, by a seed |
//! | [`trial`] | judging them |
//! | [`lost`] | what a cut would lose, as files |

use std::path::PathBuf;

use remanence_crash_states::eviction::NotAnEviction;

pub mod dirty;
pub mod disk;
pub mod judge;
pub mod lost;
pub mod media;
pub mod plan;
pub mod record;
pub mod reference;
pub mod replay;
pub mod run;
pub mod stack;
pub mod survey;
pub mod trial;
pub mod verdict;

/// What ends a campaign that is no verdict.
#[derive(Debug)]
pub enum CampaignError {
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
    /// A recording is damaged.
    Recording(PathBuf, remanence_recording::RecordingError),
    /// The base media does not have the size the recording says.
    MediaSize {
        /// Of the media.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// The size of NVRAM in the header.
        wanted: u64,
    },
    /// No loader left a machine description that checks, so no decision can be made.
    NoDescription(PathBuf),
    /// The write log of a disk makes no sense from this byte on.
    DiskLog(PathBuf, usize),
    /// An image was committed where no window told what memory held.
    CommitOutsideWindow(u32),
    /// A place that the recording does not have.
    NoSuchPlace(u64),
    /// A place at which nobody knows what memory held.
    OutsideWindow(u64),
    /// A text that names no eviction.
    NoSuchEviction(NotAnEviction),
}

impl std::fmt::Display for CampaignError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, err) => write!(f, "{}: {err}", path.display()),
            Self::Recording(path, err) => write!(f, "{}: {err}; record it again", path.display()),
            Self::MediaSize {
                path,
                found,
                wanted,
            } => write!(
                f,
                "{}: {found} bytes, the recording is of {wanted}; it belongs to another recording",
                path.display()
            ),
            Self::NoDescription(path) => write!(
                f,
                "{}: no machine description that checks: record a run that our loader began",
                path.display()
            ),
            Self::DiskLog(path, at) => write!(
                f,
                "{}: the entry at byte {at} makes no sense; record it again",
                path.display()
            ),
            Self::CommitOutsideWindow(sequence) => write!(
                f,
                "image {sequence} was committed outside every window: record a window around the Stop"
            ),
            Self::NoSuchPlace(cut) => write!(f, "the recording has no event {cut}"),
            Self::OutsideWindow(cut) => write!(
                f,
                "event {cut} is outside every window: what CPUs saw then was not recorded; \
                 take a cut in Stop or Go"
            ),
            Self::NoSuchEviction(err) => write!(f, "{err}"),
        }
    }
}

impl std::error::Error for CampaignError {}
