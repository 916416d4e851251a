// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: the library shows the images that the oracle makes, and no others. That the comparison
//! sees a bug is shown by `machine/crash-states/mutants`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

mod compare;

#[test]
fn library_and_oracle_agree_over_random_histories() {
    assert_eq!(compare::compare(300), Ok(()));
}
