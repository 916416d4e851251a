// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power goes at any moment: after the flush port nothing is lost, without it a line
//! is what it was at some moment since; start, gap and seed are found again; and
//! each mutant is found by the same campaigns.

#![expect(
    clippy::tests_outside_test_module,
    reason = "integration tests are outside"
)]

mod common;

use common::{LINES, campaign, controller};
use ocpmem::oc::{Mutant, Oc};
use ocpmem::units::{LineAddr, Ps};
use ocpmem::xcc::{DecodeMutant, Read};

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

/// Two cuts, each in the middle of a write of the same line, at every pair of moments that
/// matter: what is read is one of the last two writes. The first leaves pieces of two ages, the second
/// would leave three.
fn a_line_cut_twice_is_one_of_its_writes(mutant: Mutant) -> Result<u32, String> {
    let psm = controller(1, 0, |_| {});
    let mut oc = Oc::new(psm, false, mutant).map_err(|error| error.to_string())?;
    let line = LineAddr(3);
    oc.write(Ps::ZERO, line, &[1; 64]);
    let now = oc.flush(Ps(1));
    oc.write(now, line, &[2; 64]);
    oc.flush(now + Ps(1));
    let mut cuts = 0;
    for first in around(&oc.moments()) {
        let (mut once, _) = oc.clone().cut(first);
        let (now, read) = once.read(Ps::ZERO, line);
        let kept = read
            .line()
            .ok_or_else(|| format!("cut at {first:?}: {read:?}"))?;
        once.write(now, line, &[3; 64]);
        once.flush(now + Ps(1));
        for second in around(&once.moments()) {
            let (mut twice, _) = once.clone().cut(second);
            let (_, read) = twice.read(Ps::ZERO, line);
            let fits = read.line().is_some_and(|it| it == [3; 64] || it == kept);
            if !fits || (kept != [1; 64] && kept != [2; 64]) {
                return Err(format!("cuts at {first:?} and {second:?}: {read:?}"));
            }
            cuts += 1;
        }
    }
    Ok(cuts)
}

/// Each moment, and the picosecond before it.
fn around(moments: &[Ps]) -> Vec<Ps> {
    let before = |at: &Ps| [Ps(at.0.saturating_sub(1)), *at];
    moments.iter().flat_map(before).collect()
}

/// After the reset port a line is zeros, and what is written then is found after a cut, wherever gaps
/// and pointer were before.
fn a_reset_begins_a_new_life(mutant: Mutant) -> Result<(), String> {
    for (regions, swap) in LEVELERS {
        let psm = controller(regions, swap, |_| {});
        let mut oc = Oc::new(psm, false, mutant).map_err(|error| error.to_string())?;
        let mut now = Ps::ZERO;
        for number in 0..100 {
            now = oc.write(now, LineAddr(number % LINES), &[9; 64]);
        }
        now = oc.reset(now);
        now = oc.write(now, LineAddr(3), &[4; 64]);
        now = oc.flush(now);
        let (mut after, _) = oc.cut(now);
        for number in 0..LINES {
            let expected = if number == 3 { [4; 64] } else { [0; 64] };
            let (_, read) = after.read(Ps::ZERO, LineAddr(number));
            if read.line() != Some(expected) {
                return Err(format!("{regions} {swap}: line {number}: {read:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_line_cut_twice_holds_one_of_its_writes() {
    assert!(a_line_cut_twice_is_one_of_its_writes(Mutant::None).unwrap() > 50);
}

#[test]
fn what_is_written_after_a_reset_is_kept() {
    a_reset_begins_a_new_life(Mutant::None).unwrap();
}

/// Seed, epoch, pointer, and start and gap of every region after a cut are those before it, when the
/// flush port has waited for the journal.
fn registers_are_recovered(mutant: Mutant) -> Result<(), String> {
    for (regions, swap) in LEVELERS {
        let psm = controller(regions, swap, |_| {});
        let mut oc = Oc::new(psm, false, mutant).map_err(|error| error.to_string())?;
        let mut now = Ps::ZERO;
        for number in 0..200 {
            now = oc.write(now, LineAddr(number * 5 % LINES), &[7; 64]);
            let mut stopped = oc.clone();
            let end = stopped.flush(now);
            let before = stopped.psm().leveler().clone();
            let (after, found) = stopped.cut(end);
            let after = after.psm().leveler();
            let told = |it: &ocpmem::startgap::Leveler| {
                let places = (0..regions).map(|n| (it.region(n).start, it.region(n).gap));
                (places.collect::<Vec<_>>(), it.epoch(), it.config().seed)
            };
            if told(&before) != told(after) || found.swap_completed {
                return Err(format!("{regions} {swap}, write {number}: {found:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn start_gap_seed_and_epoch_are_recovered_from_media() {
    registers_are_recovered(Mutant::None).unwrap();
    for mutant in [
        Mutant::NoJournal,
        Mutant::SeedNotRecovered,
        Mutant::RecoverOldRecord,
    ] {
        registers_are_recovered(mutant).unwrap_err();
    }
}

/// A scrub mends a piece that no read needs, before a second fault meets the first.
#[test]
fn a_scrub_keeps_faults_from_meeting() {
    for scrubbed in [true, false] {
        let mut oc = Oc::new(controller(1, 0, |_| {}), false, Mutant::None).unwrap();
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

/// Whether any campaign notices.
fn is_found(mutant: Mutant) -> bool {
    a_line_cut_twice_is_one_of_its_writes(mutant).is_err()
        || a_reset_begins_a_new_life(mutant).is_err()
        || LEVELERS.iter().any(|(regions, swap)| {
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
        Mutant::SeedNotRecovered,
        Mutant::NoScrub,
        Mutant::ResetKeepsRegisters,
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
