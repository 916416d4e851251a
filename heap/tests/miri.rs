// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A short run of all policies and structures without machine instructions, so that Miri can
//! execute it: `tests/heap/test_sanitizers.py` does so, in the soak tier.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    missing_docs
)]

use nvheap::fof::{PlainTx, Region};
use nvheap::structures::{AvlMap, BPlusTree, HashMap, Queue};
use nvheap::testing::Plain;
use nvheap::{Heap, Mapping, Options, PolicyKind, Tx, TxError};

const REGION_BYTES: u64 = 1 << 20;
const KEYS: u64 = 12;

fn options() -> Options {
    Options {
        sessions: 2,
        redo_lines: 64,
        undo_lines: 64,
        ..Options::assume_all()
    }
}

fn way<P: nvheap::Policy>() {
    let map = Mapping::anonymous(REGION_BYTES).unwrap();
    // SAFETY: the heap over it is closed before the next one, and the mapping is dropped last.
    let again = unsafe { map.lend() };
    let heap: Heap<P, Plain> = Heap::format(Plain, again, &options()).unwrap();
    let mut session = heap.session().unwrap();
    let avl = session.root_or("avl", AvlMap::<u64, u64>::create).unwrap();
    let tree = session
        .root_or("tree", |tx| BPlusTree::<u64, u64>::create(tx, 0, 0))
        .unwrap();
    let hash = session
        .root_or("hash", |tx| HashMap::<u64, u64>::create(tx, 2))
        .unwrap();
    let queue = session.root_or("queue", Queue::<u64>::create).unwrap();
    for key in 0..KEYS {
        session
            .run(|tx| {
                AvlMap::at(avl).insert(tx, key, key)?;
                BPlusTree::at(tree).insert(tx, key, key)?;
                HashMap::at(hash).insert(tx, key, key)?;
                Queue::at(queue).push(tx, key)
            })
            .unwrap();
    }
    let aborted = session.run(|tx| {
        AvlMap::at(avl).remove(tx, &3)?;
        tx.alloc_bytes(b"gone again")?;
        Err::<(), _>(TxError::Abort)
    });
    assert_eq!(aborted, Err(TxError::Abort));
    session
        .run(|tx| {
            AvlMap::at(avl).remove(tx, &5)?;
            HashMap::at(hash).remove(tx, &5)?;
            Queue::at(queue).pop(tx)
        })
        .unwrap();
    drop(session);
    drop(heap);
    // SAFETY: as above.
    let again = unsafe { map.lend() };
    let heap: Heap<P, Plain> = Heap::attach(Plain, again, &options()).unwrap();
    let mut session = heap.session().unwrap();
    let found = session
        .view(|tx| {
            Ok((
                AvlMap::at(avl).len(tx)?,
                BPlusTree::at(tree).get(tx, &5)?,
                HashMap::at(hash).get(tx, &5)?,
                Queue::at(queue).len(tx)?,
            ))
        })
        .unwrap();
    assert_eq!(found, (KEYS - 1, Some(5), None, KEYS - 1));
    assert!(nvheap::fsck::check(heap.layout(), &|offset| heap.word(offset)).is_empty());
}

/// Plain memory: the structures over it, an allocator that another thread continues to use, and a
/// slab that becomes free.
#[test]
fn plain_memory() {
    let options = nvheap::fof::Options::assume_all();
    let mut region = Region::anonymous(REGION_BYTES, &options).unwrap();
    let mut local = region.local().unwrap();
    // SAFETY: only this test uses the region, and the pointers belong to it.
    let mut tx = unsafe { PlainTx::new(&mut local) };
    let avl = AvlMap::at(AvlMap::<u64, u64>::create(&mut tx).unwrap());
    let tree = BPlusTree::at(BPlusTree::<u64, u64>::create(&mut tx, 0, 0).unwrap());
    let hash = HashMap::at(HashMap::<u64, u64>::create(&mut tx, 2).unwrap());
    let queue = Queue::at(Queue::<u64>::create(&mut tx).unwrap());
    for key in 0..KEYS {
        avl.insert(&mut tx, key, key).unwrap();
        tree.insert(&mut tx, key, key).unwrap();
        hash.insert(&mut tx, key, key).unwrap();
        queue.push(&mut tx, key).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: as above; the other thread waits.
            let mut tx = unsafe { PlainTx::new(&mut local) };
            avl.remove(&mut tx, &5).unwrap();
            hash.remove(&mut tx, &5).unwrap();
            queue.pop(&mut tx).unwrap();
        });
    });
    let mut other = region.local().unwrap();
    // SAFETY: as above.
    let mut tx = unsafe { PlainTx::new(&mut other) };
    let found = (
        avl.len(&mut tx),
        tree.get(&mut tx, &5),
        hash.get(&mut tx, &5),
    );
    assert_eq!(found, (Ok(KEYS - 1), Ok(Some(5)), Ok(None)));
    for key in 0..KEYS {
        hash.remove(&mut tx, &key).unwrap();
    }
    drop((local, other));
    region.reclaim().unwrap();
    assert_eq!(region.check(), []);
}

// One by one: each takes Miri some twenty seconds of an idle CPU.
macro_rules! ways {
    ($($name:ident: $policy:ident)*) => {
        $(#[test]
        fn $name() {
            way::<nvheap::$policy>();
        })*

        #[test]
        fn no_policy_is_missing() {
            let ours = [$(<nvheap::$policy as nvheap::Policy>::KIND),*];
            assert!(PolicyKind::ALL.iter().all(|kind| ours.contains(kind)));
        }
    };
}
ways! {
    foc_redo: FocRedo
    foc_undo: FocUndo
    foc_stm: FocStm
    fof_undo: FofUndo
    fof_stm: FofStm
}
