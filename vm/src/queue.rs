// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests that wait to be saved. Each stands still at its own time, and some never do; the most
//! important of those that do is the next.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A queue of *T* that are on their way to it.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    ready: Vec<(usize, T)>,
    on_their_way: usize,
}

impl<T> Queue<T> {
    /// For so many.
    #[must_use]
    pub const fn of(count: usize) -> Self {
        let state = State {
            ready: Vec::new(),
            on_their_way: count,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One has arrived, or will not come; it is served before those with a higher *rank*.
    pub fn arrive(&self, rank: usize, one: Option<T>) {
        let mut state = self.state();
        state.on_their_way -= 1;
        state.ready.extend(one.map(|one| (rank, one)));
        self.changed.notify_all();
    }

    /// The next one; none if all were served. Before *all_by* it is waited for all.
    pub fn next(&self, all_by: Instant) -> Option<T> {
        let mut state = self.state();
        loop {
            let left = all_by.saturating_duration_since(Instant::now());
            if state.on_their_way > 0 && !left.is_zero() {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let ranks = state.ready.iter().enumerate();
            if let Some((index, _)) = ranks.min_by_key(|(_, (rank, _))| *rank) {
                return Some(state.ready.swap_remove(index).1);
            }
            if state.on_their_way == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    /// Goal: the important one is first, in any order of arrival.
    #[test]
    fn rank_decides() {
        let queue = Queue::of(3);
        for rank in [2, 0, 1] {
            queue.arrive(rank, Some(rank));
        }
        let all: Vec<usize> = std::iter::from_fn(|| queue.next(Instant::now())).collect();
        assert_eq!(all, [0, 1, 2]);
    }

    /// Goal: one that does not arrive keeps nobody, and the queue ends when it has given up.
    #[test]
    fn one_that_is_late_keeps_nobody() {
        let queue = Queue::of(2);
        queue.arrive(1, Some("here"));
        assert_eq!(queue.next(Instant::now()), Some("here"));
        thread::scope(|scope| {
            let last = scope.spawn(|| queue.next(Instant::now() + Duration::from_secs(60)));
            queue.arrive(0, None);
            assert_eq!(last.join().unwrap(), None);
        });
    }

    /// Goal: a worker that is early does not take a less important one.
    #[test]
    fn the_first_one_is_waited_for() {
        let queue = Queue::of(2);
        queue.arrive(1, Some(1));
        thread::scope(|scope| {
            let first = scope.spawn(|| queue.next(Instant::now() + Duration::from_secs(60)));
            queue.arrive(0, Some(0));
            assert_eq!(first.join().unwrap(), Some(0));
        });
    }
}
