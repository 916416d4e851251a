// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: power may go at any moment. After the flush port nothing is lost; without it a line is what it
//! was at some moment since; start, gap and seed are found again. Planted bugs are found by the same
//! runs in `models/memory/mutants`.

#![expect(
    clippy::tests_outside_test_module,
    reason = "integration tests are outside"
)]

mod common;

use common::cases::{
    LEVELERS, line_cut_twice_is_one_of_its_writes, registers_are_recovered, reset_begins_a_new_life,
};
use common::{campaign, controller};
use ocpmem::oc::Oc;
use ocpmem::units::{LineAddr, Ps};
use ocpmem::xcc::Read;

#[test]
fn cut_at_any_moment_loses_only_early_returned_writes() {
    let mut cuts = 0;
    for (regions, swap) in LEVELERS {
        for (second_code, seed) in [(false, 1), (true, 2)] {
            let psm = controller(regions, swap, |_| {});
            cuts += campaign(&psm, second_code, seed, 80, false).unwrap();
        }
    }
    assert!(cuts > 2_000, "{cuts}");
}

/// Without early return what is accepted is on media: no cut loses it.
#[test]
fn without_early_return_nothing_accepted_is_lost() {
    for (regions, swap) in LEVELERS {
        let psm = controller(regions, swap, |config| config.early_return = false);
        campaign(&psm, false, 3, 60, false).unwrap();
        let psm = controller(regions, swap, |config| {
            config.early_return = false;
            config.row_buffer = false;
        });
        campaign(&psm, false, 4, 60, false).unwrap();
    }
}

/// Without the charge that finishes a piece, a torn line may be contained, never wrong.
#[test]
fn torn_pieces_are_never_silent() {
    for (regions, swap) in [(1, 0), (4, 0)] {
        let psm = controller(regions, swap, |_| {});
        campaign(&psm, false, 5, 60, true).unwrap();
    }
}

#[test]
fn line_cut_twice_holds_one_of_its_writes() {
    assert!(line_cut_twice_is_one_of_its_writes().unwrap() > 50);
}

#[test]
fn writes_after_a_reset_are_kept() {
    reset_begins_a_new_life().unwrap();
}

#[test]
fn start_gap_seed_and_epoch_are_recovered_from_media() {
    registers_are_recovered().unwrap();
}

/// A scrub mends a piece that no read needs, before a second fault meets the first.
#[test]
fn scrub_keeps_faults_from_meeting() {
    for scrubbed in [true, false] {
        let mut oc = Oc::new(controller(1, 0, |_| {}), false).unwrap();
        let line = LineAddr(7);
        oc.write(Ps::ZERO, line, &[6; 64]);
        let now = oc.flush(Ps(1));
        oc.read(now + Ps(1_000_000), line);
        let phys = oc.locate(line);
        oc.cells(phys)[2].data[5] ^= 1;
        if scrubbed {
            assert_eq!(oc.scrub(), (1, 0));
            assert_eq!(oc.scrub(), (0, 0));
        }
        oc.cells(phys)[0].data[9] ^= 1;
        let (_, read) = oc.read(now + Ps(2_000_000), line);
        let expected = if scrubbed {
            Read::Repaired([6; 64])
        } else {
            Read::Contained
        };
        assert_eq!(read, expected);
    }
}
