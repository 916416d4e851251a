// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: under every policy, whatever a program does in its transactions and beside them, each state
//! that a cut leaves is a committed prefix; objects do not overlap and none is lost. The histories are
//! drawn and made small where one fails; the planted bugs in `heap/mutants` are found by them.

#[path = "cases/histories.rs"]
mod cases;

use nvheap::{FocRedo, FocStm, FocUndo, FofStm, FofUndo};
use proptest::prelude::*;

/// Histories of each policy; more of them in the soak tier.
fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: std::env::var("NVHEAP_DRAWN_HISTORIES").map_or(12, |text| text.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

macro_rules! drawn_histories {
    ($($name:ident: $policy:ident;)*) => {
        proptest! {
            #![proptest_config(cases())]
            $(#[test]
            fn $name(history in cases::history::<$policy>()) {
                prop_assert_eq!(cases::broken::<$policy>(&history), None);
            })*
        }
    };
}

drawn_histories! {
    drawn_histories_under_a_redo_log: FocRedo;
    drawn_histories_under_an_undo_log: FocUndo;
    drawn_histories_under_transactional_memory: FocStm;
    drawn_histories_under_transactional_memory_in_surviving_caches: FofStm;
    drawn_histories_under_an_undo_log_in_surviving_caches: FofUndo;
}
