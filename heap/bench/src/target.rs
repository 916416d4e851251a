// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables that random operations are done to: in a region, in plain memory, in the peer.

use std::hint::black_box;

use nvheap::fof::{Memory, PlainTx};
use nvheap::structures::HashMap;
use nvheap::{Native, Pmem, Policy, Session};

use crate::measure::draw;
use crate::ops::Place;
use crate::peer::Peer;
use crate::plain::Table;

/// Operations whose time is taken together: few enough that most batches meet no other program.
pub const BATCH: u64 = 500;

/// What a batch does to a table.
pub trait Target {
    fn get(&mut self, key: u64) -> Option<u64>;
    fn insert(&mut self, key: u64);
    fn remove(&mut self, key: u64);
}

pub struct Ours<P: Policy, B: Pmem = Native> {
    session: Session<P, B>,
    table: HashMap<u64, u64>,
    _heap: Box<dyn std::any::Any>,
}

impl<P: Policy, B: Pmem> Ours<P, B> {
    /// A table of a heap, which is kept with it.
    pub fn new(
        session: Session<P, B>,
        table: HashMap<u64, u64>,
        heap: Box<dyn std::any::Any>,
    ) -> Self {
        Self {
            session,
            table,
            _heap: heap,
        }
    }
}

impl<P: Policy, B: Pmem> Target for Ours<P, B> {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        let table = self.table;
        self.session.view(|tx| table.get(tx, &key)).expect("get")
    }
    #[inline(always)]
    fn insert(&mut self, key: u64) {
        let table = self.table;
        self.session
            .run(|tx| table.insert(tx, key, key))
            .expect("insert");
    }
    #[inline(always)]
    fn remove(&mut self, key: u64) {
        let table = self.table;
        self.session
            .run(|tx| table.remove(tx, &key))
            .expect("remove");
    }
}

/// The heap's table in plain memory: the operations of a transaction without one.
pub struct Library<M> {
    memory: M,
    table: HashMap<u64, u64>,
}

impl<M: Memory> Library<M> {
    pub fn new(buckets: u64, mut memory: M) -> Self {
        // SAFETY: the memory is this table's.
        let mut tx = unsafe { PlainTx::new(&mut memory) };
        let head = HashMap::create(&mut tx, buckets).expect("a table");
        Self {
            memory,
            table: HashMap::at(head),
        }
    }

    #[inline(always)]
    fn tx(&mut self) -> PlainTx<'_, M> {
        // SAFETY: the memory is this table's.
        unsafe { PlainTx::new(&mut self.memory) }
    }
}

impl<M: Memory> Target for Library<M> {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        let table = self.table;
        table.get(&mut self.tx(), &key).expect("get")
    }
    #[inline(always)]
    fn insert(&mut self, key: u64) {
        let table = self.table;
        table.insert(&mut self.tx(), key, key).expect("insert");
    }
    #[inline(always)]
    fn remove(&mut self, key: u64) {
        let table = self.table;
        table.remove(&mut self.tx(), &key).expect("remove");
    }
}

impl<M: Memory> Target for Table<M> {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        Table::get(self, key)
    }
    #[inline(always)]
    fn insert(&mut self, key: u64) {
        Table::insert(self, key, key);
    }
    #[inline(always)]
    fn remove(&mut self, key: u64) {
        Table::remove(self, key);
    }
}

impl Target for Peer {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        let mut value = 0;
        // SAFETY: as bench/peer.h has it.
        (unsafe { (self.lookup)(key, &raw mut value) } == 0).then_some(value)
    }
    #[inline(always)]
    fn insert(&mut self, key: u64) {
        // SAFETY: as bench/peer.h has it.
        assert_eq!(unsafe { (self.insert)(key, key) }, 0);
    }
    #[inline(always)]
    fn remove(&mut self, key: u64) {
        // SAFETY: as bench/peer.h has it.
        assert!(unsafe { (self.remove)(key) } >= 0);
    }
}

/// The same random operations for each contender.
pub fn batch(target: &mut impl Target, keys: u64, random: &mut u64, updates_percent: u64) {
    for _ in 0..BATCH {
        draw(random);
        let drawn = *random >> 33;
        let key = drawn % keys;
        if (drawn >> 18) % 100 >= updates_percent {
            black_box(target.get(key));
        } else if (*random >> 32) & 1 == 0 {
            target.insert(key);
        } else {
            target.remove(key);
        }
    }
}

pub fn ours<P: Policy>(place: Place<P>) -> Ours<P> {
    let (session, table, heap) = place.parts();
    Ours::new(session, table, heap)
}

/// Keys are drawn from twice as many: half of the lookups find something, and the number of
/// entries stays.
pub fn fill(target: &mut impl Target, entries: u64) {
    for key in 0..entries {
        target.insert(key * 2);
    }
}

pub type Run<'a> = Box<dyn FnMut(&mut u64, u64) + 'a>;

pub fn contender<'a>(mut target: impl Target + 'a, entries: u64) -> Run<'a> {
    fill(&mut target, entries);
    Box::new(move |random, updates| batch(&mut target, 2 * entries, random, updates))
}
