// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: a recording that is damaged in any way is judged or refused with a line, never a panic;
//! and the numbers this crate repeats are the headers'.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use remanence_campaign::plan::plan;
use remanence_campaign::run::Recording;
use remanence_campaign::survey::Survey;
use remanence_campaign::synth::write;
use remanence_campaign::trial::Trial;
use remanence_campaign::{CampaignError, format, lost, stack};

const IMAGE: &str = include_str!("../../../format/rem_image.h");
const WRITERS: &str = include_str!("../../../format/rem_writers.h");
const STOP: &str = include_str!("../../../kernel/stop/stop.h");

fn judge_some(dir: &Path) -> Result<usize, CampaignError> {
    let recording = Recording::open(dir)?;
    let survey = Survey::of(&recording)?;
    let mut trial = Trial::begin(&recording, &survey)?;
    let mut count = 0;
    trial.judge_all(&plan(&survey, 1, 1, 100), |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

fn number(text: &str, name: &str) -> u64 {
    let value = text
        .lines()
        .find_map(|line| {
            let mut words = line.trim().trim_start_matches("#define").split_whitespace();
            (words.next() == Some(name))
                .then(|| words.find(|word| *word != "=").unwrap().to_owned())
        })
        .unwrap_or_else(|| panic!("{name} is not there"));
    let value = value.trim_end_matches(',');
    value.strip_prefix("0x").map_or_else(
        || value.parse().unwrap(),
        |hex| u64::from_str_radix(hex, 16).unwrap(),
    )
}

#[test]
fn numbers_are_the_headers() {
    let offsets = [
        ("REM_CONSUMED_OFFSET", format::CONSUMED_OFFSET),
        ("REM_COMMIT_OFFSET", format::COMMIT_OFFSET),
        ("REM_COMMIT_STRIDE_BYTES", format::COMMIT_STRIDE_BYTES),
        ("REM_NOTE_OFFSET", format::NOTE_OFFSET),
        ("REM_DESC_OFFSET", format::DESC_OFFSET),
        ("REM_DESC_BYTES", format::DESC_BYTES),
        ("REM_BODY_OFFSET", format::BODY_OFFSET),
        ("REM_BODY_STRIDE_BYTES", format::BODY_STRIDE_BYTES),
        ("REM_TIMELINE_OFFSET", format::TIMELINE_OFFSET),
        ("REM_TIMELINE_STRIDE_BYTES", format::TIMELINE_STRIDE_BYTES),
        ("REM_WORK_OFFSET", format::WORK_OFFSET),
        ("REM_SLOTS", format::SLOTS),
        ("REM_WORD_CONSUMED", u64::from(format::WORD_CONSUMED)),
        ("REM_BOOT_RESUME", u64::from(format::BOOT_RESUME)),
        ("REM_COLD_NO_BLOCK", u64::from(format::COLD_NO_BLOCK)),
        (
            "REM_COLD_BLOCK_VERSION",
            u64::from(format::COLD_BLOCK_VERSION),
        ),
        (
            "REM_COLD_CONSUMED_INVALID",
            u64::from(format::COLD_CONSUMED_INVALID),
        ),
        (
            "REM_COLD_NOT_COMMITTED",
            u64::from(format::COLD_NOT_COMMITTED),
        ),
        (
            "REM_COLD_ALREADY_CONSUMED",
            u64::from(format::COLD_ALREADY_CONSUMED),
        ),
        ("REM_EVENT_STOP_BEGIN", u64::from(format::EVENT_STOP_BEGIN)),
        (
            "REM_EVENT_STOP_DEVICES",
            u64::from(format::EVENT_STOP_DEVICES),
        ),
        ("REM_EVENT_STOP_BODY", u64::from(format::EVENT_STOP_BODY)),
        (
            "REM_EVENT_STOP_FAILED",
            u64::from(format::EVENT_STOP_FAILED),
        ),
        ("REM_EVENT_GO_BEGIN", u64::from(format::EVENT_GO_BEGIN)),
        ("REM_EVENT_GO_SYSCORE", u64::from(format::EVENT_GO_SYSCORE)),
        ("REM_EVENT_GO_DONE", u64::from(format::EVENT_GO_DONE)),
    ];
    for (name, value) in offsets {
        assert_eq!(number(IMAGE, name), value, "{name}");
    }
    assert_eq!(number(IMAGE, "REM_BLOCK_BYTES"), format::BLOCK_BYTES as u64);
    assert_eq!(number(WRITERS, "REM_WRITER_PROGRAM"), lost::PROGRAM);
    let size = format!("sizeof(struct rem_writer) == {}", lost::WRITER_BYTES);
    assert!(WRITERS.contains(&size));
    assert_eq!(number(STOP, "REM_CTX_RSP"), stack::CONTEXT_RSP);
    assert_eq!(number(STOP, "REM_CTX_CR3"), stack::CONTEXT_CR3);
}

#[test]
fn a_base_of_another_size_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, None).unwrap();
    let stop = dir.path().join("stop");
    fs::write(stop.join("base.media"), [0; 4096]).unwrap();
    let text = judge_some(&stop).unwrap_err().to_string();
    assert!(text.contains("belongs to another recording"), "{text}");
}

#[test]
fn media_without_a_description_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, None).unwrap();
    let stop = dir.path().join("stop");
    fs::write(stop.join("base.media"), vec![0; 4 << 20]).unwrap();
    let text = judge_some(&stop).unwrap_err().to_string();
    assert!(text.contains("no machine description"), "{text}");
}

#[test]
fn a_recording_whose_writer_was_killed_is_judged_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, None).unwrap();
    let path = dir.path().join("stop").join("recording.bin");
    let bytes = fs::read(&path).unwrap();
    for end in [bytes.len() - 1, bytes.len() / 2 + 3, 140, 128] {
        fs::write(&path, &bytes[..end]).unwrap();
        assert!(judge_some(&dir.path().join("stop")).is_ok(), "{end} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn damage_never_panics(flips in prop::collection::vec((0usize..140_000, 0u8..8), 1..6), media in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 1, None).unwrap();
        let go = dir.path().join("go");
        let path = go.join(if media { "base.media" } else { "recording.bin" });
        let mut bytes = fs::read(&path).unwrap();
        for (at, bit) in flips {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        fs::write(&path, &bytes).unwrap();
        if let Err(err) = judge_some(&go) {
            prop_assert!(!err.to_string().contains('\n'));
        }
    }
}
