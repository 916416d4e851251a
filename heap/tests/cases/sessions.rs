// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sessions in a fixed order: one thread has both, so the order is reproducible.

use nvheap::testing::{Broken, Plain, Recorder, Trial, Visit, verdict};
use nvheap::{FocRedo, FocStm, FocUndo, Heap, PPtr, Policy, Session, Tx};

fn trial() -> Trial {
    Trial {
        sessions: 2,
        ..Trial::default()
    }
}

fn setup<P: Policy>(session: &mut Session<P, Recorder>) {
    session
        .root_or::<[u64; 16]>("words", |tx| tx.alloc([0; 16]))
        .unwrap();
}

/// Two words in different lines.
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
pub fn checkpoint_in_a_transaction() -> Option<Broken> {
    let trial = trial();
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
    let check = |heap: &Heap<FocUndo, Plain>, _: &Visit<'_, '_>| match read(heap) {
        (0, 0) | (1, 1) => Ok(()),
        mixed => {
            let what = format!("half a transaction: {mixed:?}");
            Err(Broken::new(verdict::NOT_ATOMIC, what))
        }
    };
    trial.judge::<FocUndo>(image, &events, &check).failure
}

/// The session with the later log commits first.
pub fn commits_against_the_order_of_logs() -> Option<Broken> {
    let trial = trial();
    let (heap, image) = trial.prepare::<FocRedo>(setup).unwrap();
    let (mut early, mut late) = (heap.session().unwrap(), heap.session().unwrap());
    let (first, _) = words(&mut early);
    late.run(|tx| tx.set(first, 1)).unwrap();
    heap.pmem().mark(1);
    early.run(|tx| tx.set(first, 2)).unwrap();
    heap.pmem().mark(2);
    let events = heap.pmem().take();
    let check = |heap: &Heap<FocRedo, Plain>, visit: &Visit<'_, '_>| {
        let returned = visit.marks.last().copied().unwrap_or(0);
        match read(heap).0 {
            found if found == returned || found == returned + 1 => Ok(()),
            found => {
                let what = format!("{found} after the commit of {returned}");
                Err(Broken::new(verdict::NOT_ATOMIC, what))
            }
        }
    };
    trial.judge::<FocRedo>(image, &events, &check).failure
}

/// Another session changes both words after a transaction has read the first: does it see a part of
/// that?
pub fn commit_between_two_reads() -> Option<Broken> {
    let (heap, _) = trial().prepare::<FocStm>(setup).unwrap();
    let (mut reader, mut writer) = (heap.session().unwrap(), heap.session().unwrap());
    let (first, second) = words(&mut reader);
    let mut written = false;
    let seen = reader
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
        .unwrap();
    (seen != (1, 1)).then(|| Broken::new(verdict::NOT_ISOLATED, format!("saw {seen:?}")))
}
