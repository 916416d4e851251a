// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Goal: media has the correct content after any operations in any order.
//! Method: random operations, compared with a model without places that is obviously correct. If
//! the caches are too large for evictions both must agree on every byte after every operation; if
//! they are tiny, evictions must obey the rules of a cache.

use crate::{Caches, Cause, Core, FlatTiming, Geometry, Image, Line, Profile, Replacement};

const LINES: u32 = 96;
const CORES: usize = 3;

/// xorshift64: tests need any reproducible stream.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap() % end
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Store,
    Load,
    Fetch,
    Dma,
    NtStore,
    Clflush,
    Clflushopt,
    Clwb,
    Fence,
    Wbinvd,
    Wbnoinvd,
    Invd,
}

const OPS: [(Op, usize); 12] = [
    (Op::Store, 300),
    (Op::Load, 150),
    (Op::Fetch, 100),
    (Op::Dma, 15),
    (Op::NtStore, 20),
    (Op::Clflush, 20),
    (Op::Clflushopt, 20),
    (Op::Clwb, 20),
    (Op::Fence, 20),
    (Op::Wbinvd, 4),
    (Op::Wbnoinvd, 4),
    (Op::Invd, 1),
];

fn draw(random: &mut Random, without: &[Op]) -> (Op, Core, Line) {
    let total = OPS.iter().map(|(_, weight)| weight).sum();
    loop {
        let mut left = random.below(total);
        let drawn = OPS
            .iter()
            .find(|(_, weight)| match left.checked_sub(*weight) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            });
        let op = drawn.unwrap().0;
        let line = Line(u32::try_from(random.below(LINES as usize)).unwrap());
        if !without.contains(&op) {
            return (op, Core(random.below(CORES)), line);
        }
    }
}

fn profile(l1: Geometry, l2: Option<Geometry>, llc: Option<Geometry>, inclusive: bool) -> Profile {
    let mut profile = Profile::named("lightpc").unwrap();
    (profile.l1, profile.l2, profile.llc) = (l1, l2, llc);
    profile.inclusive = inclusive;
    profile.fill_buffers = 1000;
    profile
}

fn kib(kib: u64, ways: u32) -> Geometry {
    Geometry {
        kib,
        ways,
        latency_ns: 1.0,
    }
}

fn caches(profile: Profile) -> Caches<Image, FlatTiming> {
    let timing = FlatTiming::of(&profile);
    Caches::new(profile, CORES, LINES, Image::new(LINES as usize), timing)
}

/// Stores a number that was never stored before.
fn change(caches: &mut Caches<Image, FlatTiming>, line: Line, number: u64) {
    caches.memory.coherent[line.index()][..8].copy_from_slice(&number.to_le_bytes());
}

fn number(bytes: crate::Bytes) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn apply(caches: &mut Caches<Image, FlatTiming>, step: (Op, Core, Line), fresh: u64) {
    let (op, core, line) = step;
    if matches!(op, Op::Store | Op::Dma | Op::NtStore) {
        change(caches, line, fresh);
    }
    match op {
        Op::Store => drop(caches.store(core, line)),
        Op::Load => drop(caches.load(core, line)),
        Op::Fetch => drop(caches.fetch(core, line)),
        Op::Dma => {}
        Op::NtStore => caches.nt_store(core, line),
        Op::Clflush => caches.clflush(core, line),
        Op::Clflushopt => caches.clflushopt(core, line),
        Op::Clwb => caches.clwb(core, line),
        Op::Fence => caches.fence(core),
        Op::Wbinvd => caches.wbinvd(core),
        Op::Wbnoinvd => caches.wbnoinvd(core),
        Op::Invd => drop(caches.invd(core)),
    }
}

/// Where a dirty line is, if nothing is ever evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    None,
    Core(usize),
    Shared,
}

/// One line of the obvious model.
#[derive(Clone, Copy, Debug)]
struct Model {
    owner: Owner,
    /// Core and content in flight.
    flight: Option<(usize, u64)>,
    coherent: u64,
    media: u64,
    /// An unseen content that a WBINVD met, and the cores that may hold it.
    met: (u64, usize),
}

impl Model {
    fn land(&mut self) {
        (self.media, self.owner, self.flight) = (self.coherent, Owner::None, None);
        self.met = (0, 0);
    }

    fn step(&mut self, op: Op, core: usize, fresh: u64, has_llc: bool) {
        let own = matches!(self.owner, Owner::Shared) || self.owner == Owner::Core(core);
        let unseen = self.owner == Owner::None && self.flight.is_none();
        match op {
            Op::Store => (self.coherent, self.owner) = (fresh, Owner::Core(core)),
            Op::Load => match self.owner {
                Owner::Core(other) if other != core && has_llc => self.owner = Owner::Shared,
                Owner::Core(other) if other != core => self.land(),
                _ => {}
            },
            Op::Dma => self.coherent = fresh,
            Op::Fetch => {}
            Op::NtStore => {
                self.coherent = fresh;
                (self.owner, self.flight) = (Owner::None, Some((core, fresh)));
            }
            Op::Clflush => self.land(),
            Op::Clflushopt | Op::Clwb => {
                let differs = self.coherent != self.media;
                if self.owner != Owner::None || (unseen && differs) {
                    (self.owner, self.flight) = (Owner::None, Some((core, self.coherent)));
                }
            }
            Op::Fence => {
                if let Some((sender, content)) = self.flight {
                    if sender == core {
                        (self.media, self.flight) = (content, None);
                        self.met = (0, 0);
                    }
                }
            }
            Op::Wbinvd | Op::Wbnoinvd => {
                self.step(Op::Fence, core, fresh, has_llc);
                let unseen = self.owner == Owner::None && self.flight.is_none();
                let differs = unseen && self.coherent != self.media;
                if differs && self.met.0 != self.coherent {
                    self.met = (self.coherent, (1 << CORES) - 1);
                }
                if differs {
                    self.met.1 &= !(1 << core);
                }
                if own || differs && self.met.1 == 0 {
                    self.land();
                }
            }
            Op::Invd => {
                if own {
                    self.owner = Owner::None;
                }
                if self.owner == Owner::None && self.flight.is_none() {
                    self.coherent = self.media;
                }
            }
        }
    }
}

#[test]
fn without_evictions_every_byte_equals_the_obvious_model() {
    let large = kib(64, 16);
    let shapes = [
        profile(large, None, None, false),
        profile(large, Some(large), None, false),
        profile(large, None, Some(large), true),
        profile(large, Some(large), Some(large), true),
        profile(large, Some(large), Some(large), false),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        let has_llc = shape.llc.is_some();
        let mut random = Random(seed * 7919);
        let mut caches = caches(shape);
        let zero = Model {
            owner: Owner::None,
            flight: None,
            coherent: 0,
            media: 0,
            met: (0, 0),
        };
        let mut found = vec![zero; LINES as usize];
        for fresh in 1..4_000 {
            let step = draw(&mut random, &[]);
            apply(&mut caches, step, fresh);
            let (op, Core(core), line) = step;
            if matches!(op, Op::Fence | Op::Wbinvd | Op::Wbnoinvd | Op::Invd) {
                found
                    .iter_mut()
                    .for_each(|line| line.step(op, core, fresh, has_llc));
            } else {
                found[line.index()].step(op, core, fresh, has_llc);
            }
            for (index, line) in found.iter().enumerate() {
                let has = caches.memory.coherent[index];
                assert_eq!(
                    number(has),
                    line.coherent,
                    "{fresh}: {step:?}, line {index}"
                );
                let has = caches.memory.media[index];
                assert_eq!(number(has), line.media, "{fresh}: {step:?}, line {index}");
            }
            let dirty = |line: &&Model| line.owner != Owner::None;
            let dirty = found.iter().filter(dirty).count();
            assert_eq!(caches.dirty_lines().len(), dirty, "{step:?}");
        }
        assert!(!has_llc || caches.counters().evictions == 0);
        caches.check();
    }
}

/// Tiny caches of each shape: what evictions may and may not do.
#[test]
fn evictions_write_what_is_dirty_and_media_never_goes_back() {
    let shapes = [
        profile(kib(1, 1), None, None, false),
        profile(kib(1, 4), None, None, false),
        profile(kib(1, 2), Some(kib(2, 4)), None, false),
        profile(kib(1, 2), Some(kib(1, 4)), Some(kib(2, 8)), false),
        profile(kib(1, 2), Some(kib(2, 4)), Some(kib(4, 8)), true),
        profile(kib(1, 4), None, Some(kib(1, 16)), true),
        profile(kib(2, 4), Some(kib(1, 1)), Some(kib(1, 2)), true),
    ];
    for (seed, mut shape) in (1..).zip(shapes) {
        shape.fill_buffers = 3;
        if seed % 2 == 0 {
            shape.replacement = Replacement::Random;
        }
        let mut random = Random(seed * 104_729);
        let mut caches = caches(shape);
        for fresh in 1..5_000 {
            let before = caches.memory.clone();
            let (dirty, logged) = (caches.dirty_lines(), before.log.len());
            let step = draw(&mut random, &[Op::Invd]);
            apply(&mut caches, step, fresh);
            caches.check();
            for index in 0..LINES as usize {
                let (old, new) = (before.media[index], caches.memory.media[index]);
                assert!(number(old) <= number(new), "media went back: {step:?}");
            }
            for (line, cause) in &caches.memory.log[logged..] {
                let was = dirty.contains(line) || *line == step.2;
                assert!(*cause != Cause::Eviction || was, "{line:?} was clean");
            }
        }
        assert!(
            caches.counters().evictions > 20,
            "the caches are too large to test"
        );
        for core in 0..CORES {
            caches.wbinvd(Core(core));
        }
        assert_eq!(caches.memory.coherent, caches.memory.media);
        assert!(caches.dirty_lines().is_empty());
    }
}

/// A line that is neither dirty, nor in flight, nor changed without a store, is on media.
#[test]
fn differences_from_media_are_accounted_for() {
    let shape = profile(kib(1, 2), Some(kib(1, 4)), Some(kib(2, 8)), false);
    let mut caches = caches(shape);
    let mut random = Random(31);
    let without = [Op::Dma, Op::NtStore, Op::Clflushopt, Op::Clwb];
    for fresh in 1..5_000 {
        apply(&mut caches, draw(&mut random, &without), fresh);
        let dirty = caches.dirty_lines();
        for line in (0..LINES).map(Line) {
            let differs = caches.memory.coherent[line.index()] != caches.memory.media[line.index()];
            assert!(!differs || dirty.contains(&line), "{line:?} is nowhere");
        }
    }
}
