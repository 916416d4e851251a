// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a region: a file, opened by one process at a time, or anonymous memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// How a file is mapped.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// Take the file for persistent memory though the system does not say that it is.
    pub assume_persistent: bool,
    /// Needed only where stores must survive a cut without a Stop.
    pub must_be_persistent: bool,
    /// Map it here, so that addresses stay the same from one opening to the next.
    pub address: Option<usize>,
}

/// Mapped memory. Anonymous memory is gone with the process; a file's is not.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    bytes: usize,
    lent: bool,
    // Holds the lock.
    file: Option<File>,
}

// SAFETY: it is memory shared by design; all accesses go through atomics or the owner of a part.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Anonymous memory, zeroed, aligned to a page.
    ///
    /// # Errors
    /// [`Error::Io`] where there is not that much.
    pub fn anonymous(bytes: u64) -> Result<Self, Error> {
        // Miri knows no mapping without reserve.
        let reserve = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | reserve;
        map(None, bytes, flags, -1)
            .inspect(|(base, bytes)| {
                // Random access to a large heap waits for page tables as long as for data.
                if !cfg!(miri) {
                    // SAFETY: a hint about a mapping that was just made.
                    unsafe { libc::madvise(base.cast(), *bytes, libc::MADV_HUGEPAGE) };
                }
            })
            .map(|(base, bytes)| Self {
                base,
                bytes,
                lent: false,
                file: None,
            })
            .map_err(|error| Error::Io(PathBuf::from("anonymous memory"), error))
    }

    /// The same memory once more, e.g. to look at one state after another in it.
    ///
    /// # Safety
    /// This mapping outlives the new one, and only one of them is used at a time.
    #[must_use]
    pub unsafe fn lend(&self) -> Self {
        Self {
            base: self.base,
            bytes: self.bytes,
            lent: true,
            file: None,
        }
    }

    /// Make a file of that size, or set the size of an empty one, and map it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Busy`] or [`Error::NotPersistent`].
    pub fn create(path: &Path, bytes: u64, options: &MapOptions) -> Result<Self, Error> {
        let file = open(path, true)?;
        let failed = |error| Error::Io(path.to_owned(), error);
        let found = length(&file).map_err(failed)?;
        if found != 0 && found != bytes {
            return Err(failed(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is something in it: remove it first",
            )));
        }
        if !is_device(&file) {
            // Space is taken now: a hole that cannot be filled later would be a SIGBUS.
            let length = libc::off_t::try_from(bytes).map_err(|_| Error::Size(bytes))?;
            // SAFETY: a call with a file descriptor that is open.
            let status = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
            if status != 0 {
                return Err(failed(io::Error::from_raw_os_error(status)));
            }
        }
        Self::of(path, file, bytes, options)
    }

    /// Map an existing file.
    ///
    /// # Errors
    /// As [`Mapping::create`].
    pub fn open(path: &Path, options: &MapOptions) -> Result<Self, Error> {
        let file = open(path, false)?;
        let bytes = length(&file).map_err(|error| Error::Io(path.to_owned(), error))?;
        if bytes < crate::layout::PAGE_BYTES {
            return Err(Error::Short(bytes, crate::layout::PAGE_BYTES));
        }
        Self::of(path, file, bytes, options)
    }

    fn of(path: &Path, file: File, bytes: u64, options: &MapOptions) -> Result<Self, Error> {
        let failed = |error| Error::Io(path.to_owned(), error);
        // SAFETY: a call with a file descriptor that is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::WouldBlock => Error::Busy(path.to_owned()),
                _ => failed(error),
            });
        }
        let fd = file.as_raw_fd();
        let sync = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
        let mapped = match map(options.address, bytes, sync, fd) {
            Ok(mapped) => mapped,
            Err(_)
                if options.assume_persistent
                    || !options.must_be_persistent
                    || is_segment(&file) =>
            {
                map(options.address, bytes, libc::MAP_SHARED, fd).map_err(failed)?
            }
            Err(_) => return Err(Error::NotPersistent(path.to_owned())),
        };
        Ok(Self {
            base: mapped.0,
            bytes: mapped.1,
            lent: false,
            file: Some(file),
        })
    }

    /// Where it begins.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        // SAFETY: base and length are those of the mapping, and nobody has the memory any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
        if let Some(file) = &self.file {
            // Closing is not enough: a child that a thread of the program has forked and that has
            // not called exec yet has the descriptor too, and with it the lock.
            // SAFETY: a call with a file descriptor that is open.
            unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

fn is_device(file: &File) -> bool {
    file.metadata()
        .is_ok_and(|is| is.file_type().is_char_device())
}

/// How long it is; a device has no length but an end.
fn length(mut file: &File) -> io::Result<u64> {
    if is_device(file) {
        file.seek(SeekFrom::End(0))
    } else {
        Ok(file.metadata()?.len())
    }
}

/// A segment of `pm/`: persistent memory, whether or not its mapping can be asked to be so.
fn is_segment(file: &File) -> bool {
    let Ok(is) = file.metadata() else {
        return false;
    };
    let (major, minor) = (libc::major(is.rdev()), libc::minor(is.rdev()));
    is.file_type().is_char_device()
        && std::fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"))
            .is_ok_and(|class| class.ends_with("class/pm"))
}

fn open(path: &Path, create: bool) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| Error::Io(path.to_owned(), error))
}

fn map(
    address: Option<usize>,
    bytes: u64,
    flags: libc::c_int,
    fd: libc::c_int,
) -> io::Result<(*mut u8, usize)> {
    let length = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let (at, fixed) = match address {
        Some(address) => (address as *mut libc::c_void, libc::MAP_FIXED_NOREPLACE),
        None => (std::ptr::null_mut(), 0),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping; MAP_FIXED_NOREPLACE replaces none.
    let base = unsafe { libc::mmap(at, length, protection, flags | fixed, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok((base.cast(), length))
}
