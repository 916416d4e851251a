// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far apart commands of one kind are on a channel: two of one bank group, two of different
//! ones, and five.
//!
//! Commands are planned in the order of requests, which is not the order in which they go out: a
//! bank that is busy opens its row late, and another bank's command goes out before. So a new
//! command has to keep its distance from those before it and from those after it.

use crate::units::Ps;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The least distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Of two commands of one bank group.
    pub same: Ps,
    /// Of two commands of different bank groups.
    pub other: Ps,
    /// Of the first of five commands and the fifth.
    pub five: Ps,
}

impl Apart {
    /// Commands further apart than this are in nobody's way.
    fn reach(self) -> Ps {
        self.same.max(self.other).max(self.five)
    }
}

/// So many are looked at one by one before they are searched.
const FEW: usize = 8;

/// The commands of a channel that can still be in the way of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spacing {
    /// When, and of which bank group; in the order of time.
    known: VecDeque<(Ps, u64)>,
    /// Not before this; what is forgotten would be in the way.
    from: Ps,
}

impl Spacing {
    /// The first moment, not before `from`, at which a command of a bank group can go out.
    pub fn earliest(&self, apart: Apart, group: u64, from: Ps) -> Ps {
        let mut at = from.max(self.from);
        let reach = apart.reach();
        // Mostly nothing is in the way.
        if self
            .known
            .back()
            .is_none_or(|(last, _)| *last + reach <= at)
        {
            return at;
        }
        let mut next = self.up_to(at);
        while let Some(later) = self.in_the_way(apart, group, at, next) {
            at = later;
            next += self.known.range(next..).take_while(|it| it.0 <= at).count();
        }
        at
    }

    /// A later moment, before which no command can go out; `next` are those up to `at`.
    fn in_the_way(&self, apart: Apart, group: u64, at: Ps, next: usize) -> Option<Ps> {
        let reach = apart.same.max(apart.other);
        let least = |of: u64| {
            if of == group { apart.same } else { apart.other }
        };
        for (before, of) in self.known.range(..next).rev() {
            if *before + reach <= at {
                break;
            }
            if *before + least(*of) > at {
                return Some(*before + least(*of));
            }
        }
        for (after, of) in self.known.range(next..) {
            if at + reach <= *after {
                break;
            }
            if at + least(*of) > *after {
                return Some(*after + least(*of));
            }
        }
        self.fifth(apart.five, at, next)
    }

    /// The same for five commands, of which four are known.
    fn fifth(&self, five: Ps, at: Ps, next: usize) -> Option<Ps> {
        let when = |index: usize| self.known.get(index).map(|it| it.0);
        let before = |count: usize| next.checked_sub(count).and_then(when);
        if let Some(first) = before(4).filter(|first| *first + five > at) {
            return Some(first + five);
        }
        // One to four of them are later: with `count` before it, the last is so many after it.
        let crowded = (0..4).any(|count| {
            let first = if count == 0 { Some(at) } else { before(count) };
            let pair = first.zip(when(next + 3 - count));
            pair.is_some_and(|(first, last)| first + five > last)
        });
        if crowded { when(next) } else { None }
    }

    /// A command goes out.
    pub fn note(&mut self, group: u64, at: Ps) {
        let next = self.up_to(at);
        self.known.insert(next, (at, group));
    }

    /// How many went out up to a moment.
    fn up_to(&self, at: Ps) -> usize {
        // Mostly all but a few.
        let later = self.known.iter().rev().take(FEW);
        let later = later.take_while(|it| it.0 > at).count();
        if later < FEW {
            return self.known.len() - later;
        }
        self.known.partition_point(|(known, _)| *known <= at)
    }

    /// Forget what went out before a moment.
    pub fn forget(&mut self, apart: Apart, before: Ps) {
        while let Some((known, _)) = self.known.front().copied().filter(|it| it.0 < before) {
            self.from = known + apart.reach();
            self.known.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::random;

    const APART: Apart = Apart {
        same: Ps(7),
        other: Ps(4),
        five: Ps(28),
    };

    /// Whether commands, with their groups, keep their distances.
    fn kept(all: &[(Ps, u64)]) -> bool {
        let pairs = all.iter().enumerate().all(|(n, (at, group))| {
            all[n + 1..].iter().all(|(later, of)| {
                let least = if of == group { APART.same } else { APART.other };
                *later >= *at + least
            })
        });
        pairs && all.windows(5).all(|it| it[4].0 >= it[0].0 + APART.five)
    }

    fn with(spacing: &Spacing, group: u64, at: Ps) -> Vec<(Ps, u64)> {
        let mut all: Vec<(Ps, u64)> = spacing.known.iter().copied().collect();
        all.push((at, group));
        all.sort_unstable();
        all
    }

    /// Illegal at each moment before, legal then; whatever was planned later on.
    #[test]
    fn first_legal_moment_is_found() {
        for seed in 0..40 {
            let (mut spacing, mut state) = (Spacing::default(), seed);
            for _ in 0..60 {
                let dice = random(&mut state);
                let (group, from) = (dice & 3, Ps((dice >> 8) % 500));
                let at = spacing.earliest(APART, group, from);
                assert!(kept(&with(&spacing, group, at)));
                for early in from.0..at.0 {
                    assert!(!kept(&with(&spacing, group, Ps(early))), "{early} {at:?}");
                }
                spacing.note(group, at);
            }
        }
    }

    /// What is forgotten is in nobody's way too late, and in nobody's way too early.
    #[test]
    fn forgotten_commands_keep_their_distance() {
        let mut spacing = Spacing::default();
        for at in [0, 7, 14, 21] {
            spacing.note(0, Ps(at));
        }
        let whole = spacing.clone();
        spacing.forget(APART, Ps(22));
        assert!(spacing.known.is_empty());
        for from in 0..200 {
            let at = spacing.earliest(APART, 0, Ps(from));
            assert!(kept(&with(&whole, 0, at)) && at <= Ps(from.max(49)));
        }
    }
}
