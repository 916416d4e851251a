// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A history of the world of words and objects: it is run and recorded, and every state that a cut of
//! it may leave is compared with the model.

use crate::erased::AnySession;
use crate::error::TxError;
use crate::heap::{Heap, Session};
use crate::persist::PPtr;
use crate::policy::Policy;
use crate::testing::by_pointer::ByPointer;
use crate::testing::trial::Lasting;
use crate::testing::world::{Around, Root, all, apply, caught, read, root};
use crate::testing::{
    Broken, Event, Limits, Op, Plain, Recorder, Report, Trial, Visit, World, scenarios, verdict,
};
use crate::tx::TxResult;

/// The mark behind a recovery.
const RECOVERED: u64 = u64::MAX;
/// States of a moment in a history of which all are looked at.
const ALL_MAX: u64 = 100_000;

/// A history: what goes before, and what is recorded.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Transactions before the record.
    pub(super) before: Vec<Op>,
    /// Transactions of the record.
    pub(super) ops: Vec<Op>,
    /// Bytes of its region at least.
    pub(super) bytes: u64,
    /// All states of each moment are looked at, or this is a failure of the test.
    pub(super) exhaustive: bool,
    /// Cuts in the recovery, and in a history after it, are looked at as well.
    pub(super) recover_again: bool,
    /// Its session is used as by C.
    pub(super) by_pointer: bool,
    /// Two sessions use the same words: only where transactions are isolated.
    pub(super) isolated: bool,
}

impl Scenario {
    /// Of one session with its type, or of two that share nothing.
    #[must_use]
    pub fn new(name: &'static str, bytes: u64, before: Vec<Op>, ops: Vec<Op>) -> Self {
        Self {
            name,
            before,
            ops,
            bytes,
            exhaustive: false,
            recover_again: false,
            by_pointer: false,
            isolated: false,
        }
    }

    /// The same by a session that is used as by C.
    #[must_use]
    pub fn by_pointer(self) -> Self {
        Self {
            by_pointer: true,
            ..self
        }
    }

    /// Run it, where the policy can.
    #[must_use]
    pub fn run<P: Policy>(&self, trial: &Trial) -> Report {
        if self.isolated && !P::KIND.is_isolated() {
            return Report::default();
        }
        let all_max = if self.exhaustive {
            ALL_MAX
        } else {
            trial.limits.all_max
        };
        let two = self.ops.iter().any(|op| op.beside().is_some());
        let trial = &Trial {
            bytes: trial.bytes.max(self.bytes),
            sessions: trial.sessions.max(1 + u32::from(two)),
            limits: Limits {
                all_max,
                ..trial.limits
            },
            ..*trial
        };
        let mut report = self.follow_and_judge::<P>(trial);
        if self.exhaustive && report.sampled > 0 && report.failure.is_none() {
            let what = "too many states to look at all of them";
            report.failure = Some(Broken::new(verdict::TOO_MANY_STATES, what));
        }
        report
    }

    fn follow_and_judge<P: Policy>(&self, trial: &Trial) -> Report {
        let start = self
            .before
            .iter()
            .fold(World::default(), |world, op| world.after(op));
        let worlds = worlds(&self.ops, &start);
        let check = |heap: &Heap<P, Plain>, visit: &Visit<'_, '_>| {
            judge(heap, &worlds, visit.marks.len())?;
            if self.recover_again {
                recover_again::<P>(trial, &worlds, visit)
            } else {
                Ok(())
            }
        };
        let setup = |session: &mut Session<P, Recorder>| {
            let root = root(session);
            for op in &self.before {
                let around = &mut Around::alone(root);
                let done = session.run(|tx| apply(tx, around, op));
                assert_eq!(done, Ok(()), "{op:?}");
            }
        };
        let (mut region, image) = match trial.lasting::<P>(setup) {
            Ok(prepared) => prepared,
            Err(error) => {
                return Report {
                    failure: Some(Broken::does_not_open(error)),
                    ..Report::default()
                };
            }
        };
        let followed = self.follow(&mut region, &worlds);
        let events = region.recorder().take();
        let report = trial.judge(image, &events, &check);
        Report {
            failure: followed.err().or(report.failure),
            ..report
        }
    }

    /// Run its transactions, and mark the end of each.
    fn follow<P: Policy>(&self, region: &mut Lasting<P>, worlds: &[World]) -> Result<(), Broken> {
        let mut returned = 0;
        for part in self.ops.split_inclusive(|op| matches!(op, Op::Reopen)) {
            Play::new(region.heap(), self.by_pointer)?.part(part, worlds, &mut returned)?;
            if let Some(Op::Reopen) = part.last() {
                region.reopen().map_err(Broken::does_not_open)?;
                region.recorder().mark(returned);
                returned += 1;
            }
        }
        Ok(())
    }
}

/// What the world is before a history and after each of its transactions, in the order in which they
/// return.
fn worlds(ops: &[Op], from: &World) -> Vec<World> {
    let mut worlds = vec![from.clone()];
    for op in ops {
        if let Some(beside) = op.beside() {
            let other = beside
                .iter()
                .fold(worlds[worlds.len() - 1].clone(), |world, op| {
                    world.after(op)
                });
            worlds.push(other);
        }
        worlds.push(worlds[worlds.len() - 1].after(op));
    }
    worlds
}

/// Whether a recovered heap holds what it held after `done` of the transactions, or one more.
fn judge<P: Policy>(heap: &Heap<P, Plain>, worlds: &[World], done: usize) -> Result<(), Broken> {
    let mut session = heap.session().map_err(Broken::does_not_open)?;
    let root = root(&mut session);
    let found = session
        .view(|tx| read(tx, root, &mut || {}))
        .map_err(Broken::does_not_open)??;
    let wanted = &worlds[done..worlds.len().min(done + 2)];
    if !wanted.contains(&found) {
        let what = format!("after {done} transactions: {found:?}, not one of {wanted:?}");
        return Err(Broken::new(verdict::NOT_ATOMIC, what));
    }
    let (objects, reachable) = (heap.usage().objects, 1 + found.objects());
    if objects != reachable {
        let what = format!("{objects} objects allocated, {reachable} reachable");
        return Err(Broken::new(verdict::WRONG_OBJECTS, what));
    }
    match crate::fsck::check(heap.layout(), &|offset| heap.word(offset)).first() {
        Some(finding) => Err(Broken::new(verdict::DAMAGED, &finding.what)),
        None => Ok(()),
    }
}

/// By what a history's transactions are run.
enum Own<P: Policy> {
    Typed(Session<P, Recorder>),
    Pointer(Box<AnySession>),
}

/// Sessions that play a history.
struct Play<P: Policy> {
    recorder: Recorder,
    root: PPtr<Root>,
    own: Own<P>,
    /// None in a region of one session.
    other: Option<Session<P, Recorder>>,
}

impl<P: Policy> Play<P> {
    fn new(heap: &Heap<P, Recorder>, by_pointer: bool) -> Result<Self, Broken> {
        let mut session = heap.session().map_err(Broken::does_not_open)?;
        let root = root(&mut session);
        let own = if by_pointer {
            Own::Pointer(Box::new(AnySession::of(session)))
        } else {
            Own::Typed(session)
        };
        Ok(Self {
            recorder: heap.pmem().clone(),
            root,
            own,
            other: heap.session().ok(),
        })
    }

    /// Transactions up to the next closing.
    fn part(&mut self, ops: &[Op], worlds: &[World], returned: &mut u64) -> Result<(), Broken> {
        for op in ops.iter().filter(|op| !matches!(op, Op::Reopen)) {
            let Self {
                recorder,
                root,
                own,
                other,
            } = self;
            let refused = |error| Broken::new(verdict::REFUSED, format!("{op:?}: {error}"));
            let before = *returned as usize;
            let mut done = None;
            let mut beside = |ops: &[Op]| {
                let (Some(session), None) = (other.as_mut(), done) else {
                    return;
                };
                let alone = &mut Around::alone(*root);
                done = Some(session.run(|tx| all(tx, alone, ops)));
                recorder.mark(*returned);
                *returned += 1;
            };
            if let Op::Look(ops) = op {
                let meanwhile = &mut || beside(ops);
                let seen = own.look(*root, meanwhile).map_err(refused)?;
                let wanted = &worlds[before..worlds.len().min(before + 2)];
                if P::KIND.is_isolated() && !seen.as_ref().is_ok_and(|seen| wanted.contains(seen)) {
                    let what = format!("{op:?} saw {seen:?}, not one of {wanted:?}");
                    return Err(Broken::new(verdict::NOT_ISOLATED, what));
                }
            } else {
                own.transact(*root, &mut beside, op).map_err(refused)?;
            }
            done.unwrap_or(Ok(())).map_err(refused)?;
            recorder.mark(*returned);
            *returned += 1;
        }
        Ok(())
    }
}

impl<P: Policy> Own<P> {
    /// Run a transaction. It may end without a commit if it is to abort, to panic or to be refused.
    fn transact(
        &mut self,
        root: PPtr<Root>,
        beside: &mut dyn FnMut(&[Op]),
        op: &Op,
    ) -> Result<(), TxError> {
        let done = match self {
            Self::Typed(session) => {
                let again = &mut |_: &[Op]| unreachable!("a type keeps a body from that");
                let around = &mut Around {
                    root,
                    beside,
                    again,
                };
                caught(|| session.run(|tx| apply(tx, around, op)))
            }
            Self::Pointer(session) => {
                let this: *mut AnySession = &raw mut **session;
                let again = &mut |ops: &[Op]| {
                    let alone = &mut Around::alone(root);
                    let body = &mut || answer(all(&mut ByPointer(this), alone, ops));
                    // What it says does not matter: the content will show what it did.
                    // SAFETY: a session of this thread.
                    let _ = unsafe { AnySession::run(this, false, body) };
                };
                let around = &mut Around {
                    root,
                    beside,
                    again,
                };
                let body = &mut || answer(apply(&mut ByPointer(this), around, op));
                // SAFETY: a session of this thread.
                Some(unsafe { AnySession::run(this, false, body) })
            }
        };
        match done {
            None => Ok(()),
            Some(Err(TxError::Abort)) if matches!(op, Op::Abort(_)) => Ok(()),
            Some(Err(_)) if op.asks_again() => Ok(()),
            Some(done) => done,
        }
    }

    fn look(
        &mut self,
        root: PPtr<Root>,
        meanwhile: &mut dyn FnMut(),
    ) -> TxResult<Result<World, Broken>> {
        match self {
            Self::Typed(session) => session.view(|tx| read(tx, root, meanwhile)),
            Self::Pointer(session) => {
                let this: *mut AnySession = &raw mut **session;
                let mut seen = Ok(World::default());
                let body =
                    &mut || answer(read(&mut ByPointer(this), root, meanwhile).map(|it| seen = it));
                // SAFETY: a session of this thread.
                unsafe { AnySession::run(this, true, body) }.map(|()| seen)
            }
        }
    }
}

fn answer(done: TxResult<()>) -> i32 {
    if done.is_ok() { 0 } else { -1 }
}

/// From a state that a cut left: every cut of the recovery, and of transactions after it.
fn recover_again<P: Policy>(
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
    let mut play = Play::new(&heap, false)?;
    let Own::Typed(session) = &mut play.own else {
        unreachable!("it has its type")
    };
    let root = play.root;
    let found = session
        .view(|tx| read(tx, root, &mut || {}))
        .map_err(Broken::does_not_open)??;
    let ops = [Op::All(vec![
        Op::Set(0, 77),
        Op::Set(1, 78),
        Op::Set(2, 79),
        Op::Set(3, 80),
    ])];
    let later = self::worlds(&ops, &found);
    play.part(&ops, &later, &mut 0)?;
    events.push(Event::Mark(RECOVERED));
    events.extend(heap.pmem().take());
    drop(play);
    let report = trial.judge::<P>(image, &events, &|heap, inner| match inner.marks {
        [] => judge(heap, worlds, done),
        [_recovered, returned @ ..] => judge(heap, &later, returned.len()),
    });
    report.failure.map_or(Ok(()), |broken| {
        let what = format!("after a recovery: {}", broken.what);
        Err(Broken { what, ..broken })
    })
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
