// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs as address streams: for each workload of LightPC's Table II a stated
//! kernel of its class. They make the loads and stores of the algorithm (control
//! flow by seeded random numbers where data would decide), not its results.
//!
//! What a kernel does between accesses is `work`: instructions that access nothing.

mod compute;
mod data;
mod spec;

use crate::cache::{Rate, Tracer};
use crate::cores::CoresPart;
use crate::error::MediaError;
use crate::trace::Trace;
use crate::units::mix;

/// Lines of memory that kernels use: 256 MiB.
pub const LINES: u64 = 1 << 22;

/// One thread of a kernel.
pub(crate) struct Thread<'a> {
    pub(crate) tracer: &'a mut Tracer,
    pub(crate) cpu: u32,
    pub(crate) threads: u32,
    /// How much to do: about so many accesses.
    pub(crate) accesses: u64,
    random: u64,
}

impl Thread<'_> {
    pub(crate) fn load(&mut self, address: u64) {
        self.tracer.load(self.cpu, address);
    }
    pub(crate) fn store(&mut self, address: u64) {
        self.tracer.store(self.cpu, address);
    }
    pub(crate) fn work(&mut self, instructions: u64) {
        self.tracer.work(self.cpu, instructions);
    }
    pub(crate) fn random(&mut self) -> u64 {
        crate::units::random(&mut self.random)
    }
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random() % limit
    }
    /// This thread's share of an array.
    pub(crate) fn share(&self, count: u64) -> std::ops::Range<u64> {
        let (cpu, threads) = (u64::from(self.cpu), u64::from(self.threads));
        cpu * count / threads..(cpu + 1) * count / threads
    }
}

/// A kernel and what it stands for.
pub struct Workload {
    /// As in Table II.
    pub name: &'static str,
    /// Several threads.
    pub threaded: bool,
    /// What the kernel is.
    pub about: &'static str,
    run: fn(&mut Thread<'_>),
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name)
    }
}

const fn row(
    name: &'static str,
    threaded: bool,
    about: &'static str,
    run: fn(&mut Thread<'_>),
) -> Workload {
    Workload {
        name,
        threaded,
        about,
        run,
    }
}

/// Table II, and the four kernels of STREAM.
pub const ALL: &[Workload] = &[
    row("AES", false, "AES by tables over a message", compute::aes),
    row("SHA512", false, "SHA-512 over a message", compute::sha512),
    row(
        "miniFE",
        true,
        "conjugate gradients on a 27-point matrix",
        compute::conjugate_gradients,
    ),
    row(
        "AMG",
        true,
        "V-cycles of multigrid in three dimensions",
        compute::multigrid,
    ),
    row(
        "SNAP",
        true,
        "transport sweep over cells and angles",
        compute::sweep,
    ),
    row(
        "perlbench",
        false,
        "words of a text counted in a hash of strings",
        spec::words,
    ),
    row(
        "bzip2",
        false,
        "block sorting by counting, then move-to-front",
        spec::block_sort,
    ),
    row(
        "gcc",
        false,
        "trees allocated, walked and rewritten",
        spec::trees,
    ),
    row(
        "mcf",
        false,
        "arcs of a network priced through their nodes",
        spec::network,
    ),
    row(
        "astar",
        false,
        "paths over a grid with an open list",
        spec::grid_paths,
    ),
    row(
        "cactusADM",
        false,
        "stencil over many fields in three dimensions",
        spec::fields,
    ),
    row(
        "dealII",
        false,
        "sparse matrix assembled and multiplied",
        spec::assembly,
    ),
    row(
        "wrf",
        false,
        "time steps, each reading what the last wrote",
        spec::weather,
    ),
    row(
        "Redis",
        true,
        "chained hash table, values in a heap, 10 % sets",
        data::hash_gets,
    ),
    row("KeyDB", true, "the same with 40 % sets", data::hash_sets),
    row(
        "Memcached",
        true,
        "hash table with slabs and an LRU list",
        data::slabs,
    ),
    row(
        "SQLite",
        true,
        "B-tree looked up and inserted into, 10 % inserts",
        data::btree,
    ),
    row("stream-copy", true, "c = a", compute::stream_copy),
    row("stream-scale", true, "b = q c", compute::stream_scale),
    row("stream-add", true, "c = a + b", compute::stream_add),
    row("stream-triad", true, "a = b + q c", compute::stream_triad),
];

/// A trace and what the caches did with it.
#[derive(Debug)]
pub struct Traced {
    /// What left the caches.
    pub trace: Trace,
    /// Of all caches.
    pub loads: Rate,
    /// Of all caches.
    pub stores: Rate,
}

/// Run a kernel for about `accesses` accesses.
///
/// # Errors
/// When there is none of that name.
pub fn run(name: &str, part: &CoresPart, accesses: u64, seed: u64) -> Result<Traced, MediaError> {
    let Some(workload) = ALL.iter().find(|workload| workload.name == name) else {
        let known: Vec<&str> = ALL.iter().map(|workload| workload.name).collect();
        return Err(MediaError::Job(format!(
            "no workload {name}: give one of {}",
            known.join(", ")
        )));
    };
    let threads = if workload.threaded {
        u32::try_from(part.cores).unwrap_or(1)
    } else {
        1
    };
    let mut tracer = Tracer::new(threads, part.cache_bytes, part.cache_ways, LINES);
    for cpu in 0..threads {
        let mut thread = Thread {
            tracer: &mut tracer,
            cpu,
            threads,
            accesses: accesses / u64::from(threads),
            random: mix(seed ^ u64::from(cpu)),
        };
        (workload.run)(&mut thread);
    }
    let (loads, stores) = (tracer.loads, tracer.stores);
    Ok(Traced {
        trace: tracer.finish(),
        loads,
        stores,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Part;

    #[test]
    fn every_workload_reads_writes_and_is_deterministic() {
        let part = CoresPart::from_part(&Part::built_in("lpc-core").unwrap()).unwrap();
        for workload in ALL {
            let one = run(workload.name, &part, 40_000, 7).unwrap();
            assert!(
                one.loads.count > 1000 && one.stores.count > 10,
                "{workload:?} {one:?}"
            );
            assert!(!one.trace.is_empty());
            assert_eq!(
                one.trace,
                run(workload.name, &part, 40_000, 7).unwrap().trace
            );
        }
    }
}
