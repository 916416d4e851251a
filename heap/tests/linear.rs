// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: the structures are durably linearizable. Histories of one and of four threads are recorded
//! with their answers, and every state that a cut leaves is, after recovery, one that the answers
//! until then allow.

#[path = "cases/linear.rs"]
mod cases;

use cases::{Avl, BTree, Fifo, Hash, Subject, four_threads, one_thread};
use nvheap::{FocRedo, FocStm, FocUndo};

/// Histories of each kind; more of them in the soak tier.
fn seeds() -> u64 {
    std::env::var("NVHEAP_HISTORIES").map_or(2, |text| text.parse().unwrap())
}

fn all_of_one_thread<S: Subject>() {
    for seed in 1..=seeds() {
        for done in [
            one_thread::<S, FocRedo>(seed),
            one_thread::<S, FocUndo>(seed),
            one_thread::<S, FocStm>(seed),
        ] {
            let states = done.unwrap();
            assert!(states > 100, "only {states} states");
        }
    }
}

fn all_of_four_threads<S: Subject>() {
    for seed in 1..=seeds() {
        shuttle::check_random(move || four_threads::<S, FocStm>(false, seed), 1);
        shuttle::check_random(move || four_threads::<S, FocRedo>(true, seed), 1);
    }
}

macro_rules! subjects {
    ($($one:ident, $four:ident: $subject:ident;)*) => {
        $(#[test]
        fn $one() {
            all_of_one_thread::<$subject>();
        }

        #[test]
        fn $four() {
            all_of_four_threads::<$subject>();
        })*
    };
}
subjects! {
    hash_table_of_one_thread, hash_table_of_four_threads: Hash;
    avl_tree_of_one_thread, avl_tree_of_four_threads: Avl;
    b_plus_tree_of_one_thread, b_plus_tree_of_four_threads: BTree;
    queue_of_one_thread, queue_of_four_threads: Fifo;
}
