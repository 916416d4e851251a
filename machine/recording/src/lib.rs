// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings as `format/rem_recording.h` defines them: everything that determines media after a
//! cut anywhere in one run. The plugin writes them, the campaign reads them.
//!
//! Place in the flow: between the machine (which stores, evicts and flushes) and the checking of
//! cuts.
//! Invariants: a writer produces nothing that the reader refuses; the reader accepts any bytes,
//! never panics, and ends at a torn tail without an error.
//!
//! ```
//! use remanence_recording::{Cause, Event, Header, Reader, Writer};
//!
//! let header = Header { nvram_phys: 1 << 32, nvram_bytes: 1 << 20, ..Header::default() };
//! let mut writer = Writer::new(Vec::new(), &header)?;
//! let data = [7; 64];
//! let event = Event::WriteBack { line: (1 << 32) + 64, data: &data, cause: Cause::CLWB };
//! writer.put(0, 1_000, &event)?;
//! let bytes = writer.finish()?;
//!
//! let reader = Reader::new(&bytes)?;
//! let read: Vec<_> = reader.events().collect::<Result<_, _>>()?;
//! assert_eq!((read.len(), read[0].time_ns, read[0].event), (1, 1_000, event));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
mod header;
mod reader;
mod writer;

pub use event::{Cause, Event, Fence, Phase, Timed};
pub use header::{CLOCK_GUEST, CLOCK_MODEL, CLOCK_NONE, Header};
pub use header::{DOMAIN_ADR, DOMAIN_EADR, DOMAIN_NONE};
pub use reader::{Events, Reader};
pub use writer::Writer;

/// Bytes of a cache line: the unit in which media changes.
pub const LINE_BYTES: usize = remanence_format::usize_of(remanence_format::REM_REC_LINE_BYTES);
/// The event has no vCPU.
pub const NO_VCPU: u8 =
    remanence_format::u8_of(remanence_format::u32_of(remanence_format::REM_REC_NO_VCPU));

/// Why a recording is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordingError {
    /// The file does not begin with the header of a recording.
    NotARecording,
    /// A version of the format unknown to this reader.
    Version(u32),
    /// A field of the header is invalid.
    Header(&'static str),
    /// An event is invalid: its offset in the file, and the reason.
    Event(usize, &'static str),
}

impl std::fmt::Display for RecordingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotARecording => write!(f, "not a recording, or its header is damaged"),
            Self::Version(version) => write!(f, "a recording of unknown version {version}"),
            Self::Header(what) => write!(f, "the recording's header has an invalid {what}"),
            Self::Event(at, what) => write!(f, "the event at byte {at}: {what}"),
        }
    }
}

impl std::error::Error for RecordingError {}
