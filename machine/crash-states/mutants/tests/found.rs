// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: the comparison of library and oracle sees a bug of the library, each by the difference that
//! the bug makes; and the copy without one is as good as the original.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

extern crate remanence_crash_states_mutants as remanence_crash_states;

#[path = "../../tests/compare/mod.rs"]
mod compare;

use remanence_crash_states_mutants::MUTANTS;
use remanence_planted::plant;

const PROMISE: &str = "oracle";
const HISTORIES: u64 = 100;

#[test]
fn copy_without_a_bug_agrees_with_the_oracle() {
    assert_eq!(compare::compare(HISTORIES), Ok(()));
}

#[test]
fn every_planted_bug_makes_its_own_difference() {
    assert!(MUTANTS.len() >= 6);
    for mutant in MUTANTS {
        let found = plant(mutant.name, || compare::compare(HISTORIES));
        let difference = found.expect_err(mutant.name);
        assert!(
            mutant.is_found_by(PROMISE, difference),
            "{}: found by {difference} instead",
            mutant.name
        );
    }
}
