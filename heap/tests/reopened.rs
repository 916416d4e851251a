// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: after an opening no memory is given out twice and none is lost, in whatever order objects are
//! freed and chunks are looked at.

#[path = "cases/reopened.rs"]
mod cases;

under_each_policy! {
    free_before_the_second_scan: cases::free_before_the_second_scan;
    second_scan_during_a_free: cases::second_scan_during_a_free;
}
