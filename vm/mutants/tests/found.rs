// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: each planted bug of a save or an entry is found among what cuts leave, by the verdict that
//! its patch names. Another verdict does not count.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

extern crate remanence_vm_mutants as remanence_vm;

#[path = "../../tests/cases/life.rs"]
mod life;

use remanence_planted::plant;
use remanence_vm_mutants::MUTANTS;

const PROMISE: &str = "image";

#[test]
fn copy_without_a_bug_breaks_nothing() {
    life::check().unwrap_or_else(|broken| panic!("{broken:?}"));
}

#[test]
fn every_planted_bug_is_found_by_its_own_verdict() {
    assert_eq!(MUTANTS.len(), 6);
    for mutant in MUTANTS {
        let found = plant(mutant.name, life::check).expect_err(mutant.name);
        assert!(
            mutant.is_found_by(PROMISE, found.verdict),
            "{}: found by {found:?} instead",
            mutant.name
        );
    }
}
