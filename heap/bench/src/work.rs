// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In the guest of a crash campaign: transactions over all structures in a region that lies in one
//! segment, and, after each, a store into another segment that reports its return. `judge.rs` makes
//! of the recording what cuts leave, and looks at it by the same code.

use std::path::Path;

use nvheap::structures::{AvlHead, AvlMap, HashHead, HashMap, Queue, QueueHead};
use nvheap::testing::{Broken, verdict};
use nvheap::{
    Heap, MapOptions, Mapping, Native, Options, PBytes, PPtr, Pmem, Policy, PolicyKind, Session,
    Tx, TxError, TxResult, with_policy,
};

use crate::keep::value;

/// In the second word of the page that says how many transactions have returned.
pub const REPORT_MAGIC: u64 = u64::from_le_bytes(*b"HEAPRPRT");
const BUCKETS: u64 = 16;
/// Numbers that are in the structures.
const KEPT: u64 = 12;
/// Transactions before the record: what is removed later is there.
const BEFORE: u64 = 3 * KEPT;
/// Each so many transactions one is aborted, too.
const ABORT_EVERY: u64 = 5;

/// Small logs, so that they become full.
fn options(policy: PolicyKind) -> Options {
    Options {
        sessions: 1,
        redo_lines: 128,
        undo_lines: 128,
        // Nothing else is assumed: the segment must be persistent memory.
        assume_flush_on_fail: policy.is_flush_on_fail(),
        ..Options::default()
    }
}

#[derive(Clone, Copy)]
struct Roots {
    table: HashMap<u64, u64>,
    map: AvlMap<u64, u64>,
    queue: Queue<u64>,
    bytes: PPtr<PBytes>,
    count: PPtr<u64>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn roots<P: Policy, B: Pmem>(session: &mut Session<P, B>) -> Result<Roots, String> {
    let table: PPtr<HashHead<u64, u64>> = session
        .root_or("table", |tx| HashMap::create(tx, BUCKETS))
        .map_err(text)?;
    let map: PPtr<AvlHead<u64, u64>> = session.root_or("map", AvlMap::create).map_err(text)?;
    let queue: PPtr<QueueHead<u64>> = session.root_or("queue", Queue::create).map_err(text)?;
    let none = PBytes {
        start: PPtr::NULL,
        bytes: 0,
    };
    Ok(Roots {
        table: HashMap::at(table),
        map: AvlMap::at(map),
        queue: Queue::at(queue),
        bytes: session
            .root_or("bytes", |tx| tx.alloc(none))
            .map_err(text)?,
        count: session.root_or("count", |tx| tx.alloc(0)).map_err(text)?,
    })
}

/// Bytes that are in the heap after so many transactions; some go past the log.
fn bytes_of(count: u64) -> Vec<u8> {
    let length = 400 + count % 3 * 200;
    (0..length)
        .map(|at| value(count ^ (at << 32)).to_le_bytes()[0])
        .collect()
}

fn transaction<T: Tx>(tx: &mut T, roots: Roots) -> TxResult<u64> {
    let number = tx.get(roots.count)?;
    roots.table.insert(tx, number, value(number))?;
    roots.map.insert(tx, value(number), number)?;
    roots.queue.push(tx, number)?;
    if number >= KEPT {
        roots.table.remove(tx, &(number - KEPT))?;
        roots.map.remove(tx, &value(number - KEPT))?;
        roots.queue.pop(tx)?;
    }
    let old = tx.get(roots.bytes)?;
    tx.free_bytes(old)?;
    let new = tx.alloc_bytes(&bytes_of(number + 1))?;
    tx.set(roots.bytes, new)?;
    tx.set(roots.count, number + 1)?;
    Ok(number + 1)
}

fn step<P: Policy, B: Pmem>(session: &mut Session<P, B>, roots: Roots) -> Result<u64, String> {
    let count = session.run(|tx| transaction(tx, roots)).map_err(text)?;
    if count % ABORT_EVERY == 0 {
        let aborted: TxResult<()> = session.run(|tx| {
            transaction(tx, roots)?;
            Err(TxError::Abort)
        });
        if aborted != Err(TxError::Abort) {
            return Err(format!("an abort ended in {aborted:?}"));
        }
    }
    Ok(count)
}

/// Make the region and what is in it before the record begins.
pub fn begin(folder: &Path, policy: &str) -> Result<(), String> {
    let kind: PolicyKind = policy.parse()?;
    with_policy!(kind, P => begin_with::<P>(folder))
}

fn begin_with<P: Policy>(folder: &Path) -> Result<(), String> {
    let map = Mapping::open(&folder.join("heap"), &must_outlive()).map_err(text)?;
    let heap = Heap::<P>::format(Native::new(), map, &options(P::KIND)).map_err(text)?;
    let mut session = heap.session().map_err(text)?;
    let roots = roots(&mut session)?;
    for _ in 0..BEFORE {
        step(&mut session, roots)?;
    }
    report(folder)?.returned(BEFORE);
    Ok(())
}

fn must_outlive() -> MapOptions {
    MapOptions {
        must_be_persistent: true,
        ..MapOptions::default()
    }
}

/// Runs some more transactions, and reports each.
pub fn row(folder: &Path, policy: &str, operations: u64) -> Result<(), String> {
    let kind: PolicyKind = policy.parse()?;
    with_policy!(kind, P => row_with::<P>(folder, operations))
}

fn row_with<P: Policy>(folder: &Path, operations: u64) -> Result<(), String> {
    let map = Mapping::open(&folder.join("heap"), &must_outlive()).map_err(text)?;
    let heap = Heap::<P>::attach(Native::new(), map, &options(P::KIND)).map_err(text)?;
    let mut session = heap.session().map_err(text)?;
    let roots = roots(&mut session)?;
    let report = report(folder)?;
    for _ in 0..operations {
        report.returned(step(&mut session, roots)?);
    }
    Ok(())
}

/// The page by which the guest reports what has returned.
struct Report(Mapping);

fn report(folder: &Path) -> Result<Report, String> {
    Mapping::open(&folder.join("report"), &must_outlive())
        .map(Report)
        .map_err(text)
}

impl Report {
    fn returned(&self, count: u64) {
        let at = self.0.base().cast::<u64>();
        let native = Native::new();
        // SAFETY: the first two words of a mapping of at least a page.
        unsafe {
            native.store(at.add(1), REPORT_MAGIC);
            native.store(at, count);
        }
    }
}

/// What a heap holds: the number of transactions that made it, and its objects.
pub fn look<P: Policy, B: Pmem>(heap: &Heap<P, B>) -> Result<(u64, u64), Broken> {
    let findings = nvheap::fsck::check(heap.layout(), &|offset| heap.word(offset));
    if let Some(finding) = findings.first() {
        return Err(Broken::new(verdict::DAMAGED, &finding.what));
    }
    let objects = heap.usage().objects;
    let mut session = heap.session().map_err(Broken::does_not_open)?;
    let roots = roots(&mut session).map_err(Broken::does_not_open)?;
    let count = session
        .view(|tx| tx.get(roots.count))
        .map_err(Broken::does_not_open)?;
    // Damaged pointers may go round in a circle.
    let few = |numbers: &Vec<u64>| numbers.len() as u64 <= KEPT;
    let wanted: Vec<u64> = (count.saturating_sub(KEPT)..count).collect();
    let found = session
        .view(|tx| {
            let mut numbers = (Vec::new(), Vec::new(), Vec::new());
            let mut table = roots.table.iter();
            while few(&numbers.0) {
                let Some((key, found)) = table.next(tx)? else {
                    break;
                };
                numbers
                    .0
                    .push(if found == value(key) { key } else { u64::MAX });
            }
            let mut map = roots.map.range(tx, None)?;
            while few(&numbers.1) {
                let Some((key, number)) = map.next(tx)? else {
                    break;
                };
                numbers.1.push(if key == value(number) {
                    number
                } else {
                    u64::MAX
                });
            }
            let mut queue = roots.queue.iter();
            while few(&numbers.2) {
                let Some(number) = queue.next(tx)? else {
                    break;
                };
                numbers.2.push(number);
            }
            let bytes = tx.get(roots.bytes)?;
            Ok((numbers, tx.get_bytes(bytes)?))
        })
        .map_err(Broken::does_not_open)?;
    let ((mut table, mut map, queue), bytes) = found;
    table.sort_unstable();
    map.sort_unstable();
    for (name, numbers) in [("table", table), ("map", map), ("queue", queue)] {
        if numbers != wanted {
            let what = format!("after {count} transactions the {name} has {numbers:?}");
            return Err(Broken::new(verdict::NOT_ATOMIC, what));
        }
    }
    if bytes != bytes_of(count) {
        let what = format!("after {count} transactions the bytes are others");
        return Err(Broken::new(verdict::NOT_ATOMIC, what));
    }
    Ok((count, objects))
}
