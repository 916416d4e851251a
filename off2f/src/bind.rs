// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that start without the disk. ABC is on the disk, so a start with cold caches reads it and
//! its names from there, although its text is in NVRAM. A copy of ABC in the store, mounted over it
//! at boot, is read from NVRAM, and what is mounted is not looked up on the disk.
//!
//! ```text
//! STORE/abc/HASH               a copy of ABC; HASH is of its path
//! ```
//!
//! The file on the disk is the program; the copy is compared with it before it is mounted, so it may
//! be old, or missing.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::attributes::Attributes;
use crate::error::Failure;
use crate::store::{Store, absolute, list, map, sync_folder};

/// Owner and mode.
fn rights(path: &Path) -> io::Result<(u32, u32, u32)> {
    let found = fs::metadata(path)?;
    Ok((found.uid(), found.gid(), found.mode()))
}

/// Whether the copy has the program's bytes, owner, mode and attributes.
fn is_current(copy: &Path, program: &Path, abc: &[u8]) -> bool {
    let same = || -> Option<bool> {
        Some(
            *map(copy).ok()? == *abc
                && rights(copy).ok()? == rights(program).ok()?
                && Attributes::of(copy).ok()? == Attributes::of(program).ok()?,
        )
    };
    same().unwrap_or(false)
}

fn is_mounted(copy: &Path, program: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((id(copy), id(program)), (Ok(copy), Ok(program)) if copy == program)
}

impl Store {
    fn copies(&self) -> PathBuf {
        self.folder().join("abc")
    }

    fn copy_path(&self, program: &Path) -> PathBuf {
        self.copies().join(Self::hash_of(program))
    }

    /// Mounts copies of ABCs over `programs`, or over all of the store if there are none. One that
    /// is not the store's any more is left out. Returns how many are mounted.
    ///
    /// # Errors
    ///
    /// [`Failure::Io`], also without the right to mount; [`Failure::Usage`] if one of `programs` is
    /// not the store's.
    pub fn bind(&self, programs: &[PathBuf]) -> Result<u32, Failure> {
        let mut chosen = Vec::new();
        for program in programs {
            chosen.push(absolute(program)?);
        }
        let mut mounted = 0;
        for user in self.all_users()? {
            if !programs.is_empty() && !chosen.contains(&user.program) {
                continue;
            }
            if self.name_of_program(&user.program).as_ref() != Some(&user.text) {
                continue;
            }
            let copy = self.copy_path(&user.program);
            if !is_mounted(&copy, &user.program) {
                let abc = map(&user.program)?;
                if !is_current(&copy, &user.program, &abc) {
                    self.put_program(&abc, &[], &user.program, &copy)?;
                }
                mount_bind(&copy, &user.program)
                    .map_err(|error| Failure::io(&user.program)(error.into()))?;
            }
            chosen.retain(|program| *program != user.program);
            mounted += 1;
        }
        match chosen.first() {
            Some(other) => Err(Failure::Usage(format!(
                "{}: its text is not in {}",
                other.display(),
                self.folder().display()
            ))),
            None => Ok(mounted),
        }
    }

    /// Unmounts the copies over `programs`, or all. Processes that run one keep it. Returns how many
    /// were mounted.
    ///
    /// # Errors
    ///
    /// [`Failure::Io`].
    pub fn unbind(&self, programs: &[PathBuf]) -> Result<u32, Failure> {
        let mut found = Vec::new();
        for program in programs {
            found.push(absolute(program)?);
        }
        if found.is_empty() {
            found.extend(self.all_users()?.into_iter().map(|user| user.program));
        }
        let mut unmounted = 0;
        for program in found {
            unmounted += u32::from(self.release(&program)?);
        }
        Ok(unmounted)
    }

    /// Whether a copy was mounted over the program, which may be replaced now.
    pub(crate) fn release(&self, program: &Path) -> Result<bool, Failure> {
        if !is_mounted(&self.copy_path(program), program) {
            return Ok(false);
        }
        unmount(program, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(|error| Failure::io(program)(error.into()))?;
        Ok(true)
    }

    /// The copy of a program that has gone.
    pub(crate) fn drop_copy(&self, program: &Path) -> Result<(), Failure> {
        let copy = self.copy_path(program);
        match fs::remove_file(&copy) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io(&copy)(error)),
            Err(_) => Ok(()),
            Ok(()) => sync_folder(&self.copies()),
        }
    }

    /// Copies of no program; returns how many there were.
    pub(crate) fn clean_copies(&self) -> Result<u32, Failure> {
        let users = self.all_users()?;
        let mut dropped = 0;
        for name in list(&self.copies())? {
            if users
                .iter()
                .any(|user| Self::hash_of(&user.program) == name)
            {
                continue;
            }
            let path = self.copies().join(OsStr::from_bytes(name.as_bytes()));
            fs::remove_file(&path).map_err(Failure::io(&path))?;
            dropped += 1;
        }
        Ok(dropped)
    }
}
