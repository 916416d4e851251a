// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: the files of a cut hold what it loses: media, memory as CPUs saw it, and each line's last
//! store. If every line was evicted before the cut, nothing is lost.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use std::path::Path;

use remanence_campaign::CampaignError;
use remanence_campaign::lost::lost;
use remanence_campaign::run::Recording;
use remanence_campaign::survey;
use remanence_campaign::survey::Survey;
use remanence_crash_states::Eviction;
use remanence_model::protocol::Right;
use remanence_model::write;

/// Cuts of the model's Stop at which some line is dirty, with how many.
fn dirty_cuts(recording: &Recording) -> Vec<(u64, usize)> {
    let survey = Survey::of(recording).unwrap();
    let mut run = survey::begin(recording, &survey.judge).unwrap();
    let mut cuts = Vec::new();
    while run.step(None).unwrap().is_some() {
        if run.window && !run.dirty.is_empty() {
            cuts.push((run.event, run.dirty.len()));
        }
    }
    cuts
}

/// Lines in which the two files differ, and those of them without a writer.
fn differ(folder: &Path) -> (usize, usize) {
    let read = |name| std::fs::read(folder.join(name)).unwrap();
    let (media, seen, writers) = (read("media"), read("seen"), read("writers"));
    assert_eq!(media.len(), seen.len());
    let lines: Vec<usize> = (0..media.len() / 64)
        .filter(|n| media[n * 64..][..64] != seen[n * 64..][..64])
        .collect();
    let unnamed = lines
        .iter()
        .filter(|n| writers[**n * 16..][..8] == [0; 8])
        .count();
    (lines.len(), unnamed)
}

#[test]
fn files_of_a_cut_hold_what_it_loses() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let recording = Recording::open(&dir.path().join("stop")).unwrap();
    let cuts = dirty_cuts(&recording);
    assert!(cuts.len() > 20, "{}", cuts.len());
    let mut named = 0;
    for (cut, dirty) in cuts.iter().step_by(cuts.len() / 10) {
        let found = lost(&recording, *cut, &Eviction::None, dir.path()).unwrap();
        let (lines, unnamed) = differ(dir.path());
        assert_eq!((found.lines, lines), (*dirty, *dirty), "at {cut}");
        named += lines - unnamed;
        let found = lost(&recording, *cut, &Eviction::All, dir.path()).unwrap();
        assert_eq!((found.lines, differ(dir.path())), (0, (0, 0)), "at {cut}");
    }
    assert!(named > 0, "no lost line has a writer");
}

#[test]
fn invalid_place_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let recording = Recording::open(&dir.path().join("stop")).unwrap();
    let refused = lost(&recording, u64::MAX, &Eviction::None, dir.path()).unwrap_err();
    assert!(matches!(refused, CampaignError::NoSuchPlace(u64::MAX)));
    let refused = lost(&recording, 0, &Eviction::None, dir.path()).unwrap_err();
    assert!(matches!(refused, CampaignError::OutsideWindow(0)));
}
