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
#[macro_use]
#[path = "cases/policies.rs"]
mod policies;
#[path = "cases/limits.rs"]
mod limits;

under_each_policy! {
    root_of_another_layout_is_refused: limits::root_of_another_layout;
    new_object_may_be_longer_than_the_log: limits::new_object_may_be_longer_than_the_log;
    session_that_is_one_too_many_is_refused_with_the_limit: limits::sessions_are_counted;
    transaction_that_is_too_large_changes_nothing: limits::too_large_changes_nothing;
    same_words_again_need_no_more_room: limits::same_words_again;
    full_region_loses_nothing: limits::full_region_loses_nothing;
    part_that_fails_leaves_what_was_around_it: limits::parts_within_parts;
}
