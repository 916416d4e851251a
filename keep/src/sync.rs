// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program has written to files is durable before its image is.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fault::{Fault, at};

const WRITES: u32 = 0o3; // O_WRONLY and O_RDWR

/// Whether a descriptor is open for writing, by its text in /proc/PID/fdinfo.
fn is_written(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & WRITES != 0)
}

/// Whether a mapping writes to its file, by its line in /proc/PID/maps; then its span.
fn written_span(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let (span, rights) = (words.next()?, words.next()?);
    let inode = words.nth(2)?;
    let written = rights.contains('w') && rights.contains('s') && inode != "0";
    written.then_some(span)
}

/// Files that a process may have written to, as /proc has them.
fn written(pid: u32) -> Result<Vec<PathBuf>, Fault> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mut paths = Vec::new();
    let folder = process.join("fd");
    for entry in fs::read_dir(&folder).map_err(at(folder.display()))? {
        let entry = entry?;
        let info = fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
        if is_written(&info.unwrap_or_default()) {
            paths.push(entry.path());
        }
    }
    let maps = process.join("maps");
    let maps = fs::read_to_string(&maps).map_err(at(maps.display()))?;
    let spans = maps.lines().filter_map(written_span);
    paths.extend(spans.map(|span| process.join("map_files").join(span)));
    Ok(paths)
}

/// Writes back the file systems of all files that processes have open for writing.
///
/// # Errors
/// Those of the kernel.
pub fn files_of(pids: &[u32]) -> Result<(), Fault> {
    let mut done = HashSet::new();
    for &pid in pids {
        for path in written(pid)? {
            sync_once(&path, &mut done)?;
        }
    }
    Ok(())
}

fn sync_once(path: &Path, done: &mut HashSet<u64>) -> Result<(), Fault> {
    // The link leads to the file itself, also if it has been removed.
    let found = fs::metadata(path).map_err(at(path.display()))?;
    if found.is_file() && done.insert(found.dev()) {
        let file = File::open(path).map_err(at(path.display()))?;
        rustix::fs::syncfs(&file).map_err(at(path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is written to is known by the kernel's texts.
    #[test]
    fn written_files_are_known() {
        assert!(!is_written("pos:\t0\nflags:\t0100000\nmnt_id:\t9\n"));
        assert!(is_written("pos:\t0\nflags:\t0100002\n"));
        assert!(is_written("pos:\t0\nflags:\t02101\n"));
        assert!(is_written(""));
        let span = "7f0000000000-7f0000001000";
        let line = |rights: &str, inode: u32| format!("{span} {rights} 00000000 fe:00 {inode} /f");
        assert_eq!(written_span(&line("rw-s", 12)), Some(span));
        for other in [line("r--s", 12), line("rw-p", 12), line("rw-s", 0)] {
            assert_eq!(written_span(&other), None);
        }
    }

    /// Goal: files of a process are found and synced. Method: a child that only sleeps.
    #[test]
    fn files_of_a_process_are_synced() {
        let file = tempfile::tempfile().unwrap();
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("60").stdout(file).spawn().unwrap();
        let own = PathBuf::from(format!("/proc/{}/fd/1", child.id()));
        assert!(written(child.id()).unwrap().contains(&own));
        files_of(&[child.id()]).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        files_of(&[child.id()]).unwrap_err();
    }
}
