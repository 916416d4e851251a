// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine's description says, as the loader left it in the record block.

use remanence_format::{REM_DESC_ENTRIES_MAX, REM_DESC_OFFSET, RemDesc, RemDescEntry};

use crate::run::Run;

/// The entries, in the coherent view: up to the first that is none.
pub fn entries(run: &Run<'_>) -> impl Iterator<Item = RemDescEntry> {
    (0..REM_DESC_ENTRIES_MAX).map_while(|n| {
        let at = REM_DESC_OFFSET + RemDesc::BYTES as u64 + n * RemDescEntry::BYTES as u64;
        let raw = run.coherent_bytes(at, RemDescEntry::BYTES)?;
        let entry = raw.first_chunk().map(RemDescEntry::from_bytes)?;
        (entry.kind != 0).then_some(entry)
    })
}

/// Whether there is an entry of this type.
#[must_use]
pub fn has(run: &Run<'_>, kind: u32) -> bool {
    entries(run).any(|entry| u32::from(entry.kind) == kind)
}
