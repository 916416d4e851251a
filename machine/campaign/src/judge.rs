// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loader's decision, computed by the loader's own code (`loader/core`), over the record block
//! of an image.

use std::ffi::{CStr, c_char};
use std::ops::Range;
use std::sync::Once;

use remanence_format::{REM_BOOT_RESUME, RemDescEntry};

use crate::record;

#[repr(C)]
struct RawJudged {
    reason: u32,
    sequence: u32,
    context_phys: u64,
    context_bytes: u32,
    cpu_count: u32,
    expected: RemDescEntry,
    found: RemDescEntry,
}

unsafe extern "C" {
    fn campaign_init();
    fn campaign_desc_bytes() -> usize;
    fn campaign_desc_read(from: *const u8, bytes: usize, ret_desc: *mut u64) -> bool;
    fn campaign_judge(
        block: *const u8,
        region_phys: u64,
        region_bytes: u64,
        found: *const u64,
        ret: *mut RawJudged,
    );
    fn campaign_reason(reason: u32) -> *const c_char;
}

static INIT: Once = Once::new();

/// The loader's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// `enum rem_boot_reason`.
    pub reason: u32,
    /// Sequence of the image decided on, 0 = none.
    pub sequence: u32,
    /// CPU contexts of the image to be entered.
    pub contexts: Contexts,
}

/// The place of the CPU contexts that a body names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contexts {
    /// Physical address of the first.
    pub phys: u64,
    /// Size of each.
    pub bytes: u32,
    /// Number of contexts.
    pub count: u32,
}

impl Decision {
    /// Whether an image would be entered.
    #[must_use]
    pub fn resumes(&self) -> bool {
        self.reason == REM_BOOT_RESUME
    }
}

/// Stable name of a reason for cold boot.
#[must_use]
pub fn reason_name(reason: u32) -> String {
    // SAFETY: the function returns a string constant for every number.
    let name = unsafe { CStr::from_ptr(campaign_reason(reason)) };
    name.to_string_lossy().into_owned()
}

/// The loader, with the machine description that it would write at the next boot.
#[derive(Debug, Clone)]
pub struct Judge {
    desc: Vec<u64>,
    region_phys: u64,
    region_bytes: u64,
    ranges: Vec<Range<u64>>,
}

impl Judge {
    /// `described` = the bytes at `DESC_OFFSET` that a loader left on this machine; `None` if
    /// invalid. `ranges` = what a kernel may use, by physical address: first the loader's region.
    #[must_use]
    pub fn new(described: &[u8], ranges: &[Range<u64>]) -> Option<Self> {
        let region = ranges.first()?;
        // SAFETY: it only sets up tables of the C files; `Once` excludes concurrent calls.
        INIT.call_once(|| unsafe { campaign_init() });
        // SAFETY: no arguments.
        let bytes = unsafe { campaign_desc_bytes() };
        let mut desc = vec![0u64; bytes.div_ceil(8)];
        // SAFETY: `described` is read within its length; `desc` has the size of a struct desc and
        // the alignment of its widest member.
        let read =
            unsafe { campaign_desc_read(described.as_ptr(), described.len(), desc.as_mut_ptr()) };
        read.then_some(Self {
            desc,
            region_phys: region.start,
            region_bytes: region.end - region.start,
            ranges: ranges
                .iter()
                .map(|range| range.start - region.start..range.end - region.start)
                .collect(),
        })
    }

    /// What the loader lets a kernel use, by offset in NVRAM.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Decides on one image by its record block.
    #[must_use]
    pub fn decide(&self, block: &[u8]) -> Decision {
        assert!(
            block.len() >= record::BLOCK_BYTES,
            "a block is {} bytes",
            record::BLOCK_BYTES
        );
        let mut judged = std::mem::MaybeUninit::<RawJudged>::uninit();
        // SAFETY: the block has the length that the loader expects, the description was written by
        // campaign_desc_read(), and the call writes the whole result.
        let judged = unsafe {
            campaign_judge(
                block.as_ptr(),
                self.region_phys,
                self.region_bytes,
                self.desc.as_ptr(),
                judged.as_mut_ptr(),
            );
            judged.assume_init()
        };
        Decision {
            reason: judged.reason,
            sequence: judged.sequence,
            contexts: Contexts {
                phys: judged.context_phys,
                bytes: judged.context_bytes,
                count: judged.cpu_count,
            },
        }
    }
}
