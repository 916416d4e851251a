// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tool `nvheap` and opening itself on damaged regions: an error or a correct answer, never a
//! panic.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

#[path = "cases/blank.rs"]
mod blank;
#[path = "cases/found.rs"]
mod found;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nvheap::structures::{BPlusTree, BTreeHead};
use nvheap::{FocRedo, FocUndo, FofStm, Heap, Options, PPtr, Policy};

const REGION_BYTES: u64 = 1 << 19;

struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("nvheap-tool-{}-{name}", std::process::id())))
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

#[test]
fn help_is_on_standard_output() {
    let shown = nvheap(&[], Path::new("--help"));
    assert!(shown.status.success());
    assert!(shown.stdout.starts_with(b"usage: nvheap info FILE"));
    assert!(shown.stderr.is_empty());
}

fn fill<P: Policy>(file: &Path) {
    let options = Options {
        sessions: 1,
        redo_lines: 64,
        undo_lines: 64,
        ..Options::assume_all()
    };
    let heap = Heap::<P>::create(file, REGION_BYTES, &options).unwrap();
    let mut session = heap.session().unwrap();
    let head: PPtr<BTreeHead<u64, u64>> = session
        .root_or("tree", |tx| BPlusTree::create(tx, 0, 0))
        .unwrap();
    for key in 0..100 {
        session
            .run(|tx| BPlusTree::at(head).insert(tx, key, key))
            .unwrap();
    }
}

#[test]
fn tool_shows_the_content_of_a_region() {
    let file = File::new("info");
    fill::<FocRedo>(&file.0);
    let out = nvheap(&["info"], &file.0);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        out.status.success() && text.contains("FoC+RL") && text.contains("\"tree\""),
        "{text}"
    );
    assert!(nvheap(&["check"], &file.0).status.success());
    let dump = String::from_utf8(nvheap(&["dump"], &file.0).stdout).unwrap();
    assert!(dump.lines().count() > 10, "{dump}");
}

#[test]
fn error_is_one_line_and_an_exit_status() {
    let file = File::new("bad");
    std::fs::write(&file.0, vec![7; 8192]).unwrap();
    let out = nvheap(&["check"], &file.0);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(String::from_utf8(out.stderr).unwrap().lines().count(), 1);
    assert_eq!(nvheap(&["paint"], &file.0).status.code(), Some(2));
    assert_eq!(
        nvheap(&["check"], Path::new("/nonexistent/region"))
            .status
            .code(),
        Some(4)
    );
}

#[test]
fn flush_on_fail_is_refused_without_a_promise() {
    let error = Heap::<FofStm>::anonymous(REGION_BYTES, &Options::default()).unwrap_err();
    assert!(matches!(error, nvheap::Error::NoFlushOnFail), "{error}");
}

#[test]
fn content_of_a_file_is_not_overwritten() {
    blank::content_is_refused::<FocRedo>();
    blank::content_is_refused::<FocUndo>();
}

#[test]
fn region_has_one_user_at_a_time() {
    let file = File::new("busy");
    let options = Options::assume_all();
    let first = Heap::<FocRedo>::create(&file.0, 1 << 23, &options).unwrap();
    let second = Heap::<FocRedo>::open(&file.0, &options);
    assert!(matches!(second, Err(nvheap::Error::Busy(_))));
    drop(first);
    let other = Heap::<FocUndo>::open(&file.0, &options);
    assert!(matches!(other, Err(nvheap::Error::Policy { .. })));
    Heap::<FocRedo>::open(&file.0, &options).unwrap();
}

/// Goal: a child that has the descriptor, as between fork and exec, does not keep a region busy.
/// Method: fork one that waits until it is killed, close the region, open it again.
#[test]
fn forked_child_keeps_no_lock() {
    let file = File::new("fork");
    let options = Options::assume_all();
    let heap = Heap::<FocRedo>::create(&file.0, 1 << 23, &options).unwrap();
    // SAFETY: the child only calls functions that are allowed between fork and exec.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: waits for the signal that ends it.
            unsafe { libc::pause() };
        }
    }
    assert!(child > 0);
    drop(heap);
    let again = Heap::<FocRedo>::open(&file.0, &options);
    // SAFETY: ends and awaits the child created above.
    let ended = unsafe {
        libc::kill(child, libc::SIGKILL) == 0
            && libc::waitpid(child, std::ptr::null_mut(), 0) == child
    };
    assert!(ended && again.is_ok(), "{ended} {:?}", again.err());
}

/// Any bytes changed, with or without a correct header checksum: every command ends by itself.
#[test]
fn hostile_bytes_do_no_harm() {
    let file = File::new("fuzz");
    fill::<FocUndo>(&file.0);
    let sound = std::fs::read(&file.0).unwrap();
    let rounds = std::env::var("NVHEAP_FUZZ_ROUNDS").map_or(60, |text| text.parse().unwrap());
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    for round in 0..rounds {
        let mut bytes = sound.clone();
        bytes[nvheap::layout::OPEN_OFFSET as usize] = 1;
        for _ in 0..=next(40) {
            // Mostly in the structures: header, state, roots, logs, table, maps.
            let end = if next(4) == 0 { REGION_BYTES } else { 24_000 };
            let at = next(end) as usize;
            bytes[at] = match next(3) {
                0 => 0xff,
                1 => bytes[at] ^ (1 << next(8)),
                _ => next(256) as u8,
            };
        }
        if next(2) == 0 {
            bytes[..8].copy_from_slice(&sound[..8]);
            let crc = crc32c::crc32c(&bytes[..88]);
            bytes[88..92].copy_from_slice(&crc.to_le_bytes());
        }
        if next(8) == 0 {
            bytes.truncate(next(REGION_BYTES) as usize);
        }
        std::fs::write(&file.0, &bytes).unwrap();
        for command in ["info", "check", "dump", "repair"] {
            let out = nvheap(&[command], &file.0);
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            let code = out.status.code();
            assert!(
                matches!(code, Some(0 | 1)),
                "round {round}, {command}: {code:?}: {text}"
            );
        }
    }
}
