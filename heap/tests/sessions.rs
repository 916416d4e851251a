// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sessions that meet in a certain order: one thread has both, so the order is always the same.

#![allow(
    clippy::tests_outside_test_module, // an integration test is one as a whole
    clippy::unwrap_used,
    missing_docs
)]

use nvheap::testing::{Plain, Recorder, Trial, Visit};
use nvheap::{FocRedo, FocStm, FocUndo, Heap, Mutant, PPtr, Policy, Session, Tx};

fn trial(mutant: Option<Mutant>) -> Trial {
    Trial {
        sessions: 2,
        mutant,
        ..Trial::default()
    }
}

fn setup<P: Policy>(session: &mut Session<P, Recorder>) {
    session
        .root_or::<[u64; 16]>("words", |tx| tx.alloc([0; 16]))
        .unwrap();
}

/// Two words in lines of their own.
fn words<P: Policy, B: nvheap::Pmem>(session: &mut Session<P, B>) -> (PPtr<u64>, PPtr<u64>) {
    let words: PPtr<[u64; 16]> = session.root("words").unwrap();
    let first = words.cast::<u64>();
    (first, first.element(8))
}

fn read<P: Policy>(heap: &Heap<P, Plain>) -> (u64, u64) {
    let mut session = heap.session().unwrap();
    let (first, second) = words(&mut session);
    session
        .view(|tx| Ok((tx.get(first)?, tx.get(second)?)))
        .unwrap()
}

/// A checkpoint of another session comes between two changes of a transaction with an undo log.
fn checkpoint_in_a_transaction(mutant: Option<Mutant>) -> Option<String> {
    let trial = trial(mutant);
    let (heap, image) = trial.prepare::<FocUndo>(setup).unwrap();
    let mut session = heap.session().unwrap();
    let (first, second) = words(&mut session);
    session
        .run(|tx| {
            tx.set(first, 1)?;
            heap.checkpoint();
            tx.set(second, 1)
        })
        .unwrap();
    let events = heap.pmem().take();
    let check = |heap: &Heap<FocUndo, Plain>, _: &Visit| match read(heap) {
        (0, 0) | (1, 1) => Ok(()),
        mixed => Err(format!("half a transaction: {mixed:?}")),
    };
    trial.judge::<FocUndo>(image, &events, &check).failure
}

#[test]
fn a_checkpoint_keeps_the_undo_records_of_a_transaction_under_way() {
    assert_eq!(checkpoint_in_a_transaction(None), None);
}

#[test]
fn finds_open_undo_records_that_are_forgotten() {
    assert!(checkpoint_in_a_transaction(Some(Mutant::ForgetOpenUndo)).is_some());
}

/// The session with the later log commits first.
fn commits_against_the_order_of_logs(mutant: Option<Mutant>) -> Option<String> {
    let trial = trial(mutant);
    let (heap, image) = trial.prepare::<FocRedo>(setup).unwrap();
    let (mut early, mut late) = (heap.session().unwrap(), heap.session().unwrap());
    let (first, _) = words(&mut early);
    late.run(|tx| tx.set(first, 1)).unwrap();
    heap.pmem().mark(1);
    early.run(|tx| tx.set(first, 2)).unwrap();
    heap.pmem().mark(2);
    let events = heap.pmem().take();
    let check = |heap: &Heap<FocRedo, Plain>, visit: &Visit| {
        let returned = visit.marks.last().copied().unwrap_or(0);
        match read(heap).0 {
            found if found == returned || found == returned + 1 => Ok(()),
            found => Err(format!("{found} after the commit of {returned}")),
        }
    };
    trial.judge::<FocRedo>(image, &events, &check).failure
}

#[test]
fn records_of_two_logs_are_applied_in_the_order_of_their_commits() {
    assert_eq!(commits_against_the_order_of_logs(None), None);
}

#[test]
fn finds_records_that_are_applied_log_by_log() {
    assert!(commits_against_the_order_of_logs(Some(Mutant::ReplayByLog)).is_some());
}

/// Another session changes both words after a transaction has read the first: what it sees.
fn commit_between_two_reads(mutant: Option<Mutant>) -> (u64, u64) {
    let (heap, _) = trial(mutant).prepare::<FocStm>(setup).unwrap();
    let (mut reader, mut writer) = (heap.session().unwrap(), heap.session().unwrap());
    let (first, second) = words(&mut reader);
    let mut written = false;
    reader
        .run(|tx| {
            let seen = tx.get(first)?;
            if !written {
                written = true;
                writer
                    .run(|tx| {
                        tx.set(first, 1)?;
                        tx.set(second, 1)
                    })
                    .unwrap();
            }
            Ok((seen, tx.get(second)?))
        })
        .unwrap()
}

#[test]
fn a_transaction_sees_no_two_states_mixed() {
    assert_eq!(commit_between_two_reads(None), (1, 1));
}

#[test]
fn finds_reads_that_are_not_validated() {
    assert_eq!(
        commit_between_two_reads(Some(Mutant::SkipValidation)),
        (0, 1)
    );
}
