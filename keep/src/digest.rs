// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The digest of a slot's images: what is not memory is as the save left it.
//!
//! Logs and statistics are not part of it: CRIU writes them after the save.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use remanence_format::{REM_VM_DIGEST_BYTES, usize_of};
use sha2::{Digest, Sha256};

use crate::fault::{Fault, at};

/// SHA-256 of all images of a slot.
pub type Fingerprint = [u8; usize_of(REM_VM_DIGEST_BYTES)];

const PIECE_BYTES: usize = 1 << 16;

fn is_image(name: &str) -> bool {
    let path = Path::new(name);
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("img" | "json"))
}

/// Names below a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder.display()))? {
        let name = entry?.file_name();
        let name = name.into_string();
        names.push(name.map_err(|name| Fault::new(format!("{name:?}: no name")))?);
    }
    names.sort_unstable();
    Ok(names)
}

fn add(hash: &mut Sha256, path: &Path, name: &str) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    hash.update(name);
    hash.update([0]);
    hash.update(length.to_le_bytes());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            count => hash.update(&piece[..count]),
        }
    }
}

/// Of all files PROGRAM/NAME of images, in the order of their names: name, NUL, length, content.
///
/// # Errors
/// Those of the file system.
pub fn of(slot: &Path) -> Result<Fingerprint, Fault> {
    let mut hash = Sha256::new();
    for program in names(slot)? {
        let folder = slot.join(&program);
        for file in names(&folder)?.iter().filter(|name| is_image(name)) {
            let (path, name) = (folder.join(file), format!("{program}/{file}"));
            add(&mut hash, &path, &name).map_err(at(path.display()))?;
        }
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each byte of images counts, and where it is; logs do not.
    #[test]
    fn each_image_counts() {
        let slot = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(slot.path().join(name), text).unwrap();
        let now = || of(slot.path()).unwrap();
        fs::create_dir(slot.path().join("a")).unwrap();
        fs::create_dir(slot.path().join("b")).unwrap();
        let empty = now();
        write("a/mm-1.img", "12");
        let first = now();
        assert_ne!(empty, first);
        write("a/dump.log", "x");
        write("a/stats-dump", "x");
        assert_eq!(now(), first);
        write("a/mm-1.img", "13");
        assert_ne!(now(), first);
        write("a/mm-1.img", "1");
        write("a/mm-2.img", "2");
        assert_ne!(now(), first);
        fs::remove_file(slot.path().join("a/mm-2.img")).unwrap();
        fs::rename(
            slot.path().join("a/mm-1.img"),
            slot.path().join("b/mm-1.img"),
        )
        .unwrap();
        write("b/mm-1.img", "12");
        assert_ne!(now(), first);
    }
}
