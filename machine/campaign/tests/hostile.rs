// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: any damaged recording is judged or refused with one line, never a panic.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use remanence_campaign::CampaignError;
use remanence_campaign::plan::plan;
use remanence_campaign::run::Recording;
use remanence_campaign::survey::Survey;
use remanence_campaign::trial::Trial;
use remanence_model::protocol::Right;
use remanence_model::write;

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

#[test]
fn base_of_another_size_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let stop = dir.path().join("stop");
    fs::write(stop.join("base.media"), [0; 4096]).unwrap();
    let text = judge_some(&stop).unwrap_err().to_string();
    assert!(text.contains("belongs to another recording"), "{text}");
}

#[test]
fn media_without_a_description_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let stop = dir.path().join("stop");
    fs::write(stop.join("base.media"), vec![0; 4 << 20]).unwrap();
    let text = judge_some(&stop).unwrap_err().to_string();
    assert!(text.contains("no valid machine description"), "{text}");
}

#[test]
fn recording_of_a_killed_writer_is_judged_up_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
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
        write(dir.path(), 1, &Right).unwrap();
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
