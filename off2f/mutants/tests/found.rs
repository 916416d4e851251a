// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: each planted bug of the library is found by the tests of the store, for what it is: by the
//! verdict that its patch names. Another verdict does not count. Those of the module are found in a
//! guest (`tests/off2f/test_off2f_bugs.py`).

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

extern crate off2f_mutants as off2f;

#[path = "../../tests/cases/attributes.rs"]
mod attributes;
#[path = "../../tests/common/mod.rs"]
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use attributes::Broken;
use off2f_mutants::MUTANTS;
use remanence_planted::plant;

/// What a bug of the module violates.
const OF_THE_MODULE: &str = "kernel-rules";
const PROMISE: &str = "attributes";
/// Of a store and a program.
type Check = fn(&Path, &Path) -> Result<(), Broken>;

const CHECKS: [Check; 2] = [
    attributes::are_those_of_the_program,
    attributes::are_not_those_of_the_folder,
];

/// All checks, each with a program and a store of its own, until one fails.
fn check() -> Result<(), Broken> {
    CHECKS.iter().try_for_each(|check| {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let program = root.join("program");
        fs::write(&program, common::usual()).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        check(&root.join("store"), &program)
    })
}

#[test]
fn copy_without_a_bug_breaks_nothing() {
    check().unwrap_or_else(|broken| panic!("{broken:?}"));
}

#[test]
fn every_planted_bug_is_found_by_its_own_verdict() {
    let of_the_library: Vec<_> = MUTANTS
        .iter()
        .filter(|mutant| !mutant.violates(OF_THE_MODULE))
        .collect();
    assert_eq!(of_the_library.len(), 2);
    for mutant in of_the_library {
        let found = plant(mutant.name, check).expect_err(mutant.name);
        assert!(
            mutant.is_found_by(PROMISE, found.verdict),
            "{}: found by {found:?} instead",
            mutant.name
        );
    }
}
