// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registries as somebody would write them who wants a replay to do harm: tables that overlap,
//! entries and records more than once, files that are not there, bytes of any kind, and checksums
//! that are right nevertheless.
//!
//! A second reader, which is as simple as can be, says what has to be found. Each case follows from
//! a seed, and the next case has the next one. `REM_REPLAY_CASES` and `REM_REPLAY_SEED` are for more
//! of them and for others; with 1 and its seed, a case is run again.

use std::collections::HashMap;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};

use remanence_format::{REM_REGISTRY_SAVED, RemRegistryFile, RemRegistryPage};

use crate::registry::tests::{Made, given, record};
use crate::registry::{Found, PAGE, read};

const STEADY: u32 = 0x5944_5453;
const CHANGING: u32 = 0x474e_4843;
const FILES: u32 = 4;
const PAGES: u32 = 8;
const SEED: u64 = 1;
const FEW: u64 = 1000; // cases that need not have everything

/// splitmix64
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("it is below")
    }

    pub(crate) fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())]
    }
}

fn put_entry(made: &mut Made, draw: &mut Draw, number: usize) {
    let id = draw.below(6) as u64; // of which 0 and 5 are no file's
    let index = draw.of(&[0, 1, 2, 3, u64::MAX / 4096, u64::MAX]);
    let byte = u8::try_from(draw.below(256)).expect("it is below");
    made.put_page(number, id, index, byte);
    let at = made.entry_at(number);
    match draw.below(8) {
        0 => made.bytes[at + 36..at + 40].copy_from_slice(&CHANGING.to_le_bytes()),
        1 => made.bytes[at + 36..at + 40].fill(byte),
        2 => made.bytes[at + 40] ^= 1, // the loader has not saved it
        3 => {
            let slot = made.slot_at(number);
            made.bytes[slot + draw.below(PAGE)] ^= 0x80;
        }
        _ => (),
    }
}

fn put_record(made: &mut Made, draw: &mut Draw) {
    let sequence = draw.of(&[0, 1, 2, 3, u64::MAX]);
    let bytes = draw.of(&[0, 1, 4096, 5000, u64::MAX]);
    let mut one = record(draw.below(4) as u64 + 1, sequence, bytes);
    one.inode = draw.next();
    one.handle_bytes = draw.of(&[8, 8, 8, 128, 129, u32::MAX]);
    one.mtime_ns = draw.of(&[0, 999_999_999, u32::MAX]);
    let slot = draw.below(FILES as usize);
    made.put_file(slot, draw.below(2), one);
}

/// The head's numbers, which say where all else is.
fn bend_head(made: &mut Made, draw: &mut Draw) {
    let whole = made.bytes.len() as u64;
    made.files = draw.of(&[0, 1, FILES - 1, FILES, FILES + 1, 65_536, 65_537, u32::MAX]);
    made.pages = draw.of(&[0, 1, PAGES - 1, PAGES, PAGES + 1, 1 << 24, u32::MAX]);
    let bytes = draw.of(&[0, 1, whole - 1, whole, whole, whole, whole + 1, u64::MAX]);
    made.put_head(bytes);
}

/// A registry, and whether its head is not the one that all else was written by.
fn draw_registry(draw: &mut Draw) -> (Made, bool) {
    let mut made = Made::new(FILES, PAGES);
    for _ in 0..draw.below(12) {
        put_record(&mut made, draw);
    }
    for number in 0..PAGES as usize {
        if draw.below(8) > 0 {
            put_entry(&mut made, draw, number);
        }
    }
    for _ in 0..draw.of(&[0, 0, 1, 8]) {
        let at = draw.below(made.bytes.len());
        made.bytes[at] = u8::try_from(draw.below(256)).expect("it is below");
    }
    let bent = draw.below(4) == 0;
    if bent {
        bend_head(&mut made, draw);
    }
    (made, bent)
}

/// A record, and by index the numbers of its pages.
type Wanted = (RemRegistryFile, HashMap<u64, Vec<usize>>);

/// What has to be found where the head is the one that all of it was written by.
fn expected(bytes: &[u8]) -> HashMap<u64, Wanted> {
    let mut files: HashMap<u64, Wanted> = HashMap::new();
    for raw in bytes[..FILES as usize * 512].chunks_exact(256) {
        let one = RemRegistryFile::from_bytes(raw.try_into().expect("it is as long"));
        if one.id == 0 || one.handle_bytes > 128 || one.crc != crc32c::crc32c(&raw[..252]) {
            continue;
        }
        let old = files.entry(one.id).or_insert_with(|| (one, HashMap::new()));
        if one.sequence > old.0.sequence {
            old.0 = one;
        }
    }
    for number in 0..PAGES as usize {
        let at = FILES as usize * 512 + number * 64;
        let raw = &bytes[at..at + 64];
        let slot = bytes.len() - (PAGES as usize + 1 - number) * PAGE;
        let one = RemRegistryPage::from_bytes(raw.try_into().expect("it is as long"));
        let right = one.crc == crc32c::crc32c(&raw[..offset_of!(RemRegistryPage, crc)])
            && one.saved == REM_REGISTRY_SAVED
            && one.index < u64::MAX / 4096
            && (one.content_state == CHANGING
                || one.content_state == STEADY
                    && one.content_crc == crc32c::crc32c(&bytes[slot..slot + PAGE]));
        if let (true, Some(file)) = (right, files.get_mut(&one.id)) {
            file.1.entry(one.index).or_default().push(number);
        }
    }
    for (_, pages) in files.values_mut() {
        pages.retain(|_, numbers| numbers.len() == 1);
    }
    files
}

fn is_within(found: &Found<'_>, bytes: &[u8]) {
    let range = bytes.as_ptr_range();
    for page in found.files.iter().flat_map(|file| &file.pages) {
        assert_eq!(page.content.len(), PAGE);
        let content = page.content.as_ptr_range();
        assert!(range.start <= content.start && content.end <= range.end);
        assert!(page.index.checked_mul(4096).is_some());
    }
    for file in &found.files {
        assert!(file.record.handle_bytes <= 128);
        assert!(file.pages.windows(2).all(|two| two[0].index < two[1].index));
    }
}

/// Counts of what the cases had, so that it is seen that they had it.
#[derive(Debug, Default)]
struct Seen {
    refused: u64,
    bent: u64,
    pages: u64,
    damaged: u64,
    orphans: u64,
    records_twice: u64,
}

fn check(made: &Made, bent: bool, seen: &mut Seen) {
    let Ok(found) = read(&made.bytes) else {
        seen.refused += 1;
        return;
    };
    is_within(&found, &made.bytes);
    if bent {
        seen.bent += 1;
        return;
    }
    let wanted = expected(&made.bytes);
    assert_eq!(found.files.len(), wanted.len());
    for file in &found.files {
        let (record, pages) = &wanted[&file.record.id];
        assert_eq!(file.record.sequence, record.sequence);
        assert_eq!(file.pages.len(), pages.len());
        for page in &file.pages {
            assert_eq!(pages[&page.index], [page.entry]);
            let slot = made.slot_at(page.entry);
            assert_eq!(page.content, &made.bytes[slot..slot + PAGE]);
        }
        seen.pages += file.pages.len() as u64;
    }
    let entries = &made.bytes[FILES as usize * 512..][..PAGES as usize * 64];
    let used = entries.chunks_exact(64).filter(|raw| raw[..8] != [0; 8]);
    let pages: u64 = found.files.iter().map(|file| file.pages.len() as u64).sum();
    assert_eq!(used.count() as u64, pages + found.damaged + found.orphans);
    seen.damaged += found.damaged;
    seen.orphans += found.orphans;
    let records = made.bytes[..FILES as usize * 512].chunks_exact(256);
    seen.records_twice += u64::from(records.filter(|raw| raw[0] != 0).count() > wanted.len());
}

/// Runs `case` for each seed. A case that panics is named by its seed, with which it is run again.
pub(crate) fn run_cases<S: std::fmt::Debug + Default>(
    what: &str,
    counts: impl Fn(&S) -> Vec<u64>,
    mut case: impl FnMut(&mut Draw, &mut S),
) {
    let cases = given("REM_REPLAY_CASES", 20_000_u64);
    let first = given("REM_REPLAY_SEED", SEED);
    let mut seen = S::default();
    for seed in first..first + cases {
        let outcome = catch_unwind(AssertUnwindSafe(|| case(&mut Draw(seed), &mut seen)));
        assert!(outcome.is_ok(), "the case of seed {seed}");
    }
    println!("{cases} {what} registries: {seen:?}");
    for count in counts(&seen) {
        assert!(
            count > cases / 50 || cases < FEW,
            "the cases do not have it: {seen:?}"
        );
    }
}

#[test]
fn hostile_registries_give_what_they_have_and_no_more() {
    run_cases(
        "hostile",
        |seen: &Seen| {
            vec![
                seen.refused,
                seen.bent,
                seen.pages,
                seen.damaged,
                seen.orphans,
                seen.records_twice,
            ]
        },
        |draw, seen| {
            let (made, bent) = draw_registry(draw);
            check(&made, bent, seen);
        },
    );
}
