// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: whatever a cut leaves is, after recovery, the content after a number of transactions: all
//! that returned, and at most the one in progress. No object is lost or leaked. The same histories
//! find the planted bugs in `heap/mutants`.

#[path = "cases/crash.rs"]
mod cases;

use nvheap::testing::self_check;
use nvheap::{FocRedo, FocStm, FocUndo, FofStm, FofUndo};

#[test]
fn every_state_under_a_redo_log_is_a_committed_prefix() {
    let states = self_check::<FocRedo>(&cases::trial()).unwrap();
    println!("{states} states");
}

#[test]
fn every_state_under_an_undo_log_is_a_committed_prefix() {
    let states = self_check::<FocUndo>(&cases::trial()).unwrap();
    println!("{states} states");
}

#[test]
fn every_state_under_transactional_memory_is_a_committed_prefix() {
    let states = self_check::<FocStm>(&cases::trial()).unwrap();
    println!("{states} states");
}

/// If caches survive, a cut leaves all stores before it: there is one state per store.
#[test]
fn every_state_of_logs_in_surviving_caches_is_a_committed_prefix() {
    let trial = cases::trial();
    let states = self_check::<FofUndo>(&trial).unwrap() + self_check::<FofStm>(&trial).unwrap();
    println!("{states} states");
}
