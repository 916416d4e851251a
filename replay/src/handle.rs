// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file by its handle, as `name_to_handle_at(2)` gives it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

use remanence_format::{REM_REGISTRY_HANDLE_BYTES, RemRegistryFile};

const _: () = assert!(size_of::<RawHandle>() as u64 == 8 + REM_REGISTRY_HANDLE_BYTES);

#[repr(C)]
struct RawHandle {
    bytes: libc::c_uint,
    kind: libc::c_int,
    data: [u8; 128],
}

/// Opens the file of a record, for reading and writing.
///
/// # Errors
/// `ESTALE` if it does not exist any more; `EPERM` without CAP_DAC_READ_SEARCH.
pub fn open(mount: BorrowedFd<'_>, record: &RemRegistryFile) -> io::Result<File> {
    let mut raw = RawHandle {
        bytes: record.handle_bytes,
        kind: i32::from_ne_bytes(record.handle_type.to_ne_bytes()),
        data: record.handle,
    };
    let at: *mut RawHandle = &raw mut raw;
    // No file of this kind leads elsewhere, or does anything when it is opened.
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    // SAFETY: `at` points to a handle as the call expects it, whose data has as many bytes as
    // `bytes` says (registry.rs checks that it is not more than there are), for the call only.
    let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), at.cast(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned it, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(fd) })
}
