// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Goal: what each persistence domain keeps at a cut, what flushes cost, and what is lost without
//! one.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a whole program of tests"
)]

use remanence_cache::{Caches, Core, Domain, FlatTiming, Honoured, Image, Line, Profile};

const LINES: u32 = 4096;
const BOOT: Core = Core(0);
const OTHER: Core = Core(1);

fn machine(name: &str, domain: Domain) -> Caches<Image, FlatTiming> {
    let mut profile = Profile::named(name).unwrap();
    profile.domain = domain;
    let timing = FlatTiming::of(&profile);
    Caches::new(profile, 2, LINES, Image::new(LINES as usize), timing)
}

fn store(caches: &mut Caches<Image, FlatTiming>, core: Core, line: u32) {
    caches.memory.coherent[line as usize][3] += 1;
    caches.store(core, Line(line));
}

fn on_media(caches: &Caches<Image, FlatTiming>, line: u32) -> bool {
    caches.memory.coherent[line as usize] == caches.memory.media[line as usize]
}

#[test]
fn eadr_keeps_what_caches_hold_and_adr_does_not() {
    for (domain, kept) in [(Domain::Adr, false), (Domain::Eadr, true)] {
        let mut caches = machine("wsp-c5528", domain);
        store(&mut caches, OTHER, 5);
        caches.memory.coherent[6][0] = 9; // DMA
        caches.power_cut();
        assert_eq!(on_media(&caches, 5), kept);
        assert_eq!(on_media(&caches, 6), kept);
    }
}

#[test]
fn line_sent_without_a_fence_is_lost_under_adr() {
    for (fence, kept) in [(false, false), (true, true)] {
        let mut caches = machine("wsp-c5528", Domain::Adr);
        store(&mut caches, BOOT, 5);
        caches.clwb(BOOT, Line(5));
        caches.memory.coherent[9][0] = 1;
        caches.nt_store(BOOT, Line(9));
        if fence {
            caches.fence(BOOT);
        }
        caches.fence(OTHER); // another core's fence does not wait for our lines
        caches.power_cut();
        assert_eq!(on_media(&caches, 5), kept);
        assert_eq!(on_media(&caches, 9), kept);
    }
}

/// A flush's own time is that of a dirty line, whose write is in it: memory only makes it longer if
/// it is the slower of the two.
#[test]
fn memory_takes_a_line_while_it_is_flushed() {
    for (name, clean_ns, dirty_ns) in [("wsp-c5528", 17.5, 17.5), ("lightpc", 20.0, 26.5)] {
        let mut caches = machine(name, Domain::Adr);
        store(&mut caches, BOOT, 1);
        for (line, ns) in [(1, dirty_ns), (2, clean_ns)] {
            let before_ps = caches.waited_ps(BOOT);
            caches.clflush(BOOT, Line(line));
            let took_ps = caches.waited_ps(BOOT) - before_ps;
            assert_eq!(took_ps as f64, ns * 1000.0, "{name}, line {line}");
        }
    }
}

/// CLFLUSH waits until the controller has accepted the line, which it writes 6 ns later.
#[test]
fn accepted_line_needs_a_domain_or_time_to_be_kept() {
    for (domain, later_ps, kept) in [
        (Domain::None, 0, false),
        (Domain::None, 6_000, true),
        (Domain::Adr, 0, true),
    ] {
        let mut caches = machine("wsp-x5650-none", domain);
        for line in [1, 2] {
            store(&mut caches, BOOT, line);
            caches.clflush(BOOT, Line(line));
        }
        caches.wait(BOOT, later_ps);
        caches.power_cut();
        assert!(on_media(&caches, 1), "accepted long ago");
        assert_eq!(
            on_media(&caches, 2),
            kept,
            "{domain:?}, {later_ps} ps later"
        );
    }
}

/// A recording has both: lines are accepted and written in the same order.
#[test]
fn accepted_lines_are_told_before_they_are_written() {
    let mut caches = machine("wsp-x5650-none", Domain::None);
    for line in 1..=3 {
        store(&mut caches, BOOT, line);
        caches.clwb(BOOT, Line(line));
    }
    assert!(caches.memory.accepted.is_empty(), "no fence yet");
    caches.fence(BOOT);
    assert_eq!(caches.memory.accepted.len(), 3);
    assert!(!on_media(&caches, 3), "accepted, and not written");
    caches.wait(BOOT, 1_000_000);
    caches.advance();
    assert_eq!(caches.memory.accepted, caches.memory.log);
    let mut caches = machine("wsp-x5650-none", Domain::Adr);
    store(&mut caches, BOOT, 1);
    caches.clflush(BOOT, Line(1));
    assert!(on_media(&caches, 1) && caches.memory.accepted.is_empty());
}

#[test]
fn wbinvd_on_the_boot_cpu_alone_loses_other_cores_lines() {
    let mut caches = machine("wsp-c5528", Domain::Adr);
    store(&mut caches, BOOT, 1);
    store(&mut caches, OTHER, 2);
    caches.wbinvd(BOOT);
    assert!(on_media(&caches, 1) && !on_media(&caches, 2));
    caches.wbinvd(OTHER);
    assert!(on_media(&caches, 2));
}

#[test]
fn invd_loses_what_was_not_written_back() {
    let mut caches = machine("wsp-c5528", Domain::Adr);
    store(&mut caches, BOOT, 1);
    caches.wbinvd(BOOT);
    store(&mut caches, BOOT, 1);
    store(&mut caches, OTHER, 2);
    assert_eq!(caches.invd(BOOT), 1);
    assert_eq!(
        caches.memory.coherent[1][3], 1,
        "the second store is lost for all cores"
    );
    assert_eq!(
        caches.dirty_lines(),
        [Line(2)],
        "other cores' private caches are unchanged"
    );
}

#[test]
fn flushes_that_are_not_honoured_write_nothing() {
    let mut caches = machine("wsp-c5528", Domain::Adr);
    caches.honoured = Honoured::Only(Line(0)..Line(8));
    for line in [7, 8] {
        store(&mut caches, BOOT, line);
        caches.clflush(BOOT, Line(line));
    }
    assert!(on_media(&caches, 7) && !on_media(&caches, 8));
    caches.wbinvd(BOOT);
    assert!(!on_media(&caches, 8));
    caches.honoured = Honoured::Nothing;
    store(&mut caches, BOOT, 7);
    caches.clwb(BOOT, Line(7));
    caches.fence(BOOT);
    caches.wbinvd(BOOT);
    assert!(!on_media(&caches, 7));
    caches.honoured = Honoured::All;
    caches.wbinvd(BOOT);
    assert!(on_media(&caches, 7) && on_media(&caches, 8), "still dirty");
}

/// Changes without a store, with and without a flush.
#[test]
fn unseen_changes_are_lost_without_and_kept_with_a_flush_or_the_sweep() {
    type Flush = fn(&mut Caches<Image, FlatTiming>);
    let flushes: [Flush; 4] = [
        |caches| {
            caches.wbinvd(OTHER);
            assert!(!on_media(caches, 77), "the other core may have changed it");
            caches.wbinvd(BOOT);
        },
        |caches| caches.clflush(BOOT, Line(77)),
        |caches| {
            caches.clwb(BOOT, Line(77));
            caches.fence(BOOT);
        },
        |caches| (0..64).for_each(|_| caches.sweep(BOOT, LINES / 64)),
    ];
    let mut caches = machine("lightpc", Domain::Adr);
    caches.memory.coherent[77][0] = 1;
    caches.sweep(BOOT, 77);
    assert!(!on_media(&caches, 77), "the sweep has not reached it yet");
    for flush in flushes {
        let mut caches = machine("lightpc", Domain::Adr);
        caches.memory.coherent[77][0] = 1;
        assert!(!on_media(&caches, 77));
        flush(&mut caches);
        assert!(on_media(&caches, 77));
    }
}

/// What changes after a core's write-back in a Stop is by one that still runs.
#[test]
fn unseen_change_belongs_to_the_cores_that_still_run() {
    let mut caches = machine("wsp-c5528", Domain::Adr);
    caches.power_fails();
    caches.memory.coherent[77][0] = 1;
    caches.wbinvd(OTHER);
    assert!(!on_media(&caches, 77));
    caches.memory.coherent[78][0] = 1;
    caches.wbinvd(BOOT);
    assert!(on_media(&caches, 77) && on_media(&caches, 78));
    caches.memory.coherent[79][0] = 1;
    caches.power_cut();
    assert!(!on_media(&caches, 79), "nobody writes that back");
}

/// WSP, Table 2: WBINVD takes 2.8 ms on the C5528 however little is dirty; CLFLUSH of all its 8 MiB 2.3 ms.
#[test]
fn wbinvd_takes_the_time_of_walking_the_caches() {
    let time = |dirty: u32| {
        let mut caches = machine("wsp-c5528", Domain::Adr);
        (0..dirty).for_each(|line| store(&mut caches, BOOT, line));
        let before_ps = caches.waited_ps(BOOT);
        caches.wbinvd(BOOT);
        caches.waited_ps(BOOT) - before_ps
    };
    assert_eq!(time(0), time(LINES));
    assert!(
        (2_800_000_000..3_100_000_000).contains(&time(0)),
        "{}",
        time(0)
    );
}

#[test]
fn misses_wait_for_the_level_that_serves_them() {
    let mut caches = machine("wsp-c5528", Domain::Adr);
    store(&mut caches, BOOT, 1);
    assert_eq!(caches.waited_ps(BOOT), 60_000);
    store(&mut caches, BOOT, 1);
    assert_eq!(caches.waited_ps(BOOT), 60_000);
    store(&mut caches, OTHER, 1);
    assert_eq!(
        caches.waited_ps(OTHER),
        18_000,
        "from the first core through the last level"
    );
    (2..515).for_each(|line| store(&mut caches, OTHER, line)); // pushes line 1 out of 32 KiB
    let before_ps = caches.waited_ps(OTHER);
    caches.load(OTHER, Line(1));
    assert_eq!(caches.waited_ps(OTHER) - before_ps, 4_700);
}

/// A power loss in the middle of a WBINVD leaves a part of the lines.
#[test]
fn wbinvd_cut_short_writes_a_part() {
    let mut caches = machine("wsp-c5528", Domain::Adr);
    (0..1000).for_each(|line| store(&mut caches, BOOT, line));
    assert!(!caches.wbinvd_within(BOOT, 1_400_000_000));
    let written = (0..1000).filter(|line| on_media(&caches, *line)).count();
    assert!((300..700).contains(&written), "{written}");
    assert_eq!(caches.waited_ps(BOOT) / 1_000_000_000, 1);
    assert!(caches.wbinvd_within(BOOT, u64::MAX) && on_media(&caches, 999));
}

/// Devices change memory past the model. What the caches hold of it, a WBINVD has to write, and no
/// more.
#[test]
fn write_back_takes_no_longer_than_full_caches() {
    let took_ps = |lines: u32| {
        let profile = Profile::named("lightpc").unwrap();
        let timing = FlatTiming::of(&profile);
        let mut caches = Caches::new(profile, 1, LINES, Image::new(LINES as usize), timing);
        for line in 0..lines {
            caches.memory.coherent[line as usize][0] = 9; // DMA
        }
        caches.wbinvd(BOOT);
        let took_ps = caches.waited_ps(BOOT);
        caches.power_cut();
        assert!((0..lines).all(|line| on_media(&caches, line)));
        took_ps
    };
    let full = 16 << 10 >> 6; // the data cache of a core, in lines
    assert!(took_ps(full) > took_ps(full / 2));
    assert_eq!(took_ps(LINES), took_ps(full));
}
