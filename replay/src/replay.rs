// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes what a registry has into the files.

use std::collections::HashMap;
use std::fs::{File, FileTimes};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use remanence_format::RemRegistryFile;
use serde::Serialize;

use crate::registry::{self, Found, PAGE};

/// What was done; for machines, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files that have all of their pages now.
    pub files: u64,
    /// Pages that were written.
    pub pages: u64,
    /// Of those, pages that a program may have changed after they were acknowledged.
    pub changed: u64,
    /// Files that do not exist any more: they were removed later.
    pub gone: u64,
    /// Pages that are not what was acknowledged, and are not written.
    pub damaged: u64,
    /// Pages that were never acknowledged.
    pub orphans: u64,
    /// One line for each file that could not be written, or not be found.
    pub failed: Vec<String>,
    /// Files whose last changes may have been in CPU caches only, by a policy that allows it.
    pub uncertain: Vec<String>,
}

impl Report {
    /// Whether all that the registry has is on a disk: nothing more can be had from it.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.failed.is_empty() && (self.damaged == 0 || !self.uncertain.is_empty())
    }
}

fn name_of(record: &RemRegistryFile) -> String {
    let uuid: String = record
        .uuid
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("inode {} of file system {uuid}", record.inode)
}

/// The later of the times that a file had when it was acknowledged and that it has. Writing its
/// pages is no change.
fn modified(record: &RemRegistryFile, seen: &std::fs::Metadata) -> io::Result<SystemTime> {
    let seen = seen.modified()?;
    if record.mtime_ns >= 1_000_000_000 {
        return Ok(seen);
    }
    let since = Duration::new(record.mtime_s, record.mtime_ns);
    Ok(UNIX_EPOCH
        .checked_add(since)
        .map_or(seen, |time| time.max(seen)))
}

fn write(file: &File, wanted: &registry::File<'_>) -> io::Result<()> {
    let seen = file.metadata()?;
    if !seen.is_file() || seen.ino() != wanted.record.inode {
        return Err(io::Error::other("another file has its handle"));
    }
    // Behind the end of what was acknowledged, the disk may have what was written since.
    let bytes = seen.len().max(wanted.record.bytes);
    for page in &wanted.pages {
        let at = page.index * PAGE as u64;
        let count = bytes.saturating_sub(at).min(PAGE as u64);
        let count = usize::try_from(count).unwrap_or(PAGE);
        file.write_all_at(&page.content[..count], at)?;
    }
    if file.metadata()?.len() < wanted.record.bytes {
        file.set_len(wanted.record.bytes)?;
    }
    let time = modified(&wanted.record, &seen)?;
    file.set_times(FileTimes::new().set_modified(time))?;
    file.sync_all()
}

/// Opens the file of a record by its handle, on a mounted file system: `handle::open`.
pub type Open<'a> = &'a dyn Fn(BorrowedFd<'_>, &RemRegistryFile) -> io::Result<File>;

/// Writes all pages of all files, and waits until the disks have them.
///
/// `written` is told each entry whose page is in its file: it must not be written again, as the file
/// may change from then on. Without it nothing is written. A replay that is cut off is done again.
#[must_use]
pub fn replay(
    found: &Found<'_>,
    roots: &HashMap<[u8; 16], File>,
    open: Open<'_>,
    written: Option<&dyn Fn(usize) -> io::Result<()>>,
) -> Report {
    let mut report = Report {
        damaged: found.damaged,
        orphans: found.orphans,
        ..Report::default()
    };
    if found.in_caches {
        report.uncertain = found.files.iter().map(|f| name_of(&f.record)).collect();
    }
    for wanted in found.files.iter().filter(|file| !file.pages.is_empty()) {
        let name = name_of(&wanted.record);
        let Some(root) = roots.get(&wanted.record.uuid) else {
            report.failed.push(format!("{name}: it is not mounted"));
            continue;
        };
        let done = open(root.as_fd(), &wanted.record).and_then(|file| {
            let Some(written) = written else {
                return Ok(());
            };
            write(&file, wanted)?;
            wanted.pages.iter().try_for_each(|page| written(page.entry))
        });
        match done {
            Ok(()) => {
                report.files += 1;
                report.pages += wanted.pages.len() as u64;
                report.changed += wanted.pages.iter().filter(|page| page.changed).count() as u64;
            }
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => report.gone += 1,
            Err(error) => report.failed.push(format!("{name}: {error}")),
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle;
    use crate::registry::Page;

    fn wanted(file: &File, bytes: u64, pages: &[(u64, &'static [u8])]) -> registry::File<'static> {
        let seen = file.metadata().expect("it is open");
        registry::File {
            record: RemRegistryFile {
                id: 1,
                bytes,
                inode: seen.ino(),
                mtime_s: 4_000_000_000,
                mtime_ns: 5,
                ..RemRegistryFile::default()
            },
            pages: pages
                .iter()
                .map(|&(index, content)| Page {
                    entry: 0,
                    index,
                    content,
                    changed: false,
                })
                .collect(),
        }
    }

    const A: &[u8] = &[b'a'; PAGE];
    const B: &[u8] = &[b'b'; PAGE];

    fn of(content: &[u8]) -> File {
        let file = tempfile::tempfile().expect("there is room");
        file.write_all_at(content, 0).expect("there is room");
        file
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes =
            vec![0; usize::try_from(file.metadata().expect("open").len()).expect("small")];
        file.read_exact_at(&mut bytes, 0).expect("it is open");
        bytes
    }

    #[test]
    fn a_file_grows_to_what_was_acknowledged_and_not_further() {
        let file = of(b"old");
        write(&file, &wanted(&file, 5000, &[(0, A), (1, B)])).expect("it is written");
        assert_eq!(content(&file), [A, &B[..5000 - PAGE]].concat());
        let seen = file.metadata().expect("open");
        assert_eq!((seen.mtime(), seen.mtime_nsec()), (4_000_000_000, 5));
    }

    #[test]
    fn a_file_that_was_changed_later_keeps_its_time() {
        let file = of(b"old");
        let late = UNIX_EPOCH + Duration::from_secs(5_000_000_000);
        file.set_modified(late).expect("it is open");
        write(&file, &wanted(&file, 3, &[(0, A)])).expect("it is written");
        assert_eq!(
            file.metadata()
                .expect("open")
                .modified()
                .expect("it has one"),
            late
        );
    }

    #[test]
    fn what_the_disk_has_behind_it_stays() {
        let file = of(&[b'x'; 10_000]);
        write(&file, &wanted(&file, 5000, &[(1, B)])).expect("it is written");
        let expected = [&[b'x'; PAGE][..], B, &[b'x'; 10_000 - 2 * PAGE]].concat();
        assert_eq!(content(&file), expected);
    }

    #[test]
    fn a_hole_at_the_end_is_kept() {
        let file = of(b"");
        write(&file, &wanted(&file, 3 * PAGE as u64, &[(0, A)])).expect("it is written");
        assert_eq!(content(&file).len(), 3 * PAGE);
    }

    #[test]
    fn another_inode_is_not_touched() {
        let file = of(b"old");
        let mut other = wanted(&file, 5000, &[(0, A)]);
        other.record.inode += 1;
        assert!(write(&file, &other).is_err());
        assert_eq!(content(&file), b"old");
    }

    #[test]
    fn what_caches_may_have_had_is_named_and_does_not_wait_for_a_decision() {
        let file = of(b"old");
        let mut found = Found {
            files: vec![wanted(&file, 3, &[])],
            damaged: 1,
            ..Found::default()
        };
        assert!(!replay(&found, &HashMap::new(), &handle::open, None).complete());
        found.in_caches = true;
        let report = replay(&found, &HashMap::new(), &handle::open, None);
        assert!(report.complete());
        assert_eq!(report.uncertain, [name_of(&found.files[0].record)]);
    }

    #[test]
    fn a_file_system_that_is_not_mounted_is_named() {
        let file = of(b"old");
        let found = Found {
            files: vec![wanted(&file, 3, &[(0, A)])],
            ..Found::default()
        };
        let report = replay(&found, &HashMap::new(), &handle::open, None);
        assert!(!report.complete());
        assert!(
            report.failed[0].ends_with("it is not mounted"),
            "{:?}",
            report.failed
        );
    }
}
