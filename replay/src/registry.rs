// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry (`format/rem_registry.h`) as an earlier kernel and the loader left it.
//!
//! Its bytes are not trusted: this is a function of them alone, and what it returns lies within
//! them. A damaged entry costs that page, not the others.

use std::collections::BTreeMap;
use std::mem::offset_of;

use remanence_format::{
    REM_REGISTRY_COPIES, REM_REGISTRY_FILES_MAX, REM_REGISTRY_HANDLE_BYTES, REM_REGISTRY_IN_CACHES,
    REM_REGISTRY_MAGIC, REM_REGISTRY_PAGE_BYTES, REM_REGISTRY_PAGES_MAX, REM_REGISTRY_SAVED,
    REM_REGISTRY_VERSION, RemRegistry, RemRegistryFile, RemRegistryPage, RemRegistryPolicy,
};

/// Bytes of a page.
pub const PAGE: usize = 4096;
const COPIES: usize = 2;
const _: () = assert!(PAGE as u64 == REM_REGISTRY_PAGE_BYTES);
const _: () = assert!(COPIES as u64 == REM_REGISTRY_COPIES);
const STEADY: u32 = 0x5944_5453;
const CHANGING: u32 = 0x474e_4843;

/// Why there is no registry in some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// No head, or one of another version.
    #[error("no registry is there")]
    Absent,
    /// The head's numbers do not fit the bytes.
    #[error("the registry's head does not fit its bytes")]
    Head,
}

/// A page that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// Number of its entry.
    pub entry: usize,
    /// In the file, in pages.
    pub index: u64,
    /// What it is.
    pub content: &'a [u8],
    /// Whether a program may have changed it after it was acknowledged.
    pub changed: bool,
}

/// A file with pages that are to be written.
#[derive(Clone, Debug)]
pub struct File<'a> {
    /// Its record.
    pub record: RemRegistryFile,
    /// By their index.
    pub pages: Vec<Page<'a>>,
}

/// What a registry has.
#[derive(Clone, Debug, Default)]
pub struct Found<'a> {
    /// Files, in the order of their names in the registry.
    pub files: Vec<File<'a>>,
    /// Pages whose content is not what was acknowledged, though no program has changed it; whose
    /// entry is damaged; or which the loader has not saved. They are not written.
    pub damaged: u64,
    /// Pages of no file: never acknowledged.
    pub orphans: u64,
    /// CPU caches may have had what is newer than these bytes, and was acknowledged.
    pub in_caches: bool,
}

fn crc_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

fn head_of(bytes: &[u8]) -> Result<RemRegistry, Damage> {
    let at = bytes.len().checked_sub(PAGE).ok_or(Damage::Absent)?;
    let raw = bytes[at..].first_chunk().ok_or(Damage::Absent)?;
    let head = RemRegistry::from_bytes(raw);
    let right = head.magic == REM_REGISTRY_MAGIC
        && u64::from(head.version) == REM_REGISTRY_VERSION
        && head.crc == crc_of(&raw[..offset_of!(RemRegistry, crc)]);
    if right { Ok(head) } else { Err(Damage::Absent) }
}

/// Whether the policy behind the head, which is there, leaves what is acknowledged in CPU caches.
fn in_caches(bytes: &[u8]) -> bool {
    let at = bytes.len() - PAGE + RemRegistry::BYTES;
    let raw = bytes[at..].first_chunk().expect("a page has room for both");
    RemRegistryPolicy::from_bytes(raw).in_caches == REM_REGISTRY_IN_CACHES
}

/// The parts of a registry: tables of files and pages, and slots.
struct Parts<'a> {
    files: &'a [u8],
    pages: &'a [u8],
    slots: &'a [u8],
}

fn parts_of(bytes: &[u8]) -> Result<Parts<'_>, Damage> {
    let head = head_of(bytes)?;
    let possible = (1..=REM_REGISTRY_FILES_MAX).contains(&head.files.into())
        && (1..=REM_REGISTRY_PAGES_MAX).contains(&head.pages.into());
    let whole = usize::try_from(head.bytes).map_err(|_| Damage::Head)?;
    let start = bytes.len().checked_sub(whole).ok_or(Damage::Head)?;
    if !possible {
        return Err(Damage::Head);
    }
    let bytes = &bytes[start..];
    let files = head.files as usize * COPIES * RemRegistryFile::BYTES;
    let pages = head.pages as usize * RemRegistryPage::BYTES;
    let slots = head.pages as usize * PAGE;
    let slots_at = whole.checked_sub(PAGE + slots).ok_or(Damage::Head)?;
    if files + pages > slots_at {
        return Err(Damage::Head);
    }
    Ok(Parts {
        files: &bytes[..files],
        pages: &bytes[files..files + pages],
        slots: &bytes[slots_at..slots_at + slots],
    })
}

fn record_of(raw: &[u8]) -> Option<RemRegistryFile> {
    let raw: &[u8; RemRegistryFile::BYTES] = raw.try_into().ok()?;
    let record = RemRegistryFile::from_bytes(raw);
    let right = record.id != 0
        && record.crc == crc_of(&raw[..offset_of!(RemRegistryFile, crc)])
        && u64::from(record.handle_bytes) <= REM_REGISTRY_HANDLE_BYTES;
    right.then_some(record)
}

fn files_of(bytes: &[u8]) -> BTreeMap<u64, File<'_>> {
    let mut files: BTreeMap<u64, File<'_>> = BTreeMap::new();
    for record in bytes
        .chunks_exact(RemRegistryFile::BYTES)
        .filter_map(record_of)
    {
        let newest = files
            .get(&record.id)
            .is_none_or(|f| f.record.sequence < record.sequence);
        if newest {
            let pages = Vec::new();
            files.insert(record.id, File { record, pages });
        }
    }
    files
}

fn page_of<'a>(number: usize, raw: &[u8], slot: &'a [u8]) -> Option<Page<'a>> {
    let raw: &[u8; RemRegistryPage::BYTES] = raw.try_into().ok()?;
    let entry = RemRegistryPage::from_bytes(raw);
    let whole = entry.crc == crc_of(&raw[..offset_of!(RemRegistryPage, crc)])
        && entry.saved == REM_REGISTRY_SAVED
        && entry.index < u64::MAX / REM_REGISTRY_PAGE_BYTES;
    let right = match entry.content_state {
        STEADY => crc_of(slot) == entry.content_crc,
        CHANGING => true,
        _ => false,
    };
    let page = Page {
        entry: number,
        index: entry.index,
        content: slot,
        changed: entry.content_state == CHANGING,
    };
    (whole && right).then_some(page)
}

/// Which file an entry is of; `None` if it is free.
fn id_of(raw: &[u8]) -> Option<u64> {
    let id = u64::from_le_bytes(*raw.first_chunk()?);
    (id != 0).then_some(id)
}

/// What the registry at the end of `bytes` has.
///
/// # Errors
/// If there is none.
pub fn read(bytes: &[u8]) -> Result<Found<'_>, Damage> {
    let parts = parts_of(bytes)?;
    let mut files = files_of(parts.files);
    let mut found = Found {
        in_caches: in_caches(bytes),
        ..Found::default()
    };
    let entries = parts.pages.chunks_exact(RemRegistryPage::BYTES);
    let slots = parts.slots.chunks_exact(PAGE);
    for (number, (raw, slot)) in entries.zip(slots).enumerate() {
        let Some(id) = id_of(raw) else { continue };
        let Some(file) = files.get_mut(&id) else {
            found.orphans += 1;
            continue;
        };
        match page_of(number, raw, slot) {
            Some(page) => file.pages.push(page),
            None => found.damaged += 1,
        }
    }
    for file in files.values_mut() {
        file.pages.sort_by_key(|page| page.index);
        found.damaged += drop_doubles(&mut file.pages);
    }
    found.files = files.into_values().collect();
    Ok(found)
}

/// Two entries of one page cannot both be right.
fn drop_doubles(pages: &mut Vec<Page<'_>>) -> u64 {
    let before = pages.len();
    let doubled: Vec<u64> = pages
        .windows(2)
        .filter(|two| two[0].index == two[1].index)
        .map(|two| two[0].index)
        .collect();
    pages.retain(|page| doubled.binary_search(&page.index).is_err());
    (before - pages.len()) as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A registry being made: its parts as an honest kernel and loader would leave them.
    pub(crate) struct Made {
        pub(crate) files: u32,
        pub(crate) pages: u32,
        pub(crate) bytes: Vec<u8>,
    }

    impl Made {
        pub(crate) fn new(files: u32, pages: u32) -> Self {
            let tables = files as usize * 512 + pages as usize * 64;
            let whole = (tables + (pages as usize + 1) * PAGE).next_multiple_of(PAGE);
            let mut made = Self {
                files,
                pages,
                bytes: vec![0; whole],
            };
            made.put_head(whole as u64);
            made
        }

        pub(crate) fn put_head(&mut self, bytes: u64) {
            let mut head = RemRegistry {
                magic: REM_REGISTRY_MAGIC,
                version: 1,
                files: self.files,
                bytes,
                pages: self.pages,
                ..RemRegistry::default()
            };
            head.crc = crc_of(&head.to_bytes()[..offset_of!(RemRegistry, crc)]);
            let at = self.bytes.len() - PAGE;
            self.bytes[at..at + RemRegistry::BYTES].copy_from_slice(&head.to_bytes());
        }

        pub(crate) fn put_file(&mut self, slot: usize, copy: usize, mut record: RemRegistryFile) {
            record.crc = crc_of(&record.to_bytes()[..offset_of!(RemRegistryFile, crc)]);
            let at = (slot * 2 + copy) * RemRegistryFile::BYTES;
            self.bytes[at..at + RemRegistryFile::BYTES].copy_from_slice(&record.to_bytes());
        }

        pub(crate) fn put_page(&mut self, number: usize, id: u64, index: u64, byte: u8) {
            let content = [byte; PAGE];
            let mut entry = RemRegistryPage {
                id,
                index,
                content_crc: crc_of(&content),
                content_state: STEADY,
                saved: REM_REGISTRY_SAVED,
                ..RemRegistryPage::default()
            };
            entry.crc = crc_of(&entry.to_bytes()[..offset_of!(RemRegistryPage, crc)]);
            let at = self.entry_at(number);
            self.bytes[at..at + RemRegistryPage::BYTES].copy_from_slice(&entry.to_bytes());
            let at = self.slot_at(number);
            self.bytes[at..at + PAGE].copy_from_slice(&content);
        }

        pub(crate) fn entry_at(&self, number: usize) -> usize {
            self.files as usize * 512 + number * 64
        }

        pub(crate) fn slot_at(&self, number: usize) -> usize {
            self.bytes.len() - (self.pages as usize + 1 - number) * PAGE
        }
    }

    pub(crate) fn record(id: u64, sequence: u64, bytes: u64) -> RemRegistryFile {
        RemRegistryFile {
            id,
            sequence,
            bytes,
            mode: 0o100_644,
            handle_bytes: 8,
            ..RemRegistryFile::default()
        }
    }

    fn one() -> Made {
        let mut made = Made::new(4, 8);
        made.put_file(1, 0, record(7, 2, 5000));
        made.put_file(1, 1, record(7, 3, 9000));
        made.put_page(0, 7, 2, 0x22);
        made.put_page(5, 7, 0, 0x11);
        made
    }

    #[test]
    fn pages_are_found_in_their_order_with_the_newer_record() {
        let made = one();
        let found = read(&made.bytes).expect("it is right");
        assert_eq!((found.files.len(), found.damaged, found.orphans), (1, 0, 0));
        let file = &found.files[0];
        assert_eq!(file.record.bytes, 9000);
        let seen: Vec<(u64, u8)> = file
            .pages
            .iter()
            .map(|p| (p.index, p.content[4095]))
            .collect();
        assert_eq!(seen, [(0, 0x11), (2, 0x22)]);
    }

    #[test]
    fn a_torn_record_leaves_the_older_one() {
        let mut made = one();
        made.bytes[(2 + 1) * 256 + 16] ^= 1;
        let found = read(&made.bytes).expect("it is right");
        assert_eq!(found.files[0].record.bytes, 5000);
    }

    #[test]
    fn a_page_that_is_not_what_was_acknowledged_is_damaged_unless_it_changed() {
        let mut made = one();
        let (slot, entry) = (made.slot_at(0), made.entry_at(0));
        made.bytes[slot + 100] ^= 1;
        let found = read(&made.bytes).expect("it is right");
        assert_eq!((found.files[0].pages.len(), found.damaged), (1, 1));
        made.bytes[entry + 36..entry + 40].copy_from_slice(&CHANGING.to_le_bytes());
        let found = read(&made.bytes).expect("it is right");
        assert_eq!((found.files[0].pages.len(), found.damaged), (2, 0));
        assert!(found.files[0].pages[1].changed);
    }

    #[test]
    fn a_page_that_the_loader_has_not_saved_is_not_used() {
        let mut made = one();
        let at = made.entry_at(5) + 40;
        made.bytes[at] ^= 1;
        assert_eq!(read(&made.bytes).expect("it is right").damaged, 1);
    }

    #[test]
    fn two_pages_at_one_place_are_both_refused() {
        let mut made = one();
        made.put_page(3, 7, 2, 0x33);
        let found = read(&made.bytes).expect("it is right");
        assert_eq!((found.files[0].pages.len(), found.damaged), (1, 2));
    }

    #[test]
    fn the_policy_is_told_and_changes_no_page() {
        let mut made = one();
        assert!(!read(&made.bytes).expect("it is right").in_caches);
        let at = made.bytes.len() - PAGE + RemRegistry::BYTES;
        made.bytes[at..at + 8].copy_from_slice(&REM_REGISTRY_IN_CACHES.to_le_bytes());
        let found = read(&made.bytes).expect("it is right");
        assert!(found.in_caches);
        assert_eq!((found.files[0].pages.len(), found.damaged), (2, 0));
    }

    #[test]
    fn pages_of_no_file_were_never_acknowledged() {
        let mut made = one();
        made.put_page(3, 8, 2, 0x33);
        assert_eq!(read(&made.bytes).expect("it is right").orphans, 1);
    }

    #[test]
    fn a_head_that_does_not_fit_is_refused() {
        for bytes in [0, 4096, 16 << 10, u64::MAX] {
            let mut made = one();
            made.put_head(bytes);
            assert_eq!(read(&made.bytes).err(), Some(Damage::Head), "{bytes}");
        }
        assert_eq!(read(&[]).err(), Some(Damage::Absent));
        assert_eq!(read(&[0; 8192]).err(), Some(Damage::Absent));
    }

    /// A number of the environment: REM_REPLAY_CASES for more of them (soak).
    pub(crate) fn given<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(given("REM_REPLAY_CASES", 2000)))]

        /// Any bytes anywhere, with right checksums or not: nothing is read outside, and what is
        /// found is what was stored there.
        #[test]
        fn hostile_bytes_stay_inside(
            changes in prop::collection::vec((0_usize..40_000, any::<u8>()), 0..20),
            ids in prop::collection::vec((0_u64..4, 0_u64..4, any::<u8>()), 8),
            counts in (0_u32..6, 0_u32..12),
            mend in any::<bool>(),
        ) {
            let mut made = one();
            for (number, (id, index, byte)) in ids.into_iter().enumerate() {
                made.put_page(number, id, index, byte);
            }
            made.put_file(0, 0, record(1, 1, 1));
            made.put_file(2, 1, record(2, u64::MAX, u64::MAX));
            for (at, byte) in changes {
                let at = at % made.bytes.len();
                made.bytes[at] = byte;
            }
            if mend {
                (made.files, made.pages) = counts;
                let whole = made.bytes.len() as u64;
                made.put_head(whole);
            }
            if let Ok(found) = read(&made.bytes) {
                let range = made.bytes.as_ptr_range();
                for file in &found.files {
                    prop_assert!(file.record.handle_bytes <= 128);
                    for page in &file.pages {
                        prop_assert_eq!(page.content.len(), PAGE);
                        prop_assert!(range.contains(&page.content.as_ptr()));
                        prop_assert!(page.index.checked_mul(4096).is_some());
                    }
                    prop_assert!(file.pages.windows(2).all(|two| two[0].index < two[1].index));
                }
            }
        }
    }
}
