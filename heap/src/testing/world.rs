// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small world of words and objects: what a transaction may do in it, and its model.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::TxError;
use crate::heap::Session;
use crate::persist::PPtr;
use crate::pmem::Pmem;
use crate::policy::Policy;
use crate::testing::{Broken, verdict};
use crate::tx::{Tx, TxResult};

const WORDS: usize = 4;
const PLACES: usize = 4;
/// With the number of an object's words: only the first and the last of them are written.
const HOLLOW: u64 = 1 << 63;

persist! {
    /// The root.
    pub(super) struct Root {
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
    /// Read a word and add to it.
    Add(usize, u64),
    /// Exchange two words.
    Swap(usize, usize),
    /// A new object of so many words at a place; the one that was there is freed.
    Put(usize, u64, u64),
    /// The same without a content but for its first and last word: for objects of mebibytes.
    Room(usize, u64, u64),
    /// Set the last word of the object at a place, if there is one.
    Touch(usize, u64),
    /// Free the object at a place.
    Drop(usize),
    /// Several in one transaction.
    All(Vec<Op>),
    /// A part that is undone alone.
    Undone(Vec<Op>),
    /// All this, and then the program aborts.
    Abort(Vec<Op>),
    /// All this, and then the program panics, and goes on with the same session.
    Panic(Vec<Op>),
    /// A part that panics; the transaction goes on.
    PanicInPart(Vec<Op>),
    /// Meanwhile the body runs a transaction of another session; at most one, and once.
    Beside(Vec<Op>),
    /// The body asks its own session for a transaction, which C allows it to (`erased`).
    Again(Vec<Op>),
    /// A transaction that only looks; between its looks another session runs one.
    Look(Vec<Op>),
    /// Not a transaction: the region is closed and opened.
    Reopen,
}

impl Op {
    fn parts(&self) -> &[Self] {
        match self {
            Self::All(ops)
            | Self::Undone(ops)
            | Self::Abort(ops)
            | Self::Panic(ops)
            | Self::PanicInPart(ops) => ops,
            _ => &[],
        }
    }

    /// The transaction that another session runs meanwhile.
    pub(super) fn beside(&self) -> Option<&[Self]> {
        match self {
            Self::Beside(ops) | Self::Look(ops) => Some(ops),
            _ => self.parts().iter().find_map(Self::beside),
        }
    }

    /// Whether its body asks for another transaction of its session: then it must not commit.
    pub(super) fn asks_again(&self) -> bool {
        matches!(self, Self::Again(_)) || self.parts().iter().any(Self::asks_again)
    }
}

/// The model: words, and of each object its size, first and last word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    words: [u64; WORDS],
    places: [Option<(u64, u64, u64)>; PLACES],
}

impl World {
    /// After a transaction; what another session does meanwhile came before.
    #[must_use]
    pub fn after(&self, op: &Op) -> Self {
        let mut next = self.clone();
        if op.asks_again() {
            return next;
        }
        match op {
            Op::Set(word, value) => next.words[*word] = *value,
            Op::Add(word, value) => next.words[*word] = next.words[*word].wrapping_add(*value),
            Op::Swap(a, b) => next.words.swap(*a, *b),
            Op::Put(place, words, value) => {
                next.places[*place] = Some((*words, *value, value + words - 1));
            }
            Op::Room(place, words, value) => {
                next.places[*place] = Some((*words | HOLLOW, *value, value + 1));
            }
            Op::Touch(place, value) => {
                next.places[*place] =
                    next.places[*place].map(|(words, first, _)| (words, first, *value));
            }
            Op::Drop(place) => next.places[*place] = None,
            Op::All(ops) => return ops.iter().fold(next, |world, op| world.after(op)),
            Op::Undone(_)
            | Op::Abort(_)
            | Op::Panic(_)
            | Op::PanicInPart(_)
            | Op::Beside(_)
            | Op::Again(_)
            | Op::Look(_)
            | Op::Reopen => {}
        }
        next
    }

    /// How many objects it has beside the root.
    pub(super) fn objects(&self) -> u64 {
        self.places.iter().flatten().count() as u64
    }

    /// Whether an object is at a place.
    #[must_use]
    pub fn has(&self, place: usize) -> bool {
        self.places[place].is_some()
    }
}

pub(super) fn root<P: Policy, B: Pmem>(session: &mut Session<P, B>) -> PPtr<Root> {
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

fn at(root: PPtr<Root>, place: usize) -> PPtr<[u64; 2]> {
    field!(root, Root, places)
        .cast::<[u64; 2]>()
        .element(place as u64)
}

/// What a body reaches beside its transaction: the root, and what runs a transaction of another
/// session, or asks its own for one.
pub(super) struct Around<'a> {
    pub root: PPtr<Root>,
    pub beside: &'a mut dyn FnMut(&[Op]),
    pub again: &'a mut dyn FnMut(&[Op]),
}

impl Around<'_> {
    /// Of a body that runs alone.
    pub fn alone(root: PPtr<Root>) -> Self {
        // Closures that capture nothing need no memory.
        Self {
            root,
            beside: Box::leak(Box::new(|_: &[Op]| ())),
            again: Box::leak(Box::new(|_: &[Op]| ())),
        }
    }
}

pub(super) fn apply<T: Tx>(tx: &mut T, around: &mut Around<'_>, op: &Op) -> TxResult<()> {
    let root = around.root;
    match op {
        Op::Set(index, value) => tx.set(word(root, *index), *value),
        Op::Add(index, value) => {
            let old = tx.get(word(root, *index))?;
            tx.set(word(root, *index), old.wrapping_add(*value))
        }
        Op::Swap(a, b) => {
            let (a, b) = (word(root, *a), word(root, *b));
            let (x, y) = (tx.get(a)?, tx.get(b)?);
            tx.will_set(&[a.range(), b.range()])?;
            tx.set(a, y)?;
            tx.set(b, x)
        }
        Op::Put(place, ..) | Op::Room(place, ..) | Op::Touch(place, _) | Op::Drop(place) => {
            apply_at(tx, root, *place, op)
        }
        Op::All(ops) => all(tx, around, ops),
        Op::Undone(ops) => {
            let done = tx.nested(|tx| {
                all(tx, around, ops)?;
                Err::<(), _>(TxError::Abort)
            });
            if done == Err(TxError::Abort) {
                Ok(())
            } else {
                done
            }
        }
        Op::Abort(ops) => {
            all(tx, around, ops)?;
            Err(TxError::Abort)
        }
        Op::Panic(ops) => {
            all(tx, around, ops)?;
            resume_unwind(Box::new(Planned))
        }
        Op::PanicInPart(ops) => caught(|| {
            tx.nested(|tx| {
                all(tx, around, ops)?;
                resume_unwind(Box::new(Planned))
            })
        })
        .unwrap_or(Ok(())),
        Op::Beside(ops) => {
            (around.beside)(ops);
            Ok(())
        }
        Op::Again(ops) => {
            (around.again)(ops);
            Ok(())
        }
        Op::Look(_) | Op::Reopen => unreachable!("no part of a transaction"),
    }
}

/// To the object at a place.
fn apply_at<T: Tx>(tx: &mut T, root: PPtr<Root>, place: usize, op: &Op) -> TxResult<()> {
    match op {
        Op::Put(_, words, value) => {
            remove(tx, root, place)?;
            let content: Vec<u8> = (0..*words)
                .flat_map(|word| (value + word).to_le_bytes())
                .collect();
            let made = tx.alloc_bytes(&content)?;
            tx.set(at(root, place), [made.start.offset(), *words])
        }
        Op::Room(_, words, value) => {
            remove(tx, root, place)?;
            let made = tx.reserve(words * 8)?;
            tx.set(at(root, place), [made, *words | HOLLOW])?;
            // SAFETY: the first and the last word of the object that was just reserved.
            unsafe {
                tx.init(made, &[*value])?;
                tx.init(made + (words - 1) * 8, &[value + 1])
            }
        }
        Op::Touch(_, value) => {
            let [offset, words] = tx.get(at(root, place))?;
            if offset == 0 {
                return Ok(());
            }
            let last = PPtr::<u64>::from_offset(offset).element((words & !HOLLOW) - 1);
            tx.set(last, *value)
        }
        Op::Drop(_) => {
            remove(tx, root, place)?;
            tx.set(at(root, place), [0; 2])
        }
        _ => unreachable!("of no place"),
    }
}

pub(super) fn all<T: Tx>(tx: &mut T, around: &mut Around<'_>, ops: &[Op]) -> TxResult<()> {
    ops.iter().try_for_each(|op| apply(tx, around, op))
}

/// What [`Op::Panic`] throws.
struct Planned;

/// What a body returns, or none if it panics as planned.
pub(super) fn caught<R>(body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => Some(done),
        Err(thrown) if thrown.is::<Planned>() => None,
        Err(other) => resume_unwind(other),
    }
}

fn remove<T: Tx>(tx: &mut T, root: PPtr<Root>, place: usize) -> TxResult<()> {
    match tx.get(at(root, place))? {
        [0, _] => Ok(()),
        [offset, _] => tx.release(offset),
    }
}

/// Read a world; an object whose words do not fit each other, or that lies in another one, is an
/// error. `meanwhile` is called when the objects' places are known and they are not read.
pub(super) fn read<T: Tx>(
    tx: &mut T,
    root: PPtr<Root>,
    meanwhile: &mut dyn FnMut(),
) -> TxResult<Result<World, Broken>> {
    let found = tx.get(root)?;
    meanwhile();
    if let Some(broken) = overlap(&found.places) {
        return Ok(Err(broken));
    }
    let mut world = World {
        words: found.words,
        ..World::default()
    };
    for (place, [offset, size]) in found.places.into_iter().enumerate() {
        if offset == 0 {
            continue;
        }
        let (start, words) = (PPtr::<u64>::from_offset(offset), size & !HOLLOW);
        if words == 0 {
            let what = format!("object at {offset:#x}: it has no words");
            return Ok(Err(Broken::new(verdict::TORN_OBJECT, what)));
        }
        let first = tx.get(start)?;
        let whole = if size == words { 0..words - 1 } else { 0..0 };
        for index in whole {
            let value = tx.get(start.element(index))?;
            if value != first.wrapping_add(index) {
                let what = format!("object at {offset:#x}: word {index} is {value}");
                return Ok(Err(Broken::new(verdict::TORN_OBJECT, what)));
            }
        }
        world.places[place] = Some((size, first, tx.get(start.element(words - 1))?));
    }
    Ok(Ok(world))
}

fn overlap(places: &[[u64; 2]]) -> Option<Broken> {
    let mut objects: Vec<_> = places.iter().filter(|[offset, _]| *offset != 0).collect();
    objects.sort_unstable();
    let pair = objects.windows(2).find(|pair| {
        let [offset, size] = pair[0];
        offset.saturating_add((size & !HOLLOW).saturating_mul(8)) > pair[1][0]
    })?;
    let what = format!("objects at {:#x} and {:#x}", pair[0][0], pair[1][0]);
    Some(Broken::new(verdict::OVERLAP, what))
}
