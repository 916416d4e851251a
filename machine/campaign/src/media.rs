// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Media of any cut: the base, mapped copy-on-write, with write-backs applied one after the other.
//! Never written out; its digest is updated with each line.

use std::fs::File;
use std::path::Path;

use memmap2::{MmapMut, MmapOptions};
use remanence_crash_states::Line;
use remanence_recording::LINE_BYTES;

use crate::{CampaignError, record};

/// Contribution of one line to the digest of media.
#[must_use]
pub fn line_digest(number: u64, data: &Line) -> u64 {
    piece_digest(number, data)
}

/// Contribution of a numbered piece to a digest of all: zero for a piece of zeros, so that holes
/// add nothing.
pub(crate) fn piece_digest(number: u64, data: &[u8]) -> u64 {
    if data.iter().all(|&byte| byte == 0) {
        return 0;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(data);
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Change of the digest of media when `new` is stored over `old`.
#[must_use]
pub fn change(offset: u64, old: &Line, new: &Line) -> u64 {
    let number = offset / LINE_BYTES as u64;
    line_digest(number, new).wrapping_sub(line_digest(number, old))
}

/// NVRAM's media at one place of a run.
#[derive(Debug)]
pub struct Media {
    map: MmapMut,
    digest: u64,
    decisive: u64,
}

impl Media {
    /// Maps `base.media`. Its digest begins at `base_digest`, so two images of one recording are
    /// equal when their digests are, whatever that is.
    ///
    /// # Errors
    /// The file cannot be mapped, or has another size.
    pub fn open(path: &Path, bytes: u64, base_digest: u64) -> Result<Self, CampaignError> {
        let fail = |err| CampaignError::File(path.to_owned(), err);
        let file = File::open(path).map_err(fail)?;
        let found = file.metadata().map_err(fail)?.len();
        if found != bytes {
            return Err(CampaignError::MediaSize {
                path: path.to_owned(),
                found,
                wanted: bytes,
            });
        }
        // SAFETY: the mapping is private: stores stay here. A recording's base is written once and
        // never changed after; if it is changed nevertheless, verdicts are wrong, and soundness is
        // that of any mapped file.
        let map = unsafe { MmapOptions::new().map_copy(&file) }.map_err(fail)?;
        Ok(Self {
            map,
            digest: base_digest,
            decisive: 0,
        })
    }

    /// The whole content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Sum of all lines' digests.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Digest of the lines that the loader's decision depends on; 0 at the base.
    #[must_use]
    pub fn decisive(&self) -> u64 {
        self.decisive
    }

    /// The line at an aligned offset.
    #[must_use]
    pub fn line(&self, offset: u64) -> Line {
        let at = at(offset);
        let mut line = [0; LINE_BYTES];
        line.copy_from_slice(&self.map[at..at + LINE_BYTES]);
        line
    }

    /// Stores a line whose change of the digest is known.
    pub(crate) fn replace(&mut self, offset: u64, data: &Line, change: u64) {
        self.digest = self.digest.wrapping_add(change);
        if record::decisive(offset) {
            self.decisive = self.decisive.wrapping_add(change);
        }
        let at = at(offset);
        self.map[at..at + LINE_BYTES].copy_from_slice(data);
    }

    /// Stores a line, and returns its old content.
    pub fn store(&mut self, offset: u64, data: &Line) -> Line {
        let old = self.line(offset);
        if old != *data {
            self.replace(offset, data, change(offset, &old, data));
        }
        old
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
