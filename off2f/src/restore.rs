// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ABC and XYZ back to the ELF, byte for byte.

use crate::check::{check_abc, check_xyz};
use crate::convert::usize_of;
use crate::error::Failure;
use crate::format::{PAGE_BYTES, Text};

/// Puts the text back.
///
/// # Errors
///
/// [`Failure::Bad`], [`Failure::Digest`]: what is not known to be right is not given out.
pub fn restore(abc: &[u8], xyz: &[u8]) -> Result<Vec<u8>, Failure> {
    let header = check_abc(abc)?;
    check_xyz(xyz, &header)?;
    let short = || Failure::bad("ABC", "what it lacks is not where its header says");
    let mut cuts: Vec<&Text> = header.texts.iter().filter(|t| t.cut_bytes != 0).collect();
    cuts.sort_by_key(|text| text.cut_offset);
    let mut rest = &abc[usize_of(PAGE_BYTES)..];
    let mut elf = Vec::with_capacity(usize_of(header.source_bytes));
    for text in cuts {
        let before = text.cut_offset.checked_sub(elf.len() as u64);
        let (kept, behind) = before
            .and_then(|bytes| rest.split_at_checked(usize_of(bytes)))
            .ok_or_else(short)?;
        rest = behind;
        elf.extend_from_slice(kept);
        let start = usize_of(text.xyz_offset + text.cut_offset - text.source_offset);
        let cut = xyz.get(start..start + usize_of(text.cut_bytes));
        elf.extend_from_slice(cut.ok_or_else(short)?);
    }
    elf.extend_from_slice(rest);
    if elf.len() as u64 != header.source_bytes {
        return Err(short());
    }
    Ok(elf)
}
