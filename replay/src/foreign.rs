// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registries that name what is not theirs: inodes of other files, handles of folders and devices, of
//! files that do not exist any more, of file systems that are not mounted. Their checksums are right.
//!
//! A file is changed by a record that has its handle, its inode and its file system, and by no other.
//! A model in memory says what it has then. Cases follow from seeds, as those of `hostile.rs`.

use std::collections::HashMap;
use std::fs::{File, FileTimes};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use remanence_format::RemRegistryFile;

use crate::hostile::{Draw, run_cases};
use crate::registry::tests::{Made, record};
use crate::registry::{self, PAGE, read};
use crate::replay::{Report, replay};

const MOUNTED: [u8; 16] = [7; 16];
const ELSEWHERE: [u8; 16] = [8; 16];
const OLD: &[u8] = &[0xee; PAGE + 77];
/// The last index whose place has a number at all, and no file of any system has such a page.
const BEYOND: u64 = u64::MAX / 4096 - 1;
/// Handles that stand for no file: one that was removed, and one that may not be opened.
const GONE: usize = 4;
const REFUSED: usize = 5;

fn before() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1000)
}

/// What handles lead to: two files, then a folder and a device.
struct Disk {
    objects: Vec<File>,
    inodes: Vec<u64>,
    root: HashMap<[u8; 16], File>,
}

const FILES: usize = 2;

impl Disk {
    fn new() -> Self {
        // In memory: each replay waits until the disk has its files.
        let file = || tempfile::tempfile_in("/dev/shm").expect("there is room");
        let write = |path: &str| File::options().read(true).write(true).open(path);
        let objects = vec![
            file(),
            file(),
            File::open("/").expect("it is there"),
            write("/dev/null").expect("it is there"),
        ];
        let inode = |file: &File| file.metadata().expect("it is open").ino();
        Self {
            inodes: objects.iter().map(inode).collect(),
            objects,
            root: HashMap::from([(MOUNTED, File::open("/").expect("it is there"))]),
        }
    }

    /// Both files as they were.
    fn renew(&self) {
        for file in &self.objects[..FILES] {
            file.set_len(0).expect("it is open");
            file.write_all_at(OLD, 0).expect("there is room");
            file.set_times(FileTimes::new().set_modified(before()))
                .expect("it is open");
        }
    }

    fn open(&self, record: &RemRegistryFile) -> io::Result<File> {
        match usize::from(record.handle[0]) {
            GONE => Err(io::Error::from_raw_os_error(libc::ESTALE)),
            REFUSED => Err(io::Error::from_raw_os_error(libc::EPERM)),
            number => self.objects[number].try_clone(),
        }
    }
}

fn draw_registry(draw: &mut Draw, disk: &Disk) -> Made {
    let mut made = Made::new(4, 8);
    for slot in 0..4 {
        let handle = draw.below(REFUSED + 1);
        let other = draw.next();
        let mut one = record(slot + 1, 1, draw.of(&[0, 1, 4096, 5000, 20_000, u64::MAX]));
        one.handle[0] = u8::try_from(handle).expect("it is below");
        one.inode = match draw.below(4) {
            0 => draw.of(&disk.inodes),
            1 => other,
            _ => disk.inodes.get(handle).copied().unwrap_or(other),
        };
        one.uuid = draw.of(&[MOUNTED, MOUNTED, MOUNTED, ELSEWHERE]);
        one.mtime_s = draw.of(&[0, 999, 2000]);
        made.put_file(usize::try_from(slot).expect("it is below"), 0, one);
    }
    for number in 0..8 {
        if draw.below(4) > 0 {
            let id = draw.below(4) as u64 + 1;
            let index = draw.of(&[0, 1, 2, 3, 4, BEYOND]);
            let byte = u8::try_from(draw.below(256)).expect("it is below");
            made.put_page(number, id, index, byte);
        }
    }
    made
}

/// A file as the model has it.
struct Content {
    bytes: Vec<u8>,
    modified: SystemTime,
    touched: bool,
}

impl Content {
    /// Whether all of it is written: pages in their order, until one that no file can have.
    fn put(&mut self, wanted: &registry::File<'_>) -> bool {
        self.touched = true;
        let bytes = wanted.record.bytes.max(self.bytes.len() as u64);
        for page in &wanted.pages {
            if page.index == BEYOND {
                // Of a file that ends before it nothing is written there.
                if bytes <= page.index * PAGE as u64 {
                    continue;
                }
                return false;
            }
            let at = usize::try_from(page.index).expect("it is small") * PAGE;
            let count = bytes.saturating_sub(at as u64).min(PAGE as u64);
            let count = usize::try_from(count).expect("it is a page at most");
            if count > 0 {
                self.bytes.resize(self.bytes.len().max(at + count), 0);
                self.bytes[at..at + count].copy_from_slice(&page.content[..count]);
            }
        }
        let Ok(bytes) = u32::try_from(bytes) else {
            return false;
        };
        self.bytes.resize(bytes as usize, 0);
        let time = UNIX_EPOCH + Duration::from_secs(wanted.record.mtime_s);
        self.modified = self.modified.max(time);
        true
    }
}

/// What has to be in both files, and what has to be reported.
fn expected(disk: &Disk, files: &[registry::File<'_>]) -> (Vec<Content>, [u64; 3]) {
    let old = || Content {
        bytes: OLD.to_vec(),
        modified: before(),
        touched: false,
    };
    let mut contents: Vec<Content> = (0..FILES).map(|_| old()).collect();
    let [mut written, mut gone, mut failed] = [0; 3];
    for wanted in files.iter().filter(|file| !file.pages.is_empty()) {
        let number = usize::from(wanted.record.handle[0]);
        if wanted.record.uuid != MOUNTED {
            failed += 1;
        } else if number == GONE {
            gone += 1;
        } else if number < FILES
            && wanted.record.inode == disk.inodes[number]
            && contents[number].put(wanted)
        {
            written += 1;
        } else {
            failed += 1;
        }
    }
    (contents, [written, gone, failed])
}

fn check_files(disk: &Disk, contents: &[Content]) {
    for (file, wanted) in disk.objects.iter().zip(contents) {
        let seen = file.metadata().expect("it is open");
        let mut bytes = vec![0; usize::try_from(seen.len()).expect("it is small")];
        file.read_exact_at(&mut bytes, 0).expect("it is open");
        assert!(bytes == wanted.bytes, "other bytes");
        // A file that failed half-way has the time of that.
        let modified = seen.modified().expect("it has one");
        assert!(modified == wanted.modified || wanted.touched && modified > before());
    }
}

/// Counts of what the cases had, so that it is seen that they had it.
#[derive(Debug, Default)]
struct Seen {
    written: u64,
    gone: u64,
    failed: u64,
    untouched: u64,
}

fn check(disk: &Disk, made: &Made, seen: &mut Seen) -> Report {
    disk.renew();
    let found = read(&made.bytes).expect("its head is right");
    let (contents, counts) = expected(disk, &found.files);
    let report = replay(
        &found,
        &disk.root,
        &|_, one| disk.open(one),
        Some(&|_| Ok(())),
    );
    assert_eq!(
        [report.files, report.gone, report.failed.len() as u64],
        counts
    );
    check_files(disk, &contents);
    seen.written += counts[0];
    seen.gone += counts[1];
    seen.failed += counts[2];
    seen.untouched += contents.iter().filter(|one| !one.touched).count() as u64;
    report
}

#[test]
fn foreign_inodes_are_not_written() {
    let disk = Disk::new();
    run_cases(
        "foreign",
        |seen: &Seen| vec![seen.written, seen.gone, seen.failed, seen.untouched],
        |draw, seen| {
            check(&disk, &draw_registry(draw, &disk), seen);
        },
    );
}

/// A registry with one page for the first file, by the other one's inode.
fn of_another(disk: &Disk) -> Made {
    let mut made = Made::new(4, 8);
    let mut one = record(1, 1, 4096);
    one.inode = disk.inodes[1];
    one.uuid = MOUNTED;
    made.put_file(0, 0, one);
    made.put_page(0, 1, 0, 0x11);
    made
}

#[test]
fn the_inode_of_another_file_is_named() {
    let disk = Disk::new();
    let report = check(&disk, &of_another(&disk), &mut Seen::default());
    assert!(report.failed[0].ends_with("another file has its handle"));
}

/// The proof that `check` can fail: a replay that writes what another inode has.
#[test]
fn a_file_that_a_foreign_inode_changed_is_seen() {
    let disk = Disk::new();
    let made = of_another(&disk);
    let (contents, _) = expected(&disk, &read(&made.bytes).expect("its head is right").files);
    disk.renew();
    check_files(&disk, &contents);
    disk.objects[0]
        .write_all_at(&[0x11], 0)
        .expect("it is open");
    assert!(catch_unwind(AssertUnwindSafe(|| check_files(&disk, &contents))).is_err());
}
