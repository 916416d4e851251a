// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tool `nvheap` on regions of plain memory: an error or a correct answer, never a panic.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

use std::alloc::Layout;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nvheap::fof::header::{CHECKED_BYTES, MARK_OFFSET, ROOTS_OFFSET, SHARED_OFFSET, TABLE_OFFSET};
use nvheap::fof::{Mark, Memory, Options, Region};
use nvheap::{Error, FofUndo, Heap};

const REGION_BYTES: u64 = 1 << 19;
const OBJECTS: usize = 100;

struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("nvheap-fof-tool-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// A region with objects, a large one, and free ones.
    fn fill(&self) {
        let region = Region::create(&self.0, REGION_BYTES, &Options::assume_all()).unwrap();
        let mut local = region.local().unwrap();
        let layout = Layout::new::<[u64; 5]>();
        let mut objects = Vec::new();
        for number in 0..2 * OBJECTS as u64 {
            let at = local.alloc(layout).unwrap().cast::<[u64; 5]>();
            // SAFETY: just allocated.
            unsafe { at.write([number; 5]) };
            objects.push(at);
        }
        for at in objects.split_off(OBJECTS) {
            // SAFETY: allocated above, and not used again.
            unsafe { local.free(at.cast(), layout) };
        }
        let large = local.alloc(Layout::new::<[u64; 10_000]>()).unwrap();
        region.set_root("large", 1, large.as_ptr(), 80_000).unwrap();
    }

    fn set_mark(&self, mark: Mark) {
        let mut bytes = std::fs::read(&self.0).unwrap();
        bytes[MARK_OFFSET] = mark as u8;
        std::fs::write(&self.0, bytes).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn nvheap(words: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvheap"))
        .args(words)
        .arg(file)
        .output()
        .unwrap()
}

fn text_of(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn tool_shows_the_content_of_a_region() {
    let file = File::new("info");
    file.fill();
    let info = text_of(&nvheap(&["info"], &file.0));
    for part in ["FoF (plain memory)", "closed", " 101, ", "\"large\""] {
        assert!(info.contains(part), "{part}: {info}");
    }
    assert!(nvheap(&["check"], &file.0).status.success());
    let dump = text_of(&nvheap(&["dump"], &file.0));
    assert_eq!(dump.lines().count(), OBJECTS + 1, "{dump}");
    assert!(
        dump.lines().nth(7).unwrap().ends_with("40 7 7 7 7 7"),
        "{dump}"
    );
}

#[test]
fn region_that_was_not_closed_is_repaired_only_if_accepted() {
    for mark in [Mark::Open, Mark::Held] {
        let file = File::new("unclosed");
        file.fill();
        file.set_mark(mark);
        let refused = nvheap(&["repair"], &file.0);
        assert_eq!(refused.status.code(), Some(1));
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(
            why.contains("not closed") && why.contains("--accept"),
            "{why}"
        );
        assert!(nvheap(&["repair", "--accept"], &file.0).status.success());
        assert!(nvheap(&["repair"], &file.0).status.success());
    }
}

#[test]
fn damaged_allocator_is_not_repaired() {
    let file = File::new("damaged");
    file.fill();
    let mut bytes = std::fs::read(&file.0).unwrap();
    bytes[TABLE_OFFSET..TABLE_OFFSET + 8].fill(0xff);
    std::fs::write(&file.0, &bytes).unwrap();
    for words in [&["check"][..], &["repair"], &["repair", "--accept"]] {
        let out = nvheap(words, &file.0);
        assert_eq!(out.status.code(), Some(1), "{words:?}");
        assert!(text_of(&out).contains("is impossible"), "{words:?}");
    }
    assert_eq!(std::fs::read(&file.0).unwrap(), bytes);
}

#[test]
fn heap_does_not_open_plain_memory() {
    let file = File::new("other");
    file.fill();
    let opened = Heap::<FofUndo>::open(&file.0, &nvheap::Options::assume_all());
    assert!(matches!(opened, Err(Error::PlainMemory)));
    assert!(matches!(
        nvheap::policy_of(&file.0),
        Err(Error::PlainMemory)
    ));
}

/// Any bytes changed, with or without a correct header checksum: every command ends by itself.
#[test]
fn hostile_bytes_do_no_harm() {
    let file = File::new("fuzz");
    file.fill();
    let sound = std::fs::read(&file.0).unwrap();
    let rounds = std::env::var("NVHEAP_FUZZ_ROUNDS").map_or(60, |text| text.parse().unwrap());
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    let places = [
        0,
        MARK_OFFSET,
        ROOTS_OFFSET,
        SHARED_OFFSET,
        TABLE_OFFSET,
        65536,
    ];
    for round in 0..rounds {
        let mut bytes = sound.clone();
        for _ in 0..=next(20) {
            let place = places[next(places.len() as u64) as usize];
            let at = place + next(1100) as usize;
            bytes[at] = match next(3) {
                0 => 0xff,
                1 => bytes[at] ^ (1 << next(8)),
                _ => next(256) as u8,
            };
        }
        if next(2) == 0 {
            bytes[..8].copy_from_slice(&sound[..8]);
            let crc = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
            bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
        }
        if next(8) == 0 {
            bytes.truncate(next(REGION_BYTES) as usize);
        }
        std::fs::write(&file.0, &bytes).unwrap();
        for words in [
            &["info"][..],
            &["check"],
            &["dump"],
            &["repair", "--accept"],
        ] {
            let out = nvheap(words, &file.0);
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            let code = out.status.code();
            assert!(
                matches!(code, Some(0 | 1 | 4)),
                "round {round}, {words:?}: {code:?}: {text}"
            );
        }
    }
}
