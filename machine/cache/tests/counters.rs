// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Goal: hit shares of loads and stores, from which programs are compared with published ones; what
//! instructions cost that are not in their cache.
//! Method: accesses whose misses are known, with and without the caller's shortcut for lines that
//! are still in their place.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a whole program of tests"
)]

use remanence_cache::{Caches, Core, FlatTiming, Image, Line, Profile};

const LINES: u32 = 4096; // 256 KiB: far more than a first level of 16 KiB

fn caches(cores: usize) -> Caches<Image, FlatTiming> {
    let profile = Profile::named("lightpc").unwrap();
    let timing = FlatTiming::of(&profile);
    Caches::new(profile, cores, LINES, Image::new(LINES as usize), timing)
}

#[test]
fn loads_and_stores_are_counted_with_their_misses() {
    let mut caches = caches(1);
    let core = Core(0);
    for line in 0..LINES {
        caches.load(core, Line(line)); // each is new
        let slot = caches.load(core, Line(line));
        assert!(caches.load_again(core, slot, Line(line)));
    }
    for line in 0..LINES {
        let slot = caches.store(core, Line(line)); // each was pushed out meanwhile
        assert!(caches.store_again(core, slot, Line(line)));
    }
    let made = caches.counters();
    let lines = u64::from(LINES);
    assert_eq!((made.loads, made.stores), (3 * lines, 2 * lines));
    assert_eq!(made.store_misses, lines);
    assert_eq!(made.first_level_misses, 2 * lines);
}

#[test]
fn a_shortcut_that_fails_is_not_counted_twice() {
    let mut caches = caches(2);
    let line = Line(7);
    let slot = caches.store(Core(0), line);
    caches.store(Core(1), line); // takes it away
    assert!(!caches.store_again(Core(0), slot, line));
    assert!(!caches.load_again(Core(0), slot, line));
    caches.load(Core(0), line);
    let made = caches.counters();
    assert_eq!((made.loads, made.stores), (1, 2));
    assert_eq!((made.first_level_misses, made.store_misses), (3, 2));
}

/// Twice through code that fits, and through code that does not: 16 KiB are 256 lines.
#[test]
fn instructions_come_from_memory_until_their_cache_has_them() {
    for (lines, misses) in [(256, 256), (512, 1024)] {
        let mut caches = caches(1);
        for line in (0..lines).chain(0..lines) {
            let slot = caches.fetch(Core(0), Line(line));
            assert!(caches.fetch_again(Core(0), slot, Line(line)));
            assert!(!caches.fetch_again(Core(0), slot, Line(line + 1)));
        }
        let made = caches.counters();
        assert_eq!(made.fetches, 4 * u64::from(lines));
        assert_eq!((made.fetch_misses, made.memory_reads), (misses, misses));
        let read_ps = FlatTiming::of(caches.profile()).read_ps;
        assert_eq!(caches.waited_ps(Core(0)), misses * read_ps);
        assert_eq!((made.loads, made.first_level_misses), (0, 0));
    }
}

/// Red if instructions were in the directory of holders, or cleaned what they read.
#[test]
fn instructions_leave_data_as_it_is() {
    for name in ["lightpc", "wsp-c5528", "xeon-6330"] {
        let profile = Profile::named(name).unwrap();
        let timing = FlatTiming::of(&profile);
        let mut caches = Caches::new(profile, 2, LINES, Image::new(LINES as usize), timing);
        let slot = caches.store(Core(0), Line(1));
        caches.fetch(Core(0), Line(1));
        caches.fetch(Core(1), Line(1));
        assert!(caches.store_again(Core(0), slot, Line(1)), "{name}");
        assert_eq!(caches.dirty_lines(), [Line(1)], "{name}");
        assert_eq!(caches.counters().memory_reads, 1, "{name}");
        assert_eq!(caches.counters().fetch_misses, 2, "{name}");
    }
}

/// The second level is of both.
#[test]
fn what_instructions_brought_into_the_second_level_loads_find_there() {
    let profile = Profile::named("xeon-6330").unwrap();
    let timing = FlatTiming::of(&profile);
    let mut caches = Caches::new(profile, 1, LINES, Image::new(LINES as usize), timing);
    caches.fetch(Core(0), Line(9));
    caches.load(Core(0), Line(9));
    assert_eq!(caches.counters().memory_reads, 1);
    caches.load(Core(0), Line(10));
    caches.fetch(Core(0), Line(10)); // the first level of data has it
    assert_eq!(caches.counters().memory_reads, 2);
}

#[test]
fn without_a_cache_of_theirs_instructions_cost_nothing() {
    let profile = Profile::named("lightpc:no-fetches").unwrap();
    let timing = FlatTiming::of(&profile);
    let mut caches = Caches::new(profile, 1, LINES, Image::new(LINES as usize), timing);
    for line in 0..LINES {
        let slot = caches.fetch(Core(0), Line(line));
        assert!(caches.fetch_again(Core(0), slot, Line(line)));
    }
    assert_eq!(caches.waited_ps(Core(0)), 0);
    assert_eq!(caches.counters().fetch_misses, 0);
}
