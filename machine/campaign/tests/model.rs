// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: the campaign finds each bug of the protocol's model and none in the correct model, and
//! its shortcut (media changed in place, incremental digests) agrees with media written out.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use proptest::prelude::*;
use remanence_campaign::dirty::DirtyLines;
use remanence_campaign::judge::reason_name;
use remanence_campaign::media::line_digest;
use remanence_campaign::plan::{Kind, more, plan};
use remanence_campaign::record;
use remanence_campaign::replay::replay;
use remanence_campaign::run::{PLACES, Place, Recording};
use remanence_campaign::survey::{self, Survey};
use remanence_campaign::trial::{Outcome, Trial};
use remanence_campaign::verdict::{Broken, Verdict};
use remanence_crash_states::Eviction;
use remanence_model::mutants::{MUTANTS, named};
use remanence_model::protocol::{Protocol, Right};
use remanence_model::write;
use remanence_recording::{Event, Reader, Writer};

const CUTS: u64 = 600;

fn judge(dir: &Path, seed: u64) -> Vec<Outcome> {
    let recording = Recording::open(dir).unwrap();
    let survey = Survey::of(&recording).unwrap();
    let mut trial = Trial::begin(&recording, &survey).unwrap();
    let mut outcomes = Vec::new();
    let mut keep = |outcome| {
        outcomes.push(outcome);
        Ok(())
    };
    trial
        .judge_all(&plan(&survey, seed, 0, CUTS), &mut keep)
        .unwrap();
    outcomes
}

fn campaign(seed: u64, protocol: &dyn Protocol) -> Vec<Outcome> {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), seed, protocol).unwrap();
    let mut outcomes = judge(&dir.path().join("stop"), seed);
    outcomes.extend(judge(&dir.path().join("go"), seed));
    outcomes
}

fn violations(outcomes: &[Outcome]) -> Vec<&Outcome> {
    outcomes
        .iter()
        .filter(|outcome| matches!(outcome.verdict, Verdict::Violation(_)))
        .collect()
}

/// Names of broken rules, as in the lists of planted bugs.
fn broken(outcomes: &[Outcome]) -> BTreeSet<&'static str> {
    let broken = outcomes
        .iter()
        .filter_map(|outcome| match &outcome.verdict {
            Verdict::Violation(broken) => Some(broken.name()),
            _ => None,
        });
    broken.collect()
}

#[test]
fn protocol_without_a_bug_breaks_nothing() {
    for seed in 1..=4 {
        let outcomes = campaign(seed, &Right);
        let found = violations(&outcomes);
        assert!(found.is_empty(), "seed {seed}: {:#?}", found[0]);
    }
}

/// Another violation does not count: the bug would be found only by chance.
#[test]
fn every_planted_bug_is_found_by_its_own_violation() {
    for mutant in &MUTANTS {
        let found = broken(&campaign(1, mutant.protocol));
        let own = mutant.violates.iter().any(|name| found.contains(name));
        assert!(
            own,
            "{mutant:?}: found by {found:?}, not by {:?}",
            mutant.violates
        );
    }
}

#[test]
fn broken_rules_are_serialized_by_their_names() {
    for broken in [
        Broken::NeverCommitted,
        Broken::EnteredTwice,
        Broken::Refused,
        Broken::ReportedTooEarly,
        Broken::Damaged,
        Broken::OtherMachine,
        Broken::WrongReason,
    ] {
        let json = serde_json::to_value(&broken).unwrap();
        assert_eq!(json, broken.name());
    }
    for broken in [
        Broken::Differs { lines: 1, first: 0 },
        Broken::Unseen { lines: 1, first: 0 },
    ] {
        let json = serde_json::to_value(&broken).unwrap();
        assert!(json.get(broken.name()).is_some());
    }
}

/// Whatever caches evict by themselves: with some of these seeds it would be just that line.
#[test]
fn unflushed_line_is_the_one_that_differs() {
    let lost = |outcome: &&Outcome| {
        let verdict = &outcome.verdict;
        matches!(
            verdict,
            Verdict::Violation(Broken::Differs { lines: 1, .. })
        )
    };
    for name in ["flush-one-line-short", "store-after-flush"] {
        for seed in (1..=20).chain([37]) {
            let outcomes = campaign(seed, named(name).unwrap().protocol);
            let found = violations(&outcomes);
            assert!(
                !found.is_empty() && found.iter().all(lost),
                "{name}, seed {seed}"
            );
        }
    }
}

#[test]
fn plan_has_its_share_of_everything() {
    let outcomes = campaign(1, &Right);
    let share = |what: &dyn Fn(&Outcome) -> bool| {
        100 * outcomes.iter().filter(|outcome| what(outcome)).count() / outcomes.len()
    };
    assert!(share(&|outcome| outcome.near) >= 25);
    assert!(share(&|outcome| outcome.verdict == Verdict::Cold) >= 20);
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome.verdict == Verdict::Resumed)
    );
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    for outcome in &outcomes {
        *places.entry(outcome.place).or_default() += 1;
    }
    for place in PLACES {
        assert!(places.contains_key(&place), "{place:?} has no image");
    }
}

#[test]
fn plan_is_reproducible_and_rounds_differ() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let recording = Recording::open(&dir.path().join("stop")).unwrap();
    let survey = Survey::of(&recording).unwrap();
    assert_eq!(plan(&survey, 5, 1, 500), plan(&survey, 5, 1, 500));
    assert_ne!(plan(&survey, 5, 1, 500), plan(&survey, 5, 2, 500));
    assert_ne!(plan(&survey, 5, 1, 500), plan(&survey, 6, 1, 500));
}

#[test]
fn round_of_some_kinds_has_no_other_cuts() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let recording = Recording::open(&dir.path().join("go")).unwrap();
    let survey = Survey::of(&recording).unwrap();
    let place_of = |event| {
        let segment = survey.segments.iter().find(|segment| event < segment.to);
        segment.map(|segment| segment.place)
    };
    let kinds: Vec<Kind> = ["go-devices", "enterable"]
        .map(|name| name.parse().unwrap())
        .into();
    let cuts = more(&survey, 5, 2, 100, &kinds);
    let (open, rest): (Vec<_>, Vec<_>) = cuts
        .iter()
        .partition(|cut| survey.open.contains(&cut.event));
    assert!(!open.is_empty() && !rest.is_empty());
    assert!(
        rest.iter()
            .all(|cut| place_of(cut.event) == Some(Place::GoDevices))
    );
    for place in PLACES {
        let name = serde_json::to_value(place).unwrap();
        assert_eq!(name.as_str().unwrap().parse(), Ok(Kind::In(place)));
    }
    "stop".parse::<Kind>().unwrap_err();
}

/// A line that was evicted and then stored to again, beside one with its newest content.
#[test]
fn older_contents_are_combined_with_newer_ones() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let recording = Recording::open(&dir.path().join("stop")).unwrap();
    let survey = Survey::of(&recording).unwrap();
    let mut run = survey::begin(&recording, &survey.judge).unwrap();
    let (mut combined, mut seed) = (0, 0);
    while run.step(None).unwrap().is_some() {
        if run.dirty.keys().all(|line| run.versions(*line).is_empty()) {
            continue;
        }
        seed += 1;
        let stores = DirtyLines::of(&run).stores(&Eviction::Older(seed, 255));
        let mut older = 0;
        for (line, content) in &stores {
            let newest = run.coherent(*line);
            let mut older_ones = run.versions(*line).iter();
            assert!(*content == newest || older_ones.any(|version| version.data == *content));
            older += usize::from(*content != newest);
        }
        combined += usize::from(older > 0 && older < stores.len());
    }
    assert!(combined > 10, "{combined}");
}

#[test]
fn violation_is_reported_with_its_lines_and_events() {
    let dir = tempfile::tempdir().unwrap();
    let bug = named("store-after-flush").unwrap();
    write(dir.path(), 1, bug.protocol).unwrap();
    let stop = dir.path().join("stop");
    let outcomes = judge(&stop, 1);
    let first = violations(&outcomes)[0];
    let recording = Recording::open(&stop).unwrap();
    let eviction = first.eviction.parse().unwrap();
    let found = replay(&recording, first.event, &eviction, 5, None).unwrap();
    assert_eq!(found.outcome.verdict, first.verdict);
    assert_eq!(found.differs.len(), 1);
    assert_ne!(found.differs[0].media, found.differs[0].committed);
    assert!(found.differs[0].last_store.is_some());
    assert!(
        found
            .trace
            .iter()
            .any(|line| line.contains("the power goes here"))
    );
}

#[test]
fn disk_is_in_its_state_at_the_cut() {
    const LOG: &[u8] = include_bytes!("../../../tests/unit/qemu_disk_log.bin");
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let stop = dir.path().join("stop");
    let path = stop.join("recording.bin");
    let bytes = std::fs::read(&path).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let mut writer = Writer::new(Vec::new(), reader.header()).unwrap();
    for (n, timed) in reader.events().enumerate() {
        let timed = timed.unwrap();
        // After the second write, and after the flush that follows.
        if let Some(sectors) = [(100, 7), (200, 8)].iter().find(|(at, _)| *at == n) {
            let bytes = sectors.1 * 512;
            let event = Event::DiskLog { disk: 0, bytes };
            writer.put(timed.vcpu, timed.time_ns, &event).unwrap();
        }
        writer.put(timed.vcpu, timed.time_ns, &timed.event).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    std::fs::write(stop.join("disk-0.base"), [0; 16 * 512]).unwrap();
    std::fs::write(stop.join("disk-0.log"), LOG).unwrap();
    let recording = Recording::open(&stop).unwrap();
    let at = |cut| replay(&recording, cut, &Eviction::None, 0, None).unwrap();
    let found = [at(100), at(150), at(250)];
    assert_eq!(found.each_ref().map(|found| found.forgettable), [0, 1, 0]);
    let classes: HashSet<_> = found.iter().map(|found| &found.outcome.class).collect();
    assert_eq!(classes.len(), 3, "{classes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, ..ProptestConfig::default() })]

    /// Media written out, digested from scratch and judged alone gives the same.
    #[test]
    fn shortcut_agrees_with_media(cut in 0u64..1600, seed in 0u64..1000, of_256 in 0u8..=255) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 3, &Right).unwrap();
        let stop = dir.path().join("stop");
        let recording = Recording::open(&stop).unwrap();
        let out = dir.path().join("media");
        let found = replay(&recording, cut, &Eviction::Random(seed, of_256), 0, Some(&out)).unwrap();
        let digest = |media: &[u8]| {
            let lines = media.chunks(64).enumerate();
            lines.map(|(n, line)| line_digest(n as u64, line.try_into().unwrap()))
                .fold(0u64, u64::wrapping_add)
        };
        let media = std::fs::read(&out).unwrap();
        let base = std::fs::read(stop.join("base.media")).unwrap();
        let relative = digest(&media).wrapping_sub(digest(&base));
        prop_assert_eq!(format!("{relative:016x}"), found.outcome.digest);
        let judge = Survey::of(&recording).unwrap().judge;
        let decision = judge.decide(&media[..record::BLOCK_BYTES]);
        prop_assert_eq!(reason_name(decision.reason), found.outcome.reason);
        prop_assert_eq!(decision.sequence, found.outcome.sequence);
    }
}
