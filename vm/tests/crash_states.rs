// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: whatever a cut leaves of a save or an entry, an image is entered only if it is whole, and
//! once; a save that was reported is entered. Planted bugs are found in `vm/mutants`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

#[path = "cases/life.rs"]
mod life;

#[test]
fn every_cut_of_a_guests_lives_leaves_a_right_image_or_none() {
    life::check().unwrap_or_else(|broken| panic!("{broken:?}"));
}
