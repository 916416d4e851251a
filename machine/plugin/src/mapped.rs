// SPDX-License-Identifier: GPL-2.0-or-later
//! Files mapped shared for as long as the process lives.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `len` bytes of a file from `from` on, for reading and writing; aligned to a page, never removed.
///
/// `from` is a multiple of the page size.
/// Pages beyond the end of the file must not be accessed.
pub(crate) fn map_shared(file: &File, from: u64, len: usize) -> io::Result<*mut u8> {
    let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            from,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start.cast())
}
