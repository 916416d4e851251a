// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: a panic in a transaction undoes it, and one in a part of it undoes the part, under each
//! policy; the session and all others can be used further. Every cut of such histories is looked at in
//! `crash.rs`.

#[path = "cases/panics.rs"]
mod cases;

under_each_policy! {
    panic_undoes_the_transaction: cases::panic_undoes_the_transaction;
    panic_leaves_no_lock: cases::panic_leaves_no_lock;
    panic_in_a_part_undoes_the_part: cases::panic_in_a_part_undoes_the_part;
}
