// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sessions of one thread under transactional memory, one of which allocates: what is written
//! past the log, and memory that was another object, must not hide a change.

use nvheap::testing::{Broken, verdict};
use nvheap::{Heap, Mapping, Options, PPtr, Policy, Session, Tx, TxError};

use crate::found::must;
use crate::meanwhile::{Meanwhile, when_waiting};

const REGION_BYTES: u64 = 20 << 20;
/// All locks: with so many bytes each line of the region shares one with the object.
const ALL_LOCKS_BYTES: u64 = 4 << 20;
/// Attempts after which a session is taken for blocked.
const ATTEMPTS: u64 = 20;

/// Two sessions, a word that both know, and a pointer.
struct Pair<P: Policy> {
    reader: Session<P, Meanwhile>,
    writer: Session<P, Meanwhile>,
    word: PPtr<u64>,
    pointer: PPtr<PPtr<u64>>,
}

impl<P: Policy> Pair<P> {
    fn new() -> Self {
        let map = Mapping::anonymous(REGION_BYTES).unwrap();
        let heap: Heap<P, Meanwhile> =
            Heap::format(Meanwhile, map, &Options::assume_all()).unwrap();
        let (mut reader, writer) = (heap.session().unwrap(), heap.session().unwrap());
        let words: PPtr<[u64; 16]> = reader.root_or("words", |tx| tx.alloc([0; 16])).unwrap();
        let word = words.cast::<u64>();
        Self {
            reader,
            writer,
            word,
            pointer: word.element(8).cast(),
        }
    }

    /// An object of so many words, each the value, which the pointer leads to.
    fn put(writer: &mut Session<P, Meanwhile>, to: PPtr<PPtr<u64>>, words: u64, value: u64) -> u64 {
        let content: Vec<u8> = (0..words).flat_map(|_| value.to_le_bytes()).collect();
        let made = writer.run(|tx| {
            let made = tx.alloc_bytes(&content)?.start;
            tx.set(to, made)?;
            Ok(made)
        });
        made.unwrap().offset()
    }

    /// Free it, and forget where it was.
    fn remove(writer: &mut Session<P, Meanwhile>, from: PPtr<PPtr<u64>>) {
        writer
            .run(|tx| {
                let old = tx.get(from)?;
                tx.free(old)?;
                tx.set(from, PPtr::NULL)
            })
            .unwrap();
    }
}

fn counted(found: u64, wanted: u64) -> Option<Broken> {
    let what = format!("{found} after {wanted} additions");
    (found != wanted).then(|| Broken::new(verdict::NOT_ISOLATED, what))
}

/// Another session adds to a word that a transaction has read and then allocates, so that the lock
/// of that word's line is taken before the commit.
fn addition_beside<P: Policy>(pair: Pair<P>, bytes: u64) -> Option<Broken> {
    let Pair {
        mut reader,
        mut writer,
        word,
        ..
    } = pair;
    let mut added = false;
    reader
        .run(|tx| {
            let seen = tx.get(word)?;
            if !added {
                added = true;
                writer
                    .run(|tx| {
                        let seen = tx.get(word)?;
                        tx.set(word, seen + 1)
                    })
                    .unwrap();
            }
            let made: PPtr<u64> = tx.alloc_zeroed(bytes / 8)?;
            tx.free(made)?;
            tx.set(word, seen + 1)
        })
        .unwrap();
    counted(reader.view(|tx| tx.get(word)).unwrap(), 2)
}

/// The object takes all locks.
pub fn addition_beside_a_large_allocation<P: Policy>() -> Option<Broken> {
    addition_beside(Pair::<P>::new(), ALL_LOCKS_BYTES)
}

/// The object is the smallest that is written past the log, where one of its lines shares the lock.
pub fn addition_beside_a_small_allocation<P: Policy>() -> Option<Broken> {
    const BYTES: u64 = 4096;
    let mut pair = Pair::<P>::new();
    let lock = |offset: u64| offset % ALL_LOCKS_BYTES;
    let made = loop {
        let made = pair
            .reader
            .run(|tx| tx.alloc_zeroed::<u64>(BYTES / 8))
            .unwrap();
        let first = lock(made.offset());
        if (first..first + BYTES).contains(&lock(pair.word.offset())) {
            break made;
        }
    };
    // What a session frees it gives out first.
    pair.reader.run(|tx| tx.free(made)).unwrap();
    addition_beside(pair, BYTES)
}

/// A transaction reads a pointer; before it follows it, the object is freed and its memory becomes
/// another one: of `words` words, of which it reads `word`, and of `next` words.
fn memory_of_another<P: Policy>(words: u64, word: u64, next: u64) -> Option<Broken> {
    const OLD: u64 = 77;
    const NEW: u64 = 99;
    let Pair {
        mut reader,
        mut writer,
        pointer,
        ..
    } = Pair::<P>::new();
    // So that the object is the second of its size, and need not begin with a line.
    writer.run(|tx| tx.alloc_zeroed::<u64>(words)).unwrap();
    let old = Pair::put(&mut writer, pointer, words, OLD);
    let mut attempts = 0;
    let seen = reader
        .view(|tx| {
            let at = tx.get(pointer)?;
            attempts += 1;
            if attempts == 1 {
                Pair::remove(&mut writer, pointer);
                let new = Pair::put(&mut writer, pointer, next, NEW);
                assert!(new.abs_diff(old) < 0x10000, "the memory is another");
                return tx.get(at.element(word));
            }
            tx.get(at)
        })
        .unwrap();
    let wanted = if attempts == 1 { OLD } else { NEW };
    let what = format!("{seen} in attempt {attempts}, not {wanted}");
    (seen != wanted).then(|| Broken::new(verdict::NOT_ISOLATED, what))
}

/// The last line of an object that is written past the log, and that ends within one.
pub fn last_line_of_another_object<P: Policy>() -> Option<Broken> {
    memory_of_another::<P>(8176 / 8, 8176 / 8 - 1, 8176 / 8)
}

/// The map of a slab that lies where a large object was.
pub fn map_where_an_object_was<P: Policy>() -> Option<Broken> {
    memory_of_another::<P>(0x10000 / 8, 1, 2)
}

/// A transaction that has locked all lines waits for a change of one: another session can make it.
pub fn change_for_one_that_waits<P: Policy>() -> Option<Broken> {
    let Pair {
        mut reader,
        mut writer,
        word,
        ..
    } = Pair::<P>::new();
    let change = move || {
        let mut attempts = 0;
        let done = writer.run(|tx| {
            attempts += 1;
            if attempts > ATTEMPTS {
                return Err(TxError::Abort);
            }
            let seen = tx.get(word)?;
            tx.set(word, seen + 1)
        });
        if done.is_err() {
            let what = format!("{ATTEMPTS} attempts to make the change that is waited for");
            must(Err(Broken::new(verdict::BLOCKED, what)))
        }
    };
    when_waiting(change);
    let mut attempts = 0;
    crate::found::broken(|| {
        let seen = reader.run(|tx| {
            attempts += 1;
            let seen = tx.get(word)?;
            if seen == 0 {
                tx.alloc_zeroed::<u64>(ALL_LOCKS_BYTES / 8)?;
                return Err(TxError::Retry);
            }
            Ok(seen)
        });
        // The locks that it had itself are no change.
        assert_eq!((seen, attempts), (Ok(1), 2));
    })
}
