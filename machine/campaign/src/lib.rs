// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crash campaign: the content of media after a cut at any place of a recorded run, and whether
//! the loader's decision on it is what the invariants allow.
//!
//! Place in the flow: after a recording (`remanence-recording`), before the database and the report
//! of `rem campaign`. Nothing is booted here: the loader's own core, compiled for the host, decides
//! ([`judge`]), and an image that it enters must be equal, line by line, to the committed one.
//!
//! | module | subject |
//! |---|---|
//! | [`media`] | media at a cut, changed in place with an incremental digest |
//! | [`description`] | the machine, as its loader has described it |
//! | [`dirty`] | which images a cut may leave, by the rules of `remanence-crash-states` |
//! | [`queue`] | what a memory controller without a persistence domain may lose |
//! | [`disk`] | the state of a disk after a cut |
//! | [`record`] | rules on the record block |
//! | [`run`] | the state at an event: media, the coherent view, the place in Stop or Go |
//! | [`reference`] | the expected content of an image: the coherent view at its commit |
//! | [`stack`] | which of its lines are not part of it: dead stack |
//! | [`verdict`] | what is legal at which place |
//! | [`survey`] | a first pass: the possible cuts |
//! | [`plan`] | which cuts to judge, by a seed |
//! | [`trial`] | judging them |
//! | [`lost`] | what a cut loses, as files |

use std::path::PathBuf;

use remanence_crash_states::eviction::NotAnEviction;

pub mod description;
pub mod dirty;
pub mod disk;
pub mod judge;
pub mod lost;
pub mod media;
pub mod plan;
pub mod queue;
pub mod record;
pub mod reference;
pub mod replay;
pub mod run;
pub mod stack;
pub mod survey;
pub mod trial;
pub mod verdict;

/// Why a campaign ends without a verdict.
#[derive(Debug)]
pub enum CampaignError {
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
    /// A recording is damaged.
    Recording(PathBuf, remanence_recording::RecordingError),
    /// The base media's size differs from that in the recording's header.
    MediaSize {
        /// Path of the media.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// The size of NVRAM in the header.
        wanted: u64,
    },
    /// No valid machine description, so no decision can be made.
    NoDescription(PathBuf),
    /// The write log of a disk is invalid from this byte on.
    DiskLog(PathBuf, usize),
    /// An image was committed outside every window, so memory's content is unknown.
    CommitOutsideWindow(u32),
    /// A place that the recording does not have.
    NoSuchPlace(u64),
    /// A place outside every window, so memory's content is unknown.
    OutsideWindow(u64),
    /// The write-back of a line that the memory controller had not accepted, or an acceptance where
    /// what is accepted is on media: after this event nobody knows what the queue holds.
    Queue(u64),
    /// A text that is not an eviction.
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
                "{}: {found} bytes instead of {wanted}; it belongs to another recording",
                path.display()
            ),
            Self::NoDescription(path) => write!(
                f,
                "{}: no valid machine description: record a run that Remanence's loader began",
                path.display()
            ),
            Self::DiskLog(path, at) => write!(
                f,
                "{}: the entry at byte {at} is invalid; record it again",
                path.display()
            ),
            Self::CommitOutsideWindow(sequence) => write!(
                f,
                "image {sequence} was committed outside every window: record a window around the Stop"
            ),
            Self::NoSuchPlace(cut) => write!(f, "the recording has no event {cut}"),
            Self::OutsideWindow(cut) => write!(
                f,
                "event {cut} is outside every window: memory as CPUs saw it was not recorded; \
                 choose a cut in Stop or Go"
            ),
            Self::Queue(event) => write!(
                f,
                "event {event} is not what the memory controller's queue would do: record it again"
            ),
            Self::NoSuchEviction(err) => write!(f, "{err}"),
        }
    }
}

impl std::error::Error for CampaignError {}
