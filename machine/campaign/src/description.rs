// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine's description says, as the loader left it in the record block.

use std::ops::Range;

use remanence_format::{
    REM_DESC_ENTRIES_MAX, REM_DESC_MEMORY, REM_DESC_OFFSET, REM_MEMORY_NVRAM, RemDesc, RemDescEntry,
};

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

/// What a kernel may use of NVRAM, by physical address. Firmware may have parts of it, so the first
/// is the loader's region, which has the record block, and others follow.
#[must_use]
pub fn ranges(run: &Run<'_>) -> Vec<Range<u64>> {
    let whole = run.header().nvram_phys..run.header().nvram_phys + run.header().nvram_bytes;
    let described: Vec<Range<u64>> = entries(run)
        .filter(|entry| u32::from(entry.kind) == REM_DESC_MEMORY)
        .filter(|entry| entry.value[2] == REM_MEMORY_NVRAM)
        .map(|entry| entry.value[0]..entry.value[0].saturating_add(entry.value[1]))
        .filter(|range| whole.start <= range.start && range.end <= whole.end)
        .collect();
    match described.first() {
        Some(region) if region.start == whole.start => described,
        _ => vec![whole],
    }
}
