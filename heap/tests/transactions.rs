// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims about transactions, each in a module. One program: in ten, the heap is compiled ten times.

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

mod cached;
mod crash;
mod histories;
mod isolation;
mod limits;
mod linear;
mod panics;
mod reopened;
mod sessions;
mod threads;
