// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: DRAM keeps its gates, writes back each row that it has read, refreshes, and counts and
//! prices all of it. Planted bugs leave out each rule (`mutants/tests/found.rs`); DRAMsim3 counts
//! the same (`tests/media/test_peer.py`).

#![expect(
    clippy::tests_outside_test_module,
    reason = "integration tests are outside"
)]

mod dram_rules;

use dram_rules::DRAM_RULES;

#[test]
fn dram_rules_are_kept() {
    for (promise, check) in DRAM_RULES {
        check().unwrap_or_else(|broken| panic!("{promise}: {broken:?}"));
    }
}
