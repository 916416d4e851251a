// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One table: what other models know of LightPC's memory and cores is what this one computes, or what
//! its parts have. Negative proof: with another write time the comparison is red.

#![expect(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "clippy allows it in tests, which it does not take this for"
)]

use ocpmem::build::MemoryJob;
use ocpmem::memory::Memory;
use ocpmem::parts::Part;
use ocpmem::units::{LineAddr, Ps, random};
use remanence_cache::{LINE_BYTES, Profile};
use std::collections::VecDeque;

const LINES: u64 = 1 << 20;
const READS: u64 = 10_000;
const CORES: u64 = 8;
/// Both are rounded to a tenth of a nanosecond.
const ROUNDING_NS: f64 = 0.051;

fn controller(program_ns: Option<f64>) -> Box<dyn Memory> {
    let mut job = MemoryJob::named("lightpc");
    if let Some(value) = program_ns {
        job.change.insert("program_ns".to_owned(), value);
    }
    job.build(LINES).unwrap()
}

fn any_line(state: &mut u64) -> LineAddr {
    LineAddr(random(state) % LINES)
}

/// Mean of reads of which each finds the memory idle.
fn read_ns() -> f64 {
    let mut memory = controller(None);
    let mut state = 1;
    let (mut at, mut sum) = (Ps::ZERO, Ps::ZERO);
    for _ in 0..READS {
        let done = memory.read(at, any_line(&mut state));
        sum = Ps(sum.0 + (done - at).0);
        at = Ps(done.0 + Ps::from_ns(10_000.0).0);
    }
    sum.ns() / READS as f64
}

/// The flush of all caches of the prototype, every line dirty: time of a line, and its energy.
fn flushed(profile: &Profile, program_ns: Option<f64>) -> (f64, f64) {
    let mut memory = controller(program_ns);
    let mut under_way = VecDeque::new();
    let (mut at, mut state) = (Ps::ZERO, 1);
    let lines = profile.dirty_bytes_max(CORES) / LINE_BYTES;
    for _ in 0..lines {
        if under_way.len() == profile.queue_lines {
            at = under_way.pop_front().unwrap();
        }
        under_way.push_back(memory.write(at, any_line(&mut state)).max(at));
    }
    let end = memory.flush(under_way.into_iter().max().unwrap());
    let energy = memory.energy(end);
    (
        end.ns() / lines as f64,
        energy.write_pj as f64 / lines as f64,
    )
}

fn lightpc() -> Profile {
    Profile::named("lightpc").unwrap()
}

fn number(table: &str, name: &str) -> f64 {
    Part::built_in(table).unwrap().values[name].value
}

fn power(name: &str) -> f64 {
    let all: toml::Table = remanence_parts::POWER.parse().unwrap();
    let value = &all["machine"]["lightpc"][name]["value"];
    value.as_integer().unwrap() as f64
}

fn is_near(ours: f64, computed: f64, rounding: f64) -> bool {
    println!("{ours} in the table, {computed} computed");
    (ours - computed).abs() <= rounding
}

#[test]
fn lightpc_reads_and_writes_as_its_controller() {
    let profile = lightpc();
    let (line_ns, line_pj) = flushed(&profile, None);
    let near = [
        is_near(profile.memory_read_ns, read_ns(), ROUNDING_NS),
        is_near(profile.memory_write_ns, line_ns, ROUNDING_NS),
        is_near(power("line_write_pj"), line_pj, 0.5),
    ];
    assert_eq!(near, [true; 3]);
}

#[test]
fn other_write_time_is_found() {
    let profile = lightpc();
    let (line_ns, _) = flushed(&profile, Some(number("lpc-table1", "program_ns") * 1.1));
    assert!(!is_near(profile.memory_write_ns, line_ns, ROUNDING_NS));
}

#[test]
fn lightpc_has_one_kind_of_core() {
    let profile = lightpc();
    let core = |name| number("lpc-core", name);
    assert!(is_near(profile.mhz as f64, core("clock_mhz"), 0.0));
    assert!(is_near(profile.l1.bytes() as f64, core("cache_bytes"), 0.0));
    assert!(is_near(f64::from(profile.l1.ways), core("cache_ways"), 0.0));
    let buffers = profile.fill_buffers as f64;
    assert!(is_near(buffers, core("misses_in_flight"), 0.0));
    assert!(is_near(power("cores"), core("cores"), 0.0));
    assert!(is_near(power("core_running_mw"), core("active_mw"), 0.0));
    assert!(is_near(power("core_parked_mw"), core("parked_mw"), 0.0));
}
