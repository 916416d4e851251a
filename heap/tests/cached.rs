// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: over the caches of a machine, media hold, after recovery, the content after all transactions
//! that returned, and possibly the one in progress. That is one of the states that the crash tests
//! enumerate, so those include all states of a machine.

#[path = "cases/cached.rs"]
mod cases;

use cases::{STEPS, follow, profiles};
use nvheap::testing::verdict;
use nvheap::{FocRedo, FocStm, FocUndo, Policy};
use remanence_cache::Honoured;

fn holds<P: Policy>() {
    for profile in profiles() {
        let looks = follow::<P>(profile, Honoured::All).unwrap();
        assert!(looks > STEPS, "only {looks} states");
    }
}

#[test]
fn redo_log_holds_over_the_machines_caches() {
    holds::<FocRedo>();
}

#[test]
fn undo_log_holds_over_the_machines_caches() {
    holds::<FocUndo>();
}

#[test]
fn transactional_memory_holds_over_the_machines_caches() {
    holds::<FocStm>();
}

/// Media then have a content that no cut leaves if flushes work.
#[test]
fn flushes_without_effect_are_found() {
    for profile in profiles() {
        let found = follow::<FocRedo>(profile, Honoured::Nothing).unwrap_err();
        assert_eq!(found.verdict, verdict::IMPOSSIBLE_STATE, "{found}");
    }
}
