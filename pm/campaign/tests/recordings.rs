// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: the judge finds what was promised, and what was not, in the smallest recordings; one that is cut
//! short or damaged is refused.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use std::path::Path;
use std::process::{Command, Output};

use pm_judge::region;
use remanence_recording::{Event, Header, Writer};
use serde_json::Value;

const PHYS: u64 = 1 << 32;
const REGION_BYTES: usize = 96 * 4096;
const HEADER_BYTES: usize = 128;

/// A window in which one operation returns that changed nothing. `lie` is added to its digest.
fn write_recording(folder: &Path, lie: u64) {
    let memory = region::sample(REGION_BYTES);
    let promise = region::promise_offset(&memory).unwrap();
    let digest = u64::from_le_bytes(memory[promise + 8..promise + 16].try_into().unwrap());
    std::fs::write(folder.join("base.media"), &memory).unwrap();
    let header = Header {
        nvram_phys: PHYS,
        nvram_bytes: REGION_BYTES as u64,
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let at = PHYS + promise as u64;
    let (digest, done) = (digest.wrapping_add(lie).to_le_bytes(), 1_u64.to_le_bytes());
    let store = |address, bytes| Event::Store {
        address,
        bytes,
        pc: 0,
    };
    for event in [
        Event::Window { begins: true },
        store(at + 8, &digest),
        store(at, &done),
        Event::Window { begins: false },
    ] {
        writer.put(0, 0, &event).unwrap();
    }
    std::fs::write(folder.join("recording.bin"), writer.finish().unwrap()).unwrap();
}

fn judge(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pm-judge"))
        .arg(folder)
        .arg(format!("{PHYS:#x}"))
        .arg(REGION_BYTES.to_string())
        .output()
        .unwrap()
}

#[test]
fn promises_that_are_kept_and_broken_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    for (lie, verdict) in [(0, ""), (1, "not-atomic")] {
        write_recording(folder.path(), lie);
        let done = judge(folder.path());
        assert!(done.status.success(), "{done:?}");
        let judged: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(judged["operations"], 1);
        assert_eq!(judged["violations"], lie);
        assert_eq!(judged["verdict"], verdict, "{judged}");
    }
}

#[test]
fn recording_that_is_cut_short_or_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_recording(folder.path(), 0);
    let path = folder.path().join("recording.bin");
    let whole = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let done = judge(folder.path());
        let message = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), done.stdout.len()), (Some(4), 0));
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    };
    for size in (HEADER_BYTES..whole.len()).step_by(8) {
        let message = refused(&whole[..size]);
        let known = ["no window", "ends inside a window"];
        assert!(known.iter().any(|it| message.contains(it)), "{message}");
    }
    // The window's end is zeros: nothing was written there.
    let mut damaged = whole.clone();
    let end = whole.len() - 16;
    damaged[end..].fill(0);
    refused(&damaged);
    // The second store is of another operation than the next.
    let done = whole.len() - 24;
    damaged.copy_from_slice(&whole);
    damaged[done] = 2;
    assert!(refused(&damaged).contains("reports"));
}
