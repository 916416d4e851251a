// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 5 of the WSP paper: a hash table of 100,000 entries, random operations, the share of
//! updates (half of them insertions, half removals) from 0 to 100 %, all policies, interleaved.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use nvheap::structures::HashMap;
use nvheap::{FocRedo, FocStm, FocUndo, Fof, FofStm, FofUndo, Policy, Session};

use crate::measure::{Figures, draw};
use crate::ops::{BUCKETS, Place, place, place_in_memory};
use crate::peer::Peer;
use crate::volatile::Table;

/// As in the paper.
pub const ENTRIES: u64 = 100_000;
/// Operations whose time is taken together: few enough that most batches meet no other program.
const BATCH: u64 = 500;
/// Operations of a contender in a row: each has the caches for itself, as it would alone.
const TURN: u64 = 10_000;

/// What a batch does to a table.
trait Target {
    fn get(&mut self, key: u64) -> Option<u64>;
    fn insert(&mut self, key: u64);
    fn remove(&mut self, key: u64);
}

struct Ours<P: Policy> {
    session: Session<P>,
    table: HashMap<u64, u64>,
    _place: Box<dyn std::any::Any>,
}

impl<P: Policy> Target for Ours<P> {
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

impl Target for Table {
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
fn batch(target: &mut impl Target, keys: u64, random: &mut u64, updates_percent: u64) {
    for _ in 0..BATCH {
        draw(random);
        let drawn = *random >> 33;
        let key = drawn % keys;
        if (drawn >> 18) % 100 >= updates_percent {
            black_box(target.get(key));
        } else if *random >> 32 & 1 == 0 {
            target.insert(key);
        } else {
            target.remove(key);
        }
    }
}

fn ours<P: Policy>(place: Place<P>) -> Ours<P> {
    let (session, table, heap) = place.parts();
    Ours {
        session,
        table,
        _place: heap,
    }
}

/// Keys are drawn from twice as many: half of the lookups find something, and the number of
/// entries stays.
fn fill(target: &mut impl Target, entries: u64) {
    for key in 0..entries {
        target.insert(key * 2);
    }
}

type Run<'a> = Box<dyn FnMut(&mut u64, u64) + 'a>;

fn contender<'a>(mut target: impl Target + 'a, entries: u64) -> Run<'a> {
    fill(&mut target, entries);
    Box::new(move |random, updates| batch(&mut target, 2 * entries, random, updates))
}

/// FoF against plain memory: the same code path as the figure, half of the operations updates.
pub fn against_volatile(folder: &Path, rounds: u64, figures: &mut Figures) {
    let mut fof = contender(ours(place::<Fof>(folder)), ENTRIES);
    let mut plain = contender(Table::new(BUCKETS), ENTRIES);
    let mut memory = contender(ours(place_in_memory::<Fof>()), ENTRIES);
    let mut random = [1_u64; 3];
    let mut times = [const { Vec::new() }; 3];
    for round in 0..rounds * 4 {
        for (place, run) in [&mut fof, &mut plain, &mut memory].into_iter().enumerate() {
            let begin = Instant::now();
            run(&mut random[place], 50);
            if round >= rounds {
                times[place].push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
            }
        }
    }
    figures.add("update_fof_ns", "ns", &times[0]);
    figures.add("update_volatile_ns", "ns", &times[1]);
    figures.add("update_fof_anonymous_ns", "ns", &times[2]);
    figures.ratio("fof_vs_volatile", &times[0], &times[1]);
    figures.ratio("fof_anonymous_vs_volatile", &times[2], &times[1]);
}

/// `operations` for each contender and share.
pub fn measure(
    folder: &Path,
    peer: Peer,
    entries: u64,
    operations: u64,
    shares: &[u64],
    figures: &mut Figures,
) {
    let mut contenders: Vec<(&str, Run)> = vec![
        ("foc_stm", contender(ours(place::<FocStm>(folder)), entries)),
        ("foc_ul", contender(ours(place::<FocUndo>(folder)), entries)),
        ("foc_rl", contender(ours(place::<FocRedo>(folder)), entries)),
        ("fof_stm", contender(ours(place::<FofStm>(folder)), entries)),
        ("fof_ul", contender(ours(place::<FofUndo>(folder)), entries)),
        ("fof", contender(ours(place::<Fof>(folder)), entries)),
        ("pmdk", contender(peer, entries)),
        ("volatile", contender(Table::new(BUCKETS), entries)),
    ];
    let mut random = vec![1_u64; contenders.len()];
    for share in shares {
        let mut times = vec![Vec::new(); contenders.len()];
        let mut left = operations;
        while left > 0 {
            let turn = left.min(TURN);
            left -= turn;
            for (place, (_, run)) in contenders.iter_mut().enumerate() {
                for _ in 0..turn.div_ceil(BATCH) {
                    let begin = Instant::now();
                    run(&mut random[place], *share);
                    times[place].push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
                }
            }
        }
        for ((name, _), times) in contenders.iter().zip(&times) {
            figures.add(&format!("u{share}_{name}_ns"), "ns", times);
        }
        for (place, name) in [
            (0, "foc_stm"),
            (1, "foc_ul"),
            (2, "foc_rl"),
            (6, "pmdk"),
            (3, "fof_stm"),
            (4, "fof_ul"),
            (7, "volatile"),
        ] {
            figures.ratio(&format!("u{share}_{name}_vs_fof"), &times[place], &times[5]);
        }
        // What flushing alone costs: the same transactions with their log in the cache.
        for (name, flushed, cached) in [("stm", 0, 3), ("ul", 1, 4)] {
            let name = format!("u{share}_foc_vs_fof_{name}");
            figures.ratio(&name, &times[flushed], &times[cached]);
        }
    }
}
