// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transactions that do not fit the log, and regions that are full.

use nvheap::testing::{Broken, Plain, verdict};
use nvheap::{Heap, Mapping, Options, PPtr, Policy, Range, Session, Tx, TxError, TxResult};

use crate::found::must;

const WORDS: u64 = 1000;

/// A region whose log holds fewer words than the object has, the object, and a session.
fn small_log<P: Policy>() -> (Heap<P, Plain>, Session<P, Plain>, PPtr<u64>) {
    let options = Options {
        redo_lines: 32,
        undo_lines: 32,
        ..Options::assume_all()
    };
    let map = Mapping::anonymous(1 << 20).expect("memory");
    let heap: Heap<P, Plain> = Heap::format(Plain, map, &options).expect("a region");
    let mut session = heap.session().expect("a session");
    let words = session
        .root_or("words", |tx| tx.alloc_zeroed::<[u64; 1]>(WORDS))
        .expect("an object")
        .cast::<u64>();
    (heap, session, words)
}

fn all<P: Policy>(session: &mut Session<P, Plain>, words: PPtr<u64>) -> Vec<u64> {
    let read = |tx: &mut P::Tx<_>| (0..WORDS).map(|word| tx.get(words.element(word))).collect();
    session.view(read).expect("the words")
}

fn must_fail<P: Policy>(done: TxResult<()>, error: TxError) {
    if done != Err(error) {
        let what = format!("{:?}: {done:?}, not {error:?}", P::KIND);
        must(Err(Broken::new(verdict::NOT_REFUSED, what)))
    }
}

fn must_run<P: Policy>(done: TxResult<()>) {
    if let Err(error) = done {
        let what = format!("{:?}: the next transaction: {error:?}", P::KIND);
        must(Err(Broken::new(verdict::REFUSED, what)))
    }
}

fn must_be<P: Policy>(found: &[u64], expected: &[u64]) {
    if found != expected {
        let what = format!("{:?}: {found:?}, not {expected:?}", P::KIND);
        must(Err(Broken::new(verdict::NOT_ATOMIC, what)))
    }
}

mod now {
    nvheap::persist! { pub struct Point { x: u64, y: u64 } }
    nvheap::persist! { pub struct Line { from: Point, to: [Point; 2] } }
}

/// The same names, and the same sizes; a field of a field is another, or has another place.
mod renamed {
    nvheap::persist! { pub struct Point { y: u64, x: u64 } }
    nvheap::persist! { pub struct Line { from: Point, to: [Point; 2] } }
}
mod narrow {
    nvheap::persist! { pub struct Point { x: u64, y: i64 } }
    nvheap::persist! { pub struct Line { from: Point, to: [Point; 2] } }
}

/// A root whose type holds another type of the same name is refused.
pub fn root_of_another_layout<P: Policy>() {
    use nvheap::Error;
    let (_heap, mut session, _) = small_log::<P>();
    session
        .root_or("line", |tx| tx.alloc_zeroed::<now::Line>(1))
        .expect("a root");
    session.root::<now::Line>("line").unwrap();
    let others = [
        session.root::<renamed::Line>("line").map(PPtr::offset),
        session.root::<narrow::Line>("line").map(PPtr::offset),
    ];
    for other in others {
        if !matches!(other, Err(Error::RootType)) {
            let what = format!("{:?}: a root of another layout: {other:?}", P::KIND);
            must(Err(Broken::new(verdict::NOT_REFUSED, what)))
        }
    }
}

/// A new object that is much longer than the log, stored word by word; then it is changed as a whole,
/// which does not fit, and the error says what to do.
pub fn new_object_may_be_longer_than_the_log<P: Policy>() {
    const BYTES: u64 = 300_000;
    let (_heap, mut session, words) = small_log::<P>();
    must_run::<P>(session.run(|tx| {
        let made = PPtr::<u64>::from_offset(tx.reserve(BYTES)?);
        (0..BYTES / 8).try_for_each(|word| tx.set(made.element(word), word))?;
        tx.set(words, made.offset())
    }));
    let made = PPtr::<u64>::from_offset(all(&mut session, words)[0]);
    let read = |tx: &mut P::Tx<_>| {
        (0..BYTES / 8)
            .map(|word| tx.get(made.element(word)))
            .collect()
    };
    let found: Vec<u64> = session.view(read).expect("the object");
    must_be::<P>(&found, &(0..BYTES / 8).collect::<Vec<_>>());
    let change =
        |tx: &mut P::Tx<_>| (0..BYTES / 8).try_for_each(|word| tx.set(made.element(word), 1));
    must_fail::<P>(session.run(change), TxError::TooLarge);
    let text = TxError::TooLarge.to_string();
    assert!(
        text.contains("in several") && text.contains("longer logs"),
        "{text}"
    );
}

/// One session more than the region has is refused, and a number of them that no region can have.
pub fn sessions_are_counted<P: Policy>() {
    let region = |sessions| {
        let options = Options {
            sessions,
            redo_lines: 32,
            undo_lines: 32,
            ..Options::assume_all()
        };
        let map = Mapping::anonymous(1 << 22).expect("memory");
        Heap::<P, Plain>::format(Plain, map, &options)
    };
    for sessions in [0, 449] {
        let refused = region(sessions).expect_err("no such region").to_string();
        assert!(
            refused.contains(&format!("{sessions} sessions")),
            "{refused}"
        );
    }
    let heap = region(3).expect("a region");
    let mut taken: Vec<_> = (0..3).map(|_| heap.session().expect("a session")).collect();
    let refused = heap.session().expect_err("one too many").to_string();
    let whole = refused.contains("all 3 sessions") && refused.contains("at most 448");
    assert!(whole, "{refused}");
    taken.pop();
    heap.session().expect("the one that ended");
}

pub fn too_large_changes_nothing<P: Policy>() {
    let (_heap, mut session, words) = small_log::<P>();
    session.run(|tx| tx.set(words, 1)).expect("a small one");
    let before = all(&mut session, words);
    for at_once in [false, true] {
        let done = session.run(|tx| {
            tx.set(words, 2)?;
            tx.set(words.element(7), 2)?;
            if at_once {
                let (offset, words) = (words.offset(), WORDS);
                tx.will_set(&[Range { offset, words }])?;
            }
            (0..WORDS).try_for_each(|word| tx.set(words.element(word), 3))
        });
        must_fail::<P>(done, TxError::TooLarge);
        must_be::<P>(&all(&mut session, words), &before);
        must_run::<P>(session.run(|tx| tx.set(words.element(8), 4)));
        must_run::<P>(session.run(|tx| tx.set(words.element(8), 0)));
    }
}

/// A part that changes the same words repeatedly does not grow.
pub fn same_words_again<P: Policy>() {
    let (_heap, mut session, words) = small_log::<P>();
    for nested in [false, true] {
        let count = |tx: &mut P::Tx<_>| {
            for _ in 0..WORDS {
                for word in [words, words.element(9)] {
                    let value = tx.get(word)?;
                    tx.set(word, value + 1)?;
                }
            }
            Ok(())
        };
        session
            .run(|tx| {
                let value = tx.get(words)?;
                tx.set(words, value + 1)?;
                if nested { tx.nested(count) } else { count(tx) }
            })
            .expect("it fits");
    }
    let found = all(&mut session, words);
    assert_eq!((found[0], found[9]), (2 * WORDS + 2, 2 * WORDS));
}

/// A nested part that fails leaves the changes of both parts around it.
pub fn parts_within_parts<P: Policy>() {
    let (_heap, mut session, words) = small_log::<P>();
    let set = |tx: &mut P::Tx<_>, value: u64| {
        tx.set(words, value)?;
        tx.set(words.element(value), value)
    };
    for (outer_fails, expected) in [(false, [2, 1, 2, 0]), (true, [1, 1, 0, 0])] {
        session
            .run(|tx| {
                (0..4).try_for_each(|word| tx.set(words.element(word), 0))?;
                set(tx, 1)?;
                let outer = tx.nested(|tx| {
                    set(tx, 2)?;
                    let inner: Result<(), _> = tx.nested(|tx| {
                        set(tx, 3)?;
                        set(tx, 1)?;
                        Err(TxError::Abort)
                    });
                    assert_eq!(inner, Err(TxError::Abort));
                    assert_eq!(tx.get(words)?, 2);
                    if outer_fails {
                        Err(TxError::Abort)
                    } else {
                        Ok(())
                    }
                });
                assert_eq!(outer.is_err(), outer_fails);
                Ok(())
            })
            .expect("the transaction");
        must_be::<P>(&all(&mut session, words)[..4], &expected);
    }
}

/// Allocates objects until the region is full, each in a word of the list; returns their number.
fn fill<P: Policy>(session: &mut Session<P, Plain>, list: PPtr<u64>) -> u64 {
    for count in 0..WORDS {
        let done = session.run(|tx| {
            let made = tx.alloc([count; 128])?;
            tx.set(list.element(count), made.offset())
        });
        match done {
            Ok(()) => {}
            Err(TxError::OutOfSpace) => return count,
            Err(other) => panic!("{:?}: {other}", P::KIND),
        }
    }
    panic!("the region accepts more than it has room for");
}

pub fn full_region_loses_nothing<P: Policy>() {
    let (_heap, mut session, list) = small_log::<P>();
    let first = fill(&mut session, list);
    assert!(first > WORDS / 2);
    let free = |tx: &mut P::Tx<_>, index: u64| {
        let at = tx.get(list.element(index))?;
        tx.set(list.element(index), 0)?;
        tx.release(at)
    };
    for _ in 0..3 {
        // The memory it frees is not available before its commit, which never happens.
        let done = session.run(|tx| {
            (0..4).try_for_each(|index| free(tx, index))?;
            tx.alloc([0_u64; 128]).map(|_| ())
        });
        must_fail::<P>(done, TxError::OutOfSpace);
        assert!(
            all(&mut session, list)[..first as usize]
                .iter()
                .all(|at| *at != 0)
        );
        for index in 0..first {
            session.run(|tx| free(tx, index)).expect("it is there");
        }
        assert_eq!(fill(&mut session, list), first, "{:?}", P::KIND);
    }
}
