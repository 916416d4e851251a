// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `struct rem_rec_header`.

use crate::RecordingError;

pub(crate) const MAGIC: u64 = 0x4452_4345_524d_4552;
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 128;
const CRC_OFFSET: usize = 124;
const PROFILE_OFFSET: usize = 64;
const RESERVED_OFFSET: usize = 96;
const PAGE_BYTES: u64 = 4096;
/// x86-64 has 52 bits of physical address at most.
const PHYS_MAX: u64 = 1 << 52;

/// Events carry an order only.
pub const CLOCK_NONE: u32 = 0;
/// Events carry guest instructions, 1 ns each.
pub const CLOCK_GUEST: u32 = 1;
/// Events carry the core model's time of their vCPU.
pub const CLOCK_MODEL: u32 = 2;
/// A byte is safe in media only.
pub const DOMAIN_NONE: u32 = 0;
/// A byte is safe in the memory controller's queue, too.
pub const DOMAIN_ADR: u32 = 1;
/// A byte is safe in CPU caches, too.
pub const DOMAIN_EADR: u32 = 2;

/// What a recording is of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// One of `CLOCK_NONE`, `CLOCK_GUEST`, `CLOCK_MODEL`.
    pub clock: u32,
    /// Physical address of the NVRAM region.
    pub nvram_phys: u64,
    /// Its size.
    pub nvram_bytes: u64,
    /// Digest of the base media, 0 = not told.
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

impl Header {
    /// The profile's name as a field; what is longer than 32 bytes is cut off.
    #[must_use]
    pub fn profile_field(name: &str) -> [u8; 32] {
        let mut field = [0; 32];
        for (to, from) in field.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        field
    }

    /// As it stands in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(8, &VERSION.to_le_bytes());
        put(12, &128u32.to_le_bytes());
        put(16, &64u32.to_le_bytes());
        put(20, &self.clock.to_le_bytes());
        put(24, &self.nvram_phys.to_le_bytes());
        put(32, &self.nvram_bytes.to_le_bytes());
        put(40, &self.base_digest.to_le_bytes());
        put(48, &self.seed.to_le_bytes());
        put(56, &self.cpu_count.to_le_bytes());
        put(60, &self.domain.to_le_bytes());
        put(PROFILE_OFFSET, &self.profile);
        let crc = crc32c::crc32c(&out[..CRC_OFFSET]);
        out[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads and checks one from the start of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordingError> {
        let raw: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(RecordingError::NotARecording)?;
        let u32_at =
            |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u64_at(0) != MAGIC {
            return Err(RecordingError::NotARecording);
        }
        if u32_at(8) != VERSION {
            return Err(RecordingError::Version(u32_at(8)));
        }
        if u32_at(CRC_OFFSET) != crc32c::crc32c(&raw[..CRC_OFFSET]) {
            return Err(RecordingError::NotARecording);
        }
        let mut profile = [0; 32];
        profile.copy_from_slice(&raw[PROFILE_OFFSET..RESERVED_OFFSET]);
        let header = Self {
            clock: u32_at(20),
            nvram_phys: u64_at(24),
            nvram_bytes: u64_at(32),
            base_digest: u64_at(40),
            seed: u64_at(48),
            cpu_count: u32_at(56),
            domain: u32_at(60),
            profile,
        };
        let wrong = [
            (u32_at(12) != 128, "size"),
            (u32_at(16) != 64, "line size"),
            (
                raw[RESERVED_OFFSET..CRC_OFFSET].iter().any(|&b| b != 0),
                "reserved word",
            ),
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
