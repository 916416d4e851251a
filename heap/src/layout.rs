// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where things lie in a region, as format/rem_heap.h defines it.
//!
//! ```text
//!      0  header      written once, with a checksum
//!   4096  state       truncated sequence, "open" mark, one word per session
//!   8192  roots       64 entries of 64 bytes
//!  12288  logs        per session: redo lines, undo lines
//!     ..  table       one word per chunk
//!     ..  chunks      64 KiB each: objects
//! ```

use std::mem::offset_of;

use remanence_format as format;
use remanence_format::{RemHeapHeader, RemHeapRoot, u32_of, usize_of};

use crate::error::Error;
use crate::policy::PolicyKind;

/// First 8 bytes of a region.
pub const MAGIC: u64 = format::REM_HEAP_MAGIC;
/// Version of the format.
pub const VERSION: u32 = u32_of(format::REM_HEAP_VERSION);
/// Bytes of a page, to which areas are aligned.
pub const PAGE_BYTES: u64 = 4096;
/// Within the state: records up to this sequence number are forgotten.
pub const TRUNCATED_OFFSET: u64 = format::REM_HEAP_TRUNCATED;
/// Within the state: not zero while a program has the region open.
pub const OPEN_OFFSET: u64 = format::REM_HEAP_OPEN;
/// Within the state: per session, the undo record that the last checkpoint met open.
pub const LIVE_OFFSET: u64 = format::REM_HEAP_LIVE;
/// Where the roots are.
pub const ROOTS_OFFSET: u64 = format::REM_HEAP_ROOTS;
/// Entries of the table of roots.
pub const ROOTS: u64 = format::REM_HEAP_ROOTS_MAX;
/// Bytes of a root.
pub const ROOT_BYTES: u64 = RemHeapRoot::BYTES as u64;
/// Within a root: the type of what it points to.
pub const ROOT_TYPE_OFFSET: u64 = offset_of!(RemHeapRoot, kind) as u64;
/// Within a root: where that is.
pub const ROOT_POINTER_OFFSET: u64 = offset_of!(RemHeapRoot, offset) as u64;
/// Within a root: its size.
pub const ROOT_SIZE_OFFSET: u64 = offset_of!(RemHeapRoot, bytes) as u64;
/// Bytes of a root's name, with the zero at its end.
pub const ROOT_NAME_BYTES: usize = usize_of(format::REM_HEAP_NAME_BYTES);
/// Where the logs begin.
pub const LOGS_OFFSET: u64 = format::REM_HEAP_LOGS;
/// Bytes of a chunk: a slab of objects of one size, or a part of a large object.
pub const CHUNK_BYTES: u64 = format::REM_HEAP_CHUNK_BYTES;
/// Most sessions a region can have: their words fill the state page.
pub const SESSIONS_MAX: u32 = 448;
/// Most lines of one log: 64 MiB.
pub const LOG_LINES_MAX: u32 = 1 << 20;
/// Fewest lines of one log: a record of one object must fit.
pub const LOG_LINES_MIN: u32 = 16;
/// Offsets have 48 bits in records.
pub const SIZE_MAX_BYTES: u64 = 1 << 47;
/// Smallest region: its logs and some chunks.
pub const SIZE_MIN_BYTES: u64 = 1 << 18;
/// Bytes of the header.
pub const HEADER_BYTES: usize = RemHeapHeader::BYTES;

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What the region was made with.
    pub policy: PolicyKind,
    /// Identity of the region, drawn when it was made.
    pub uuid: [u8; 16],
    /// Bytes of the whole region.
    pub size_bytes: u64,
    /// Sessions (threads) that can be at work at the same time.
    pub sessions: u32,
    /// Lines of each redo log.
    pub redo_lines: u32,
    /// Lines of each undo log.
    pub undo_lines: u32,
    /// Where the table of chunks is.
    pub table_offset: u64,
    /// Where the first chunk is.
    pub chunks_offset: u64,
    /// Number of chunks.
    pub chunks: u64,
}

impl Layout {
    /// Divides a region.
    ///
    /// # Errors
    /// [`Error::Size`] where it is too small or too large, [`Error::Sessions`].
    pub fn new(
        size_bytes: u64,
        policy: PolicyKind,
        uuid: [u8; 16],
        (sessions, redo_lines, undo_lines): (u32, u32, u32),
    ) -> Result<Self, Error> {
        if !(SIZE_MIN_BYTES..=SIZE_MAX_BYTES).contains(&size_bytes) {
            return Err(Error::Size(size_bytes));
        }
        if !(1..=SESSIONS_MAX).contains(&sessions) {
            return Err(Error::Sessions(sessions));
        }
        let per_session = (u64::from(redo_lines) + u64::from(undo_lines)) * 64;
        let table_offset =
            (LOGS_OFFSET + u64::from(sessions) * per_session).next_multiple_of(PAGE_BYTES);
        let rest = size_bytes.saturating_sub(table_offset + PAGE_BYTES);
        // A word of the table for each chunk, and the table ends at a page.
        let chunks = rest / (CHUNK_BYTES + 8);
        let chunks_offset = (table_offset + chunks * 8).next_multiple_of(PAGE_BYTES);
        let layout = Self {
            policy,
            uuid,
            size_bytes,
            sessions,
            redo_lines,
            undo_lines,
            table_offset,
            chunks_offset,
            chunks,
        };
        match layout.check() {
            Ok(()) => Ok(layout),
            Err(Error::Header("chunks")) => Err(Error::Size(size_bytes)),
            Err(error) => Err(error),
        }
    }

    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = RemHeapHeader {
            magic: MAGIC,
            version: VERSION,
            policy: self.policy as u32,
            uuid: self.uuid,
            region_bytes: self.size_bytes,
            sessions: self.sessions,
            redo_lines: self.redo_lines,
            undo_lines: self.undo_lines,
            table_offset: self.table_offset,
            chunks_offset: self.chunks_offset,
            chunks: self.chunks,
            chunk_bytes: CHUNK_BYTES,
            ..RemHeapHeader::default()
        };
        header.crc = checksum(&header.to_bytes());
        header.to_bytes()
    }

    /// Reads a header. None of it is used before it is checked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let Some(bytes) = bytes.first_chunk() else {
            return Err(Error::Short(bytes.len() as u64, PAGE_BYTES));
        };
        let header = RemHeapHeader::from_bytes(bytes);
        match header.magic {
            MAGIC => {}
            crate::fof::header::MAGIC => return Err(Error::PlainMemory),
            _ => return Err(Error::NotARegion),
        }
        if header.version != VERSION {
            return Err(Error::Version(header.version));
        }
        if checksum(bytes) != header.crc {
            return Err(Error::Checksum);
        }
        let layout = Self {
            policy: PolicyKind::from_number(header.policy).ok_or(Error::Header("policy"))?,
            uuid: header.uuid,
            size_bytes: header.region_bytes,
            sessions: header.sessions,
            redo_lines: header.redo_lines,
            undo_lines: header.undo_lines,
            table_offset: header.table_offset,
            chunks_offset: header.chunks_offset,
            chunks: header.chunks,
        };
        if header.chunk_bytes != CHUNK_BYTES {
            return Err(Error::Header("chunk_bytes"));
        }
        layout.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<(), Error> {
        let lines = LOG_LINES_MIN..=LOG_LINES_MAX;
        if !(SIZE_MIN_BYTES..=SIZE_MAX_BYTES).contains(&self.size_bytes) {
            return Err(Error::Header("size_bytes"));
        }
        if !(1..=SESSIONS_MAX).contains(&self.sessions) {
            return Err(Error::Header("sessions"));
        }
        if !lines.contains(&self.redo_lines) || !lines.contains(&self.undo_lines) {
            return Err(Error::Header("lines"));
        }
        let logs_end = LOGS_OFFSET + u64::from(self.sessions) * self.session_bytes();
        if self.table_offset < logs_end || self.table_offset % PAGE_BYTES != 0 {
            return Err(Error::Header("table_offset"));
        }
        if self.chunks == 0 || self.chunks > self.size_bytes / CHUNK_BYTES {
            return Err(Error::Header("chunks"));
        }
        if self.table_offset > self.size_bytes
            || self.chunks_offset < self.table_offset + self.chunks * 8
            || self.chunks_offset % PAGE_BYTES != 0
            || self.chunks_offset > self.size_bytes
            || self.size_bytes - self.chunks_offset < self.chunks * CHUNK_BYTES
        {
            return Err(Error::Header("chunks_offset"));
        }
        Ok(())
    }

    fn session_bytes(&self) -> u64 {
        (u64::from(self.redo_lines) + u64::from(self.undo_lines)) * 64
    }

    /// Where a session's redo log is.
    #[must_use]
    pub fn redo_offset(&self, session: usize) -> u64 {
        LOGS_OFFSET + session as u64 * self.session_bytes()
    }

    /// Where a session's undo log is.
    #[must_use]
    pub fn undo_offset(&self, session: usize) -> u64 {
        self.redo_offset(session) + u64::from(self.redo_lines) * 64
    }

    /// Where a session's word in the state is.
    #[must_use]
    pub fn live_offset(&self, session: usize) -> u64 {
        LIVE_OFFSET + session as u64 * 8
    }

    /// Where the word of a chunk is.
    #[must_use]
    pub fn table_entry(&self, chunk: u64) -> u64 {
        self.table_offset + chunk * 8
    }

    /// Where a chunk is.
    #[must_use]
    pub fn chunk_offset(&self, chunk: u64) -> u64 {
        self.chunks_offset + chunk * CHUNK_BYTES
    }

    /// The chunk in which an offset is.
    #[must_use]
    #[inline(always)]
    pub fn chunk_of(&self, offset: u64) -> u64 {
        (offset - self.chunks_offset) / CHUNK_BYTES
    }

    /// The end of the last chunk.
    #[must_use]
    pub fn chunks_end(&self) -> u64 {
        self.chunks_offset + self.chunks * CHUNK_BYTES
    }
}

/// CRC32C of the header before the field that holds it.
fn checksum(header: &[u8; HEADER_BYTES]) -> u32 {
    crc32c::crc32c(&header[..offset_of!(RemHeapHeader, crc)])
}
