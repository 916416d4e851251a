// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flush on fail costs over plain memory: the same updates of a hash table in a region, and in
//! memory from glibc and from mimalloc.

use std::path::Path;
use std::time::Instant;

use nvheap::Fof;

use crate::measure::Figures;
use crate::ops::{BUCKETS, place, place_in_memory};
use crate::plain::{Glibc, Mimalloc, Table};
use crate::target::{BATCH, Run, contender, ours};

/// As in figure 5.
const ENTRIES: u64 = crate::fig5::ENTRIES;
/// All operations are updates when instructions are counted.
const ALL_PERCENT: u64 = 100;

/// Half of the operations are updates.
pub fn against_plain(folder: &Path, rounds: u64, figures: &mut Figures) {
    let mut contenders: [(&str, Run); 4] = [
        ("fof", contender(ours(place::<Fof>(folder)), ENTRIES)),
        ("volatile", contender(Table::new(BUCKETS, Glibc), ENTRIES)),
        (
            "mimalloc",
            contender(Table::new(BUCKETS, Mimalloc), ENTRIES),
        ),
        (
            "fof_anonymous",
            contender(ours(place_in_memory::<Fof>()), ENTRIES),
        ),
    ];
    let mut random = [1_u64; 4];
    let mut times = [const { Vec::new() }; 4];
    for round in 0..rounds * 4 {
        for (place, (_, run)) in contenders.iter_mut().enumerate() {
            let begin = Instant::now();
            run(&mut random[place], 50);
            if round >= rounds {
                times[place].push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
            }
        }
    }
    for ((name, _), times) in contenders.iter().zip(&times) {
        figures.add(&format!("update_{name}_ns"), "ns", times);
    }
    figures.ratio("fof_vs_volatile", &times[0], &times[1]);
    figures.ratio("fof_vs_mimalloc", &times[0], &times[2]);
    figures.ratio("fof_anonymous_vs_volatile", &times[3], &times[1]);
}

/// Only updates of one table, for a tool that counts instructions.
pub fn updates(folder: &Path, memory: &str, entries: u64, operations: u64) -> Result<(), String> {
    let mut run = match memory {
        "fof" => contender(ours(place::<Fof>(folder)), entries),
        "glibc" => contender(Table::new(BUCKETS, Glibc), entries),
        "mimalloc" => contender(Table::new(BUCKETS, Mimalloc), entries),
        other => return Err(format!("memory {other}: give fof, glibc or mimalloc")),
    };
    let mut random = 1;
    for _ in 0..operations.div_ceil(BATCH) {
        run(&mut random, ALL_PERCENT);
    }
    Ok(())
}
