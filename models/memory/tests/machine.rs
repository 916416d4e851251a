// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The border to the machine: the model of its caches asks a controller of this crate on
//! misses, write-backs and waits for persistence, and nowhere else.

#![expect(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "clippy allows it in tests, which it does not take this for"
)]

use ocpmem::build::{CONTROLLERS, MemoryJob};
use ocpmem::memory::Memory;
use ocpmem::units::{LineAddr, Ps, random};
use remanence_cache::{Caches, Core, Image, Line, Profile, Timing};

const LINES: u32 = 1 << 14;
const CYCLE: Ps = Ps(625);

/// A controller whose time is set by the caller, which counts instructions.
#[derive(Debug)]
struct Clocked {
    memory: Box<dyn Memory>,
    now: Ps,
}

impl Timing for Clocked {
    fn read_ps(&mut self, _core: Core, line: Line) -> u64 {
        (self.memory.read(self.now, LineAddr(line.0.into())) - self.now).0
    }
    fn write_ps(&mut self, _core: Core, line: Line) -> u64 {
        (self.memory.write(self.now, LineAddr(line.0.into())) - self.now).0
    }
    fn flush_ps(&mut self, _core: Core) -> u64 {
        (self.memory.persist(self.now) - self.now).0
    }
}

fn machine(controller: &str) -> Caches<Image, Clocked> {
    let mut job = MemoryJob::named(controller);
    if controller.starts_with("nmem") {
        job.change.insert("cache_bytes".to_owned(), 65_536.0);
    }
    let memory = job.build(LINES.into()).unwrap();
    let timing = Clocked {
        memory,
        now: Ps::ZERO,
    };
    let profile = Profile::named("lightpc").unwrap();
    Caches::new(profile, 2, LINES, Image::new(1 << 14), timing)
}

/// Loads and stores of two cores in turn; the clock is that of the slower one.
fn run(caches: &mut Caches<Image, Clocked>, accesses: u64) {
    let mut state = 11;
    for number in 0..accesses {
        let dice = random(&mut state);
        let core = Core(usize::try_from(number & 1).unwrap());
        let line = Line(u32::try_from(dice >> 40).unwrap() % LINES);
        let waited = caches.waited_ps(Core(0)).max(caches.waited_ps(Core(1)));
        let now = Ps(number / 2 * CYCLE.0 * 3 + waited);
        caches.timing.now = caches.timing.now.max(now);
        if dice & 3 == 0 {
            caches.memory.coherent[line.index()][0] = dice.to_le_bytes()[1];
            caches.store(core, line);
        } else {
            caches.load(core, line);
        }
    }
}

#[test]
fn every_controller_is_asked_for_each_miss_and_write_back_once() {
    for name in CONTROLLERS {
        let mut caches = machine(name);
        run(&mut caches, 50_000);
        let asked = *caches.timing.memory.counts();
        let made = caches.counters();
        assert_eq!(asked.read.count, made.memory_reads, "{name}");
        assert_eq!(asked.write.count, made.write_backs, "{name}");
        assert!(
            made.memory_reads > 10_000 && made.write_backs > 1_000,
            "{name}"
        );
    }
}

/// Accesses, then the WBINVD of a Stop: how long the core waits for it, and until when.
fn stop(caches: &mut Caches<Image, Clocked>) -> (Ps, Ps) {
    run(caches, 20_000);
    let before_ps = caches.waited_ps(Core(0));
    caches.wbinvd(Core(0));
    let waited = Ps(caches.waited_ps(Core(0)) - before_ps);
    (waited, caches.timing.now + waited)
}

/// WBINVD drives OC-PMEM's flush port: nothing that the controller took is volatile afterwards.
#[test]
fn stop_waits_until_the_controller_has_nothing_volatile() {
    let mut caches = machine("lightpc");
    let end = stop(&mut caches).1;
    let timing = &mut caches.timing;
    // Asked again when the stop is over, the flush port has nothing to wait for but its own way.
    let again = timing.memory.flush(end) - end;
    assert!(again < Ps(100_000), "{again:?}");
    let figures = timing.memory.own_figures();
    let flushes = figures.iter().find(|it| it.name == "flushes").unwrap();
    assert!(flushes.value >= 2.0);
}

/// WBINVD does not wait until a DIMM with a reserve of its own has written its buffers to media.
#[test]
fn stop_leaves_buffers_to_the_reserve_of_the_dimm() {
    let mut caches = machine("optane");
    let (waited, end) = stop(&mut caches);
    let left = caches.timing.memory.flush(end) - end;
    println!("{waited:?} waited, {left:?} left");
    assert!(waited > Ps::ZERO && waited.times(2) < left);
}
