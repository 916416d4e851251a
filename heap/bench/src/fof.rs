// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flush on fail costs over plain memory: the same code on the same table, in a region and in
//! memory from glibc and from mimalloc. Two tables: plain code, and the heap's own.

use std::path::Path;
use std::time::Instant;

use nvheap::fof::{Local, Memory, Options, Region};

use crate::measure::Figures;
use crate::ops::{BUCKETS, REGION_BYTES};
use crate::plain::{Glibc, Mimalloc, Table};
use crate::target::{BATCH, Library, Run, contender};

/// As in figure 5.
const ENTRIES: u64 = crate::fig5::ENTRIES;
/// Of a table that stays in the cache.
const SMALL_ENTRIES: u64 = 2000;
/// The pages of a table decide what of it collides in the cache: each contender is created this many
/// times.
const INSTANCES: usize = 3;
/// Batches of a contender in a row: the first brings back what the others pushed out of the cache.
const TURN: usize = 4;
/// Half of the operations are updates.
const UPDATES_PERCENT: u64 = 50;
/// All of them, when instructions are counted.
const ALL_PERCENT: u64 = 100;

/// A region in a file, with the usual pages, as malloc's are.
pub fn local(folder: &Path) -> Local {
    let file = folder.join("fof");
    let _ = std::fs::remove_file(&file);
    let region = Region::create(&file, REGION_BYTES, &Options::assume_all()).expect("a region");
    region.local().expect("memory for a thread")
}

/// Memory, and whether the table is the heap's own.
const CONTENDERS: [(&str, bool); 6] = [
    ("fof", false),
    ("glibc", false),
    ("mimalloc", false),
    ("fof", true),
    ("glibc", true),
    ("mimalloc", true),
];

fn in_memory(memory: impl Memory + 'static, library: bool, entries: u64) -> Run<'static> {
    if library {
        contender(Library::new(BUCKETS, memory), entries)
    } else {
        contender(Table::new(BUCKETS, memory), entries)
    }
}

fn run_of(
    folder: &Path,
    memory: &str,
    library: bool,
    entries: u64,
) -> Result<Run<'static>, String> {
    match memory {
        "fof" => Ok(in_memory(local(folder), library, entries)),
        "glibc" => Ok(in_memory(Glibc, library, entries)),
        "mimalloc" => Ok(in_memory(Mimalloc, library, entries)),
        other => Err(format!("memory {other}: give fof, glibc or mimalloc")),
    }
}

/// Times of all contenders, in turns, on tables of both sizes.
pub fn against_plain(folder: &Path, rounds: u64, figures: &mut Figures) -> Result<(), String> {
    for (prefix, entries) in [("", ENTRIES), ("small_", SMALL_ENTRIES)] {
        let mut times = [const { Vec::new() }; CONTENDERS.len()];
        for _ in 0..INSTANCES {
            interleaved(folder, entries, rounds, &mut times)?;
        }
        for ((memory, library), ns) in CONTENDERS.iter().zip(&times) {
            let name = if *library { "map_fof" } else { "fof" };
            let kind = if *library { "map_" } else { "" };
            figures.add(&format!("{prefix}{kind}update_{memory}_ns"), "ns", ns);
            if *memory != "fof" {
                let of_fof = CONTENDERS.iter().position(|one| *one == ("fof", *library));
                let fof = &times[of_fof.expect("a contender")];
                figures.ratio(&format!("{prefix}{name}_vs_{memory}"), fof, ns);
            }
        }
    }
    Ok(())
}

fn interleaved(
    folder: &Path,
    entries: u64,
    rounds: u64,
    times: &mut [Vec<f64>; CONTENDERS.len()],
) -> Result<(), String> {
    let mut runs = Vec::new();
    for (memory, library) in CONTENDERS {
        runs.push((run_of(folder, memory, library, entries)?, 1_u64));
    }
    for round in 0..rounds {
        for place in 0..runs.len() {
            // Each comes after each other one.
            let place = (place + round as usize) % runs.len();
            let (run, random) = &mut runs[place];
            for turn in 0..TURN {
                let begin = Instant::now();
                run(random, UPDATES_PERCENT);
                if turn > 0 {
                    times[place].push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
                }
            }
        }
    }
    Ok(())
}

/// Only updates of one table, for a tool that counts instructions: `fof`, `map-glibc` and so on.
pub fn updates(folder: &Path, memory: &str, entries: u64, operations: u64) -> Result<(), String> {
    let (memory, library) = match memory.strip_prefix("map-") {
        Some(memory) => (memory, true),
        None => (memory, false),
    };
    let mut run = run_of(folder, memory, library, entries)?;
    let mut random = 1;
    for _ in 0..operations.div_ceil(BATCH) {
        run(&mut random, ALL_PERCENT);
    }
    Ok(())
}
