// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever a cut leaves is, after recovery, what it was after a number of transactions: all that
//! returned, and at most the one that was under way. No object is lost or left over. And each
//! planted bug is found by the same histories.

#![allow(
    clippy::tests_outside_test_module, // an integration test is one as a whole
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

use nvheap::testing::{Trial, scenarios, self_check};
use nvheap::{FocRedo, FocStm, FocUndo, FofStm, FofUndo, Mutant};

/// More states by chance in the soak tier.
fn trial(mutant: Option<Mutant>) -> Trial {
    let mut trial = Trial {
        mutant,
        ..Trial::default()
    };
    if let Ok(text) = std::env::var("NVHEAP_DRAWN") {
        trial.limits.drawn = text.parse().unwrap();
    }
    trial
}

#[test]
fn every_state_under_a_redo_log_is_a_committed_prefix() {
    let states = self_check::<FocRedo>(&trial(None)).unwrap();
    println!("{states} states");
}

#[test]
fn every_state_under_an_undo_log_is_a_committed_prefix() {
    let states = self_check::<FocUndo>(&trial(None)).unwrap();
    println!("{states} states");
}

#[test]
fn every_state_under_transactional_memory_is_a_committed_prefix() {
    let states = self_check::<FocStm>(&trial(None)).unwrap();
    println!("{states} states");
}

/// Where caches survive, a cut leaves all stores before it: each of them is one.
#[test]
fn every_state_of_logs_in_surviving_caches_is_a_committed_prefix() {
    let states =
        self_check::<FofUndo>(&trial(None)).unwrap() + self_check::<FofStm>(&trial(None)).unwrap();
    println!("{states} states");
}

/// The first history that finds it where caches survive.
fn found_in_surviving_caches(mutant: Mutant) -> Option<String> {
    let trial = trial(Some(mutant));
    for scenario in scenarios() {
        let reports = [
            scenario.run::<FofUndo>(&trial),
            scenario.run::<FofStm>(&trial),
        ];
        if let Some(what) = reports.into_iter().find_map(|report| report.failure) {
            return Some(format!("{}: {what}", scenario.name));
        }
    }
    None
}

#[test]
fn surviving_caches_hide_no_error_of_order() {
    for mutant in [
        Mutant::ApplyBeforeFence,
        Mutant::CommitInFirstLine,
        Mutant::AllocNotLogged,
        Mutant::FreeNotLogged,
        Mutant::ReuseBeforeCommit,
        Mutant::TruncateFirst,
    ] {
        let what = found_in_surviving_caches(mutant);
        assert!(what.is_some(), "no history finds {mutant:?}");
        println!("{mutant:?}: {}", what.unwrap());
    }
}

/// The first history that finds it.
fn found(mutant: Mutant) -> Option<String> {
    let trial = trial(Some(mutant));
    for scenario in scenarios() {
        let reports = [
            scenario.run::<FocRedo>(&trial),
            scenario.run::<FocUndo>(&trial),
        ];
        if let Some(what) = reports.into_iter().find_map(|report| report.failure) {
            return Some(format!("{}: {what}", scenario.name));
        }
    }
    None
}

macro_rules! mutants {
    ($($test:ident: $mutant:ident;)*) => {
        $(#[test]
        fn $test() {
            let what = found(Mutant::$mutant);
            assert!(what.is_some(), "no history finds {:?}", Mutant::$mutant);
            println!("{}", what.unwrap());
        })*
    };
}
mutants! {
    finds_a_commit_that_is_not_awaited: SkipCommitFence;
    finds_changes_before_their_record: ApplyBeforeFence;
    finds_undo_that_is_not_awaited: SkipUndoFence;
    finds_a_log_without_torn_bits: NoTornBit;
    finds_a_commit_in_the_first_line: CommitInFirstLine;
    finds_a_checkpoint_without_write_back: SkipCheckpointFlush;
    finds_a_checkpoint_that_does_not_wait: SkipCheckpointFence;
    finds_an_abort_without_a_record: AbortWithoutRecord;
    finds_reuse_before_the_commit: ReuseBeforeCommit;
    finds_an_allocation_that_is_not_logged: AllocNotLogged;
    finds_a_free_that_is_not_logged: FreeNotLogged;
    finds_old_records_over_direct_writes: IgnoreDirect;
    finds_direct_writes_that_are_not_awaited: SkipDirectFence;
    finds_a_recovery_that_does_not_write_back: RecoveryWithoutFlush;
    finds_torn_lines_that_are_kept: KeepTornLines;
    finds_a_slab_map_that_is_not_logged: SlabMapNotLogged;
}
