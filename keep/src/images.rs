// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folders of images: one for each slot, in it one for each program.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::check_name;
use crate::fault::{Fault, at};
use crate::mappings;
use crate::pagemap_image::{Run, split};
use crate::pages_image;
use crate::state::{read_json, write_json};
use crate::table::PID_END;

const PROGRAM: &str = "program.json";
/// A list of pages has 30 bytes for a run; one of a million runs is beyond any program.
const LIST_MAX_BYTES: u64 = 64 << 20;

/// A program in an image.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The first of its processes.
    pub pid: u32,
    /// All that have memory, sorted.
    pub pids: Vec<u32>,
}

/// Where the images of a sequence are.
#[must_use]
pub fn slot(folder: &Path, sequence: u32) -> PathBuf {
    folder.join(if sequence % 2 == 0 { "0" } else { "1" })
}

/// Makes a folder that only root can read, if it is not there.
///
/// # Errors
/// Those of the file system.
pub fn make(folder: &Path) -> Result<(), Fault> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(at(folder.display()))
}

/// Makes it empty.
///
/// # Errors
/// Those of the file system.
pub fn reset(folder: &Path) -> Result<(), Fault> {
    remove(folder)?;
    make(folder)
}

/// Removes all images, which are of no use when they are closed, and are as secret as memory.
///
/// # Errors
/// Those of the file system.
pub fn remove_all(folder: &Path) -> Result<(), Fault> {
    [slot(folder, 0), slot(folder, 1)]
        .iter()
        .try_for_each(|slot| remove(slot))
}

/// Removes a folder of images, if it is there.
///
/// # Errors
/// Those of the file system.
pub fn remove(folder: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(folder.display())(error)),
        _ => Ok(()),
    }
}

/// All that was written below a folder is durable when it returns.
///
/// # Errors
/// Those of the file system.
pub fn sync(folder: &Path) -> Result<(), Fault> {
    let file = File::open(folder).map_err(at(folder.display()))?;
    rustix::fs::syncfs(&file).map_err(at(folder.display()))
}

/// Notes what a program consists of, in its folder.
///
/// # Errors
/// Those of the file system.
pub fn note(folder: &Path, program: &Program) -> Result<(), Fault> {
    let path = folder.join(PROGRAM);
    write_json(&path, program).map_err(at(path.display()))
}

/// The programs of a slot, by name.
///
/// # Errors
/// Those of the file system, and if one is not what a save writes.
pub fn programs(folder: &Path) -> Result<Vec<Program>, Fault> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder.display()))? {
        let entry = entry?;
        let path = entry.path().join(PROGRAM);
        let program: Program = read_json(&path)
            .map_err(at(path.display()))?
            .ok_or_else(|| Fault::new(format!("{}: not there", path.display())))?;
        let right = check_name(&program.name).is_ok()
            && entry.file_name().to_str() == Some(program.name.as_str())
            && program.pids.contains(&program.pid)
            && program.pids.iter().all(|pid| (1..PID_END).contains(pid));
        if !right {
            return Err(Fault::new(format!("{}: damaged", path.display())));
        }
        found.push(program);
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The process that a file lists the pages of. Lists of shared memory have other names.
fn listed(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("pagemap-")?.strip_suffix(".img")?;
    digits.parse().ok()
}

/// Takes the pages that CRIU left to us out of the lists of a program, which is frozen. Returns
/// them, by process.
///
/// # Errors
/// Those of the file system, and if a list is damaged.
pub fn take_left(folder: &Path) -> Result<Vec<(u32, Vec<Run>)>, Fault> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(listed) else {
            continue;
        };
        let path = entry.path();
        if entry.metadata()?.len() > LIST_MAX_BYTES {
            return Err(Fault::new(format!("{}: too large", path.display())));
        }
        let bytes = fs::read(&path).map_err(at(path.display()))?;
        let parts = split(&bytes, &mappings::own(pid)).map_err(at(path.display()))?;
        let pages = folder.join(format!("pages-{}.img", parts.pages_id));
        pages_image::fill(&pages, pid, &parts.sources)?;
        replace(&path, &parts.rest).map_err(at(path.display()))?;
        found.push((pid, parts.left));
    }
    found.sort_unstable_by_key(|(pid, _)| *pid);
    Ok(found)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(bytes)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: [u8; 31] = [
        0x19, 0x43, 0x56, 0x54, 0x25, 0x40, 0x08, 0x56, // magic words
        2, 0, 0, 0, 8, 1, // head
        7, 0, 0, 0, 8, 0x80, 0x20, 0x10, 3, 0x20, 2, // 3 pages at 0x1000, lazy
        2, 0, 0, 0, 8, 0, // no pages: damaged
    ];

    /// Goal: the lists of processes are changed, and no other file.
    #[test]
    fn lists_of_processes_are_changed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("pagemap-20001.img", &LIST[..25]);
        write("pagemap-shmem-7.img", &LIST[..25]);
        write("core-20001.img", b"core");
        let found = take_left(folder.path()).unwrap();
        let (vaddr, pages) = (0x1000, 3);
        assert_eq!(found, [(20001, vec![Run { vaddr, pages }])]);
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        assert_eq!(read("pagemap-20001.img"), LIST[..14]);
        assert_eq!(read("pagemap-shmem-7.img"), LIST[..25]);
        write("pagemap-20002.img", &LIST);
        let why = take_left(folder.path()).unwrap_err().to_string();
        assert!(why.contains("pagemap-20002.img"), "{why}");
    }

    /// Goal: only what a save writes is a program.
    #[test]
    fn programs_of_a_slot_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let slot = slot(folder.path(), 7);
        assert!(slot.ends_with("1"));
        reset(&slot).unwrap();
        let mut program = Program {
            name: "db".to_owned(),
            pid: 20001,
            pids: vec![20001, 20002],
        };
        make(&slot.join("db")).unwrap();
        note(&slot.join("db"), &program).unwrap();
        assert_eq!(programs(&slot).unwrap(), [program.clone()]);
        program.pid = 1;
        note(&slot.join("db"), &program).unwrap();
        programs(&slot).unwrap_err();
        reset(&slot).unwrap();
        assert_eq!(programs(&slot).unwrap(), []);
        make(&slot.join("x")).unwrap();
        programs(&slot).unwrap_err();
        remove_all(folder.path()).unwrap();
        assert!(!slot.exists());
    }
}
