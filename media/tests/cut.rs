// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power goes at any moment: after the flush port nothing is lost, without it a line
//! is what it was at some moment since; start, gap and seed are found again; and
//! each mutant is found by the same campaigns.

#![expect(
    clippy::tests_outside_test_module,
    reason = "integration tests are outside"
)]

mod common;

use common::{campaign, controller};
use ocpmem::oc::Mutant;
use ocpmem::xcc::DecodeMutant;

/// Regions, and writes between exchanges.
const LEVELERS: [(u32, u32); 4] = [(1, 0), (4, 0), (1, 2), (4, 3)];

#[test]
fn a_cut_at_any_moment_loses_only_early_returned_writes() {
    let mut cuts = 0;
    for (regions, swap) in LEVELERS {
        for (second_code, seed) in [(false, 1), (true, 2)] {
            let psm = controller(regions, swap, |_| {});
            cuts += campaign(&psm, second_code, Mutant::None, seed, 80, false).unwrap();
        }
    }
    assert!(cuts > 2_000, "{cuts}");
}

/// Without early return what is accepted is on media: no cut loses it.
#[test]
fn without_early_return_nothing_accepted_is_lost() {
    for (regions, swap) in LEVELERS {
        let psm = controller(regions, swap, |config| config.early_return = false);
        campaign(&psm, false, Mutant::None, 3, 60, false).unwrap();
        let psm = controller(regions, swap, |config| {
            config.early_return = false;
            config.row_buffer = false;
        });
        campaign(&psm, false, Mutant::None, 4, 60, false).unwrap();
    }
}

/// Without the charge that finishes a piece, a torn line may be contained, never wrong.
#[test]
fn torn_pieces_are_never_silent() {
    for (regions, swap) in [(1, 0), (4, 0)] {
        let psm = controller(regions, swap, |_| {});
        campaign(&psm, false, Mutant::None, 5, 60, true).unwrap();
    }
}

/// Whether any campaign notices.
fn is_found(mutant: Mutant) -> bool {
    LEVELERS.iter().any(|(regions, swap)| {
        (1..4).any(|seed| {
            let psm = controller(*regions, *swap, |_| {});
            campaign(&psm, false, mutant, seed, 60, false).is_err()
        })
    })
}

#[test]
fn every_mutant_is_found() {
    let decoder = DecodeMutant::default();
    let mutants = [
        Mutant::FlushReturnsAtOnce,
        Mutant::FlushForgetsALine,
        Mutant::NoJournal,
        Mutant::RecordBeforeCopy,
        Mutant::MoveLeavesRowBuffer,
        Mutant::ReadIgnoresLatches,
        Mutant::StaleCode,
        Mutant::SwapNotCompleted,
        Mutant::RecoverOldRecord,
        Mutant::Decoder(DecodeMutant {
            ignore_generations: true,
            ..decoder
        }),
    ];
    let alive: Vec<_> = mutants
        .into_iter()
        .filter(|mutant| !is_found(*mutant))
        .collect();
    assert!(alive.is_empty(), "{alive:?}");
}
