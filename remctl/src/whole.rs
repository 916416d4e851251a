// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that appear whole or not at all, and input files that are read whole.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::fault::{Fault, at};

/// An image and its files have 32-bit sizes.
const BYTES_MAX: u64 = u32::MAX as u64;

/// Reads a file of a user.
///
/// # Errors
/// One line, also for what is no file or too large for an image.
pub fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let found = fs::metadata(path).map_err(at(path.display()))?;
    if !found.is_file() || found.len() > BYTES_MAX {
        let name = path.display();
        return Err(Fault::new(format!("{name}: no file of less than 4 GiB")));
    }
    fs::read(path).map_err(at(path.display()))
}

fn folder_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}

/// Makes changes of names in the folder of *path* durable.
///
/// # Errors
/// Those of the file system.
pub fn sync_folder_of(path: &Path) -> Result<(), Fault> {
    let folder = folder_of(path);
    let file = File::open(folder).map_err(at(folder.display()))?;
    file.sync_all().map_err(at(folder.display()))
}

/// Writes a file that nobody looks at before all of it is durable and has its name.
///
/// # Errors
/// Those of the file system; then *path* is as it was, and nothing is beside it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(Fault::new(format!("{}: no regular file", path.display())));
    }
    let mut draft = tempfile::Builder::new();
    let draft = draft.permissions(Permissions::from_mode(0o644));
    let mut draft = draft
        .tempfile_in(folder_of(path))
        .map_err(at(path.display()))?;
    draft.write_all(bytes).map_err(at(path.display()))?;
    draft.as_file().sync_all().map_err(at(path.display()))?;
    draft
        .persist(path)
        .map_err(|error| at(path.display())(error.error))?;
    sync_folder_of(path)
}

/// Writes a file that no other process writes to, in the place of a leftover; durable.
///
/// # Errors
/// Those of the file system; then the file is not there.
pub fn write_draft(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    remove(path)?;
    let draft = OpenOptions::new().write(true).create_new(true).open(path);
    let mut draft = draft.map_err(at(path.display()))?;
    let done = draft.write_all(bytes).and_then(|()| draft.sync_all());
    if let Err(error) = done {
        // The first error is what the user has to know.
        let _ = fs::remove_file(path);
        return Err(at(path.display())(error));
    }
    sync_folder_of(path)
}

/// Gives each of two files the other's name, in one step.
///
/// # Errors
/// Those of the file system.
pub fn exchange(a: &Path, b: &Path) -> Result<(), Fault> {
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).map_err(at(b.display()))?;
    sync_folder_of(b)
}

/// Gives a file another name, in the place of what has it.
///
/// # Errors
/// Those of the file system.
pub fn rename(from: &Path, to: &Path) -> Result<(), Fault> {
    fs::rename(from, to).map_err(at(to.display()))?;
    sync_folder_of(to)
}

/// Removes a file if it is there.
///
/// # Errors
/// Those of the file system.
pub fn remove(path: &Path) -> Result<(), Fault> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(path.display())(error)),
        Ok(()) => sync_folder_of(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn names(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| PathBuf::from(entry.unwrap().file_name()))
            .collect()
    }

    #[test]
    fn a_file_appears_whole_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for bytes in [b"first".as_slice(), b"second, longer"] {
            write(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o400,
            0o400
        );
        assert_eq!(names(folder.path()), [Path::new("out")]);
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for path in [folder.path(), &link] {
            let why = write(path, b"x").unwrap_err().to_string();
            assert!(why.ends_with(": no regular file"), "{why}");
        }
        assert_eq!(names(folder.path()), [Path::new("link")]);
        write(&folder.path().join("none/out"), b"x").unwrap_err();
    }

    #[test]
    fn inputs_are_files() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/zero")] {
            let why = read(path).unwrap_err().to_string();
            assert!(why.ends_with(": no file of less than 4 GiB"), "{why}");
        }
        let large = folder.path().join("large");
        File::create(&large).unwrap().set_len(1 << 32).unwrap();
        let why = read(&large).unwrap_err().to_string();
        assert!(why.ends_with(": no file of less than 4 GiB"), "{why}");
        let why = read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(why.contains("none: No such file"), "{why}");
    }

    #[test]
    fn a_draft_replaces_its_leftover_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let (draft, other) = (folder.path().join("draft"), folder.path().join("other"));
        fs::write(&other, b"other").unwrap();
        std::os::unix::fs::symlink(&other, &draft).unwrap();
        write_draft(&draft, b"draft").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"other");
        exchange(&draft, &other).unwrap();
        assert_eq!(fs::read(&draft).unwrap(), b"other");
        assert_eq!(fs::read(&other).unwrap(), b"draft");
        remove(&draft).unwrap();
        remove(&draft).unwrap();
        assert_eq!(names(folder.path()), [Path::new("other")]);
    }
}
