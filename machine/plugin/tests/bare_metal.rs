// SPDX-License-Identifier: GPL-2.0-or-later
//! The plugin in a real QEMU, with a guest that leaves in its memory file how many instructions it
//! executed (`guest.S`). The plugin's counts are compared with the guest's.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a whole program of tests"
)]

mod machine;

use machine::{
    AP_COUNTERS, ARM_CUT, ARM_CUT_AT, ARM_HOLD_UP, AT_CUT, COUNTERS, CUT, Clocking, Guest, Machine,
    NOW, READ, RESET_MARKS, mark_first,
};

const BOTH: [Clocking; 2] = [Clocking::Icount, Clocking::Mttcg];
const CUT_COUNT: u32 = 1;
const CUT_HOLD_UP: u32 = 2;
const LOOP: u32 = 0;
const HALT: u32 = 1;
const JOB_OFF: u32 = 3;
const RUNNING: u32 = 4;
const NO_ICOUNT: u32 = 5;
const BAD_ARGUMENT: u32 = 2;

/// The guest's words after `n` instructions from the head of its loop.
fn expected(n: u64) -> [u64; 3] {
    [n.div_ceil(4), (n + 2) / 4, (n + 1) / 4]
}

/// Method: arm before the first instruction, at the loop's head, for each n;
/// neighbours of block and page sizes included.
#[test]
fn cut_from_a_mark_is_exact() {
    let guest = Guest::build();
    let args = format!("cut=on,pc={:#x}", guest.address("loop"));
    for clocking in BOTH {
        for n in [
            0, 1, 2, 3, 4, 5, 6, 7, 8, 63, 64, 65, 511, 512, 513, 65_537, 1_000_003,
        ] {
            let mut machine = Machine::start(&guest, clocking, 1, LOOP, &args);
            assert_eq!(machine.command(ARM_CUT_AT, 0, n), 0);
            machine.run_to_the_cut();
            assert_eq!(
                machine.counters(COUNTERS),
                expected(n),
                "n = {n}, {clocking:?}"
            );
            assert_eq!(machine.ctl_u32(CUT), CUT_COUNT);
            let (from, to) = (machine.snapshot(mark_first(0)), machine.snapshot(AT_CUT));
            assert_eq!(to.count[0] - from.count[0], n);
        }
    }
}

/// Method: stop a running loop over QMP at any place, compare the count with the words, arm from
/// there, continue.
#[test]
fn count_of_a_stopped_vm_and_cut_from_there_are_exact() {
    let guest = Guest::build();
    let args = format!("cut=on,pc={:#x}", guest.address("loop"));
    for clocking in BOTH {
        for n in [0, 1, 2, 3, 100_000, 100_001, 100_002, 100_003] {
            let mut machine = Machine::start(&guest, clocking, 1, LOOP, &args);
            machine.qmp("cont");
            let head = machine.wait_for_mark(0).count[0];
            machine.qmp("stop");
            assert_eq!(machine.command(READ, 0, 0), 0);
            let executed = machine.snapshot(NOW).count[0] - head;
            assert_eq!(
                machine.counters(COUNTERS),
                expected(executed),
                "{clocking:?}"
            );
            assert_eq!(machine.command(ARM_CUT, 0, n), 0);
            machine.run_to_the_cut();
            assert_eq!(
                machine.counters(COUNTERS),
                expected(executed + n),
                "n = {n}"
            );
        }
    }
}

#[test]
fn each_vcpu_has_its_own_count_and_fuse() {
    let guest = Guest::build();
    let (first, second) = (guest.address("loop"), guest.address("ap_loop_offset"));
    let args = format!("cut=on,pc={first:#x},pc={second:#x}");
    for clocking in BOTH {
        for n in [1, 2, 3, 4, 200_001] {
            let mut machine = Machine::start(&guest, clocking, 2, LOOP, &args);
            assert_eq!(machine.command(ARM_CUT_AT, 1, n), 0);
            machine.run_to_the_cut();
            assert_eq!(
                machine.counters(AP_COUNTERS),
                expected(n),
                "n = {n}, {clocking:?}"
            );
            let cut = machine.snapshot(AT_CUT);
            assert_eq!((cut.taken, cut.cpu), (1, 1));
            let head = machine.snapshot(mark_first(0));
            if clocking == Clocking::Icount && head.taken == 1 {
                let executed = cut.count[0] - head.count[0];
                assert_eq!(machine.counters(COUNTERS), expected(executed));
            }
        }
    }
}

/// Two CPUs in endless loops: with a quantum neither gets ahead of the other.
#[test]
fn turns_end_after_the_quantum() {
    const QUANTUM: u64 = 1_000;
    const INSNS: u64 = 1_000_000;
    let guest = Guest::build();
    let second = guest.address("ap_loop_offset");
    let args = format!("quantum={QUANTUM},pc={second:#x}");
    let mut machine = Machine::start(&guest, Clocking::Icount, 2, LOOP, &args);
    assert_eq!(machine.command(ARM_CUT_AT, 0, INSNS), 0);
    machine.run_to_the_cut();
    assert_eq!(machine.counters(AP_COUNTERS), expected(INSNS));
    let (from, to) = (machine.snapshot(mark_first(0)), machine.snapshot(AT_CUT));
    // The CPU with the cut's fuse has QEMU's own turns, the other has short turns.
    assert_eq!(to.count[1] - from.count[1], INSNS);

    let mut machine = Machine::start(&guest, Clocking::Icount, 2, LOOP, &args);
    machine.qmp("cont");
    machine.wait_for_mark(0);
    machine.qmp("stop");
    machine.command(READ, 0, 0);
    let from = machine.snapshot(NOW);
    assert_eq!(machine.command(ARM_HOLD_UP, INSNS, 0), 0);
    machine.run_to_the_cut();
    let to = machine.snapshot(AT_CUT);
    let executed = [0, 1].map(|cpu| to.count[cpu] - from.count[cpu]);
    assert!(
        executed[0].abs_diff(executed[1]) <= 2 * QUANTUM,
        "{executed:?}"
    );
    assert!(executed[0].max(executed[1]) <= INSNS + QUANTUM);
}

#[test]
fn hold_up_ends_when_a_vcpu_has_used_it() {
    const HOLD_UP_NS: u64 = 3_000_000;
    const LATE_MAX_NS: u64 = 20_000;
    let guest = Guest::build();
    let args = format!("cut=on,pc={:#x}", guest.address("loop"));
    for cpus in [1, 2] {
        let mut machine = Machine::start(&guest, Clocking::Icount, cpus, LOOP, &args);
        machine.qmp("cont");
        machine.wait_for_mark(0);
        machine.qmp("stop");
        machine.command(READ, 0, 0);
        let begin = machine.snapshot(NOW);
        assert_eq!(machine.command(ARM_HOLD_UP, HOLD_UP_NS, 0), 0);
        machine.run_to_the_cut();
        let end = machine.snapshot(AT_CUT);
        assert_eq!(machine.ctl_u32(CUT), CUT_HOLD_UP);
        assert_eq!(end.halted_ns, begin.halted_ns);
        let largest = (0..2)
            .map(|cpu| end.count[cpu] - begin.count[cpu])
            .max()
            .unwrap();
        assert!(
            (HOLD_UP_NS..=HOLD_UP_NS + LATE_MAX_NS).contains(&largest),
            "{cpus} vCPUs: {largest}"
        );
    }
}

/// A machine that halts burns no fuse; its time must count nevertheless.
#[test]
fn halted_time_counts_against_the_hold_up() {
    const HOLD_UP_NS: u64 = 50_000_000;
    let guest = Guest::build();
    let args = format!("cut=on,pc={:#x}", guest.address("halted"));
    let mut machine = Machine::start(&guest, Clocking::Icount, 1, HALT, &args);
    machine.qmp("cont");
    machine.wait_for_mark(0);
    machine.qmp("stop");
    machine.command(READ, 0, 0);
    let begin = machine.snapshot(NOW);
    assert_eq!(machine.command(ARM_HOLD_UP, HOLD_UP_NS, 0), 0);
    machine.run_to_the_cut();
    let end = machine.snapshot(AT_CUT);
    assert_eq!(machine.ctl_u32(CUT), CUT_HOLD_UP);
    let executed = end.count[0] - begin.count[0];
    assert!(executed < 1000, "the guest did not halt: {executed}");
    assert!(end.halted_ns - begin.halted_ns + executed >= HOLD_UP_NS);
}

/// Only the right byte at the right port counts, and marks can be used again.
#[test]
fn port_mark_is_reached_by_its_byte_alone() {
    let guest = Guest::build();
    let args = format!(
        "out=0x2f8:0x7e,out=0x2f8:0x11,user=on,pc={:#x}",
        guest.address("halted")
    );
    for clocking in BOTH {
        let mut machine = Machine::start(&guest, clocking, 1, HALT, &args);
        machine.qmp("cont");
        let written = machine.wait_for_mark(0);
        let head = machine.snapshot(mark_first(3));
        // mov, mov, out, mov; the out itself has not begun
        assert_eq!(written.count[0] - head.count[0], 4, "{clocking:?}");
        assert_eq!(machine.snapshot(mark_first(1)).taken, 0);
        assert_eq!(
            machine.snapshot(mark_first(2)).taken,
            0,
            "no program runs here"
        );
        assert_eq!(machine.command(RESET_MARKS, 0, 0), 0);
        assert_eq!(machine.snapshot(mark_first(0)).taken, 0);
    }
}

#[test]
fn commands_that_cannot_be_carried_out_are_refused() {
    let guest = Guest::build();
    let args = format!("cut=on,pc={:#x}", guest.address("loop"));
    let mut machine = Machine::start(&guest, Clocking::Mttcg, 1, LOOP, &args);
    assert_eq!(machine.command(ARM_HOLD_UP, 1_000, 0), NO_ICOUNT);
    assert_eq!(machine.command(ARM_CUT, 1, 10), BAD_ARGUMENT);
    assert_eq!(machine.command(ARM_CUT_AT, 1, 10), BAD_ARGUMENT);
    machine.qmp("cont");
    assert_eq!(machine.command(ARM_CUT, 0, 10), RUNNING);
    let mut counting = Machine::start(&guest, Clocking::Mttcg, 1, LOOP, "count=on");
    assert_eq!(counting.command(ARM_CUT, 0, 10), JOB_OFF);
    assert_eq!(counting.command(READ, 0, 0), 0);
}

/// `begin=` with the code behind firmware, as `firmware.S` has it.
fn behind_firmware(guest: &Guest) -> String {
    let (mark, begin) = (guest.address("loop"), guest.code("behind", 32));
    format!("cut=on,quantum=2000,pc={mark:#x},begin={begin}")
}

/// Goal: firmware comes to an end, counts nothing, and what follows is cut exactly.
#[test]
fn nothing_is_counted_before_the_code_behind_firmware() {
    let guest = Guest::build_from("firmware.S");
    for n in [0, 1, 2, 3, 511, 65_537] {
        let args = behind_firmware(&guest);
        let mut machine = Machine::start(&guest, Clocking::Icount, 2, LOOP, &args);
        assert_eq!(machine.command(ARM_CUT_AT, 0, n), 0);
        machine.run_to_the_cut();
        assert_eq!(machine.counters(COUNTERS), expected(n), "n = {n}");
        let (from, to) = (machine.snapshot(mark_first(0)), machine.snapshot(AT_CUT));
        assert_eq!(to.count[0] - from.count[0], n);
        assert!(from.count[0] < 10, "a part of firmware: {from:?}");
        assert_eq!(to.count[1], 0, "the second CPU's code is firmware's");
        // Its wait is almost all of PAUSE.
        assert!((90_000_000..200_000_000).contains(&from.halted_ns));
    }
}

#[test]
fn firmware_is_left_out_by_icount_only() {
    let guest = Guest::build_from("firmware.S");
    let output = Machine::refused(&guest, Clocking::Mttcg, 2, &behind_firmware(&guest));
    assert!(output.contains("begin= needs -icount shift=0"), "{output}");
}
