// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold of a core out of order, of a fence, and of memory behind a link: a program of loads
//! and stores on a memory that notes its requests.

#![expect(
    clippy::cast_precision_loss,
    reason = "a thousand lines of a tenth of a microsecond"
)]

use ocpmem::build::MemoryJob;
use ocpmem::units::{LineAddr, Ps};
use ocpmem::window::{Fetch, Moment, Source, Window, WindowPart};

/// A verdict, which planted bugs refer to, and details.
pub type Broken = (&'static str, String);

/// What checks a rule.
pub type Rule = fn() -> Result<(), Broken>;

/// Every line takes so long.
const LATENCY: Ps = Ps(100_000);
pub const PART: WindowPart = WindowPart {
    window: 352,
    mshrs: 12,
    store_buffer: 72,
    instruction: Ps(100),
};

/// A memory of constant latency, and its requests.
#[derive(Default)]
pub struct Notes {
    pub asked: Vec<(Ps, Ps)>,
}

impl Fetch for Notes {
    fn fetch(&mut self, at: Ps, from: Source) -> Ps {
        let took = match from {
            Source::Memory(_) => LATENCY,
            Source::Level(level) => level,
        };
        self.asked.push((at, at + took));
        at + took
    }
}

impl Notes {
    /// Lines that were under way at the same time, at most.
    pub fn most(&self) -> usize {
        let at_once = |at: Ps| self.asked.iter().filter(move |it| it.0 <= at && at < it.1);
        let counts = self.asked.iter().map(|it| at_once(it.0).count());
        counts.max().unwrap_or(0)
    }

    /// The same on average over a time, by Little's law: rate times latency.
    pub fn mean(&self, time: Ps) -> f64 {
        let busy: u64 = self.asked.iter().map(|it| (it.1 - it.0).0).sum();
        busy as f64 / time.0 as f64
    }
}

/// A core, its own time and what it has done.
pub struct Program {
    pub window: Window,
    pub now: Moment,
    pub memory: Notes,
    part: WindowPart,
}

impl Program {
    pub fn new(part: WindowPart) -> Self {
        Self {
            window: Window::new(part),
            now: Moment::default(),
            memory: Notes::default(),
            part,
        }
    }

    /// Instructions that hit, among them stores.
    pub fn work(&mut self, instructions: u64, stores: u64) {
        self.now.at = self.now.at + self.part.instruction.times(instructions);
        self.now.instructions += instructions;
        self.now.stores += stores;
    }

    pub fn load(&mut self, line: u64) -> Ps {
        self.work(1, 0);
        let from = Source::Memory(LineAddr(line));
        let wait = self.window.load(self.now, from, &mut self.memory);
        self.now.at = self.now.at + wait;
        wait
    }

    pub fn store(&mut self, line: u64) -> Ps {
        self.work(1, 1);
        let from = Source::Memory(LineAddr(line));
        let wait = self.window.store(self.now, from, &mut self.memory);
        self.now.at = self.now.at + wait;
        wait
    }

    pub fn drain(&mut self) -> Ps {
        let wait = self.window.drain(self.now, &mut self.memory);
        self.now.at = self.now.at + wait;
        wait
    }
}

fn expect(verdict: &'static str, holds: bool, what: String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((verdict, what)) }
}

/// Loads a window apart overlap; the instruction after the window waits for the first.
pub fn window_stops_dispatch() -> Result<(), Broken> {
    let mut program = Program::new(PART);
    let first = program.load(1);
    expect(
        "window",
        first == Ps::ZERO,
        format!("a load waits {first:?}"),
    )?;
    program.work(PART.window - 2, 0);
    let inside = program.load(2);
    // It is the window's last: what follows waits until the first has retired.
    let full = PART.instruction.times(PART.window);
    let begun = Ps(PART.instruction.0);
    let due = begun + LATENCY - full;
    expect(
        "window",
        inside == due,
        format!("the last waits {inside:?}, not {due:?}"),
    )?;
    // Found later, it is the same wait.
    let mut late = Program::new(PART);
    late.load(1);
    late.work(10 * PART.window, 0);
    let wait = late.load(2);
    expect(
        "window",
        wait == due,
        format!("found later {wait:?}, not {due:?}"),
    )
}

/// At most so many lines are under way, also where nothing else stops them; and Little's law.
pub fn misses_are_bounded() -> Result<(), Broken> {
    for stores in [false, true] {
        let wide = WindowPart {
            window: 4096,
            store_buffer: 4096,
            ..PART
        };
        let mut program = Program::new(wide);
        for line in 0..1000 {
            if stores {
                program.store(line);
            } else {
                program.load(line);
            }
        }
        program.drain();
        let most = program.memory.most();
        expect("misses", most == PART.mshrs, format!("{most} at once"))?;
        let mean = program.memory.mean(program.now.at);
        let near = mean <= PART.mshrs as f64 && mean > PART.mshrs as f64 * 0.97;
        expect("misses", near, format!("{mean} on average"))?;
        expect(
            "misses",
            program.memory.asked.len() == 1000,
            "lines are lost".into(),
        )?;
    }
    Ok(())
}

/// Stores do not stop dispatch until the buffer is full; it then leaves in order.
pub fn stores_are_bounded() -> Result<(), Broken> {
    let mut program = Program::new(PART);
    let first = program.store(1);
    expect(
        "stores",
        first == Ps::ZERO,
        format!("a store waits {first:?}"),
    )?;
    program.work(PART.store_buffer - 2, PART.store_buffer - 2);
    let inside = program.store(2);
    expect(
        "stores",
        inside == Ps::ZERO,
        format!("inside, one waits {inside:?}"),
    )?;
    let after = program.store(3);
    let passed = PART.instruction.times(PART.store_buffer);
    let due = LATENCY - passed;
    expect(
        "stores",
        after == due,
        format!("the buffer is full for {after:?}, not {due:?}"),
    )
}

/// A miss whose evicted line waits to be sent keeps its place until then.
pub fn evicted_line_that_waits_holds_its_miss() -> Result<(), Broken> {
    for (until, due) in [(3 * LATENCY.0, 3 * LATENCY.0), (1, LATENCY.0)] {
        let mut program = Program::new(WindowPart { mshrs: 1, ..PART });
        program.load(1);
        program.window.hold(Ps(until));
        program.load(2);
        let asked = program.memory.asked[1].0;
        let (least, most) = (Ps(due), Ps(due) + PART.instruction.times(2));
        expect(
            "write-backs",
            least <= asked && asked <= most,
            format!("held until {until}: the next comes at {asked:?}"),
        )?;
    }
    Ok(())
}

/// A fence waits for loads and stores.
pub fn fence_waits_for_all() -> Result<(), Broken> {
    for store in [false, true] {
        let mut program = Program::new(PART);
        if store {
            program.store(1);
        } else {
            program.load(1);
        }
        let wait = program.drain();
        expect("drain", wait == LATENCY, format!("a fence waits {wait:?}"))?;
        let again = program.drain();
        expect("drain", again == Ps::ZERO, format!("another {again:?}"))?;
    }
    Ok(())
}

/// A line from another socket comes later, and lines take turns on the links.
pub fn link_takes_time_and_bandwidth() -> Result<(), Broken> {
    let broken = |error| ("link", format!("{error}"));
    let near = MemoryJob::named("dram");
    let far = MemoryJob {
        far: Some(true),
        ..near.clone()
    };
    let mut near = near.build(1 << 16).map_err(broken)?;
    let mut behind = far.build(1 << 16).map_err(broken)?;
    let (line, at) = (LineAddr(77), Ps(2_000_000));
    near.read(Ps::ZERO, line); // opens its row
    behind.read(Ps::ZERO, line);
    let (own, other) = (near.read(at, line), behind.read(at, line));
    // 61 ns, and 64 B at 3 x 22.4 B/ns.
    let more = (other - own).ns();
    expect(
        "hop",
        (61.9..62.0).contains(&more),
        format!("{more} ns more"),
    )?;
    let mut slow = far.clone();
    slow.change.insert("link_bytes_per_ns".to_owned(), 0.5);
    let mut slow = slow.build(1 << 16).map_err(broken)?;
    let (mut last, at) = ([Ps::ZERO; 2], Ps(1_000_000));
    for number in 0..100 {
        last[0] = slow.read(at, LineAddr(number));
        last[1] = slow.write(at, LineAddr(1000 + number));
    }
    for end in last {
        let took = (end - at).ns() / 100.0;
        let least = 64.0 / 1.5;
        let near = took >= least && took < least * 1.1;
        expect("bandwidth", near, format!("{took} ns a line, not {least}"))?;
    }
    Ok(())
}

/// A fence waits until memory keeps what was written: at a DIMM with a reserve of its own that is when
/// it is accepted, also behind a link; at OC-PMEM when it is on media.
pub fn fence_waits_until_memory_keeps_it() -> Result<(), Broken> {
    let broken = |error| ("persist", format!("{error}"));
    for (name, far) in [("optane", false), ("optane", true), ("dram", false)] {
        let mut job = MemoryJob::named(name);
        job.far = Some(far);
        let mut memory = job.build(1 << 16).map_err(broken)?;
        let (mut at, mut last) = (Ps(1_000_000), Ps::ZERO);
        for number in 0..100 {
            last = last.max(memory.write(at, LineAddr(number * 64)));
            at = at + Ps(1000);
        }
        let waits = memory.persist(at);
        let what = format!("{name}, far {far}: until {waits:?}, accepted {last:?}");
        expect("accepted", waits == last && at < last, what)?;
        let later = last + Ps(1);
        let again = memory.persist(later);
        let what = format!("{name}, far {far}: again {again:?}");
        expect("accepted", again == later, what)?;
    }
    for name in ["lightpc", "legacypc"] {
        let mut memory = MemoryJob::named(name).build(1 << 16).map_err(broken)?;
        let above = LineAddr(memory.lines() - 1); // LegacyPC's OC-PMEM is above its DRAM
        let accepted = memory.write(Ps(1_000_000), above);
        let took = (memory.persist(accepted) - accepted).ns();
        // Programming a line takes that long, wherever its three pieces are.
        let what = format!("{name}: after {took} ns");
        expect("volatile", took > 500.0, what)?;
    }
    Ok(())
}

/// Each rule, by the promise that planted bugs name.
pub const RULES: [(&str, Rule); 7] = [
    ("window", window_stops_dispatch),
    ("misses", misses_are_bounded),
    ("stores", stores_are_bounded),
    ("write-backs", evicted_line_that_waits_holds_its_miss),
    ("drain", fence_waits_for_all),
    ("persist", fence_waits_until_memory_keeps_it),
    ("link", link_takes_time_and_bandwidth),
];
