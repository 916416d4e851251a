// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of the EFI system partition and of firmware's entries, one by one. After each of them
//! the image is whole: a command that is interrupted is just given again.

use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, syncfs};

use crate::boot_entry::Entries;
use crate::esp::Place;
use crate::fault::{Fault, at};
use crate::whole;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a folder.
    Folder(PathBuf),
    /// Write a draft.
    Write(PathBuf, Vec<u8>),
    /// Exchange the names of two files.
    Exchange(PathBuf, PathBuf),
    /// Give a file another name.
    Rename(PathBuf, PathBuf),
    /// Remove a file.
    Remove(PathBuf),
    /// Remove a folder, if nothing is in it.
    RemoveFolder(PathBuf),
    /// Make the boot entry.
    Create(Entries, Place),
    /// Let firmware try it first.
    First(Entries),
    /// Remove a boot entry.
    Delete(Entries, String),
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(out, "make {}", path.display()),
            Self::Write(path, bytes) => {
                write!(out, "write {}, {}", path.display(), mib(bytes.len() as u64))
            }
            Self::Exchange(a, b) => write!(out, "exchange {} and {}", a.display(), b.display()),
            Self::Rename(from, to) => write!(out, "rename {} to {}", from.display(), to.display()),
            Self::Remove(path) => write!(out, "remove {}", path.display()),
            Self::RemoveFolder(path) => write!(out, "remove {} if it is empty", path.display()),
            Self::Create(_, place) => write!(
                out,
                "make the boot entry Remanence: partition {} of {}",
                place.part, place.disk
            ),
            Self::First(_) => write!(out, "put it first in the boot order"),
            Self::Delete(_, number) => write!(out, "remove the boot entry {number}"),
        }
    }
}

/// Bytes for people, rounded up.
#[must_use]
pub fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

impl Step {
    /// Makes the change; it is durable then.
    ///
    /// # Errors
    /// One line; then nothing has changed.
    pub fn run(&self) -> Result<(), Fault> {
        match self {
            Self::Folder(path) => {
                fs::create_dir_all(path).map_err(at(path.display()))?;
                whole::sync_folder_of(path)
            }
            Self::Write(path, bytes) => whole::write_draft(path, bytes),
            Self::Exchange(a, b) => whole::exchange(a, b),
            Self::Rename(from, to) => whole::rename(from, to),
            Self::Remove(path) => whole::remove(path),
            Self::RemoveFolder(path) => match fs::remove_dir(path) {
                Ok(()) => whole::sync_folder_of(path),
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
                Err(error) => Err(at(path.display())(error)),
            },
            Self::Create(entries, place) => entries.create(place),
            Self::First(entries) => entries.put_first(),
            Self::Delete(entries, number) => entries.delete(number),
        }
    }
}

/// The partition's folder, for one command at a time.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// One line, if another command has it.
    pub fn take(folder: &Path) -> Result<Self, Fault> {
        let file = File::open(folder).map_err(at(folder.display()))?;
        let taken = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let in_use = |_| Fault::new(format!("{}: another remctl works on it", folder.display()));
        taken.map_err(in_use)?;
        Ok(Self(file))
    }

    /// Makes the changes in their order, and all of the file system durable.
    ///
    /// # Errors
    /// That of the first step that fails; those behind it are left out.
    pub fn run(&self, steps: &[Step]) -> Result<(), Fault> {
        steps.iter().try_for_each(Step::run)?;
        syncfs(&self.0).map_err(at("the EFI system partition"))
    }
}

impl Drop for Lock {
    /// At once, also while a process that was just forked has the file, too.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let held = Lock::take(folder.path()).unwrap();
        let why = Lock::take(folder.path()).unwrap_err().to_string();
        assert!(why.ends_with(": another remctl works on it"), "{why}");
        drop(held);
        Lock::take(folder.path()).unwrap();
    }

    #[test]
    fn only_an_empty_folder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/b");
        Step::Folder(own.clone()).run().unwrap();
        fs::write(own.join("cold"), b"").unwrap();
        Step::RemoveFolder(own.clone()).run().unwrap();
        assert!(own.join("cold").exists());
        Step::Remove(own.join("cold")).run().unwrap();
        Step::RemoveFolder(own.clone()).run().unwrap();
        assert!(!own.exists());
        Step::RemoveFolder(own).run().unwrap_err();
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(
            [0, 1, 1 << 20, (1 << 20) + 1].map(mib),
            ["0 MiB", "1 MiB", "1 MiB", "2 MiB"]
        );
    }
}
