// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Four threads of the operating system under transactional memory, for ThreadSanitizer
//! (`tests/heap/test_sanitizers.py`); alone it checks their sums.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    missing_docs
)]

use std::alloc::Layout;
use std::ptr::NonNull;

use nvheap::fof::{Memory, Region};
use nvheap::structures::{AvlMap, HashMap, Queue};
use nvheap::{FocStm, FofStm, Heap, Options, Policy, Tx};

const REGION_BYTES: u64 = 1 << 23;
const THREADS: u64 = 4;
const EACH: u64 = 400;

fn race<P: Policy>() {
    let heap = Heap::<P>::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
    let mut session = heap.session().unwrap();
    let avl = session.root_or("avl", AvlMap::<u64, u64>::create).unwrap();
    let hash = session
        .root_or("hash", |tx| HashMap::<u64, u64>::create(tx, 2))
        .unwrap();
    let queue = session.root_or("queue", Queue::<u64>::create).unwrap();
    let sum = session.root_or("sum", |tx| tx.alloc(0_u64)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let heap = &heap;
            scope.spawn(move || {
                let mut session = heap.session().unwrap();
                for number in 0..EACH {
                    let key = (thread * 7 + number) % 50;
                    session
                        .run(|tx| {
                            AvlMap::at(avl).insert(tx, key, number)?;
                            if HashMap::at(hash).remove(tx, &key)?.is_none() {
                                HashMap::at(hash).insert(tx, key, number)?;
                            }
                            Queue::at(queue).push(tx, number)?;
                            if number % 3 == 0 {
                                Queue::at(queue).pop(tx)?;
                            }
                            let now = tx.get(sum)?;
                            tx.set(sum, now + number)
                        })
                        .unwrap();
                }
            });
        }
    });
    let (found, left) = session
        .view(|tx| Ok((tx.get(sum)?, Queue::at(queue).len(tx)?)))
        .unwrap();
    assert_eq!(found, THREADS * EACH * (EACH - 1) / 2);
    assert_eq!(left, THREADS * (EACH - EACH.div_ceil(3)));
}

/// Plain memory has no isolation, but its allocator is shared: each thread passes objects to the
/// next, which frees them.
#[test]
fn objects_of_plain_memory_pass_from_thread_to_thread() {
    let region = Region::anonymous(REGION_BYTES, &nvheap::fof::Options::assume_all()).unwrap();
    let layout = Layout::new::<[u64; 6]>();
    let senders = std::sync::Mutex::new(Vec::new());
    let all_are_there = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (region, senders, all_are_there) = (&region, &senders, &all_are_there);
            scope.spawn(move || {
                let mut local = region.local().unwrap();
                let (to, from) = std::sync::mpsc::channel::<usize>();
                senders.lock().unwrap().push(to);
                all_are_there.wait();
                let next =
                    senders.lock().unwrap()[(thread as usize + 1) % THREADS as usize].clone();
                all_are_there.wait();
                senders.lock().unwrap().clear();
                for number in 0..4 * EACH {
                    let at = local.alloc(layout).unwrap().cast::<u64>();
                    // SAFETY: just allocated.
                    unsafe { at.write(number) };
                    next.send(at.as_ptr().expose_provenance()).unwrap();
                }
                drop(next);
                for at in from {
                    let at = std::ptr::with_exposed_provenance_mut::<u8>(at);
                    // SAFETY: another thread has passed it on.
                    unsafe { local.free(NonNull::new_unchecked(at), layout) };
                }
            });
        }
    });
    assert_eq!(region.check(), []);
    assert_eq!(region.usage().objects, 0);
}

#[test]
fn sums_of_four_threads_are_correct() {
    race::<FocStm>();
    race::<FofStm>();
}
