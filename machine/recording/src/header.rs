// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `struct rem_rec_header`.

use std::mem::offset_of;

use remanence_format::{REM_REC_LINE_BYTES, REM_REC_MAGIC, REM_REC_VERSION, RemRecHeader, u32_of};

use crate::RecordingError;

pub(crate) const HEADER_BYTES: usize = RemRecHeader::BYTES;
const VERSION: u32 = u32_of(REM_REC_VERSION);
const LINE_BYTES: u32 = u32_of(REM_REC_LINE_BYTES);
const PROFILE_BYTES: usize = 32;
const PAGE_BYTES: u64 = 4096;
/// x86-64 has 52 bits of physical address at most.
const PHYS_MAX: u64 = 1 << 52;

pub use remanence_format::{
    REM_REC_CLOCK_GUEST as CLOCK_GUEST, REM_REC_CLOCK_MODEL as CLOCK_MODEL,
    REM_REC_CLOCK_NONE as CLOCK_NONE, REM_REC_DOMAIN_ADR as DOMAIN_ADR,
    REM_REC_DOMAIN_EADR as DOMAIN_EADR, REM_REC_DOMAIN_NONE as DOMAIN_NONE,
};

/// Description of the recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// One of `CLOCK_NONE`, `CLOCK_GUEST`, `CLOCK_MODEL`.
    pub clock: u32,
    /// Physical address of the NVRAM region.
    pub nvram_phys: u64,
    /// Its size.
    pub nvram_bytes: u64,
    /// Digest of the base media, 0 = unknown.
    pub base_digest: u64,
    /// Seed of the run.
    pub seed: u64,
    /// vCPUs of the machine.
    pub cpu_count: u32,
    /// One of `DOMAIN_NONE`, `DOMAIN_ADR`, `DOMAIN_EADR`.
    pub domain: u32,
    /// Name of the cache profile, zero-padded.
    pub profile: [u8; 32],
}

/// Zeros, and the domain of most machines.
impl Default for Header {
    fn default() -> Self {
        Self {
            clock: CLOCK_NONE,
            nvram_phys: 0,
            nvram_bytes: 0,
            base_digest: 0,
            seed: 0,
            cpu_count: 0,
            domain: DOMAIN_ADR,
            profile: [0; PROFILE_BYTES],
        }
    }
}

impl Header {
    /// The profile's name as a field; a longer one is truncated.
    #[must_use]
    pub fn profile_field(name: &str) -> [u8; PROFILE_BYTES] {
        let mut field = [0; PROFILE_BYTES];
        for (to, from) in field.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        field
    }

    /// The bytes of the header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut raw = RemRecHeader {
            magic: REM_REC_MAGIC,
            version: VERSION,
            header_bytes: u32_of(HEADER_BYTES as u64),
            line_bytes: LINE_BYTES,
            clock: self.clock,
            nvram_phys: self.nvram_phys,
            nvram_bytes: self.nvram_bytes,
            base_digest: self.base_digest,
            seed: self.seed,
            cpu_count: self.cpu_count,
            domain: self.domain,
            profile: self.profile,
            ..RemRecHeader::default()
        };
        raw.crc = crc_of(&raw.to_bytes());
        raw.to_bytes()
    }

    /// Reads and checks a header from the start of a file.
    ///
    /// # Errors
    /// The header is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordingError> {
        let bytes: &[u8; HEADER_BYTES] =
            bytes.first_chunk().ok_or(RecordingError::NotARecording)?;
        let raw = RemRecHeader::from_bytes(bytes);
        if raw.magic != REM_REC_MAGIC {
            return Err(RecordingError::NotARecording);
        }
        if raw.version != VERSION {
            return Err(RecordingError::Version(raw.version));
        }
        if raw.crc != crc_of(bytes) {
            return Err(RecordingError::NotARecording);
        }
        let header = Self {
            clock: raw.clock,
            nvram_phys: raw.nvram_phys,
            nvram_bytes: raw.nvram_bytes,
            base_digest: raw.base_digest,
            seed: raw.seed,
            cpu_count: raw.cpu_count,
            domain: raw.domain,
            profile: raw.profile,
        };
        let reserved = raw.reserved != [0; 3] || raw.reserved2 != 0;
        let wrong = [
            (raw.header_bytes as usize != HEADER_BYTES, "size"),
            (raw.line_bytes != LINE_BYTES, "line size"),
            (reserved, "reserved word"),
        ];
        if let Some((_, what)) = wrong.iter().find(|(bad, _)| *bad) {
            return Err(RecordingError::Header(what));
        }
        header.check()?;
        Ok(header)
    }

    pub(crate) fn check(&self) -> Result<(), RecordingError> {
        let end = self.nvram_phys.checked_add(self.nvram_bytes);
        let wrong = [
            (self.clock > CLOCK_MODEL, "clock"),
            (self.domain > DOMAIN_EADR, "persistence domain"),
            (self.cpu_count > u32::from(crate::NO_VCPU), "number of CPUs"),
            (self.nvram_phys % PAGE_BYTES != 0, "NVRAM address"),
            (
                self.nvram_bytes % PAGE_BYTES != 0 || self.nvram_bytes == 0,
                "NVRAM size",
            ),
            (end.is_none_or(|end| end > PHYS_MAX), "NVRAM end"),
        ];
        match wrong.iter().find(|(bad, _)| *bad) {
            Some((_, what)) => Err(RecordingError::Header(what)),
            None => Ok(()),
        }
    }
}

/// CRC32C of the bytes before the field that holds it.
fn crc_of(bytes: &[u8; HEADER_BYTES]) -> u32 {
    crc32c::crc32c(&bytes[..offset_of!(RemRecHeader, crc)])
}
