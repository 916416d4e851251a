// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 5's flush on commit where a fence takes longer, as it does in slower memory and on older
//! processors: the heap's own code over a back end that waits at each fence.

use std::hint::spin_loop;
use std::path::Path;
use std::time::{Duration, Instant};

use nvheap::structures::{HashHead, HashMap};
use nvheap::{
    FocStm, FocUndo, Heap, LINE_WORDS, MapOptions, Mapping, Native, Options, PPtr, Pmem, Policy,
};

use crate::fig5::in_turns;
use crate::fof;
use crate::measure::Figures;
use crate::ops::{BUCKETS, REGION_BYTES};
use crate::plain::Table;
use crate::target::{Ours, Run, contender};

/// What a fence takes more. The last makes a difference that is larger than that between two runs,
/// also where one operation in ten has a fence.
const WAITS_NS: [u64; 3] = [300, 1000, 3000];

/// This machine's memory, with a longer fence.
#[derive(Debug)]
struct Slow {
    native: Native,
    wait: Duration,
}

// SAFETY: `Native` performs every store.
unsafe impl Pmem for Slow {
    #[inline(always)]
    unsafe fn store(&self, at: *mut u64, value: u64) {
        // SAFETY: as the caller says.
        unsafe { self.native.store(at, value) };
    }

    #[inline(always)]
    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        // SAFETY: as the caller says.
        unsafe { self.native.store_byte(at, value) };
    }

    #[inline(always)]
    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        // SAFETY: as the caller says.
        unsafe { self.native.stream_line(at, line) };
    }

    #[inline(always)]
    unsafe fn flush(&self, at: *const u8) {
        // SAFETY: as the caller says.
        unsafe { self.native.flush(at) };
    }

    fn fence(&self) {
        self.native.fence();
        let begin = Instant::now();
        while begin.elapsed() < self.wait {
            spin_loop();
        }
    }

    fn pause(&self) {
        self.native.pause();
    }
}

fn slow<P: Policy>(folder: &Path, wait_ns: u64, entries: u64) -> Run<'static> {
    let pm = Slow {
        native: Native::new(),
        wait: Duration::from_nanos(wait_ns),
    };
    // A file as the others have: anonymous memory would have larger pages.
    let file = folder.join(format!("slow-{}-{wait_ns}", P::KIND));
    let options = MapOptions {
        assume_persistent: true,
        must_be_persistent: true,
        address: None,
    };
    let map = Mapping::create(&file, REGION_BYTES, &options).expect("memory");
    let heap = Heap::<P, Slow>::format(pm, map, &Options::assume_all()).expect("a region");
    let mut session = heap.session().expect("a session");
    let head: PPtr<HashHead<u64, u64>> = session
        .root_or("table", |tx| HashMap::create(tx, BUCKETS))
        .expect("a table");
    contender(
        Ours::new(session, HashMap::at(head), Box::new(heap)),
        entries,
    )
}

/// `operations` for each contender and share; ratios over plain memory under flush on fail.
pub fn measure(
    folder: &Path,
    entries: u64,
    operations: u64,
    shares: &[u64],
    figures: &mut Figures,
) {
    let plain = contender(Table::new(BUCKETS, fof::local(folder)), entries);
    let mut contenders: Vec<(String, Run)> = vec![("fof".to_owned(), plain)];
    for wait_ns in WAITS_NS {
        for (policy, run) in [
            ("foc_stm", slow::<FocStm>(folder, wait_ns, entries)),
            ("foc_ul", slow::<FocUndo>(folder, wait_ns, entries)),
        ] {
            contenders.push((format!("{policy}_wait{wait_ns}"), run));
        }
    }
    let mut random = vec![1_u64; contenders.len()];
    for share in shares {
        let times = in_turns(&mut contenders, &mut random, *share, operations);
        for ((name, _), own) in contenders.iter().zip(&times).skip(1) {
            figures.ratio(&format!("u{share}_{name}_vs_fof"), own, &times[0]);
        }
    }
}
