// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong: [`Error`] with a region, [`TxError`] in a transaction.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::policy::PolicyKind;

/// Why a region cannot be created, opened or used.
#[derive(Debug)]
#[non_exhaustive]
#[allow(clippy::error_impl_error)] // the crate's one, as `io::Error` is its module's
pub enum Error {
    /// The system refused a call on a file.
    Io(PathBuf, io::Error),
    /// Another process has it open.
    Busy(PathBuf),
    /// It does not begin as a region does.
    NotARegion,
    /// It is plain memory, which has no transactions.
    PlainMemory,
    /// Its format is another version.
    Version(u32),
    /// Its header does not fit its checksum.
    Checksum,
    /// A field of the header is impossible; which one.
    Header(&'static str),
    /// It is shorter than its header says: (bytes, bytes wanted).
    Short(u64, u64),
    /// A size that no region can have.
    Size(u64),
    /// A number of sessions that no region can have.
    Sessions(u32),
    /// It was made with another policy.
    Policy {
        /// What the program wants.
        wanted: PolicyKind,
        /// What the region was made with.
        found: PolicyKind,
    },
    /// Flush on fail, where nothing promises that caches survive.
    NoFlushOnFail,
    /// A file that is not persistent memory, with flush on commit.
    NotPersistent(PathBuf),
    /// Plain memory, and the last user did not close it: its content may be half changed.
    NotClosed,
    /// The place at which a region must be mapped is taken.
    AddressTaken {
        /// The region's file.
        path: PathBuf,
        /// The address that its pointers lead to.
        address: u64,
        /// The mapping that is there.
        by: String,
    },
    /// There is something in the file in which a region was to be made.
    NotEmpty(PathBuf),
    /// The bytes of a log or of the allocator are impossible: what and where.
    Corrupt(&'static str, u64),
    /// All sessions of the region are in use; how many it has.
    NoSession(u32),
    /// Something that needs the region alone, while sessions or allocators of it live.
    InUse,
    /// A root of this name has another type.
    RootType,
    /// A name that is empty, too long or holds a zero byte.
    RootName,
    /// A transaction failed.
    Tx(TxError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Busy(path) => write!(f, "{}: another process has it open", path.display()),
            Self::NotARegion => write!(f, "not a region: its first bytes are others"),
            Self::PlainMemory => write!(
                f,
                "plain memory (FoF): open it as such, it has no transactions"
            ),
            Self::Version(found) => write!(
                f,
                "region of version {found}, this program knows {}",
                crate::layout::VERSION
            ),
            Self::Checksum => write!(f, "the header does not fit its checksum"),
            Self::Header(field) => write!(f, "the header's field {field} is impossible"),
            Self::Short(found, wanted) => {
                write!(f, "{found} bytes long, its header says {wanted}: cut off?")
            }
            Self::Size(bytes) => write!(
                f,
                "a region of {bytes} bytes is impossible: at least {}",
                crate::layout::SIZE_MIN_BYTES
            ),
            Self::Sessions(sessions) => write!(
                f,
                "a region with {sessions} sessions is impossible: 1 to {}",
                crate::layout::SESSIONS_MAX
            ),
            Self::Policy { wanted, found } => {
                write!(f, "the region's policy is {found}, not {wanted}")
            }
            Self::NoFlushOnFail => write!(
                f,
                "flush on fail: this platform does not promise it; say assume_flush_on_fail if it does"
            ),
            Self::NotPersistent(path) => write!(
                f,
                "{}: not persistent memory (no MAP_SYNC); say assume_persistent to use it all the same",
                path.display()
            ),
            Self::NotClosed => write!(
                f,
                "plain memory (FoF) that was not closed: its process died, and what it was changing \
                 may be half done; `nvheap repair` checks what is left"
            ),
            Self::AddressTaken { path, address, by } => write!(
                f,
                "{}: must be mapped at {address:#x}, and {by} is there: its pointers are addresses",
                path.display()
            ),
            Self::NotEmpty(path) => write!(
                f,
                "{}: there is something in it: remove it first, or say overwrite",
                path.display()
            ),
            Self::Corrupt(what, offset) => write!(f, "corrupt: {what} at offset {offset:#x}"),
            Self::NoSession(sessions) => write!(
                f,
                "all {sessions} sessions of the region are in use: end one, or make the region with \
                 more of them, at most {}",
                crate::layout::SESSIONS_MAX
            ),
            Self::InUse => write!(
                f,
                "sessions or allocators of the region are in use: end them first"
            ),
            Self::RootType => write!(f, "the root of this name has another type"),
            Self::RootName => write!(f, "a root's name has 1 to 39 bytes, none of them zero"),
            Self::Tx(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::Tx(error) => Some(error),
            _ => None,
        }
    }
}

impl From<TxError> for Error {
    fn from(error: TxError) -> Self {
        Self::Tx(error)
    }
}

/// Why a transaction ended without a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TxError {
    /// The program aborted it.
    Abort,
    /// The program wants to run again when something it read has changed.
    Retry,
    /// Another thread was faster; the transaction is run again, nobody sees this.
    Conflict,
    /// No memory left in the region.
    OutOfSpace,
    /// More changes than the log holds.
    TooLarge,
    /// A pointer that is null or outside of the region.
    BadPointer,
    /// A free of something that is not allocated.
    BadFree,
    /// A change in a transaction that was begun for reading.
    ReadOnly,
    /// A part that failed in plain memory, which has no log: changes made so far stay.
    NoRollback,
    /// A table of the region is full.
    Full,
    /// The session runs a transaction, and can run no other in it.
    InTransaction,
}

impl fmt::Display for TxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abort => "aborted by the program",
            Self::Retry => "to be run again when something it read has changed",
            Self::Conflict => "conflict with another thread",
            Self::OutOfSpace => "no memory left in the region",
            Self::TooLarge => {
                "the transaction changes more words of existing objects, or makes more small ones, \
                 than its session's log holds: do it in several, or make the region with longer logs"
            }
            Self::BadPointer => "a pointer that is null or outside of the region",
            Self::BadFree => "free of something that is not allocated",
            Self::ReadOnly => "a change in a transaction for reading",
            Self::NoRollback => "plain memory has no log: changes made so far stay",
            Self::Full => "a table of the region is full",
            Self::InTransaction => {
                "the session runs a transaction: end it first, or use another session"
            }
        })
    }
}

impl std::error::Error for TxError {}
