// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: requests that are under way when the power drops are completed, replayed or failed, as
//! chosen; no disk that needs not answer keeps a guest from being saved; a device whose settings do
//! not allow the choice is refused. Planted bugs are found in `vm/mutants`.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

#[path = "cases/cut_off.rs"]
mod cut_off;
#[path = "cases/life.rs"]
mod life;

#[test]
fn every_choice_is_kept_or_refused() {
    cut_off::check().unwrap_or_else(|broken| panic!("{broken:?}"));
}
