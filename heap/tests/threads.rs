// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: with four threads, transactions are isolated, and every state that a cut leaves is, after
//! recovery, that of the transactions that returned, and possibly of those in progress.

#[path = "cases/allocating.rs"]
mod allocating;
#[path = "cases/threads.rs"]
mod cases;

use nvheap::{FocRedo, FocStm, FocUndo, FofStm};

/// Schedules of each test; more of them in the soak tier.
fn schedules() -> usize {
    std::env::var("NVHEAP_SCHEDULES").map_or(4, |text| text.parse().unwrap())
}

#[test]
fn four_threads_are_isolated_and_every_cut_is_a_consistent_state() {
    cases::transfers(schedules());
}

#[test]
fn four_threads_with_undo_logs_of_their_own() {
    cases::own::<FocUndo>(schedules());
}

#[test]
fn four_threads_with_redo_logs_of_their_own() {
    cases::own::<FocRedo>(schedules());
}

#[test]
fn threads_that_replace_an_object_written_past_the_log_are_isolated() {
    allocating::allocating::<FocStm>(schedules());
    allocating::allocating::<FofStm>(schedules());
}
