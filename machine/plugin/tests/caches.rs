// SPDX-License-Identifier: GPL-2.0-or-later
//! Goal: what the guest's flushes and fences leave on media, in a real QEMU.
//! Method: `cache.S` stores to one line each and flushes it in one way each; the media file is read
//! after the cut. Each way of keeping a line has a counterpart that loses it.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a whole program of tests"
)]

mod machine;

use machine::{
    ARM_CUT_AT, ARM_HOLD_UP, ARM_STORE, CACHE, CUT, Clocking, Guest, HONOUR, Machine, POWER_CUT,
    READ, WINDOW,
};
use remanence_recording::{Event, NO_VCPU, Phase, Reader};
use std::collections::VecDeque;

const LINES: u64 = 0x3_0000;
/// A place that firmware does not use.
const DMA: u64 = 0xf0_0000;
/// Another one, for a device that writes later.
const LATE: u64 = 0xf1_0000;
const GO: u64 = 0x20_0018;
const STARTED_MARK: u64 = 0;
const DONE_MARK: u64 = 1;
const FLUSHED_MARK: u64 = 2;
const WAIT_FOR_SECOND: u64 = 0x20_0014;
const ARGS: &str = "memory=DIR/ram,media=DIR/media,base=0";
const NOTHING: u32 = 0;
const WBINVD: u32 = 1;
const INVD: u32 = 2;
const CUT_COUNT: u32 = 1;
const CUT_HOLD_UP: u32 = 2;
const CUT_SUPPLY: u32 = 3;
const CUT_STORE: u32 = 4;
const HONOUR_NOTHING: u64 = 2;
/// Offsets in the control file's record of caches.
const STORES: u64 = CACHE + 8;
const DIFFER: u64 = CACHE + 72;
const LOST: u64 = CACHE + 80;
const DUE: u64 = CACHE + 88;
const ON_MEDIA: u64 = CACHE + 96;

/// Starts a machine whose firmware is done and whose guest waits; a device has written a word.
fn start(guest: &Guest, profile: &str, cpus: u32, mode: u32, more: &str) -> Machine {
    let started = guest.address("_start");
    let args = format!("cache={profile},{ARGS},pc={started:#x},out=0x2f8:0x7e{more}");
    let mut machine = Machine::start(guest, Clocking::Icount, cpus, mode, &args);
    machine.dma(WAIT_FOR_SECOND, u32::from(cpus > 1));
    machine.qmp("cont");
    machine.wait_for_mark(STARTED_MARK);
    machine.qmp("stop");
    machine.dma(DMA, 7);
    machine.dma(GO, 1);
    machine
}

fn finish(machine: &mut Machine) {
    machine.qmp("cont");
    machine.wait_for_mark(DONE_MARK);
    machine.qmp("stop");
    machine.last_command(POWER_CUT, 0);
    assert_eq!(machine.ctl_u32(CUT), CUT_SUPPLY);
}

/// Words at the start of the lines, as media has them.
fn on_media(machine: &Machine, lines: std::ops::Range<u64>) -> Vec<u32> {
    let word = |line| machine.media_u32(LINES + line * 64);
    lines.map(word).collect()
}

#[test]
fn only_flushed_and_fenced_lines_are_kept() {
    let guest = Guest::build_from("cache.S");
    let mut machine = start(&guest, "wsp-c5528", 1, NOTHING, "");
    finish(&mut machine);
    assert_eq!(on_media(&machine, 0..8), [0, 1, 1, 1, 1, 1, 0, 0]);
    assert_eq!(machine.media_u32(LINES + 10 * 64 - 4), 0);
    assert_eq!(machine.media_u32(DMA), 0, "what a device wrote is cached");
    let coherent = [0, 1, 6, 7].map(|line| machine.coherent_u32(LINES + line * 64));
    assert_eq!(coherent, [1; 4], "the guest saw them all");
    assert!(machine.ctl_u64(DIFFER) >= 5);
    assert_eq!(machine.ctl_u64(LOST), 0, "no flush was due");
}

#[test]
fn wbinvd_keeps_stores_of_its_cpu_and_of_devices() {
    let guest = Guest::build_from("cache.S");
    let mut machine = start(&guest, "wsp-c5528", 1, WBINVD, "");
    finish(&mut machine);
    assert_eq!(on_media(&machine, 0..8), [1; 8]);
    // A store across two lines.
    assert_eq!(machine.media_u32(LINES + 10 * 64 - 2), 0x0101_0101);
    assert_eq!(machine.media_u32(DMA), 7);
}

#[test]
fn wbinvd_leaves_caches_of_other_cpus() {
    let guest = Guest::build_from("cache.S");
    let mut machine = start(&guest, "wsp-c5528", 2, WBINVD, "");
    finish(&mut machine);
    assert_eq!(machine.coherent_u32(LINES + 8 * 64) & 0xffff, 1);
    assert_eq!(on_media(&machine, 7..9), [1, 0]);
    // The first CPU reads the line, which brings it to their shared last level.
    let mut machine = start(&guest, "wsp-c5528", 2, WBINVD, ",loads=on");
    finish(&mut machine);
    assert_eq!(on_media(&machine, 7..9), [1, 1]);
}

#[test]
fn invd_loses_a_store_for_all_cpus() {
    let guest = Guest::build_from("cache.S");
    let mut machine = start(&guest, "wsp-c5528", 1, INVD, "");
    finish(&mut machine);
    assert_eq!(machine.media_u32(LINES), 1, "the first store, by WBINVD");
    assert_eq!(machine.coherent_u32(LINES), 1, "the second is lost");
}

#[test]
fn domain_with_caches_keeps_everything() {
    let guest = Guest::build_from("cache.S");
    let mut machine = start(&guest, "server-eadr", 2, NOTHING, "");
    finish(&mut machine);
    assert_eq!(on_media(&machine, 0..9), [1; 9]);
    assert_eq!(machine.media_u32(DMA), 7);
    assert_eq!(machine.ctl_u64(DIFFER), 0);
}

#[test]
fn flushes_without_effect_lose_lines_and_are_counted() {
    let guest = Guest::build_from("cache.S");
    let mut machine = start(&guest, "wsp-c5528", 1, WBINVD, "");
    assert_eq!(machine.command(HONOUR, HONOUR_NOTHING, 0), 0);
    finish(&mut machine);
    // MOVNTI is a store, not a flush: its fence works.
    assert_eq!(on_media(&machine, 0..8), [0, 0, 0, 0, 0, 1, 0, 1]);
    assert!(machine.ctl_u64(LOST) >= 6, "{}", machine.ctl_u64(LOST));
    assert_ne!(machine.ctl_u64(DUE), machine.ctl_u64(ON_MEDIA));
}

/// The controller's queue is lost without a domain, and only time empties it.
#[test]
fn line_accepted_just_before_the_cut_needs_a_domain() {
    let guest = Guest::build_from("cache.S");
    let cut = |profile: &str, insns: u64| {
        let mark = format!(",pc={:#x}", guest.address("flushed"));
        let mut machine = start(&guest, profile, 1, NOTHING, &mark);
        assert_eq!(machine.command(ARM_CUT_AT, FLUSHED_MARK, insns), 0);
        machine.run_to_the_cut();
        assert_eq!(machine.ctl_u32(CUT), CUT_COUNT);
        on_media(&machine, 1..3)
    };
    assert_eq!(cut("wsp-x5650", 0), [1, 1]);
    assert_eq!(cut("wsp-x5650-none", 0), [1, 0]);
    assert_eq!(cut("wsp-x5650-none", 12), [1, 1]);
}

/// WBINVD takes 2.8 ms on this machine, and power lasts for less.
#[test]
fn hold_up_that_ends_in_wbinvd_leaves_a_part_on_media() {
    let guest = Guest::build_from("cache.S");
    let mut machine = start(&guest, "wsp-c5528", 1, WBINVD, "");
    assert_eq!(machine.command(ARM_HOLD_UP, 1_000_000, 0), 0);
    machine.run_to_the_cut();
    assert_eq!(machine.ctl_u32(CUT), CUT_HOLD_UP);
    // Lines are written in the order of addresses: what the device wrote is near the end.
    assert_eq!(on_media(&machine, 0..4), [1; 4]);
    assert_eq!(machine.media_u32(DMA), 0);
    assert!(machine.ctl_u64(DIFFER) > 0);
}

#[test]
fn power_is_cut_right_after_the_chosen_store() {
    let guest = Guest::build_from("cache.S");
    let stored_by = |number: u64| {
        let mut machine = start(&guest, "wsp-c5528", 1, NOTHING, "");
        assert_eq!(machine.command(ARM_STORE, number, 0), 0);
        machine.run_to_the_cut();
        assert_eq!(machine.ctl_u32(CUT), CUT_STORE);
        assert_eq!(machine.ctl_u64(STORES), number);
        [0, 1].map(|line| machine.coherent_u32(LINES + line * 64))
    };
    // Bytes of the other CPU's code come first, then line 0, line 1 and so on.
    let (mut before, mut after) = (0, 40);
    while after - before > 1 {
        let middle = u64::midpoint(before, after);
        if stored_by(middle)[0] == 1 {
            after = middle;
        } else {
            before = middle;
        }
    }
    assert_eq!(stored_by(after), [1, 0]);
    assert_eq!(stored_by(after + 1), [1, 1]);
}

/// The recording, laid over empty media, gives the media file, and its stores are the guest's. Without
/// a domain each line is accepted before it is written, in the same order.
#[test]
fn recording_reproduces_media() {
    let guest = Guest::build_from("cache.S");
    for profile in ["wsp-c5528", "wsp-x5650-none"] {
        let mut machine = start(&guest, profile, 2, WBINVD, ",record=DIR");
        assert_eq!(machine.command(WINDOW, 1, 0), 0);
        finish(&mut machine);
        check_recording(&machine, profile == "wsp-x5650-none");
    }
}

fn check_recording(machine: &Machine, queued: bool) {
    let (bytes, media) = (machine.file("recording.bin"), machine.file("media"));
    let mut rebuilt = vec![0; media.len()];
    let mut queue = VecDeque::new();
    let (mut told_lines, mut written) = (0, 0);
    let (mut stores, mut flushes, mut fences, mut last_ns) = (0, 0, 0, 0);
    for event in Reader::new(&bytes).unwrap().events() {
        let event = event.unwrap();
        match event.event {
            Event::Accepted { line, data, .. } => queue.push_back((line, *data)),
            Event::WriteBack { line, data, .. } => {
                assert!(!queued || queue.pop_front() == Some((line, *data)));
                written += 1;
                let at = usize::try_from(line).unwrap();
                rebuilt[at..at + 64].copy_from_slice(data);
            }
            Event::Store { address, bytes, .. } => {
                let lines = LINES..LINES + 11 * 64;
                stores += usize::from(lines.contains(&address));
                assert!(!bytes.is_empty());
            }
            Event::Line { .. } => told_lines += 1,
            Event::Flush { .. } => flushes += 1,
            Event::Fence { .. } => fences += 1,
            _ => {}
        }
        last_ns = last_ns.max(event.time_ns);
    }
    assert!(rebuilt == media);
    assert!(written > 10, "{written}");
    assert!(queued || queue.is_empty());
    assert!(told_lines > 1, "what firmware left in the caches");
    // One for each of lines 0 to 8, and two parts of the one across lines 9 and 10.
    assert_eq!((stores, flushes), (11, 5));
    assert!(fences >= 4, "{fences}");
    assert!(last_ns > 2_800_000, "WBINVD alone takes longer: {last_ns}");
}

/// What a device writes has no callback; it is found by comparing memory with the recording.
#[test]
fn change_that_no_store_made_is_recorded_at_the_cut() {
    let guest = Guest::build_from("cache.S");
    for late in [false, true] {
        let mut machine = start(&guest, "wsp-c5528", 1, WBINVD, ",record=DIR");
        assert_eq!(machine.command(WINDOW, 1, 0), 0);
        machine.dma(LATE, 8); // before WBINVD, which writes it back
        machine.qmp("cont");
        machine.wait_for_mark(DONE_MARK);
        machine.qmp("stop");
        if late {
            machine.dma(LATE, 9);
        }
        machine.last_command(POWER_CUT, 0);
        let bytes = machine.file("recording.bin");
        let mut unseen = Vec::new();
        let mut stopped = false;
        for event in Reader::new(&bytes).unwrap().events() {
            let event = event.unwrap();
            match event.event {
                Event::Phase(Phase::STOPPED) => stopped = true,
                Event::Unseen { line, data } => {
                    assert_eq!(event.vcpu, NO_VCPU);
                    unseen.push((stopped, line, data[0]));
                }
                _ => {}
            }
        }
        assert!(unseen.contains(&(false, LATE, 8)), "{unseen:?}");
        let after: Vec<_> = unseen.iter().filter(|(stopped, ..)| *stopped).collect();
        let wanted: &[&(bool, u64, u8)] = if late { &[&(true, LATE, 9)] } else { &[] };
        assert_eq!(after, wanted, "of {unseen:?}");
        assert_eq!(machine.media_u32(LATE), 8);
    }
}

#[test]
fn caches_without_icount_and_unequal_files_are_refused() {
    let guest = Guest::build_from("cache.S");
    let args = format!("cache=wsp-c5528,{ARGS}");
    let output = Machine::refused(&guest, Clocking::Mttcg, 1, &args);
    assert!(output.contains("needs -icount"), "{output}");
    let output = Machine::refused(
        &guest,
        Clocking::Icount,
        1,
        &args.replace("wsp-c5528", "vax"),
    );
    assert!(
        output.contains("no cache profile \"vax\"") && output.contains("lightpc"),
        "{output}"
    );
    let output = Machine::refused(&guest, Clocking::Icount, 8, &args.replace("c5528", "d510"));
    assert!(output.contains("up to 4 cores"), "{output}");
    let output = Machine::refused(&guest, Clocking::Icount, 1, &args.replace("/media", "/ctl"));
    assert!(output.contains("must be equal"), "{output}");
    let output = Machine::refused(
        &guest,
        Clocking::Icount,
        1,
        &args.replace("/media", "/none"),
    );
    assert!(output.contains("none: "), "{output}");
    let mut without = Machine::start(&guest, Clocking::Icount, 1, NOTHING, "cut=on");
    assert_eq!(without.command(HONOUR, 0, 0), 3, "the job is off");
    assert_eq!(without.command(READ, 0, 0), 0);
}
