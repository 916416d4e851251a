// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small world of words and objects for crash tests, its model, and the histories that every
//! policy with flush on commit must survive.

use crate::error::TxError;
use crate::heap::{Heap, Session};
use crate::persist::PPtr;
use crate::pmem::Pmem;
use crate::policy::Policy;
use crate::testing::{Broken, Event, Limits, Plain, Recorder, Report, Trial, Visit, verdict};
use crate::tx::{Tx, TxResult};

const WORDS: usize = 4;
const PLACES: usize = 4;
/// The mark behind a recovery.
const RECOVERED: u64 = u64::MAX;
/// States of a moment in a history of which all are looked at.
const ALL_MAX: u64 = 100_000;

persist! {
    /// The root.
    struct Root {
        words: [u64; WORDS],
        /// (offset, words) of objects.
        places: [[u64; 2]; PLACES],
    }
}

/// What a transaction does.
#[derive(Clone, Debug)]
pub enum Op {
    /// Set a word.
    Set(usize, u64),
    /// Exchange two words.
    Swap(usize, usize),
    /// A new object of so many words at a place; the one that was there is freed.
    Put(usize, u64, u64),
    /// Set the last word of the object at a place.
    Touch(usize, u64),
    /// Free the object at a place.
    Drop(usize),
    /// Several in one transaction.
    All(Vec<Op>),
    /// A part that is undone alone.
    Undone(Vec<Op>),
    /// All this, and then the program aborts.
    Abort(Vec<Op>),
}

/// The model: words, and of each object its size, first and last word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    words: [u64; WORDS],
    places: [Option<(u64, u64, u64)>; PLACES],
}

impl World {
    /// After a transaction.
    #[must_use]
    pub fn after(&self, op: &Op) -> Self {
        let mut next = self.clone();
        match op {
            Op::Set(word, value) => next.words[*word] = *value,
            Op::Swap(a, b) => next.words.swap(*a, *b),
            Op::Put(place, words, value) => {
                next.places[*place] = Some((*words, *value, value + words - 1));
            }
            Op::Touch(place, value) => {
                next.places[*place] =
                    next.places[*place].map(|(words, first, _)| (words, first, *value));
            }
            Op::Drop(place) => next.places[*place] = None,
            Op::All(ops) => return ops.iter().fold(next, |world, op| world.after(op)),
            Op::Undone(_) | Op::Abort(_) => {}
        }
        next
    }
}

fn root<P: Policy, B: Pmem>(session: &mut Session<P, B>) -> PPtr<Root> {
    let empty = Root {
        words: [0; WORDS],
        places: [[0; 2]; PLACES],
    };
    match session.root_or("world", |tx| tx.alloc(empty)) {
        Ok(root) => root,
        Err(error) => panic!("the world's root: {error}"),
    }
}

fn word(root: PPtr<Root>, index: usize) -> PPtr<u64> {
    field!(root, Root, words)
        .cast::<u64>()
        .element(index as u64)
}

fn apply<T: Tx>(tx: &mut T, root: PPtr<Root>, op: &Op) -> TxResult<()> {
    match op {
        Op::Set(index, value) => tx.set(word(root, *index), *value),
        Op::Swap(a, b) => {
            let (a, b) = (word(root, *a), word(root, *b));
            let (x, y) = (tx.get(a)?, tx.get(b)?);
            tx.will_set(&[a.range(), b.range()])?;
            tx.set(a, y)?;
            tx.set(b, x)
        }
        Op::Put(place, words, value) => {
            remove(tx, root, *place)?;
            let content: Vec<u8> = (0..*words)
                .flat_map(|word| (value + word).to_le_bytes())
                .collect();
            let made = tx.alloc_bytes(&content)?;
            tx.set(at(root, *place), [made.start.offset(), *words])
        }
        Op::Touch(place, value) => {
            let [offset, words] = tx.get(at(root, *place))?;
            tx.set(PPtr::<u64>::from_offset(offset).element(words - 1), *value)
        }
        Op::Drop(place) => {
            remove(tx, root, *place)?;
            tx.set(at(root, *place), [0; 2])
        }
        Op::All(ops) => ops.iter().try_for_each(|op| apply(tx, root, op)),
        Op::Undone(ops) => {
            let done = tx.nested(|tx| {
                ops.iter().try_for_each(|op| apply(tx, root, op))?;
                Err::<(), _>(TxError::Abort)
            });
            if done == Err(TxError::Abort) {
                Ok(())
            } else {
                done
            }
        }
        Op::Abort(ops) => {
            ops.iter().try_for_each(|op| apply(tx, root, op))?;
            Err(TxError::Abort)
        }
    }
}

fn at(root: PPtr<Root>, place: usize) -> PPtr<[u64; 2]> {
    field!(root, Root, places)
        .cast::<[u64; 2]>()
        .element(place as u64)
}

fn remove<T: Tx>(tx: &mut T, root: PPtr<Root>, place: usize) -> TxResult<()> {
    match tx.get(at(root, place))? {
        [0, _] => Ok(()),
        [offset, _] => tx.release(offset),
    }
}

/// Read a world; an object whose words do not fit each other is an error.
fn read<T: Tx>(tx: &mut T, root: PPtr<Root>) -> TxResult<Result<World, Broken>> {
    let found = tx.get(root)?;
    let mut world = World {
        words: found.words,
        ..World::default()
    };
    for (place, [offset, words]) in found.places.into_iter().enumerate() {
        if offset == 0 {
            continue;
        }
        let start: PPtr<u64> = PPtr::from_offset(offset);
        if words == 0 {
            let what = format!("object at {offset:#x}: it has no words");
            return Ok(Err(Broken::new(verdict::TORN_OBJECT, what)));
        }
        let first = tx.get(start)?;
        for index in 0..words - 1 {
            let value = tx.get(start.element(index))?;
            if value != first + index {
                let what = format!("object at {offset:#x}: word {index} is {value}");
                return Ok(Err(Broken::new(verdict::TORN_OBJECT, what)));
            }
        }
        world.places[place] = Some((words, first, tx.get(start.element(words - 1))?));
    }
    Ok(Ok(world))
}

/// Allocated objects, as the allocator has it.
#[must_use]
pub fn objects_of<P: Policy, B: Pmem>(heap: &Heap<P, B>) -> u64 {
    heap.usage().objects
}

/// Whether a recovered heap holds what it held after `done` of the transactions, or one more.
fn judge<P: Policy>(heap: &Heap<P, Plain>, worlds: &[World], done: usize) -> Result<(), Broken> {
    let mut session = heap.session().map_err(Broken::does_not_open)?;
    let root = root(&mut session);
    let found = session
        .view(|tx| read(tx, root))
        .map_err(Broken::does_not_open)??;
    let wanted = &worlds[done..worlds.len().min(done + 2)];
    if !wanted.contains(&found) {
        let what = format!("after {done} transactions: {found:?}, not one of {wanted:?}");
        return Err(Broken::new(verdict::NOT_ATOMIC, what));
    }
    let objects = 1 + found.places.iter().flatten().count() as u64;
    if objects_of(heap) != objects {
        let what = format!(
            "{} objects allocated, {objects} reachable",
            objects_of(heap)
        );
        return Err(Broken::new(verdict::WRONG_OBJECTS, what));
    }
    match crate::fsck::check(heap.layout(), &|offset| heap.word(offset)).first() {
        Some(finding) => Err(Broken::new(verdict::DAMAGED, &finding.what)),
        None => Ok(()),
    }
}

fn follow<P: Policy>(session: &mut Session<P, Recorder>, recorder: &Recorder, ops: &[Op]) {
    let root = root(session);
    for (number, op) in ops.iter().enumerate() {
        let done = session.run(|tx| apply(tx, root, op));
        assert!(
            done == Ok(()) || matches!(op, Op::Abort(_)) && done == Err(TxError::Abort),
            "{op:?}: {done:?}"
        );
        recorder.mark(number as u64);
    }
}

/// A history: what goes before, and what is recorded.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Transactions before the record.
    before: Vec<Op>,
    /// Transactions of the record.
    ops: Vec<Op>,
    /// Bytes of its region at least.
    bytes: u64,
    /// All states of each moment are looked at, or this is a failure of the test.
    exhaustive: bool,
    /// Cuts in the recovery, and in a history after it, are looked at as well.
    again: bool,
}

/// The histories.
#[must_use]
#[allow(clippy::too_many_lines)] // one table
pub fn scenarios() -> Vec<Scenario> {
    use Op::{Abort, All, Drop, Put, Set, Swap, Touch, Undone};
    let small = |name, before, ops| Scenario {
        name,
        before,
        ops,
        bytes: 0,
        exhaustive: true,
        again: false,
    };
    let long = |name, before, ops| Scenario {
        name,
        before,
        ops,
        bytes: 1 << 19,
        exhaustive: false,
        again: false,
    };
    vec![
        small(
            "swap",
            vec![Set(0, 1), Set(1, 2)],
            vec![Swap(0, 1), Set(2, 3)],
        ),
        small(
            "abort",
            vec![Set(0, 1)],
            vec![Abort(vec![Set(0, 5)]), Set(0, 7)],
        ),
        small("free", vec![Put(0, 2, 50)], vec![Drop(0)]),
        long("allocate", vec![Put(3, 2, 9)], vec![Put(0, 2, 50)]),
        long(
            "exchange",
            vec![Put(0, 2, 50)],
            vec![Put(0, 2, 60), Put(1, 4, 70), Drop(0), Put(2, 2, 80)],
        ),
        long(
            "several at once",
            vec![Put(0, 2, 50), Set(3, 4)],
            vec![
                All(vec![
                    Set(0, 1),
                    Set(1, 2),
                    Set(0, 3),
                    Put(1, 3, 30),
                    Drop(0),
                    Swap(0, 3)
                ]);
                2
            ],
        ),
        long(
            "nested",
            vec![Put(0, 2, 50)],
            vec![All(vec![
                Set(0, 1),
                Undone(vec![Set(0, 9), Set(1, 9), Drop(0), Put(1, 2, 90)]),
                Put(2, 2, 20),
            ])],
        ),
        long(
            "past the log",
            vec![Put(0, 2, 50)],
            vec![
                Put(1, 70, 500),
                Drop(1),
                Put(2, 70, 900),
                Drop(2),
                Put(1, 70, 100),
                Set(0, 1),
            ],
        ),
        // The record of the last word is older than the object that comes to lie there.
        long(
            "written past the log where records point",
            vec![Put(3, 70, 1)],
            vec![
                Put(0, 70, 500),
                Touch(0, 9),
                Drop(0),
                Put(1, 70, 900),
                Set(0, 1),
            ],
        ),
        // A large object's chunks after a slab's and the reverse; old records meet new maps.
        long(
            "slabs where objects were",
            vec![],
            vec![
                Put(0, 8300, 7),
                Set(1, 1),
                Drop(0),
                Put(1, 30, 11),
                Put(2, 60, 22),
                Drop(1),
                Set(0, 4),
            ],
        ),
        long(
            "many",
            vec![],
            (0..40)
                .map(|n| All(vec![Set(n % 4, n as u64), Swap(0, 1)]))
                .collect(),
        ),
        long(
            "many objects",
            vec![],
            (0..40)
                .map(|n| {
                    if n % 3 == 2 {
                        Drop(n % 4)
                    } else {
                        Put(n % 4, 2 + n as u64 % 3, n as u64 * 10)
                    }
                })
                .collect(),
        ),
        Scenario {
            name: "again",
            before: vec![Set(0, 1), Put(0, 2, 50)],
            ops: vec![
                All(vec![
                    Set(0, 5),
                    Set(1, 6),
                    Set(2, 7),
                    Put(0, 2, 60),
                    Set(3, 8),
                ]),
                Set(0, 2),
            ],
            bytes: 0,
            exhaustive: false,
            again: true,
        },
    ]
}

impl Scenario {
    fn worlds(&self, ops: &[Op], from: &World) -> Vec<World> {
        let mut worlds = vec![from.clone()];
        for op in ops {
            worlds.push(worlds[worlds.len() - 1].after(op));
        }
        worlds
    }

    /// Run it.
    #[must_use]
    pub fn run<P: Policy>(&self, trial: &Trial) -> Report {
        let all_max = if self.exhaustive {
            ALL_MAX
        } else {
            trial.limits.all_max
        };
        let limits = Limits {
            all_max,
            ..trial.limits
        };
        let trial = &Trial {
            bytes: trial.bytes.max(self.bytes),
            limits,
            ..*trial
        };
        let start = self
            .before
            .iter()
            .fold(World::default(), |world, op| world.after(op));
        let worlds = self.worlds(&self.ops, &start);
        let again = self.again;
        let check = |heap: &Heap<P, Plain>, visit: &Visit<'_, '_>| {
            judge(heap, &worlds, visit.marks.len())?;
            if again {
                self.again::<P>(trial, &worlds, visit)
            } else {
                Ok(())
            }
        };
        let setup = |session: &mut Session<P, Recorder>| {
            let root = root(session);
            for op in &self.before {
                let done = session.run(|tx| apply(tx, root, op));
                assert_eq!(done, Ok(()), "{op:?}");
            }
        };
        let history = |session: &mut Session<P, Recorder>, recorder: &Recorder| {
            follow(session, recorder, &self.ops);
        };
        let mut report = match trial.run(setup, history, &check) {
            Ok(report) => report,
            Err(error) => Report {
                failure: Some(Broken::does_not_open(error)),
                ..Report::default()
            },
        };
        if self.exhaustive && report.sampled > 0 && report.failure.is_none() {
            let what = "too many states to look at all of them";
            report.failure = Some(Broken::new(verdict::TOO_MANY_STATES, what));
        }
        report
    }

    /// From a state that a cut left: every cut of the recovery, and of transactions after it.
    fn again<P: Policy>(
        &self,
        trial: &Trial,
        worlds: &[World],
        visit: &Visit<'_, '_>,
    ) -> Result<(), Broken> {
        let trial = Trial {
            limits: Trial::limits(300, 3),
            ..*trial
        };
        let done = visit.marks.len();
        let (heap, image) = trial
            .reopen::<P>(visit.image.bytes())
            .map_err(Broken::does_not_open)?;
        let mut events = heap.pmem().take();
        let mut session = heap.session().map_err(Broken::does_not_open)?;
        let root = root(&mut session);
        let found = session
            .view(|tx| read(tx, root))
            .map_err(Broken::does_not_open)??;
        let ops = [Op::All(vec![
            Op::Set(0, 77),
            Op::Set(1, 78),
            Op::Set(2, 79),
            Op::Set(3, 80),
        ])];
        let later = self.worlds(&ops, &found);
        follow(&mut session, heap.pmem(), &ops);
        events.push(Event::Mark(RECOVERED));
        events.extend(heap.pmem().take());
        drop(session);
        let report = trial.judge::<P>(image, &events, &|heap, inner| match inner.marks {
            [] => judge(heap, worlds, done),
            [_recovered, returned @ ..] => judge(heap, &later, returned.len()),
        });
        report.failure.map_or(Ok(()), |broken| {
            let what = format!("after a recovery: {}", broken.what);
            Err(Broken { what, ..broken })
        })
    }
}

/// All histories under a policy: number of states looked at.
///
/// # Errors
/// The first state that was wrong.
pub fn self_check<P: Policy>(trial: &Trial) -> Result<u64, String> {
    let mut states = 0;
    for scenario in scenarios() {
        let report = scenario.run::<P>(trial);
        if let Some(what) = report.failure {
            return Err(format!("{} under {}: {what}", scenario.name, P::KIND));
        }
        states += report.states;
    }
    Ok(states)
}
