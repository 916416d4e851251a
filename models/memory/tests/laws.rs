// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold of any controller: gates of the devices kept and met exactly,
//! Little's law, no request and no energy lost, runs and checkpoints that repeat.

#![expect(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "clippy allows it in tests, which it does not take this for"
)]

use ocpmem::build::{CONTROLLERS, MemoryJob};
use ocpmem::dram::{Command, Dram, DramPart};
use ocpmem::jobs::{Pattern, TrafficJob};
use ocpmem::memory::Memory;
use ocpmem::parts::Part;
use ocpmem::psm::Psm;
use ocpmem::psm::group::Group;
use ocpmem::stats::Energy;
use ocpmem::units::{LineAddr, Ps, random};
use std::collections::BTreeMap;

const LINES: u64 = 1 << 16;

fn drive(memory: &mut dyn Memory, requests: u64, seed: u64, mut now: Ps) -> (Vec<Ps>, Ps) {
    let mut state = seed;
    let mut done = Vec::new();
    for _ in 0..requests {
        let dice = random(&mut state);
        now = now + Ps(dice >> 48);
        let line = LineAddr(if dice & 1 == 0 {
            (dice >> 8) & 63
        } else {
            (dice >> 8) & (LINES - 1)
        });
        done.push(if (dice >> 1) & 3 == 0 {
            memory.write(now, line)
        } else {
            memory.read(now, line)
        });
    }
    (done, now)
}

/// Gates that a log of commands breaks, and how closely each was kept.
fn gates(
    part: &DramPart,
    data_after_write: Ps,
    log: &[(usize, Command, Ps)],
) -> (u32, BTreeMap<&'static str, u64>) {
    let mut broken = 0;
    let mut slack: BTreeMap<&str, u64> = BTreeMap::new();
    let mut last: BTreeMap<(usize, &str), Ps> = BTreeMap::new();
    let mut gate = |name, from: Option<&Ps>, least: Ps, at: Ps| {
        let Some(from) = from else { return };
        match at.0.checked_sub(from.0 + least.0) {
            Some(over) => {
                let known = slack.entry(name).or_insert(u64::MAX);
                *known = over.min(*known);
            }
            None => broken += 1,
        }
    };
    for (bank, command, at) in log {
        let seen = |what| last.get(&(*bank, what));
        match command {
            Command::Open => gate("tRP", seen("close"), part.trp, *at),
            Command::Close => {
                gate("tRAS", seen("open"), part.tras, *at);
                gate("tWR", seen("write"), data_after_write + part.twr, *at);
            }
            Command::Read | Command::Write => gate("tRCD", seen("open"), part.trcd, *at),
        }
        let name = match command {
            Command::Open => "open",
            Command::Close => "close",
            Command::Read => "read",
            Command::Write => "write",
        };
        last.insert((*bank, name), *at);
    }
    (broken, slack)
}

fn dram() -> (DramPart, Vec<(usize, Command, Ps)>) {
    let part = DramPart::from_part(&Part::built_in("ddr4").unwrap()).unwrap();
    let mut memory = Dram::new(part, 1 << 22).unwrap();
    memory.log_commands();
    let (mut state, mut now) = (3, Ps::ZERO);
    for _ in 0..20_000 {
        let dice = random(&mut state);
        now = now + Ps(dice >> 50);
        // Few banks and rows, so that they are in each other's way.
        let line = LineAddr((dice & 1) * 6 * 4 + ((dice >> 1) & 3) * 6 * 128 * 16);
        if (dice >> 8) & 1 == 0 {
            memory.write(now, line)
        } else {
            memory.read(now, line)
        };
    }
    (part, memory.take_commands())
}

/// tCWL and a burst of the part `ddr4`.
const DATA_AFTER_WRITE: Ps = Ps(16_500);

#[test]
fn dram_gates_are_kept_and_met_exactly() {
    let (part, log) = dram();
    let (broken, slack) = gates(&part, DATA_AFTER_WRITE, &log);
    assert_eq!(broken, 0);
    for name in ["tRP", "tRAS", "tWR", "tRCD"] {
        assert_eq!(
            slack[name], 0,
            "{name} is never waited for exactly: {slack:?}"
        );
    }
}

/// The check sees a command that is one picosecond early.
#[test]
fn command_one_picosecond_early_breaks_a_gate() {
    let (part, log) = dram();
    for wanted in [Command::Open, Command::Close, Command::Read] {
        let found = (0..log.len()).filter(|n| log[*n].1 == wanted).any(|n| {
            let mut early = log.clone();
            early[n].2 = early[n].2 - Ps(1);
            gates(&part, DATA_AFTER_WRITE, &early[..=n]).0 == 1
        });
        assert!(found, "{wanted:?}");
    }
}

/// PRAM: illegal at n - 1, legal at n, on both sides of a programming.
#[test]
fn read_touches_a_programming_and_never_overlaps_it() {
    let (read, busy) = (Ps(50), Ps(300));
    let mut group = Group::new();
    let window = group.program(Ps(1000), busy, 3, true, (0, 1));
    assert_eq!((window.start[1], window.end[2]), (Ps(1300), Ps(1900)));
    for piece in 0..3 {
        let (from, to) = (window.start[piece], window.end[piece]);
        assert_eq!(group.readable(piece, from - read, read), from - read);
        assert_eq!(group.readable(piece, from - read + Ps(1), read), to);
        assert_eq!(group.readable(piece, to - Ps(1), read), to);
        assert_eq!(group.readable(piece, to, read), to);
    }
    // A programming waits for a read that was granted, to the picosecond.
    group.note_read(0, Ps(5000));
    assert_eq!(
        group.program(Ps(4999), busy, 3, true, (0, 1)).start[0],
        Ps(5000)
    );
}

/// Two of three devices can be read at any moment of staggered programming.
#[test]
fn staggered_programming_leaves_two_devices_readable() {
    let mut group = Group::new();
    for _ in 0..4 {
        group.program(Ps(0), Ps(300), 3, true, (0, 1));
    }
    for at in 0..3600 {
        let free = (0..3)
            .filter(|piece| group.readable(*piece, Ps(at), Ps(0)) == Ps(at))
            .count();
        assert!(free >= 2, "at {at}");
    }
}

fn small(name: &str) -> MemoryJob {
    let mut job = MemoryJob::named(name);
    if name.starts_with("nmem") {
        job.change.insert("cache_bytes".to_owned(), 65_536.0);
    }
    job
}

/// L = lambda W, with W measured by requests and L by time.
#[test]
fn littles_law_holds() {
    for name in CONTROLLERS {
        for in_flight in [1, 4, 32] {
            let job = TrafficJob {
                memory: small(name),
                lines: LINES,
                span_lines: None,
                block_bytes: 64,
                read_percent: 70,
                in_flight,
                requests: 20_000,
                pattern: Pattern::Random,
                seed: 2,
            };
            let mut memory = job.memory.build(LINES).unwrap();
            let mut ends: Vec<(Ps, Ps)> = Vec::new();
            let mut slots = vec![Ps::ZERO; in_flight];
            let (mut now, mut state) = (Ps::ZERO, 5);
            for number in 0..20_000 {
                now = now.max(slots[number % in_flight]);
                let dice = random(&mut state);
                let line = LineAddr(dice % LINES);
                let end = if dice >> 60 < 11 {
                    memory.read(now, line)
                } else {
                    memory.write(now, line)
                };
                slots[number % in_flight] = end;
                ends.push((now, end));
            }
            let last = ends.iter().map(|(_, end)| *end).max().unwrap();
            let mut changes: Vec<(Ps, i64)> =
                ends.iter().flat_map(|(a, b)| [(*a, 1), (*b, -1)]).collect();
            changes.sort_unstable();
            let (mut under_way, mut before, mut area) = (0, Ps::ZERO, 0.0);
            for (at, change) in changes {
                area += f64::from(i32::try_from(under_way).unwrap()) * (at - before).ns();
                under_way += change;
                before = at;
            }
            let mean_in_flight = area / last.ns();
            let counts = *memory.counts();
            let served = counts.read.count + counts.write.count;
            let waited = counts.read.sum + counts.write.sum;
            assert_eq!(served, 20_000, "{name}");
            let by_law = waited.ns() / last.ns();
            assert!(
                (mean_in_flight / by_law - 1.0).abs() < 1e-9,
                "{name} {in_flight}: {mean_in_flight} {by_law}"
            );
        }
    }
}

/// Every line the PSM accepted is programmed once, put together with another write of the
/// same line, or still in a row buffer; after a flush none is.
#[test]
fn no_write_is_lost_or_done_twice() {
    for stagger in ["always", "when-idle", "never"] {
        let job = format!(r#"{{"controller":"lightpc","stagger":"{stagger}","start_gap":false}}"#);
        let job: MemoryJob = serde_json::from_str(&job).unwrap();
        let mut memory = job.psm(LINES).unwrap();
        memory.log_events();
        let mut programmed = 0;
        let (mut state, mut now, mut last) = (8, Ps::ZERO, BTreeMap::new());
        for number in 0..30_000_u64 {
            now = now + Ps(random(&mut state) >> 46);
            let line = random(&mut state) % 512;
            memory.write(now, LineAddr(line));
            last.insert(line, number);
            programmed += memory.take_events().len() as u64;
        }
        memory.flush(now);
        programmed += memory.take_events().len() as u64;
        let worn: u64 = (0..memory.wear().lines())
            .map(|line| memory.wear().of(line))
            .sum();
        assert_eq!(worn, programmed);
        assert_eq!(memory.counts().array_writes, programmed);
        assert!(programmed <= 30_000 && programmed >= last.len() as u64);
        assert!(memory.take_events().is_empty());
    }
}

/// Energy of phases adds up to that of the whole, cause by cause, and every
/// cause is its count times its price.
#[test]
fn no_energy_is_lost() {
    for name in CONTROLLERS {
        let mut memory = small(name).build(LINES).unwrap();
        let mut sum = Energy::default();
        let (mut before, mut now) = (Energy::default(), Ps::ZERO);
        for phase in 0..5 {
            (_, now) = drive(memory.as_mut(), 2000, phase, now);
            let energy = memory.energy(now);
            sum = sum.plus(&energy.since(&before));
            before = energy;
        }
        assert_eq!(sum, memory.energy(now), "{name}");
        assert!(sum.read_pj > 0 && sum.background_pj > 0, "{name}: {sum:?}");
    }
    let mut psm = MemoryJob::named("lightpc").psm(LINES).unwrap();
    let part = *psm.part();
    psm.read(Ps::ZERO, LineAddr(1));
    psm.flush(Ps(1));
    assert_eq!(psm.energy(Ps::ZERO).total_pj(), 2 * part.read_pj);
    psm.write(Ps(10), LineAddr(1));
    psm.flush(Ps(20));
    let energy = psm.energy(Ps::ZERO);
    assert_eq!(energy.write_pj, 3 * (part.program_pj + part.row_buffer_pj));
}

/// The Optane-like DIMM: blocks of media read and written, each at its price; the rest is of its
/// buffers, a whole number of uses and at least one for each request that missed them. (DRAM's are
/// in `dram_rules`.)
#[test]
fn optane_energy_is_its_counts_times_their_prices() {
    let part = Part::built_in("optane-200-128").unwrap();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "prices are whole numbers of picojoules"
    )]
    let whole = |value: f64| value as u64;
    let price = |name: &str| whole(part.values[name].value);
    for seed in 1..6 {
        let mut memory = MemoryJob::named("optane").build(LINES).unwrap();
        let (_, now) = drive(memory.as_mut(), 4000, seed, Ps::ZERO);
        let until = memory.flush(now);
        let (energy, counts) = (memory.energy(until), *memory.counts());
        assert_eq!(counts.read.count + counts.write.count, 4000);
        let own = memory.own_figures();
        let count = |name: &str| whole(own.iter().find(|it| it.name == name).unwrap().value);
        assert_eq!(
            energy.write_pj,
            count("media_writes") * price("media_write_pj")
        );
        assert_eq!((energy.refresh_pj, energy.activate_pj), (0, 0));
        let buffers = energy.read_pj - count("media_reads") * price("media_read_pj");
        assert_eq!(buffers % price("buffer_pj"), 0);
        assert!(buffers / price("buffer_pj") >= 4000 && count("media_reads") > 0);
        assert!(energy.background_pj > 0);
        let parts = energy.background_pj + energy.read_pj + energy.write_pj;
        assert_eq!(energy.total_pj(), parts);
    }
}

#[test]
fn run_repeats_and_goes_on_from_a_checkpoint() {
    let job = MemoryJob::named("lightpc");
    let mut whole = job.psm(LINES).unwrap();
    let mut first = job.psm(LINES).unwrap();
    let (a, now) = drive(&mut whole, 5000, 1, Ps::ZERO);
    let (b, _) = drive(&mut first, 5000, 1, Ps::ZERO);
    assert_eq!(a, b);
    let bytes = first.checkpoint();
    let mut second = Psm::restore(&bytes).unwrap();
    assert_eq!(
        drive(&mut whole, 5000, 2, now),
        drive(&mut second, 5000, 2, now)
    );
    assert_eq!(whole.checkpoint(), second.checkpoint());
    for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        Psm::restore(&bytes[..length]).unwrap_err();
    }
}

#[test]
fn reset_port_wipes_and_the_flush_port_waits() {
    for name in CONTROLLERS {
        let mut memory = small(name).build(1 << 10).unwrap();
        let accepted = memory.write(Ps::ZERO, LineAddr(3));
        let flushed = memory.flush(accepted);
        assert!(flushed >= accepted, "{name}");
        assert!(memory.reset(flushed) >= flushed, "{name}");
    }
    let mut psm = MemoryJob::named("lightpc").psm(1 << 10).unwrap();
    let accepted = psm.write(Ps::ZERO, LineAddr(3));
    let flushed = psm.flush(accepted);
    assert!(flushed > accepted + psm.part().program.times(3));
    // Requests that come during a flush wait for it.
    assert!(psm.read(accepted, LineAddr(9)) > flushed);
}
