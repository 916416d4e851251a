// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether something is in a file in which a region is to be made.

use crate::map::Mapping;

/// Each end of a file of so many bytes must be zero where a region is made. Partition tables, file
/// systems, swap, LVM and RAID have their headers there.
const LOOK_BYTES: usize = 1 << 20;

/// Whether both ends of a file are zero: file systems, partition tables and regions leave marks there.
pub fn is_blank(map: &Mapping) -> bool {
    let bytes = map.bytes();
    let end = bytes.min(LOOK_BYTES);
    // SAFETY: in the mapping, and nobody writes to it yet.
    let all = |from: usize, to: usize| unsafe {
        std::slice::from_raw_parts(map.base().wrapping_add(from), to - from)
            .iter()
            .all(|byte| *byte == 0)
    };
    all(0, end) && all(bytes - end, bytes)
}
