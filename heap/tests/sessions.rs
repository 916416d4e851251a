// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: two sessions that meet in a certain order do not disturb each other, at any cut.

#[path = "cases/sessions.rs"]
mod cases;

#[test]
fn checkpoint_keeps_the_undo_records_of_a_running_transaction() {
    assert_eq!(cases::checkpoint_in_a_transaction(), None);
}

#[test]
fn records_of_two_logs_are_applied_in_the_order_of_their_commits() {
    assert_eq!(cases::commits_against_the_order_of_logs(), None);
}

#[test]
fn transaction_never_sees_a_mixture_of_two_states() {
    assert_eq!(cases::commit_between_two_reads(), None);
}
