// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State of a disk with a volatile cache after a cut: its initial content, and those writes of its
//! log (QEMU's blklogwrites, the format of Linux' dm-log-writes) that a flush covers.
//!
//! Invariant: whatever bytes a log has, reading it does not panic, loop or read outside the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use remanence_crash_states::WriteCache;

use crate::CampaignError;
use crate::media::piece_digest;

/// QEMU's default; a log with another size is refused.
const SECTOR_BYTES: usize = 512;
/// Sector, sectors, flags, and bytes of a mark; zeros up to the end of the sector.
const ENTRY_BYTES: usize = 32;
const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// One write that a cut may still lose: its place in the log and its place on the disk.
#[derive(Debug, Clone, Copy)]
struct Write {
    sector: u64,
    sectors: u64,
    data_at: usize,
}

/// A disk at one place of a run.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    base: Mmap,
    log: Mmap,
    at: usize,
    /// Digest of each sector that differs from the initial content.
    changed: BTreeMap<u64, u64>,
    digest: u64,
    cache: WriteCache<Write>,
}

fn map(path: &Path) -> Result<Mmap, CampaignError> {
    let fail = |err| CampaignError::File(path.to_owned(), err);
    let file = File::open(path).map_err(fail)?;
    // SAFETY: written once; see Media::open() for a file that is changed meanwhile.
    unsafe { Mmap::map(&file) }.map_err(fail)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |raw| u64::from_le_bytes(*raw))
}

impl Disk {
    /// Opens disk `number` of a recording; `None` if the recording has no log of it.
    ///
    /// # Errors
    /// A file cannot be read, or a log has another format.
    pub fn open(dir: &Path, number: u32) -> Result<Option<Self>, CampaignError> {
        let path = dir.join(format!("disk-{number}.log"));
        if !path.is_file() {
            return Ok(None);
        }
        let log = map(&path)?;
        let head = log.get(..SECTOR_BYTES).unwrap_or_default();
        let known = word(head, 0) == MAGIC
            && word(head, 8) == VERSION
            && word(head, 24) & 0xffff_ffff == SECTOR_BYTES as u64;
        if head.iter().any(|&byte| byte != 0) && !known {
            return Err(CampaignError::DiskLog(path, 0));
        }
        Ok(Some(Self {
            base: map(&dir.join(format!("disk-{number}.base")))?,
            log,
            path,
            at: SECTOR_BYTES,
            changed: BTreeMap::new(),
            digest: 0,
            cache: WriteCache::default(),
        }))
    }

    /// Digest of what is on media even if the cache is lost, as a sum over sectors; 0 initially.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Writes that the cache may lose: acknowledged, or in flight.
    #[must_use]
    pub fn forgettable(&self) -> usize {
        self.cache.forgettable()
    }

    /// Advances to the moment when the log had `bytes` bytes.
    ///
    /// # Errors
    /// An invalid entry.
    pub fn go_to(&mut self, bytes: u64) -> Result<(), CampaignError> {
        let whole = usize::try_from(bytes).unwrap_or(usize::MAX);
        let end = whole.min(self.log.len());
        while self.at.saturating_add(SECTOR_BYTES) <= end {
            let head = &self.log[self.at..self.at + SECTOR_BYTES];
            if head.iter().all(|&byte| byte == 0) {
                self.at += SECTOR_BYTES; // an entry's place, never written: not acknowledged
                continue;
            }
            let [sector, sectors, flags] = [word(head, 0), word(head, 8), word(head, 16)];
            let size = sectors.checked_mul(SECTOR_BYTES as u64);
            let size = size.and_then(|size| usize::try_from(size).ok());
            let disk_sectors = (self.base.len() / SECTOR_BYTES) as u64;
            let inside = sector
                .checked_add(sectors)
                .is_some_and(|last| last <= disk_sectors);
            let (true, true, true, Some(size)) = (
                inside,
                flags & !(FLUSH | FUA | DISCARD | MARK) == 0,
                head[ENTRY_BYTES..].iter().all(|&byte| byte == 0),
                size,
            ) else {
                return Err(CampaignError::DiskLog(self.path.clone(), self.at));
            };
            let data_at = self.at + SECTOR_BYTES;
            let has_data = flags & (DISCARD | MARK) == 0 && size > 0;
            let next = data_at + if has_data { size } else { 0 };
            if next > end {
                break; // it had not been acknowledged
            }
            self.at = next;
            let mut durable = Vec::new();
            if flags & FLUSH != 0 {
                self.cache.flush(|write| durable.push(write));
            }
            if has_data {
                let write = Write {
                    sector,
                    sectors,
                    data_at,
                };
                let fua = flags & FUA != 0;
                self.cache.write(write, fua, |write| durable.push(write));
            }
            for write in durable {
                self.store(&write);
            }
        }
        Ok(())
    }

    fn store(&mut self, write: &Write) {
        for n in 0..write.sectors {
            let sector = write.sector + n;
            let from = write.data_at + usize::try_from(n).unwrap_or(0) * SECTOR_BYTES;
            let new = piece_digest(sector, &self.log[from..from + SECTOR_BYTES]);
            let at = usize::try_from(sector).unwrap_or(0) * SECTOR_BYTES;
            let base = &self.base[at..at + SECTOR_BYTES];
            let old = match self.changed.insert(sector, new) {
                Some(old) => old,
                None => piece_digest(sector, base),
            };
            self.digest = self.digest.wrapping_add(new).wrapping_sub(old);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    const SECTORS: u64 = 16;

    fn entry(sector: u64, sectors: u64, flags: u64) -> Vec<u8> {
        let mut bytes = vec![0; SECTOR_BYTES];
        for (n, value) in [sector, sectors, flags].into_iter().enumerate() {
            bytes[n * 8..n * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn log(entries: &[(u64, u64, u8)]) -> Vec<u8> {
        let mut bytes = entry(MAGIC, VERSION, 0);
        bytes[24..28].copy_from_slice(&512u32.to_le_bytes());
        for &(sector, flags, fill) in entries {
            let sectors = u64::from(fill != 0);
            bytes.extend(entry(sector, sectors, flags));
            bytes.extend(vec![fill; usize::try_from(sectors).unwrap() * SECTOR_BYTES]);
        }
        bytes
    }

    fn disk(log: &[u8]) -> Result<Disk, CampaignError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("disk-0.base"), vec![0; 512 * 16]).unwrap();
        std::fs::write(dir.path().join("disk-0.log"), log).unwrap();
        Disk::open(dir.path(), 0).map(Option::unwrap)
    }

    #[test]
    fn unflushed_writes_are_not_on_media() {
        let bytes = log(&[(1, 0, 7), (2, FUA, 8), (0, FLUSH, 0), (3, 0, 9)]);
        let mut disk = disk(&bytes).unwrap();
        disk.go_to(512 * 3).unwrap();
        assert_eq!((disk.digest(), disk.forgettable()), (0, 1));
        disk.go_to(512 * 5).unwrap();
        assert_eq!(disk.digest(), piece_digest(2, &[8; 512]));
        disk.go_to(512 * 6).unwrap();
        let both = piece_digest(2, &[8; 512]).wrapping_add(piece_digest(1, &[7; 512]));
        assert_eq!((disk.digest(), disk.forgettable()), (both, 0));
        disk.go_to(u64::MAX).unwrap();
        assert_eq!((disk.digest(), disk.forgettable()), (both, 1));
    }

    #[test]
    fn cached_write_may_follow_one_that_bypassed_the_cache() {
        let bytes = log(&[(1, 0, 7), (1, FUA, 8), (0, FLUSH, 0), (1, FUA, 7)]);
        let mut disk = disk(&bytes).unwrap();
        disk.go_to(512 * 6).unwrap();
        assert_eq!(disk.digest(), piece_digest(1, &[8; 512]));
        disk.go_to(u64::MAX).unwrap();
        assert_eq!(disk.digest(), piece_digest(1, &[7; 512]));
    }

    /// Written by QEMU: ones to sector 1, a flush, a discard of sector 8, twos to sector 2, a
    /// flush. The
    /// lab's own reader is tested with the same file in `tests/unit/test_disk_log.py`.
    #[test]
    fn log_of_qemu_is_read() {
        let mut disk = disk(include_bytes!("../../../tests/unit/qemu_disk_log.bin")).unwrap();
        let ones = piece_digest(1, &[1; 512]);
        disk.go_to(512 * 7).unwrap();
        assert_eq!((disk.digest(), disk.forgettable()), (ones, 1));
        disk.go_to(512 * 8).unwrap();
        let both = ones.wrapping_add(piece_digest(2, &[2; 512]));
        assert_eq!((disk.digest(), disk.forgettable()), (both, 0));
    }

    #[test]
    fn constants_are_the_labs() {
        let lab = include_str!("../../../lab/machine/disk_log.py");
        for expected in [
            format!("\nMAGIC = 0x{MAGIC:X}\n"),
            format!("\nVERSION = {VERSION}\n"),
            format!("\nSECTOR_BYTES = {SECTOR_BYTES} "),
            format!("\nFLUSH, FUA, DISCARD, MARK = {FLUSH}, {FUA}, {DISCARD}, {MARK}\n"),
        ] {
            assert!(lab.contains(&expected), "{expected}");
        }
    }

    #[test]
    fn invalid_log_is_refused() {
        disk(&[1; 512]).unwrap_err();
        disk(&entry(MAGIC, VERSION, 0)).unwrap_err(); // sectors of no size
        let mut padded = entry(0, 1, 0);
        padded[511] = 1;
        for bad in [
            entry(SECTORS, 1, 0),
            entry(0, 1, 16),
            entry(u64::MAX, u64::MAX, 0),
            padded,
        ] {
            let mut bytes = log(&[]);
            bytes.extend(bad);
            disk(&bytes).unwrap().go_to(u64::MAX).unwrap_err();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn arbitrary_bytes_do_not_panic(tail in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut bytes = log(&[(1, 0, 7)]);
            bytes.extend(tail);
            let _ = disk(&bytes).unwrap().go_to(u64::MAX);
        }
    }
}
