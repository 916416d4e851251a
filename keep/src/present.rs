// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which addresses of a process have a page of its own (`PAGEMAP_SCAN` of Linux 6.7).

use std::fs::File;
use std::ops::Range;

use remanence_format::REM_KEEP_PAGE_BYTES;
use rustix::ioctl::{Opcode, Updater, opcode};

use crate::fault::{Fault, at};
use crate::pagemap_image::Run;

const GROUP: u8 = b'f';
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;
const IS_SOFT_DIRTY: u64 = 1 << 7;
const REGIONS: usize = if cfg!(test) { 16 } else { 1024 }; // that one call returns

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

const SCAN: Opcode = opcode::read_write::<Scan>(GROUP, 16);

/// The runs of pages in these spans, but for those that are a file's, pages of zeros that were
/// never stored to, and what was stored to since the process's memory was made read-only. Both are
/// sorted.
///
/// # Errors
/// If the process has gone, or the kernel is too old.
pub fn clean_runs(pid: u32, spans: &[Range<u64>]) -> Result<Vec<Run>, Fault> {
    scan(pid, spans, IS_FILE | IS_ZERO | IS_SOFT_DIRTY)
}

fn scan(pid: u32, spans: &[Range<u64>], none_of: u64) -> Result<Vec<Run>, Fault> {
    let path = format!("/proc/{pid}/pagemap");
    let file = File::open(&path).map_err(at(&path))?;
    let mut regions = vec![Region::default(); REGIONS];
    let mut found = Vec::new();
    for span in spans {
        let mut begin = span.start;
        while begin < span.end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: begin,
                end: span.end,
                vec: regions.as_mut_ptr() as u64,
                vec_len: regions.len() as u64,
                inverted: none_of,
                mask: none_of,
                any_of: IS_PRESENT | IS_SWAPPED,
                ..Scan::default()
            };
            // SAFETY: the kernel writes at most `vec_len` regions to `regions`, which has as many.
            let filled = unsafe { rustix::ioctl::ioctl(&file, Count(Updater::new(&mut scan))) };
            let filled = filled.map_err(at(&path))?;
            let known = regions.iter().take(filled);
            found.extend(known.map(|region| Run {
                vaddr: region.start,
                pages: (region.end - region.start) / REM_KEEP_PAGE_BYTES,
            }));
            // A kernel that makes no progress would be asked for ever.
            begin = scan.walk_end.max(begin + REM_KEEP_PAGE_BYTES);
        }
    }
    Ok(found)
}

/// The call, whose result is a number of regions.
struct Count<'a>(Updater<'a, SCAN, Scan>);

// SAFETY: as `Updater`, but for the number that the kernel returns.
unsafe impl rustix::ioctl::Ioctl for Count<'_> {
    type Output = usize;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.0.opcode()
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.0.as_ptr()
    }

    unsafe fn output_from_ptr(
        returned: rustix::ioctl::IoctlOutput,
        _argument: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<usize> {
        Ok(usize::try_from(returned).unwrap_or_default())
    }
}

/// The parts of sorted runs that are in none of some others, which are sorted, too.
#[must_use]
pub fn uncovered(runs: &[Run], by: &[Run]) -> Vec<Run> {
    let spans: Vec<Range<u64>> = by.iter().map(|run| run.vaddr..run.end()).collect();
    let parts = runs.iter().flat_map(|run| run.cut(&spans));
    parts
        .filter_map(|(is_in, part)| (!is_in).then_some(part))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(vaddr: u64, pages: u64) -> Run {
        Run { vaddr, pages }
    }

    /// Goal: pages that were stored to are found, and no others. Method: this process's own
    /// memory, with more regions than one call returns.
    #[test]
    fn pages_that_were_stored_to_are_found() {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
        let pages = 10 * REGIONS;
        let (null, rights) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, of which all that is stored to lies within, and which goes last.
        let memory = unsafe {
            let memory = mmap_anonymous(null, pages * 4096, rights, MapFlags::PRIVATE).unwrap();
            // A huge page would be there for all of them.
            madvise(memory, pages * 4096, Advice::LinuxNoHugepage).unwrap();
            for number in (0..pages).step_by(2) {
                memory
                    .byte_add(number * 4096)
                    .cast::<u8>()
                    .write_volatile(1);
            }
            memory
        };
        let begin = memory.addr() as u64;
        let pid = std::process::id();
        let end = begin + pages as u64 * 4096;
        let found = scan(
            pid,
            &[begin..begin + 4096, begin + 4096..end],
            IS_FILE | IS_ZERO,
        );
        let found = found.unwrap();
        let want: Vec<Run> = (0..pages as u64)
            .step_by(2)
            .map(|number| run(begin + number * 4096, 1))
            .collect();
        assert_eq!(found, want);
        assert_eq!(clean_runs(pid, &[]).unwrap(), []);
        clean_runs(0, &[]).unwrap_err();
        // SAFETY: nobody has a reference to it.
        unsafe { munmap(memory, pages * 4096) }.unwrap();
    }

    /// Goal: what one list has and the other has not.
    #[test]
    fn uncovered_parts_are_known() {
        let by = [run(0x1000, 2), run(0x5000, 1)];
        assert_eq!(uncovered(&[run(0x1000, 2), run(0x5000, 1)], &by), []);
        let found = uncovered(&[run(0x2000, 3), run(0x5000, 2)], &by);
        assert_eq!(found, [run(0x3000, 2), run(0x6000, 1)]);
        assert_eq!(uncovered(&[run(0x9000, 1)], &[]), [run(0x9000, 1)]);
    }
}
