// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads, opening, recovery.

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use nvheap::structures::{HashHead, HashMap};
use nvheap::{FocRedo, FocStm, Heap, Mapping, Native, Options, PPtr, Tx};

use crate::measure::Figures;
use crate::ops::{BUCKETS, REGION_BYTES};

/// Transactions per second of so many threads on one table under STM.
fn throughput(heap: &Heap<FocStm>, threads: u64, each: u64) -> f64 {
    let barrier = Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut session = heap.session().expect("a session");
                    let head: PPtr<HashHead<u64, u64>> = session.root("table").expect("a table");
                    let table = HashMap::at(head);
                    barrier.wait();
                    for step in 0..each {
                        let key = (thread << 32) | (step % 5000);
                        session
                            .run(|tx| table.insert(tx, key, step))
                            .expect("insert");
                    }
                })
            })
            .collect();
        barrier.wait();
        let begin = Instant::now();
        for worker in workers {
            worker.join().expect("a worker");
        }
        (threads * each) as f64 / begin.elapsed().as_secs_f64()
    })
}

pub fn threads(rounds: u64, figures: &mut Figures) {
    let options = Options::assume_all();
    let heap = Heap::<FocStm>::anonymous(REGION_BYTES, &options).expect("a region");
    let mut session = heap.session().expect("a session");
    session
        .root_or::<HashHead<u64, u64>>("table", |tx| HashMap::create(tx, BUCKETS))
        .expect("a table");
    drop(session);
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (place, threads) in [1, 2, 4].into_iter().enumerate() {
            rates[place].push(throughput(&heap, threads, 20_000) / 1e6);
        }
    }
    for (name, rates) in ["threads1", "threads2", "threads4"].into_iter().zip(&rates) {
        figures.add(&format!("{name}_mtps"), "M/s", rates);
    }
    figures.ratio("threads4_vs_1", &rates[2], &rates[0]);
    figures.ratio("threads4_vs_2", &rates[2], &rates[1]);
}

/// Opening regions with few and with many objects.
pub fn open(folder: &Path, objects: u64, rounds: u64, figures: &mut Figures) {
    let options = Options::assume_all();
    let files: Vec<_> = [1000, objects]
        .into_iter()
        .map(|objects| {
            let file = folder.join(format!("objects-{objects}"));
            let _ = std::fs::remove_file(&file);
            let bytes = (32 << 20) + objects * 18;
            let heap = Heap::<FocRedo>::create(&file, bytes, &options).expect("a region");
            let mut session = heap.session().expect("a session");
            for _ in 0..objects / 500 {
                session
                    .run(|tx| (0..500).try_for_each(|_| tx.reserve(16).map(|_| ())))
                    .expect("objects");
            }
            file
        })
        .collect();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (place, file) in files.iter().enumerate() {
            let begin = Instant::now();
            let heap = Heap::<FocRedo>::open(file, &options).expect("the region again");
            times[place].push(begin.elapsed().as_nanos() as f64 / 1000.0);
            drop(heap);
        }
    }
    for file in files {
        let _ = std::fs::remove_file(file);
    }
    figures.add("open_few_us", "us", &times[0]);
    figures.add("open_many_us", "us", &times[1]);
    figures.ratio("open_many_vs_few", &times[1], &times[0]);
}

/// Recovery after transactions without a checkpoint: as many records as the logs hold, and ten
/// times as many, of which the same number is left.
pub fn recovery(figures: &mut Figures) {
    let options = Options::assume_all();
    for (name, transactions) in [
        ("recover_full_log", 4000),
        ("recover_after_ten_logs", 40_900),
    ] {
        let heap = Heap::<FocRedo>::anonymous(16 << 20, &options).expect("a region");
        let mut session = heap.session().expect("a session");
        let words: PPtr<[u64; 8]> = session
            .root_or("words", |tx| tx.alloc([0; 8]))
            .expect("words");
        for value in 0..transactions {
            session
                .run(|tx| tx.set(words.cast::<u64>(), value))
                .expect("set");
        }
        let mut times = Vec::new();
        let mut applied = 0;
        for _ in 0..5 {
            let copy = Mapping::anonymous(16 << 20).expect("memory");
            // SAFETY: both are as long; nobody writes to the heap meanwhile.
            unsafe { std::ptr::copy_nonoverlapping(heap.base(), copy.base(), 16 << 20) };
            let begin = Instant::now();
            let found = Heap::<FocRedo>::attach(Native::new(), copy, &options).expect("a recovery");
            times.push(begin.elapsed().as_nanos() as f64 / 1000.0);
            applied = found.recovered().applied;
        }
        figures.add(&format!("{name}_us"), "us", &times);
        figures.add(&format!("{name}_records"), "records", &[applied as f64]);
    }
}
