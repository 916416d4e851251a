// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: each planted bug of a save or an entry is found among what cuts leave, and each of requests
//! under way on a model of QEMU, by the verdict that its patch names. Another verdict does not count.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

extern crate remanence_vm_mutants as remanence_vm;

#[path = "../../tests/cases/cut_off.rs"]
mod cut_off;
#[path = "../../tests/cases/life.rs"]
mod life;

use life::Broken;
use remanence_planted::plant;
use remanence_vm_mutants::MUTANTS;

type Check = fn() -> Result<(), Broken>;
const PROMISES: [(&str, Check); 2] = [("image", life::check), ("requests", cut_off::check)];

#[test]
fn copy_without_a_bug_breaks_nothing() {
    for (_, check) in PROMISES {
        check().unwrap_or_else(|broken| panic!("{broken:?}"));
    }
}

#[test]
fn every_planted_bug_is_found_by_its_own_verdict() {
    assert_eq!(MUTANTS.len(), 12);
    for mutant in MUTANTS {
        let mut promises = PROMISES.iter().filter(|(name, _)| mutant.violates(name));
        let (promise, check) = promises.next().expect(mutant.name);
        let found = plant(mutant.name, check).expect_err(mutant.name);
        assert!(
            mutant.is_found_by(promise, found.verdict),
            "{}: found by {found:?} instead",
            mutant.name
        );
    }
}
