// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: a core out of order keeps its rules, lies between its two bounds, and is deterministic; a
//! memory behind a link is as far as its part has it. Planted bugs leave out each rule
//! (`mutants/tests/found.rs`).

#![expect(
    clippy::tests_outside_test_module,
    reason = "integration tests are outside"
)]

mod rules;

use ocpmem::build::MemoryJob;
use ocpmem::units::{Ps, random};
use ocpmem::window::WindowPart;
use rules::{PART, Program, RULES};

/// Each access waits for its line.
const IN_ORDER: WindowPart = WindowPart {
    window: 1,
    mshrs: 1,
    store_buffer: 0,
    ..PART
};

/// A thousand accesses with work between them; the time until all is done.
fn run(part: WindowPart, seed: u64) -> Ps {
    let mut program = Program::new(part);
    let mut state = seed;
    for line in 0..1000 {
        let dice = random(&mut state);
        program.work(dice % 60, dice % 12);
        if dice & 1024 == 0 {
            program.load(line);
        } else {
            program.store(line);
        }
    }
    program.drain();
    program.now.at
}

#[test]
fn rules_are_kept() {
    for (promise, check) in RULES {
        check().unwrap_or_else(|broken| panic!("{promise}: {broken:?}"));
    }
}

/// Goal: dependent accesses are the core in order; independent ones are bounded by the MSHRs.
#[test]
fn time_is_between_in_order_and_the_limit_of_misses() {
    for seed in 1..20 {
        let (mut work, mut state) = (0, seed);
        for _ in 0..1000 {
            work += 1 + random(&mut state) % 60;
        }
        let work = PART.instruction.times(work);
        let lines = Ps(100_000 * 1000);
        assert_eq!(run(IN_ORDER, seed), work + lines, "each waits for its line");
        let ours = run(PART, seed);
        assert!(ours < run(IN_ORDER, seed));
        assert!(ours >= Ps(lines.0 / PART.mshrs as u64).max(work));
    }
}

/// Goal: more of anything never takes longer, and the same takes the same.
#[test]
fn larger_core_is_not_slower() {
    for seed in 1..20 {
        let mut last = run(IN_ORDER, seed);
        for size in [2, 4, 8, 16, 64, 352] {
            let part = WindowPart {
                window: size,
                mshrs: usize::try_from(size).expect("small").min(12),
                store_buffer: size.min(72),
                ..PART
            };
            let time = run(part, seed);
            assert_eq!(time, run(part, seed));
            // A load that finds no place stops dispatch, which may cost one latency at the end.
            assert!(
                time <= last + Ps(100_000),
                "{size}: {time:?} after {last:?}"
            );
            last = time;
        }
    }
}

#[test]
fn numbers_go_to_the_part_that_has_them() {
    let with = |job: &str, key: &str, value: f64| {
        let mut job = MemoryJob {
            far: Some(true),
            ..MemoryJob::named(job)
        };
        job.change.insert(key.to_owned(), value);
        job.build(1 << 20)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(with("nmem", "cache_bytes", 65536.0), Ok(()));
    assert_eq!(with("nmem", "channels", 8.0), Ok(()));
    assert_eq!(with("nmem", "dimms", 8.0), Ok(()));
    assert_eq!(with("optane", "hop_ns", 100.0), Ok(()));
    let both = with("nmem", "tburst_ns", 2.0).expect_err("DRAM and Optane have it");
    assert!(both.contains("more than one part"), "{both}");
    let none = with("dram", "no_such_ns", 2.0).expect_err("nothing has it");
    assert!(none.contains("no_such_ns"), "{none}");
}
