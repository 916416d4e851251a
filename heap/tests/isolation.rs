// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: transactional memory isolates sessions that allocate: no update is lost beside an object
//! that is written past the log, no transaction sees memory that became another object, and a
//! session that waits for a change keeps no lock.

#[path = "cases/isolation.rs"]
mod cases;

use nvheap::{FocStm, FofStm};

macro_rules! under_transactional_memory {
    ($($name:ident: $test:ident;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(cases::$test::<FocStm>(), None);
            assert_eq!(cases::$test::<FofStm>(), None);
        }
    )*};
}

under_transactional_memory! {
    no_addition_is_lost_beside_a_large_allocation: addition_beside_a_large_allocation;
    no_addition_is_lost_beside_a_small_allocation: addition_beside_a_small_allocation;
    last_line_of_an_object_is_not_that_of_another: last_line_of_another_object;
    map_of_a_slab_is_not_read_as_an_object: map_where_an_object_was;
    change_can_be_made_for_one_that_waits: change_for_one_that_waits;
}
