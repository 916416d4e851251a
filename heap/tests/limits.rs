// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: if something does not fit the log or the region, the whole transaction fails, its session
//! can be used further, and no memory is lost.

#[path = "cases/limits.rs"]
mod cases;

under_each_policy! {
    root_of_another_layout_is_refused: cases::root_of_another_layout;
    new_object_may_be_longer_than_the_log: cases::new_object_may_be_longer_than_the_log;
    session_that_is_one_too_many_is_refused_with_the_limit: cases::sessions_are_counted;
    transaction_that_is_too_large_changes_nothing: cases::too_large_changes_nothing;
    same_words_again_need_no_more_room: cases::same_words_again;
    full_region_loses_nothing: cases::full_region_loses_nothing;
    part_that_fails_leaves_what_was_around_it: cases::parts_within_parts;
}
