// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histories of the structures, with their answers.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use nvheap::structures::{
    AvlHead, AvlMap, BPlusTree, BTreeHead, HashHead, HashMap, Queue, QueueHead,
};
use nvheap::testing::{
    Broken, Event, Model, Plain, Recorder, Step, Threads, Trial, Visit, allowed, verdict,
};
use nvheap::{Heap, PPtr, Persist, Pmem, Policy, Session, Tx, TxResult};

use crate::found::must;

const THREADS: usize = 4;
/// Few keys, so that operations conflict.
const KEYS: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Insert(u64, u64),
    Remove(u64),
    Get(u64),
}

/// A structure of the heap and its sequential model. A queue uses `Insert` for a push of the value
/// and `Remove` for a pop.
pub trait Subject: Send + Sync + 'static {
    type Head: Persist;
    type Content: Model<Op = Op, Answer = Option<u64>> + Default;
    fn create<T: Tx>(tx: &mut T) -> TxResult<PPtr<Self::Head>>;
    fn apply<T: Tx>(tx: &mut T, head: PPtr<Self::Head>, op: Op) -> TxResult<Option<u64>>;
    fn read<T: Tx>(tx: &mut T, head: PPtr<Self::Head>) -> TxResult<Self::Content>;
}

/// Model of a map: entries in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entries(Vec<(u64, u64)>);

impl Model for Entries {
    type Op = Op;
    type Answer = Option<u64>;

    fn after(&self, op: &Op) -> (Self, Option<u64>) {
        let mut next = self.clone();
        let (Op::Insert(key, _) | Op::Remove(key) | Op::Get(key)) = *op;
        let place = next.0.binary_search_by_key(&key, |entry| entry.0);
        let old = place.ok().map(|place| next.0[place].1);
        match (*op, place) {
            (Op::Insert(_, value), Ok(place)) => next.0[place].1 = value,
            (Op::Insert(_, value), Err(place)) => next.0.insert(place, (key, value)),
            (Op::Remove(_), Ok(place)) => drop(next.0.remove(place)),
            _ => {}
        }
        (next, old)
    }
}

/// Model of a queue: values, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Values(VecDeque<u64>);

impl Model for Values {
    type Op = Op;
    type Answer = Option<u64>;

    fn after(&self, op: &Op) -> (Self, Option<u64>) {
        let mut next = self.clone();
        let answer = match op {
            Op::Insert(_, value) => {
                next.0.push_back(*value);
                None
            }
            Op::Remove(_) => next.0.pop_front(),
            Op::Get(_) => Some(next.0.len() as u64),
        };
        (next, answer)
    }
}

pub struct Hash;
pub struct Avl;
pub struct BTree;
pub struct Fifo;

macro_rules! map {
    ($subject:ident, $map:ident, $head:ident, $create:expr, |$it:ident, $tx:ident| $cursor:expr) => {
        impl Subject for $subject {
            type Head = $head<u64, u64>;
            type Content = Entries;

            fn create<T: Tx>(tx: &mut T) -> TxResult<PPtr<Self::Head>> {
                $create(tx)
            }

            fn apply<T: Tx>(tx: &mut T, head: PPtr<Self::Head>, op: Op) -> TxResult<Option<u64>> {
                match op {
                    Op::Insert(key, value) => $map::at(head).insert(tx, key, value),
                    Op::Remove(key) => $map::at(head).remove(tx, &key),
                    Op::Get(key) => $map::at(head).get(tx, &key),
                }
            }

            fn read<T: Tx>($tx: &mut T, head: PPtr<Self::Head>) -> TxResult<Entries> {
                let $it = $map::at(head);
                let mut cursor = $cursor;
                let mut found = Vec::new();
                while let Some(entry) = cursor.next($tx)? {
                    found.push(entry);
                }
                let len = $it.len($tx)?;
                if len != found.len() as u64 {
                    let what = format!("{} entries, but a length of {len}", found.len());
                    must(Err(Broken::new(verdict::NOT_ATOMIC, what)))
                }
                found.sort_unstable();
                Ok(Entries(found))
            }
        }
    };
}
map!(
    Hash,
    HashMap,
    HashHead,
    |tx| HashMap::create(tx, 2),
    |it, tx| it.iter()
);
map!(Avl, AvlMap, AvlHead, AvlMap::create, |it, tx| it
    .range(tx, None)?);
map!(
    BTree,
    BPlusTree,
    BTreeHead,
    |tx| BPlusTree::create(tx, 0, 0),
    |it, tx| it.range(tx, None)?
);

impl Subject for Fifo {
    type Head = QueueHead<u64>;
    type Content = Values;

    fn create<T: Tx>(tx: &mut T) -> TxResult<PPtr<Self::Head>> {
        Queue::create(tx)
    }

    fn apply<T: Tx>(tx: &mut T, head: PPtr<Self::Head>, op: Op) -> TxResult<Option<u64>> {
        let queue = Queue::at(head);
        match op {
            Op::Insert(_, value) => queue.push(tx, value).map(|()| None),
            Op::Remove(_) => queue.pop(tx),
            Op::Get(_) => queue.len(tx).map(Some),
        }
    }

    fn read<T: Tx>(tx: &mut T, head: PPtr<Self::Head>) -> TxResult<Values> {
        let mut cursor = Queue::at(head).iter();
        let mut found = VecDeque::new();
        while let Some(value) = cursor.next(tx)? {
            found.push_back(value);
        }
        Ok(Values(found))
    }
}

fn draw(random: &mut u64, below: u64) -> u64 {
    *random = random
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    (*random >> 33) % below
}

/// Random operations of one thread; all values differ.
fn drawn(seed: u64, count: u64) -> Vec<Op> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..count)
        .map(|number| match draw(&mut random, 8) {
            0..4 => Op::Insert(draw(&mut random, KEYS), seed * 1000 + number),
            4..6 => Op::Remove(draw(&mut random, KEYS)),
            _ => Op::Get(draw(&mut random, KEYS)),
        })
        .collect()
}

fn root<S: Subject, P: Policy, B: Pmem>(session: &mut Session<P, B>) -> PPtr<S::Head> {
    session.root_or("subject", |tx| S::create(tx)).unwrap()
}

/// The steps of all threads; each is also a mark of the record.
struct History<S: Subject> {
    steps: Mutex<Vec<Step<S::Content>>>,
    recorder: Recorder,
}

impl<S: Subject> History<S> {
    fn note(&self, step: Step<S::Content>) {
        let mut steps = self.steps.lock().unwrap();
        self.recorder.mark(steps.len() as u64);
        steps.push(step);
    }

    fn run<P: Policy>(&self, session: &mut Session<P, Recorder>, thread: usize, op: Op) {
        let head = root::<S, _, _>(session);
        self.note(Step::Call(thread, op));
        let answer = session.run(|tx| S::apply(tx, head, op)).unwrap();
        self.note(Step::Return(thread, answer));
    }
}

fn judge<S: Subject, P: Policy>(
    heap: &Heap<P, Plain>,
    visit: &Visit<'_, '_>,
    allowed: &[HashSet<S::Content>],
) -> Result<(), Broken> {
    let mut session = heap.session().map_err(Broken::does_not_open)?;
    let head = root::<S, _, _>(&mut session);
    let found = session
        .view(|tx| S::read(tx, head))
        .map_err(Broken::does_not_open)?;
    let wanted = &allowed[visit.marks.len()];
    if wanted.contains(&found) {
        Ok(())
    } else {
        let steps = visit.marks.len();
        let what = format!("{found:?} after {steps} steps, allowed: {wanted:?}");
        Err(Broken::new(verdict::NOT_ATOMIC, what))
    }
}

/// Checks every cut of the recorded history.
fn every_cut<S: Subject, P: Policy>(
    trial: &Trial,
    threads: usize,
    image: Vec<u8>,
    history: &History<S>,
) -> Result<u64, Broken> {
    let events: Vec<Event> = history.recorder.take();
    let steps = history.steps.lock().unwrap();
    let allowed = allowed(threads, S::Content::default(), &steps)
        .map_err(|what| Broken::new(verdict::NOT_LINEARIZABLE, what))?;
    let report = trial.judge::<P>(image, &events, &|heap, visit| {
        judge::<S, P>(heap, visit, &allowed)
    });
    report.failure.map_or(Ok(report.states), Err)
}

/// A history of one thread; returns the number of checked states.
pub fn one_thread<S: Subject, P: Policy>(seed: u64) -> Result<u64, Broken> {
    let trial = Trial {
        bytes: 1 << 19,
        redo_lines: 32,
        undo_lines: 32,
        limits: Trial::limits(40, 4),
        seed,
        ..Trial::default()
    };
    let (heap, image) = trial
        .prepare::<P>(|session| {
            root::<S, _, _>(session);
        })
        .unwrap();
    let history = History::<S> {
        steps: Mutex::default(),
        recorder: heap.pmem().clone(),
    };
    let mut session = heap.session().unwrap();
    for op in drawn(seed, 24) {
        history.run(&mut session, 0, op);
    }
    every_cut::<S, P>(&trial, 1, image, &history)
}

/// Four threads; under policies without isolation they take a lock, as the manual requires.
pub fn four_threads<S: Subject, P: Policy>(locked: bool, seed: u64) {
    let trial = Trial {
        // Each session uses a chunk for each of its object sizes.
        bytes: 1 << 20,
        sessions: THREADS as u32 + 1,
        redo_lines: 32,
        undo_lines: 32,
        limits: Trial::limits(8, 1),
        seed,
        threads: Threads {
            current: || shuttle::current::me().into(),
            step: shuttle::thread::yield_now,
        },
    };
    let (heap, image) = trial
        .prepare::<P>(|session| {
            root::<S, _, _>(session);
        })
        .unwrap();
    let history = Arc::new(History::<S> {
        steps: Mutex::default(),
        recorder: heap.pmem().clone(),
    });
    let lock = Arc::new(shuttle::sync::Mutex::new(()));
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (history, lock) = (Arc::clone(&history), Arc::clone(&lock));
            let mut session = heap.session().unwrap();
            shuttle::thread::spawn(move || {
                for op in drawn(seed * 10 + thread as u64, 5) {
                    let guard = locked.then(|| lock.lock().unwrap());
                    history.run(&mut session, thread, op);
                    drop(guard);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    must(every_cut::<S, P>(&trial, THREADS, image, &history));
}
