// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a power cut may leave on media, given what was stored, flushed and fenced before it.
//!
//! The rules are wider than any one cache. Each line of 64 bytes is independent of the others. A
//! line that was stored to may be written back after each store, or not before a fence of the thread
//! that flushed it: any prefix of its stores may be on media. Where the memory controller's queue is
//! lost with the power ([`Domain::None`]) the fence waits for its place in that queue only. Aligned words of 8 bytes are stored at
//! once. A line that was streamed past the cache, and a line of which only the newest content is
//! known, may have any of its words old or new.
//!
//! | module | subject |
//! |---|---|
//! | [`open`] | lines whose content after a cut is open, and their possible contents |
//! | [`memory`] | follows stores, flushes and fences |
//! | [`pick`] | which images to look at: all, or the extremes and some drawn by a seed; shrinking |
//! | [`cuts`] | shows images in one buffer and undoes what `look` wrote |
//! | [`history`] | follows a list of events and looks before each fence and mark |
//! | [`eviction`] | images by name, for a command line |
//! | [`disk`] | writes of a disk with a volatile cache |
//! | `recorded` | histories out of recordings (feature `recording`) |
//!
//! ```
//! use remanence_crash_states::{Event, History, Limits};
//!
//! // A body of two lines and, after a fence, the word that commits it.
//! let flushed = |line| [Event::word(line * 64, 7), Event::Flush(0, line), Event::Fence(0)];
//! let events: Vec<Event> = [0, 1, 2].into_iter().flat_map(flushed).collect();
//! let limits = Limits { all_max: 100, drawn: 10, alone_max: 40 };
//! let mut history = History::new(vec![0; 192], limits, 1);
//! history.follow(&events, &mut |visit| {
//!     let image = visit.image.bytes();
//!     let committed = image[128] == 7;
//!     if committed && (image[0], image[64]) != (7, 7) {
//!         return Err("committed without its body");
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(history.images(), 4);
//! # Ok::<(), remanence_crash_states::Refused<&str>>(())
//! ```

pub mod cuts;
pub mod disk;
pub mod eviction;
pub mod history;
mod line;
pub mod memory;
pub mod open;
pub mod pick;
#[cfg(feature = "recording")]
pub mod recorded;
pub mod rng;

pub use cuts::{Cuts, Failure, Image};
pub use disk::WriteCache;
pub use eviction::Eviction;
pub use history::{Event, History, Look, Refused, Visit};
pub use line::{LINE_BYTES, LINE_WORDS, Line, WORD_BYTES};
pub use memory::{Domain, Memory};
pub use open::{OpenLine, OpenLines};
pub use pick::{Limits, Pick, picks, shrink};
pub use rng::Rng;
