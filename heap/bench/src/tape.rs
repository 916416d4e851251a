// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a hash table in the heap does to memory, access by access, for models of memory: loads by a
//! transaction that notes them, stores, flushes and fences by a back end that does.
//!
//! The file is a row of little-endian words: the kind in the highest byte, below it the offset.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nvheap::fof::{self, PlainTx, Region};
use nvheap::structures::{HashHead, HashMap};
use nvheap::testing::Plain;
use nvheap::{
    Heap, LINE_WORDS, Mapping, Options, PPtr, Pmem, Policy, PolicyKind, Range, Tx, TxError,
    TxResult, with_policy,
};

use crate::keep::FOF;
use crate::measure::draw;

const LOAD: u64 = 0;
const STORE: u64 = 1;
const STREAM: u64 = 2;
const FLUSH: u64 = 3;
const FENCE: u64 = 4;
/// An operation of the table begins.
const BEGIN: u64 = 5;

const REGION_BYTES: u64 = 32 << 20;
const BUCKETS: u64 = 1 << 17;
const ENTRIES: u64 = 100_000;

/// Notes accesses to a region while it is switched on.
#[derive(Clone, Debug)]
struct Tape {
    base: usize,
    runs: Arc<AtomicBool>,
    words: Arc<Mutex<Vec<u64>>>,
}

impl Tape {
    fn note(&self, kind: u64, offset: u64) {
        if self.runs.load(Ordering::Relaxed) {
            let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
            words.push((kind << 56) | offset);
        }
    }

    fn offset(&self, at: usize) -> u64 {
        (at - self.base) as u64
    }

    /// What random insertions and removals do.
    fn record(
        &self,
        operations: u64,
        mut change: impl FnMut(u64, bool) -> TxResult<()>,
    ) -> Result<Vec<u64>, String> {
        self.runs.store(true, Ordering::Relaxed);
        let mut random = 1_u64;
        for _ in 0..operations {
            draw(&mut random);
            let (key, what) = ((random >> 33) % (2 * ENTRIES), (random >> 32) & 1);
            self.note(BEGIN, 0);
            change(key, what == 0).map_err(|error| error.to_string())?;
        }
        self.runs.store(false, Ordering::Relaxed);
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *words))
    }
}

const PLAIN: Plain = Plain;

// SAFETY: `Plain` performs every store.
unsafe impl Pmem for Tape {
    unsafe fn store(&self, at: *mut u64, value: u64) {
        self.note(STORE, self.offset(at as usize));
        // SAFETY: as the caller says.
        unsafe { PLAIN.store(at, value) };
    }

    unsafe fn store_byte(&self, at: *mut u8, value: u8) {
        self.note(STORE, self.offset(at as usize));
        // SAFETY: as the caller says.
        unsafe { PLAIN.store_byte(at, value) };
    }

    unsafe fn stream_line(&self, at: *mut u64, line: &[u64; LINE_WORDS]) {
        self.note(STREAM, self.offset(at as usize));
        // SAFETY: as the caller says.
        unsafe { PLAIN.stream_line(at, line) };
    }

    unsafe fn flush(&self, at: *const u8) {
        self.note(FLUSH, self.offset(at as usize));
    }

    fn fence(&self) {
        self.note(FENCE, 0);
    }

    fn pause(&self) {}
}

/// A transaction whose loads are noted, and in plain memory its stores, too.
struct Noted<'a, T> {
    tx: &'a mut T,
    tape: &'a Tape,
    /// Addresses are noted as their distance from here.
    base: u64,
    plain: bool,
}

impl<T> Noted<'_, T> {
    /// What no back end sees.
    fn note_plain(&self, kind: u64, offset: u64) {
        if self.plain {
            self.tape.note(kind, offset - self.base);
        }
    }
}

impl<T: Tx> Tx for Noted<'_, T> {
    unsafe fn load(&mut self, offset: u64) -> TxResult<u64> {
        self.tape.note(LOAD, offset - self.base);
        // SAFETY: as the caller says.
        unsafe { self.tx.load(offset) }
    }

    unsafe fn store(&mut self, offset: u64, value: u64) -> TxResult<()> {
        self.note_plain(STORE, offset);
        // SAFETY: as the caller says.
        unsafe { self.tx.store(offset, value) }
    }

    unsafe fn init(&mut self, offset: u64, words: &[u64]) -> TxResult<()> {
        for word in 0..words.len() as u64 {
            self.note_plain(STORE, offset + word * 8);
        }
        // SAFETY: as the caller says.
        unsafe { self.tx.init(offset, words) }
    }

    fn will_set(&mut self, ranges: &[Range]) -> TxResult<()> {
        self.tx.will_set(ranges)
    }

    fn reserve(&mut self, bytes: u64) -> TxResult<u64> {
        let offset = self.tx.reserve(bytes)?;
        // A free object holds the link to the next one.
        self.note_plain(LOAD, offset);
        Ok(offset)
    }

    fn release(&mut self, offset: u64) -> TxResult<()> {
        self.note_plain(STORE, offset);
        self.tx.release(offset)
    }

    fn window(&self) -> (u64, u64) {
        self.tx.window()
    }

    fn nested<R>(&mut self, body: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R> {
        // The table has no nested parts; one that failed could not be undone here.
        body(self).map_err(|_| TxError::NoRollback)
    }
}

fn taped<P: Policy>(operations: u64) -> Result<Vec<u64>, String> {
    let text = |error: nvheap::Error| error.to_string();
    let map = Mapping::anonymous(REGION_BYTES).map_err(text)?;
    let tape = Tape {
        base: map.base() as usize,
        runs: Arc::default(),
        words: Arc::default(),
    };
    let heap: Heap<P, Tape> =
        Heap::format(tape.clone(), map, &Options::assume_all()).map_err(text)?;
    let mut session = heap.session().map_err(text)?;
    let head: PPtr<HashHead<u64, u64>> = session
        .root_or("table", |tx| HashMap::create(tx, BUCKETS))
        .map_err(text)?;
    let table = HashMap::at(head);
    for key in 0..ENTRIES {
        session
            .run(|tx| table.insert(tx, key * 2, key))
            .map_err(|error| error.to_string())?;
    }
    tape.record(operations, |key, insert| {
        session.run(|tx| {
            let (base, plain, tape) = (0, false, &tape);
            let tx = &mut Noted {
                tx,
                tape,
                base,
                plain,
            };
            change(tx, table, key, insert)
        })
    })
}

/// The same in plain memory.
fn taped_plain(operations: u64) -> Result<Vec<u64>, String> {
    let text = |error: nvheap::Error| error.to_string();
    let options = fof::Options::assume_all();
    let region = Region::anonymous(REGION_BYTES, &options).map_err(text)?;
    let tape = Tape {
        base: region.base() as usize,
        runs: Arc::default(),
        words: Arc::default(),
    };
    let mut local = region.local().map_err(text)?;
    // SAFETY: only this has the region, and the table's pointers are of it.
    let mut tx = unsafe { PlainTx::new(&mut local) };
    let failed = |error: TxError| error.to_string();
    let table = HashMap::at(HashMap::create(&mut tx, BUCKETS).map_err(failed)?);
    for key in 0..ENTRIES {
        table.insert(&mut tx, key * 2, key).map_err(failed)?;
    }
    let base = tape.base as u64;
    tape.record(operations, |key, insert| {
        let (tx, tape, plain) = (&mut tx, &tape, true);
        let noted = &mut Noted {
            tx,
            tape,
            base,
            plain,
        };
        change(noted, table, key, insert)
    })
}

fn change<T: Tx>(tx: &mut T, table: HashMap<u64, u64>, key: u64, insert: bool) -> TxResult<()> {
    if insert {
        table.insert(tx, key, key)?;
    } else {
        table.remove(tx, &key)?;
    }
    Ok(())
}

/// Insertions and removals in a table of 100,000 entries, under a policy, into a file.
pub fn write(file: &Path, policy: &str, operations: u64) -> Result<(), String> {
    let words = if policy == FOF {
        taped_plain(operations)?
    } else {
        let kind: PolicyKind = policy.parse()?;
        with_policy!(kind, P => taped::<P>(operations))?
    };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(file, bytes).map_err(|error| format!("{}: {error}", file.display()))
}
