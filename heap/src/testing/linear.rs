// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Durable linearizability of a recorded history.
//!
//! Operations of several threads overlap. Each must have happened at one moment between its call and
//! its return; after a cut those that had returned are there, and of those under way each is or is
//! not. The checker follows the history with every order that the answers so far allow, and gives
//! the states that a cut may leave after each step.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// A sequential specification.
pub trait Model: Clone + Eq + Hash + Debug {
    /// An operation.
    type Op: Clone + Debug;
    /// What is answered.
    type Answer: Clone + Eq + Hash + Debug;
    /// The state after the operation, and its answer.
    #[must_use]
    fn after(&self, op: &Self::Op) -> (Self, Self::Answer);
}

/// One step of a history; threads are numbers from 0 on.
#[derive(Clone, Debug)]
pub enum Step<M: Model> {
    /// A thread asks for something.
    Call(usize, M::Op),
    /// A thread has its answer.
    Return(usize, M::Answer),
}

/// What one possible order has led to. Of each thread: nothing, or its operation's answer once
/// that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Way<M: Model> {
    state: M,
    answers: Vec<Option<M::Answer>>,
}

/// Follows a history.
#[derive(Clone, Debug)]
struct Linear<M: Model> {
    calls: Vec<Option<M::Op>>,
    ways: HashSet<Way<M>>,
}

impl<M: Model> Linear<M> {
    /// Of so many threads, from a state on.
    fn new(threads: usize, state: M) -> Self {
        let answers = vec![None; threads];
        Self {
            calls: vec![None; threads],
            ways: HashSet::from([Way { state, answers }]),
        }
    }

    /// The next step.
    ///
    /// # Errors
    /// No order of the operations gives these answers.
    fn step(&mut self, step: &Step<M>) -> Result<(), String> {
        match step {
            Step::Call(thread, op) => {
                self.calls[*thread] = Some(op.clone());
                self.spread();
            }
            Step::Return(thread, answer) => {
                let op = self.calls[*thread].take();
                self.ways
                    .retain(|way| way.answers[*thread].as_ref() == Some(answer));
                self.ways = std::mem::take(&mut self.ways)
                    .into_iter()
                    .map(|mut way| {
                        way.answers[*thread] = None;
                        way
                    })
                    .collect();
                if self.ways.is_empty() {
                    return Err(format!(
                        "thread {thread}: {op:?} answered {answer:?}, which no order of the operations gives"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Each operation under way may happen now, or later.
    fn spread(&mut self) {
        let mut new: Vec<Way<M>> = self.ways.iter().cloned().collect();
        while let Some(way) = new.pop() {
            for (thread, op) in self.calls.iter().enumerate() {
                let Some(op) = op else { continue };
                if way.answers[thread].is_some() {
                    continue;
                }
                let mut next = way.clone();
                let (state, answer) = way.state.after(op);
                next.state = state;
                next.answers[thread] = Some(answer);
                if self.ways.insert(next.clone()) {
                    new.push(next);
                }
            }
        }
    }

    /// What a cut may leave now.
    fn states(&self) -> HashSet<M> {
        self.ways.iter().map(|way| way.state.clone()).collect()
    }
}

/// What a cut may leave after each number of steps.
///
/// # Errors
/// The history is not linearizable, cut or not.
pub fn allowed<M: Model>(
    threads: usize,
    start: M,
    history: &[Step<M>],
) -> Result<Vec<HashSet<M>>, String> {
    let mut linear = Linear::new(threads, start);
    let mut all = vec![linear.states()];
    for (number, step) in history.iter().enumerate() {
        linear
            .step(step)
            .map_err(|what| format!("step {number}: {what}"))?;
        all.push(linear.states());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{Model, Step, allowed};

    /// A word: `Some` sets it, `None` reads it.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Word(u64);

    impl Model for Word {
        type Op = Option<u64>;
        type Answer = u64;
        fn after(&self, op: &Option<u64>) -> (Self, u64) {
            (Self(op.unwrap_or(self.0)), self.0)
        }
    }

    fn states(history: &[Step<Word>]) -> Result<Vec<u64>, String> {
        let all = allowed(3, Word(0), history)?;
        let mut last: Vec<u64> = all[history.len()].iter().map(|word| word.0).collect();
        last.sort_unstable();
        Ok(last)
    }

    #[test]
    fn what_returned_is_there_and_what_is_under_way_may_be() {
        use Step::{Call, Return};
        assert_eq!(states(&[Call(0, Some(1))]), Ok(vec![0, 1]));
        assert_eq!(states(&[Call(0, Some(1)), Return(0, 0)]), Ok(vec![1]));
        let both = [Call(0, Some(1)), Call(1, Some(2)), Return(0, 0)];
        assert_eq!(states(&both), Ok(vec![1, 2]));
    }

    #[test]
    fn what_another_has_seen_has_happened() {
        use Step::{Call, Return};
        let seen = [Call(0, Some(1)), Call(1, None), Return(1, 1)];
        assert_eq!(states(&seen), Ok(vec![1]));
    }

    #[test]
    fn answer_that_no_order_gives_is_refused() {
        use Step::{Call, Return};
        let stale = [Call(0, Some(1)), Return(0, 0), Call(1, None), Return(1, 0)];
        assert_eq!(states(&stale).ok(), None);
        // Two that read cannot see two writes in different orders.
        let torn = [
            Call(0, Some(1)),
            Call(1, None),
            Return(1, 1),
            Call(2, None),
            Return(2, 0),
        ];
        assert_eq!(states(&torn).ok(), None);
    }
}
