// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: after an opening no memory is given out twice and none is lost, in whatever order objects are
//! freed and chunks are looked at.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

#[path = "cases/found.rs"]
mod found;
#[path = "cases/meanwhile.rs"]
mod meanwhile;
#[macro_use]
#[path = "cases/policies.rs"]
mod policies;
#[path = "cases/reopened.rs"]
mod reopened;

under_each_policy! {
    free_before_the_second_scan: reopened::free_before_the_second_scan;
    second_scan_during_a_free: reopened::second_scan_during_a_free;
}
