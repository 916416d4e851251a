// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each controller beside OC-PMEM's is for, how DIMMs and devices work at the same time, and that
//! all of them, and the cores before them, go on from where they were.

#![expect(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "clippy allows it in tests, which it does not take this for"
)]

use ocpmem::build::{CONTROLLERS, MemoryJob};
use ocpmem::cores::{CoresPart, replay};
use ocpmem::dram::{Dram, DramPart};
use ocpmem::hybrid::{LegacyPc, Nmem, NvdimmN, Outage};
use ocpmem::memory::{Memory, restore};
use ocpmem::optane::Optane;
use ocpmem::parts::Part;
use ocpmem::psm::Psm;
use ocpmem::trace::{Kind, Request, Trace};
use ocpmem::units::{LineAddr, Ps, random};

const LINES: u64 = 1 << 13;
/// Lines of the DRAM before NMEM's far memory, here.
const NEAR: u64 = 1024;
/// So late that nothing is under way any more.
const LATER: Ps = Ps(1_000_000_000);

fn job(name: &str) -> MemoryJob {
    let mut job = MemoryJob::named(name);
    if name.starts_with("nmem") {
        job.change.insert("cache_bytes".to_owned(), 65_536.0);
    }
    job
}

fn built(name: &str) -> Box<dyn Memory> {
    job(name).build(LINES).unwrap()
}

fn restored(name: &str, bytes: &[u8]) -> Box<dyn Memory> {
    match name {
        "dram" => Box::new(restore::<Dram>(bytes).unwrap()),
        "optane" => Box::new(restore::<Optane>(bytes).unwrap()),
        "nvdimm-n" => Box::new(restore::<NvdimmN>(bytes).unwrap()),
        "nmem" | "nmem-no-snarf" => Box::new(restore::<Nmem>(bytes).unwrap()),
        "legacypc" => Box::new(restore::<LegacyPc>(bytes).unwrap()),
        _ => Box::new(restore::<Psm>(bytes).unwrap()),
    }
}

/// Reads, writes and now and then a fence or a flush; when each was served.
fn drive(memory: &mut dyn Memory, requests: u64, seed: u64, mut now: Ps) -> (Vec<Ps>, Ps) {
    let mut state = seed;
    let mut done = Vec::new();
    for _ in 0..requests {
        let dice = random(&mut state);
        now = now + Ps(dice >> 48);
        let line = LineAddr((dice >> 8) & (LINES - 1));
        done.push(match dice & 63 {
            0 => memory.flush(now),
            1 => memory.persist(now),
            2..=20 => memory.write(now, line),
            _ => memory.read(now, line),
        });
    }
    (done, now)
}

#[test]
fn every_controller_goes_on_from_a_checkpoint() {
    for name in CONTROLLERS {
        let mut whole = built(name);
        let (_, now) = drive(whole.as_mut(), 2_000, 1, Ps::ZERO);
        let bytes = whole.checkpoint();
        let mut second = restored(name, &bytes);
        let ours = drive(whole.as_mut(), 2_000, 2, now);
        assert_eq!(ours, drive(second.as_mut(), 2_000, 2, now), "{name}");
        assert_eq!(whole.checkpoint(), second.checkpoint(), "{name}");
        assert_eq!(whole.energy(ours.1), second.energy(ours.1), "{name}");
        assert!(restore::<Psm>(&bytes[..bytes.len() - 1]).is_err(), "{name}");
        // Without it, what comes next is another story: the state is what makes them agree.
        assert_ne!(ours, drive(built(name).as_mut(), 2_000, 2, now), "{name}");
    }
}

fn took(memory: &mut dyn Memory, at: Ps, line: u64) -> Ps {
    memory.read(at, LineAddr(line)) - at
}

fn figure(memory: &dyn Memory, name: &str) -> f64 {
    let all = memory.own_figures();
    all.iter().find(|it| it.name == name).unwrap().value
}

/// DRAM as a cache: a hit is DRAM's own time, a miss is filled, and with snarf the host does not wait
/// for the fill to be read again.
#[test]
fn memory_mode_caches_and_snarfs() {
    let mut near = built("dram");
    let mut misses = Vec::new();
    for name in ["nmem", "nmem-no-snarf"] {
        let mut memory = built(name);
        let miss = took(memory.as_mut(), Ps::ZERO, 5);
        let hit = took(memory.as_mut(), LATER, 5);
        assert!(hit < miss, "{name}: {hit:?} {miss:?}");
        assert_eq!(figure(memory.as_ref(), "cache_hits"), 1.0);
        // A dirty line leaves when another takes its place, and is read from far memory again.
        memory.write(LATER.times(2), LineAddr(5));
        let counts = memory.counts();
        assert_eq!(
            (counts.read.count, counts.row_reads, counts.row_writes),
            (2, 1, 1)
        );
        assert_eq!(figure(memory.as_ref(), "cache_evictions"), 0.0);
        took(memory.as_mut(), LATER.times(3), 5 + NEAR);
        assert_eq!(figure(memory.as_ref(), "cache_evictions"), 1.0);
        assert!(took(memory.as_mut(), LATER.times(4), 5) > hit);
        misses.push(miss);
        // A row that is open: what a hit costs at least.
        near.read(Ps::ZERO, LineAddr(5));
        assert!(hit >= took(near.as_mut(), Ps(1_000_000), 5));
    }
    assert!(misses[0] < misses[1], "{misses:?}");
}

/// Programs run in DRAM, files are in OC-PMEM above it.
#[test]
fn legacypc_is_dram_below_and_oc_pmem_above() {
    let mut both = built("legacypc");
    let (mut dram, mut psm) = (built("dram"), built("lightpc"));
    assert_eq!(both.lines(), 2 * LINES);
    for (number, line) in [0, 77, LINES - 1, 3, 3, 900].into_iter().enumerate() {
        let at = LATER.times(number as u64);
        let above = LineAddr(LINES + line);
        assert_eq!(both.read(at, LineAddr(line)), dram.read(at, LineAddr(line)));
        assert_eq!(both.write(at, above), psm.write(at, LineAddr(line)));
        assert_eq!(both.read(at, above), psm.read(at, LineAddr(line)));
    }
    let end = LATER.times(9);
    assert_eq!(both.persist(end), dram.persist(end).max(psm.persist(end)));
    assert_eq!(both.flush(end), dram.flush(end).max(psm.flush(end)));
    assert_eq!(
        both.energy(end).total_pj(),
        dram.energy(end).total_pj() + psm.energy(end).total_pj()
    );
}

/// An NVDIMM-N is DRAM until power goes; its supply saves it once, and again only when it is charged.
#[test]
fn nvdimm_n_saves_itself_while_its_supply_lasts() {
    let ddr4 = DramPart::from_part(&Part::built_in("ddr4").unwrap()).unwrap();
    let lines = (8 << 30) / 64;
    let part = Part::built_in("nvdimm-n").unwrap();
    // A save of 8 GiB is 10 s of 8 W: this supply holds one and a half.
    let part = part.with("supply_mj", 120_000.0).unwrap();
    let mut memory = NvdimmN::new(&part, Dram::new(ddr4, lines).unwrap()).unwrap();
    let mut dram = Dram::new(ddr4, lines).unwrap();
    assert_eq!(
        drive(&mut memory, 500, 3, Ps::ZERO),
        drive(&mut dram, 500, 3, Ps::ZERO)
    );
    let Outage::Saved(time) = memory.outage(LATER) else {
        panic!("a full supply holds one save")
    };
    assert!((9.9..10.1).contains(&(time.ns() / 1e9)), "{time:?}");
    assert_eq!(memory.restore_time(), time);
    let mut soon = memory.clone();
    assert_eq!(soon.outage(LATER + time), Outage::Lost);
    // 20 W for as long as the save took is more than it used.
    assert_eq!(memory.outage(LATER + time.times(2)), Outage::Saved(time));
}

/// 64 B of a DIMM with buffers are 256 B of its media, and a DIMM that may queue fewer writes makes
/// the host wait.
#[test]
fn optane_like_dimm_accesses_256_bytes() {
    let mut memory = built("optane");
    for line in 0..16 {
        took(memory.as_mut(), LATER.times(line), line);
    }
    assert_eq!(figure(memory.as_ref(), "media_reads"), 4.0);
    assert_eq!(figure(memory.as_ref(), "block_hits"), 12.0);
    let accepted = |entries: f64| {
        let mut job = job("optane");
        job.change.insert("lsq_entries".to_owned(), entries);
        job.change.insert("buffer_bytes".to_owned(), 65_536.0);
        let mut memory = job.build(LINES).unwrap();
        (0..2_000).fold(Ps::ZERO, |end, number| {
            let line = LineAddr(number * 67 % LINES);
            end.max(memory.write(end, line))
        })
    };
    assert!(accepted(1.0) > accepted(64.0));
}

/// OC-PMEM whose lines are where their numbers say: DIMM by DIMM, then group by group.
fn plain(rank: bool) -> Psm {
    let layout = if rank {
        r#","layout":"rank","xcc":false"#
    } else {
        ""
    };
    let job = format!(
        r#"{{"controller":"lightpc","start_gap":false,"randomize":false,"early_return":false{layout}}}"#
    );
    let job: MemoryJob = serde_json::from_str(&job).unwrap();
    job.psm(LINES).unwrap()
}

/// Six DIMMs serve six lines at the same time, and so do the four groups of one; devices of one group one
/// after another. As ranks, a DIMM is one group.
#[test]
fn dimms_work_at_the_same_time_and_so_do_groups_of_one() {
    let alone = took(&mut plain(false), Ps::ZERO, 0);
    let mut memory = plain(false);
    let part = *memory.part();
    assert_eq!((part.dimms, part.devices_per_dimm / 3), (6, 4));
    for line in 0..6 {
        assert_eq!(took(&mut memory, Ps::ZERO, line), alone, "DIMM {line}");
    }
    for group in 1..4 {
        assert_eq!(
            took(&mut memory, Ps::ZERO, 6 * group),
            alone,
            "group {group}"
        );
    }
    let same = took(&mut memory, Ps::ZERO, 24) - alone;
    assert!(same >= part.read, "{same:?}");

    let mut ranks = plain(true);
    let alone = took(&mut ranks, Ps::ZERO, 0);
    // Four lines are one access of a rank; the rank of the next DIMM is free.
    assert_eq!(took(&mut ranks, Ps::ZERO, 4), alone);
    assert!(took(&mut ranks, Ps::ZERO, 24) - alone >= part.read);
    // A line's write is a read-modify-write of all eight devices.
    let before = *ranks.counts();
    ranks.write(LATER, LineAddr(9));
    assert_eq!(ranks.counts().extra_reads - before.extra_reads, 1);
}

fn misses(cpus: u32, each: u64) -> Trace {
    let mut trace = Trace::new(LINES, cpus);
    for number in 0..each * u64::from(cpus) {
        trace.push(Request {
            kind: Kind::Read,
            cpu: u32::try_from(number).unwrap() % cpus,
            line: LineAddr(number * 7 % LINES),
            gap: 10,
        });
    }
    trace
}

/// In order, a miss waits for the one before; with some in flight all takes less, never less than the
/// instructions; and all time of all cores is accounted for.
#[test]
fn cores_wait_in_order_or_with_misses_in_flight() {
    let times: Vec<Ps> = [1.0, 2.0, 8.0]
        .into_iter()
        .map(|in_flight| {
            let part = Part::built_in("lpc-core").unwrap();
            let part = part.with("misses_in_flight", in_flight).unwrap();
            let part = CoresPart::from_part(&part).unwrap();
            let trace = misses(2, 500);
            let mut memory = plain(false);
            let done = replay(&trace, &part, &mut memory).unwrap();
            assert_eq!((done.requests, done.instructions), (1_000, 10_000));
            assert_eq!(memory.counts().read.count, 1_000);
            let counted = done.active + done.stalled + done.parked;
            assert_eq!(counted, done.time.times(part.cores));
            assert_eq!(done.active, part.cycle.times(10_000));
            assert!(done.time >= part.cycle.times(5_000));
            // 1 mW for 1 ns is 1 pJ; each of the three is rounded.
            let powers = [
                (done.active, part.active_mw),
                (done.stalled, part.stalled_mw),
                (done.parked, part.parked_mw),
            ];
            let pj: f64 = powers.iter().map(|(time, mw)| time.ns() * mw).sum();
            assert!((done.energy(&part).total_mj() * 1e9 - pj).abs() < 3.0);
            done.time
        })
        .collect();
    assert!(times[0] > times[1] && times[1] > times[2], "{times:?}");
    let part = CoresPart::from_part(&Part::built_in("lpc-core").unwrap()).unwrap();
    replay(&misses(9, 1), &part, &mut plain(false)).unwrap_err();
    let mut short = job("lightpc").psm(64).unwrap();
    replay(&misses(2, 40), &part, &mut short).unwrap_err();
}
