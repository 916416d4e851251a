// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frees and allocations after an opening, when the allocator has not looked at all chunks yet. It
//! looks at 64 of them at a time.

use nvheap::testing::{Broken, verdict};
use nvheap::{Heap, Mapping, Options, PPtr, Policy, Session, Tx};

use crate::found::must;
use crate::meanwhile::{Meanwhile, when_stored};

const REGION_BYTES: u64 = 12 << 20;
const CHUNK_BYTES: u64 = 0x10000;
/// Chunks of the objects before the last one, which begins where the second look does.
const CHUNKS: [u64; 5] = [60, 3, 4, 1, 8];

/// Pointers to objects, each in its line.
type Table = [u64; 64];
/// Its size: another object of it needs no chunk.
const TABLE_BYTES: u64 = 512;

fn place(table: PPtr<u64>, number: u64) -> PPtr<u64> {
    table.element(number * 8)
}

/// A region that was closed and opened, and the table.
struct Reopened<P: Policy> {
    /// Dropped before the memory.
    heap: Heap<P, Meanwhile>,
    table: PPtr<u64>,
    _map: Mapping,
}

fn put<P: Policy>(session: &mut Session<P, Meanwhile>, at: PPtr<u64>, bytes: u64) -> u64 {
    let put = session.run(|tx| {
        let made = tx.alloc_zeroed::<u64>(bytes / 8)?.offset();
        tx.set(at, made)?;
        Ok(made)
    });
    put.unwrap()
}

fn remove<P: Policy>(session: &mut Session<P, Meanwhile>, at: PPtr<u64>) {
    session
        .run(|tx| {
            let old = tx.get(at)?;
            tx.release(old)?;
            tx.set(at, 0)
        })
        .unwrap();
}

fn reopened<P: Policy>() -> Reopened<P> {
    let options = Options {
        sessions: 2,
        redo_lines: 64,
        undo_lines: 64,
        ..Options::assume_all()
    };
    let map = Mapping::anonymous(REGION_BYTES).unwrap();
    // SAFETY: the heap over it is closed before the next one, and the mapping is dropped last.
    let again = unsafe { map.lend() };
    let heap: Heap<P, Meanwhile> = Heap::format(Meanwhile, again, &options).unwrap();
    let mut session = heap.session().unwrap();
    let table = session
        .root_or::<Table>("table", |tx| tx.alloc([0; 64]))
        .unwrap()
        .cast::<u64>();
    for (number, chunks) in CHUNKS.into_iter().enumerate() {
        put(
            &mut session,
            place(table, number as u64),
            chunks * CHUNK_BYTES,
        );
    }
    // Free chunks before the place at which the first look ends.
    remove(&mut session, place(table, 1));
    drop(session);
    drop(heap);
    // SAFETY: as above.
    let again = unsafe { map.lend() };
    let heap = Heap::attach(Meanwhile, again, &options).unwrap();
    Reopened {
        heap,
        table,
        _map: map,
    }
}

impl<P: Policy> Reopened<P> {
    /// No memory belongs to two objects, and what is free can be allocated.
    fn must_be_in_order(&self) {
        let word = |at: u64| self.heap.word(at);
        let mut session = self.heap.session().unwrap();
        let mut objects: Vec<_> = (5..8)
            .map(|number| self.heap.word(place(self.table, number).offset()))
            .filter(|at| *at != 0)
            .collect();
        objects.sort_unstable();
        for pair in objects.windows(2) {
            let known = nvheap::fsck::objects(self.heap.layout(), &word);
            let end = known
                .iter()
                .find(|it| it.0 == pair[0])
                .map_or(u64::MAX, |it| it.0 + it.1);
            if end > pair[1] {
                let what = format!(
                    "{:?}: an object ends at {end:#x}, the next is at {:#x}",
                    P::KIND,
                    pair[1]
                );
                must(Err(Broken::new(verdict::OVERLAP, what)))
            }
        }
        assert_eq!(nvheap::fsck::check(self.heap.layout(), &word), []);
        // Each chunk that is free can be given out, one by one, and none twice.
        let usage = self.heap.usage();
        let free = (self.heap.layout().chunks * CHUNK_BYTES - usage.chunk_bytes) / CHUNK_BYTES;
        let mut given = 0;
        let mut seen = std::collections::HashSet::new();
        while let Ok(at) = session.run(|tx| tx.alloc_zeroed::<u64>(CHUNK_BYTES / 8)) {
            given += 1;
            if !seen.insert(at.offset()) {
                must(Err(Broken::new(
                    verdict::OVERLAP,
                    format!("{at:?} given out twice"),
                )))
            }
        }
        if given != free {
            let what = format!("{:?}: {given} chunks given out, {free} were free", P::KIND);
            must(Err(Broken::new(verdict::WRONG_OBJECTS, what)))
        }
        assert_eq!(nvheap::fsck::check(self.heap.layout(), &word), []);
    }
}

/// An object behind what was looked at is freed; its chunks follow free ones that are known.
pub fn free_before_the_second_scan<P: Policy>() {
    let it = reopened::<P>();
    let mut session = it.heap.session().unwrap();
    // The first look, and a free beyond it.
    put(&mut session, place(it.table, 7), TABLE_BYTES);
    remove(&mut session, place(it.table, 2));
    // As many as both have; then more than is known to be free; then as much as the second has.
    put(&mut session, place(it.table, 5), 7 * CHUNK_BYTES);
    put(&mut session, place(it.table, 6), 16 * CHUNK_BYTES);
    remove(&mut session, place(it.table, 6));
    put(&mut session, place(it.table, 6), CHUNK_BYTES);
    drop(session);
    it.must_be_in_order();
}

/// Another session looks at the chunks of an object between its free and the end of that commit.
pub fn second_scan_during_a_free<P: Policy>() {
    let it = reopened::<P>();
    let (mut session, mut other) = (it.heap.session().unwrap(), it.heap.session().unwrap());
    put(&mut session, place(it.table, 7), TABLE_BYTES);
    let freed = it.heap.word(place(it.table, 2).offset());
    let word = it
        .heap
        .layout()
        .table_entry(it.heap.layout().chunk_of(freed));
    let table = it.table;
    when_stored(it.heap.base().wrapping_add(word as usize), move || {
        put(&mut other, place(table, 5), 16 * CHUNK_BYTES);
        put(&mut other, place(table, 6), 7 * CHUNK_BYTES);
    });
    remove(&mut session, place(it.table, 2));
    drop(session);
    it.must_be_in_order();
}
