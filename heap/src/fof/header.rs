// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where things lie in a region of plain memory, as format/rem_fof.h defines it.
//!
//! ```text
//!      0  header      written once, with a checksum
//!   4096  state       the mark, the number of this opening
//!   8192  roots       64 entries of 64 bytes
//!  12288  shared      the allocator's part that threads share
//!  16384  table       an entry of 16 bytes per chunk
//!     ..  chunks      64 KiB each, at multiples of 64 KiB: objects
//! ```

use std::mem::offset_of;

use remanence_format as format;
use remanence_format::{RemFofEntry, RemFofHeader, u32_of, usize_of};

use super::classes::CLASSES;
use crate::error::Error;
use crate::layout::{ROOT_BYTES, ROOTS};

/// First 8 bytes of a region of plain memory.
pub const MAGIC: u64 = format::REM_FOF_MAGIC;
/// Version of the format.
pub const VERSION: u32 = u32_of(format::REM_FOF_VERSION);
/// Bytes of the header that the checksum covers.
pub const CHECKED_BYTES: usize = offset_of!(RemFofHeader, crc);
/// Bytes of the header.
pub const HEADER_BYTES: usize = RemFofHeader::BYTES;
/// Where the mark is.
pub const MARK_OFFSET: usize = usize_of(format::REM_FOF_MARK);
/// Where the number of the opening is.
pub const OPENING_OFFSET: usize = usize_of(format::REM_FOF_OPENING);
/// Where the roots are.
pub const ROOTS_OFFSET: usize = usize_of(format::REM_FOF_ROOTS);
/// Where the part of the allocator is that threads share.
pub const SHARED_OFFSET: usize = usize_of(format::REM_FOF_SHARED);
/// Where the lists of free chunks are.
pub const LISTS_OFFSET: usize = usize_of(format::REM_FOF_LISTS);
/// Where the list of threads begins.
pub const THREADS_OFFSET: usize = usize_of(format::REM_FOF_THREADS);
/// Where the table of chunks begins.
pub const TABLE_OFFSET: usize = usize_of(format::REM_FOF_TABLE);
/// Bytes of a chunk's entry in the table.
pub const ENTRY_BYTES: usize = RemFofEntry::BYTES;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = usize_of(format::REM_FOF_CHUNK_BYTES);
/// Smallest region: some chunks.
pub const SIZE_MIN_BYTES: u64 = 1 << 18;
/// Largest region: so much address space a process has.
pub const SIZE_MAX_BYTES: u64 = 1 << 46;
/// A region begins at a multiple of this, so that large pages can map it.
pub const ALIGN_BYTES: usize = 1 << 21;

const _: () = assert!(ROOTS_OFFSET + (ROOTS * ROOT_BYTES) as usize <= SHARED_OFFSET);
const _: () = assert!(CLASSES == usize_of(format::REM_FOF_CLASSES));

/// What a region's mark says about its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Mark {
    /// A program closed it: all of it was written back before.
    Closed = format::REM_FOF_CLOSED as u64,
    /// A program has it open, or died with it open.
    Open = format::REM_FOF_OPEN as u64,
    /// The platform no longer saved caches: it was written back once and took no stores after that.
    Held = format::REM_FOF_HELD as u64,
}

impl Mark {
    /// The mark that a word is.
    #[must_use]
    pub fn of(word: u64) -> Option<Self> {
        [Self::Closed, Self::Open, Self::Held]
            .into_iter()
            .find(|mark| *mark as u64 == word)
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identity of the region, drawn when it was made.
    pub uuid: [u8; 16],
    /// Bytes of the whole region.
    pub size_bytes: u64,
    /// The address that the region's pointers lead to: it is mapped there or not at all.
    pub base: u64,
    /// Where the first chunk is, from the beginning of the region.
    pub chunks_offset: u64,
    /// Number of chunks.
    pub chunks: u64,
}

impl Header {
    /// Divide a region that is mapped at `base`.
    ///
    /// # Errors
    /// [`Error::Size`] where it is too small or too large.
    pub fn new(size_bytes: u64, base: u64, uuid: [u8; 16]) -> Result<Self, Error> {
        if !(SIZE_MIN_BYTES..=SIZE_MAX_BYTES).contains(&size_bytes) {
            return Err(Error::Size(size_bytes));
        }
        let chunk = CHUNK_BYTES as u64;
        let least = TABLE_OFFSET as u64 + size_bytes / chunk * ENTRY_BYTES as u64;
        // A mapping of another program's choice need not begin at a multiple of a chunk.
        let chunks_offset = (base + least).next_multiple_of(chunk) - base;
        let header = Self {
            uuid,
            size_bytes,
            base,
            chunks_offset,
            chunks: size_bytes.saturating_sub(chunks_offset) / chunk,
        };
        header.check().map_err(|_| Error::Size(size_bytes))?;
        Ok(header)
    }

    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = RemFofHeader {
            magic: MAGIC,
            version: VERSION,
            uuid: self.uuid,
            region_bytes: self.size_bytes,
            base: self.base,
            chunks_offset: self.chunks_offset,
            chunks: self.chunks,
            chunk_bytes: CHUNK_BYTES as u64,
            table_offset: TABLE_OFFSET as u64,
            ..RemFofHeader::default()
        };
        header.crc = crc32c::crc32c(&header.to_bytes()[..CHECKED_BYTES]);
        header.to_bytes()
    }

    /// Read a header and check each field.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let Some(bytes) = bytes.first_chunk() else {
            return Err(Error::Short(bytes.len() as u64, HEADER_BYTES as u64));
        };
        let found = RemFofHeader::from_bytes(bytes);
        if found.magic != MAGIC {
            return Err(Error::NotARegion);
        }
        if found.version != VERSION {
            return Err(Error::Version(found.version));
        }
        if crc32c::crc32c(&bytes[..CHECKED_BYTES]) != found.crc {
            return Err(Error::Checksum);
        }
        let header = Self {
            uuid: found.uuid,
            size_bytes: found.region_bytes,
            base: found.base,
            chunks_offset: found.chunks_offset,
            chunks: found.chunks,
        };
        if found.chunk_bytes != CHUNK_BYTES as u64 || found.table_offset != TABLE_OFFSET as u64 {
            return Err(Error::Header("chunk_bytes"));
        }
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), Error> {
        let chunk = CHUNK_BYTES as u64;
        if !(SIZE_MIN_BYTES..=SIZE_MAX_BYTES).contains(&self.size_bytes) {
            return Err(Error::Header("size_bytes"));
        }
        if self.base == 0 || self.base % 4096 != 0 || self.base > SIZE_MAX_BYTES * 2 {
            return Err(Error::Header("base"));
        }
        if self.chunks == 0 || self.chunks > self.size_bytes / chunk {
            return Err(Error::Header("chunks"));
        }
        let table_end = TABLE_OFFSET as u64 + self.chunks * ENTRY_BYTES as u64;
        if self.chunks_offset < table_end
            || self.chunks_offset > self.size_bytes
            || (self.base + self.chunks_offset) % chunk != 0
            || self.size_bytes - self.chunks_offset < self.chunks * chunk
        {
            return Err(Error::Header("chunks_offset"));
        }
        Ok(())
    }

    /// Where a chunk is, from the beginning of the region.
    #[must_use]
    pub fn chunk_offset(&self, chunk: u64) -> u64 {
        self.chunks_offset + chunk * CHUNK_BYTES as u64
    }

    /// Where a chunk's entry in the table is, from the beginning of the region.
    #[must_use]
    pub fn entry_offset(&self, chunk: u64) -> u64 {
        (TABLE_OFFSET + chunk as usize * ENTRY_BYTES) as u64
    }
}

/// What a chunk's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// The inside of a run, or of a large object.
    Inside,
    /// Objects of a class.
    Slab(usize),
    /// The first of a large object of so many chunks.
    Large(u64),
    /// The first or the last of so many free chunks in a row.
    Free(u64),
    /// What no program writes.
    Impossible,
}

const KIND_SLAB: u64 = 1 << 56;
const KIND_LARGE: u64 = 2 << 56;
const KIND_FREE: u64 = 3 << 56;

impl Chunk {
    /// The word that says it.
    #[must_use]
    pub fn encode(self) -> u64 {
        match self {
            Self::Inside | Self::Impossible => 0,
            Self::Slab(class) => KIND_SLAB | class as u64,
            Self::Large(count) => KIND_LARGE | count,
            Self::Free(count) => KIND_FREE | count,
        }
    }

    /// What a word says.
    #[must_use]
    #[inline(always)]
    pub fn decode(word: u64) -> Self {
        let rest = word & ((1 << 56) - 1);
        match word >> 56 {
            0 if rest == 0 => Self::Inside,
            1 if rest < super::classes::CLASSES as u64 => Self::Slab(rest as usize),
            2 if rest > 0 => Self::Large(rest),
            3 if rest > 0 => Self::Free(rest),
            _ => Self::Impossible,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x2000_0000_0000;

    #[test]
    fn header_reads_as_written() {
        let header = Header::new(1 << 30, BASE, [7; 16]).unwrap();
        assert_eq!(Header::decode(&header.encode()).unwrap(), header);
        assert_eq!((BASE + header.chunks_offset) % CHUNK_BYTES as u64, 0);
    }

    #[test]
    fn any_changed_bit_of_a_header_is_refused() {
        let sound = Header::new(SIZE_MIN_BYTES, BASE, [7; 16]).unwrap().encode();
        for bit in 0..(CHECKED_BYTES + 4) * 8 {
            let mut bytes = sound;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn fields_that_do_not_fit_are_refused_with_a_right_checksum() {
        let sound = Header::new(1 << 22, BASE, [7; 16]).unwrap();
        for broken in [
            Header { base: 0, ..sound },
            Header {
                base: BASE + 4096,
                ..sound
            },
            Header { chunks: 0, ..sound },
            Header {
                chunks: sound.chunks + 1,
                ..sound
            },
            Header {
                chunks_offset: 0,
                ..sound
            },
            Header {
                size_bytes: 1 << 21,
                ..sound
            },
        ] {
            assert!(Header::decode(&broken.encode()).is_err(), "{broken:?}");
        }
        assert!(matches!(
            Header::new(SIZE_MIN_BYTES - 1, BASE, [0; 16]),
            Err(Error::Size(_))
        ));
    }

    #[test]
    fn words_of_chunks_read_as_written() {
        for chunk in [
            Chunk::Inside,
            Chunk::Slab(38),
            Chunk::Large(2),
            Chunk::Free(70_000),
        ] {
            assert_eq!(Chunk::decode(chunk.encode()), chunk);
        }
        assert_eq!(Chunk::decode(KIND_SLAB | 39), Chunk::Impossible);
        assert_eq!(Chunk::decode(u64::MAX), Chunk::Impossible);
    }
}
