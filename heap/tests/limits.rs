// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: if something does not fit the log or the region, the whole transaction fails, its session
//! can be used further, and no memory is lost.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

#[path = "cases/found.rs"]
mod found;
#[path = "cases/limits.rs"]
mod limits;

use nvheap::{FocRedo, FocStm, FocUndo, FofStm, FofUndo};

macro_rules! with_each_policy {
    ($($name:ident: $test:ident;)*) => {$(
        #[test]
        fn $name() {
            limits::$test::<FocRedo>();
            limits::$test::<FocStm>();
            limits::$test::<FocUndo>();
            limits::$test::<FofStm>();
            limits::$test::<FofUndo>();
        }
    )*};
}

with_each_policy! {
    transaction_that_is_too_large_changes_nothing: too_large_changes_nothing;
    same_words_again_need_no_more_room: same_words_again;
    full_region_loses_nothing: full_region_loses_nothing;
    part_that_fails_leaves_what_was_around_it: parts_within_parts;
}
