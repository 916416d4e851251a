// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 5 of the WSP paper: a hash table of 100,000 entries, random operations, the share of
//! updates (half of them insertions, half removals) from 0 to 100 %, all policies, interleaved.
//! What they are compared with is plain code on plain memory, in a region of flush on fail, as in the
//! paper.

use std::path::Path;
use std::time::Instant;

use nvheap::{FocRedo, FocStm, FocUndo, FofStm, FofUndo};

use crate::fof;
use crate::measure::Figures;
use crate::ops::{BUCKETS, place};
use crate::peer::Peer;
use crate::plain::{Glibc, Table};
use crate::target::{BATCH, Run, contender, ours};

/// As in the paper.
pub const ENTRIES: u64 = 100_000;
/// Operations of a contender in a row: each has the caches for itself, as it would alone.
const TURN: u64 = 10_000;

/// Nanoseconds per operation of each contender, by batch.
pub fn in_turns<N>(
    contenders: &mut [(N, Run)],
    random: &mut [u64],
    share: u64,
    operations: u64,
) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); contenders.len()];
    let mut left = operations;
    while left > 0 {
        let turn = left.min(TURN);
        left -= turn;
        for (place, (_, run)) in contenders.iter_mut().enumerate() {
            for _ in 0..turn.div_ceil(BATCH) {
                let begin = Instant::now();
                run(&mut random[place], share);
                times[place].push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
            }
        }
    }
    times
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
        (
            "fof",
            contender(Table::new(BUCKETS, fof::local(folder)), entries),
        ),
        ("pmdk", contender(peer, entries)),
        ("glibc", contender(Table::new(BUCKETS, Glibc), entries)),
    ];
    let mut random = vec![1_u64; contenders.len()];
    for share in shares {
        let times = in_turns(&mut contenders, &mut random, *share, operations);
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
            (7, "glibc"),
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
