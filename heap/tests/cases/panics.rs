// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that panics in a transaction, and goes on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use nvheap::testing::{Broken, Plain, verdict};
use nvheap::{Heap, Mapping, Options, PPtr, Policy, Session, Tx, TxError, TxResult};

use crate::found::must;

const REGION_BYTES: u64 = 8 << 20;
/// Under transactional memory it takes all locks.
const LARGE_BYTES: u64 = 4 << 20;
/// Attempts after which a session is taken for blocked.
const ATTEMPTS: u64 = 20;

/// Two words and an object, each in its line.
type Words = [u64; 24];

fn options() -> Options {
    Options {
        redo_lines: 64,
        undo_lines: 64,
        ..Options::assume_all()
    }
}

/// Whether it panics as planned.
fn panics<R>(body: impl FnOnce() -> R) -> bool {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => false,
        Err(thrown) if thrown.is::<u8>() => true,
        Err(other) => resume_unwind(other),
    }
}

fn panic_now<R>() -> R {
    resume_unwind(Box::new(0_u8))
}

fn word(words: PPtr<Words>, number: u64) -> PPtr<u64> {
    words.cast::<u64>().element(number * 8)
}

/// Change both words and the object, make others, and do not end.
fn half<T: Tx>(tx: &mut T, words: PPtr<Words>) -> TxResult<()> {
    tx.set(word(words, 0), 2)?;
    let old = tx.get(word(words, 2))?;
    tx.release(old)?;
    let new = tx.alloc([2_u64; 4])?;
    tx.set(word(words, 2), new.offset())?;
    tx.alloc_zeroed::<u64>(LARGE_BYTES / 8)?;
    tx.set(word(words, 1), 2)
}

fn prepared<P: Policy>(heap: &Heap<P, Plain>) -> (Session<P, Plain>, PPtr<Words>) {
    let mut session = heap.session().unwrap();
    let words = session.root_or("words", |tx| tx.alloc([1; 24])).unwrap();
    session
        .run(|tx| {
            let object = tx.alloc([1_u64; 4])?;
            tx.set(word(words, 2), object.offset())
        })
        .unwrap();
    (session, words)
}

/// Words, the object's first word, and the number of objects are `wanted`, and the region is in order.
fn must_hold<P: Policy>(heap: &Heap<P, Plain>, words: PPtr<Words>, wanted: [u64; 4]) {
    let mut session = heap.session().unwrap();
    let [first, second, object] = session
        .view(|tx| {
            let object = PPtr::from_offset(tx.get(word(words, 2))?);
            Ok([
                tx.get(word(words, 0))?,
                tx.get(word(words, 1))?,
                tx.get(object)?,
            ])
        })
        .unwrap();
    let found = [first, second, object, heap.usage().objects];
    if found != wanted {
        let what = format!("{:?}: {found:?}, not {wanted:?}", P::KIND);
        must(Err(Broken::new(verdict::NOT_ATOMIC, what)))
    }
    let damage = nvheap::fsck::check(heap.layout(), &|at| heap.word(at));
    assert_eq!(damage, []);
}

/// Nothing of it is there at once, nor with the next commit of the session, nor after the region was
/// closed and opened; a memory of its size is free.
pub fn panic_undoes_the_transaction<P: Policy>() {
    let map = Mapping::anonymous(REGION_BYTES).unwrap();
    // SAFETY: the heap over it is closed before the next one, and the mapping is dropped last.
    let again = unsafe { map.lend() };
    let heap: Heap<P, Plain> = Heap::format(Plain, again, &options()).unwrap();
    let (mut session, words) = prepared(&heap);
    assert!(panics(|| session.run(|tx| {
        half(tx, words)?;
        panic_now::<TxResult<()>>()
    })));
    must_hold(&heap, words, [1, 1, 1, 2]);
    session.run(|tx| tx.set(word(words, 1), 3)).unwrap();
    must_hold(&heap, words, [1, 3, 1, 2]);
    assert!(panics(|| session.run(|tx| {
        half(tx, words)?;
        panic_now::<TxResult<()>>()
    })));
    drop(session);
    drop(heap);
    // SAFETY: as above.
    let again = unsafe { map.lend() };
    let heap: Heap<P, Plain> = Heap::attach(Plain, again, &options()).unwrap();
    must_hold(&heap, words, [1, 3, 1, 2]);
    let mut session = heap.session().unwrap();
    session
        .run(|tx| tx.alloc_zeroed::<u64>(LARGE_BYTES / 8))
        .unwrap();
}

/// Another session changes what the one that panicked had changed.
pub fn panic_leaves_no_lock<P: Policy>() {
    let map = Mapping::anonymous(REGION_BYTES).unwrap();
    let heap: Heap<P, Plain> = Heap::format(Plain, map, &options()).unwrap();
    let (mut session, words) = prepared(&heap);
    assert!(panics(|| session.run(|tx| {
        half(tx, words)?;
        panic_now::<TxResult<()>>()
    })));
    let mut attempts = 0;
    let done = heap.session().unwrap().run(|tx| {
        attempts += 1;
        if attempts > ATTEMPTS {
            return Err(TxError::Abort);
        }
        let now = tx.get(word(words, 0))?;
        tx.set(word(words, 0), now + 4)
    });
    if done.is_err() {
        let what = format!("{:?}: {ATTEMPTS} attempts of another session", P::KIND);
        must(Err(Broken::new(verdict::BLOCKED, what)))
    }
    must_hold(&heap, words, [5, 1, 1, 2]);
}

/// A part that panics within a part: both are undone where they are caught, the rest commits.
pub fn panic_in_a_part_undoes_the_part<P: Policy>() {
    let map = Mapping::anonymous(REGION_BYTES).unwrap();
    let heap: Heap<P, Plain> = Heap::format(Plain, map, &options()).unwrap();
    let (mut session, words) = prepared(&heap);
    session
        .run(|tx| {
            tx.set(word(words, 0), 5)?;
            assert!(panics(|| tx.nested(|tx| {
                tx.set(word(words, 0), 6)?;
                tx.nested(|tx| {
                    half(tx, words)?;
                    panic_now::<TxResult<()>>()
                })
            })));
            let now = tx.get(word(words, 0))?;
            tx.set(word(words, 1), now + 1)?;
            // A part after it is undone alone, too.
            let done = tx.nested(|tx| {
                tx.set(word(words, 1), 9)?;
                Err::<(), _>(TxError::Abort)
            });
            assert_eq!(done, Err(TxError::Abort));
            Ok(())
        })
        .unwrap();
    must_hold(&heap, words, [5, 6, 1, 2]);
}
