// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: a panic in a transaction undoes it, and one in a part of it undoes the part, under each
//! policy; the session and all others can be used further. Every cut of such histories is looked at in
//! `crash.rs`.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    missing_docs
)]

#[path = "cases/found.rs"]
mod found;
#[macro_use]
#[path = "cases/policies.rs"]
mod policies;
#[path = "cases/panics.rs"]
mod panics;

under_each_policy! {
    panic_undoes_the_transaction: panics::panic_undoes_the_transaction;
    panic_leaves_no_lock: panics::panic_leaves_no_lock;
    panic_in_a_part_undoes_the_part: panics::panic_in_a_part_undoes_the_part;
}
