// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest's memory: a file that outlives the power, and the tail that tells one content of it
//! from another (`struct rem_vm_tail`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use remanence_format::{REM_VM_ID_BYTES, REM_VM_MAGIC, RemVmTail, usize_of};
use rustix::rand::{GetRandomFlags, getrandom};

/// Which content.
pub type Id = [u8; usize_of(REM_VM_ID_BYTES)];

/// An open file of memory.
#[derive(Debug)]
pub struct Memory {
    file: File,
    ram_bytes: u64,
}

fn crc_of(tail: &RemVmTail) -> u32 {
    crc32c::crc32c(&tail.to_bytes()[..RemVmTail::BYTES - 4])
}

impl Memory {
    /// Opens the file, which is made if there is none.
    ///
    /// # Errors
    /// Those of the file system; `InvalidInput` if a device is too small.
    pub fn open(path: &Path, ram_bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let bytes = ram_bytes + RemVmTail::BYTES as u64;
        let kind = file.metadata()?.file_type();
        if !kind.is_block_device() && !kind.is_char_device() && file.metadata()?.len() < bytes {
            file.set_len(bytes)?;
        }
        Ok(Self { file, ram_bytes })
    }

    /// Whether stores go to the medium itself: the file is on a DAX file system, or is a device of
    /// memory (device DAX). Else a save has to write each page that was stored to.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
        let kind = self.file.metadata().map(|found| found.file_type());
        let is_device = kind.is_ok_and(|kind| kind.is_char_device());
        let found = statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
        let dax = StatxAttributes::DAX;
        is_device || found.is_ok_and(|found| found.stx_attributes.contains(dax))
    }

    /// Which content it has; None if the tail is not whole, or of another size.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn id(&self) -> io::Result<Option<Id>> {
        let mut bytes = [0; RemVmTail::BYTES];
        self.file.read_exact_at(&mut bytes, self.ram_bytes)?;
        let tail = RemVmTail::from_bytes(&bytes);
        let whole = tail.magic == REM_VM_MAGIC
            && tail.crc == crc_of(&tail)
            && tail.ram_bytes == self.ram_bytes;
        Ok(whole.then_some(tail.id))
    }

    /// Before a cold boot: the content is another one from now on, and reads as zeros.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn begin_anew(&self) -> io::Result<Id> {
        let mut tail = RemVmTail {
            magic: REM_VM_MAGIC,
            ram_bytes: self.ram_bytes,
            ..RemVmTail::default()
        };
        getrandom(&mut tail.id, GetRandomFlags::empty())?;
        tail.crc = crc_of(&tail);
        self.file.write_all_at(&tail.to_bytes(), self.ram_bytes)?;
        self.file.sync_data()?;
        if self.file.metadata()?.is_file() {
            use rustix::fs::{FallocateFlags, fallocate};
            let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, holes, 0, self.ram_bytes)?;
        }
        Ok(tail.id)
    }

    /// Writes back what the host's caches hold of it: on a DAX file system, each page that was
    /// stored to since the last time.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each cold boot's content is another one, and a torn tail is none.
    #[test]
    fn each_content_has_its_own_id() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ram");
        let memory = Memory::open(&path, 1 << 20).unwrap();
        assert_eq!(memory.id().unwrap(), None);
        let first = memory.begin_anew().unwrap();
        assert_eq!(memory.id().unwrap(), Some(first));
        let second = memory.begin_anew().unwrap();
        assert_ne!(first, second);
        assert_eq!(Memory::open(&path, 1 << 19).unwrap().id().unwrap(), None);
        memory.file.write_all_at(b"x", (1 << 20) + 20).unwrap();
        assert_eq!(memory.id().unwrap(), None);
    }

    /// Goal: what a guest stored is gone after a cold boot. Method: the file reads as zeros.
    #[test]
    fn a_cold_boot_finds_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::open(&folder.path().join("ram"), 1 << 20).unwrap();
        memory.file.write_all_at(b"secret", 4096).unwrap();
        memory.begin_anew().unwrap();
        let mut bytes = [1; 6];
        memory.file.read_exact_at(&mut bytes, 4096).unwrap();
        assert_eq!(bytes, [0; 6]);
    }
}
