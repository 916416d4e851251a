// SPDX-License-Identifier: GPL-2.0-or-later
//! Files mapped shared for as long as the process lives.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The first `len` bytes of a file, for reading and writing; aligned to a page, never removed.
///
/// Pages beyond the end of the file must not be accessed.
pub(crate) fn map_shared(file: &File, len: usize) -> io::Result<*mut u8> {
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start.cast())
}
