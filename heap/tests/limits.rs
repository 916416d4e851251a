// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What does not fit, the log or the region: the transaction fails as a whole, its session goes on, and
//! no memory is lost.

#![allow(
    clippy::cast_possible_truncation,
    clippy::tests_outside_test_module, // an integration test is one as a whole
    missing_docs
)]

use nvheap::testing::Plain;
use nvheap::{
    FocRedo, FocStm, FocUndo, FofStm, FofUndo, Heap, Mapping, Mutant, Options, PPtr, Policy, Range,
    Session, Tx, TxError,
};

const WORDS: u64 = 1000;

/// A region whose log holds fewer words than the object has, the object, and a session.
fn small_log<P: Policy>(mutant: Option<Mutant>) -> (Heap<P, Plain>, Session<P, Plain>, PPtr<u64>) {
    let options = Options {
        redo_lines: 32,
        undo_lines: 32,
        ..Options::assume_all()
    };
    let map = Mapping::anonymous(1 << 20).expect("memory");
    let heap: Heap<P, Plain> = Heap::format(Plain { mutant }, map, &options).expect("a region");
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

fn too_large_changes_nothing<P: Policy>(mutant: Option<Mutant>) {
    let (_heap, mut session, words) = small_log::<P>(mutant);
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
        assert_eq!(done, Err(TxError::TooLarge), "{:?}", P::KIND);
        assert_eq!(all(&mut session, words), before, "{:?}", P::KIND);
        session
            .run(|tx| tx.set(words.element(8), 4))
            .expect("the next one");
        session
            .run(|tx| tx.set(words.element(8), 0))
            .expect("and one more");
    }
}

/// However often a part changes the same words, it is no larger for it.
fn the_same_words_again<P: Policy>(mutant: Option<Mutant>) {
    let (_heap, mut session, words) = small_log::<P>(mutant);
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

/// A part within a part that fails leaves what both around it had.
fn parts_within_parts<P: Policy>(mutant: Option<Mutant>) {
    let (_heap, mut session, words) = small_log::<P>(mutant);
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
        assert_eq!(all(&mut session, words)[..4], expected, "{:?}", P::KIND);
    }
}

/// Objects until there is no room for one more, each in a word of the list; says how many.
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
    panic!("the region takes more than it has room for");
}

fn a_full_region_loses_nothing<P: Policy>(mutant: Option<Mutant>) {
    let (_heap, mut session, list) = small_log::<P>(mutant);
    let first = fill(&mut session, list);
    assert!(first > WORDS / 2);
    let free = |tx: &mut P::Tx<_>, index: u64| {
        let at = tx.get(list.element(index))?;
        tx.set(list.element(index), 0)?;
        tx.release(at)
    };
    for _ in 0..3 {
        // What it frees is not to be had before it has committed, and it does not.
        let done = session.run(|tx| {
            (0..4).try_for_each(|index| free(tx, index))?;
            tx.alloc([0_u64; 128]).map(|_| ())
        });
        assert_eq!(done, Err(TxError::OutOfSpace), "{:?}", P::KIND);
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

macro_rules! with_each_policy {
    ($($name:ident: $test:ident;)*) => {$(
        #[test]
        fn $name() {
            $test::<FocRedo>(None);
            $test::<FocStm>(None);
            $test::<FocUndo>(None);
            $test::<FofStm>(None);
            $test::<FofUndo>(None);
        }
    )*};
}

with_each_policy! {
    a_transaction_that_is_too_large_changes_nothing: too_large_changes_nothing;
    the_same_words_again_need_no_more_room: the_same_words_again;
    a_region_that_is_full_loses_nothing: a_full_region_loses_nothing;
    a_part_that_fails_leaves_what_was_around_it: parts_within_parts;
}

/// Whether a test that is green goes red with a bug.
fn is_found(test: fn(Option<Mutant>), bug: Mutant) {
    test(None);
    assert!(
        std::panic::catch_unwind(|| test(Some(bug))).is_err(),
        "{bug:?}"
    );
}

#[test]
fn finds_words_kept_that_had_no_room() {
    is_found(too_large_changes_nothing::<FocUndo>, Mutant::KeepRefused);
}

#[test]
fn finds_memory_that_is_given_out_before_its_free_has_committed() {
    is_found(
        a_full_region_loses_nothing::<FocRedo>,
        Mutant::ReuseBeforeCommit,
    );
}
