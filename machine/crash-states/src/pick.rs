// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pick: one content of each open line. Which picks are looked at.

use std::fmt::{Display, Formatter, Result as Written};

use crate::open::OpenLines;
use crate::rng::Rng;

/// Lines with another content than the oldest: index and content's number, by ascending index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pick(Vec<(usize, u64)>);

impl Pick {
    /// From lines and contents in ascending order.
    #[must_use]
    pub fn new(chosen: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let newer = chosen.into_iter().filter(|(_, choice)| *choice > 0);
        Self(newer.collect())
    }

    /// Of each line the newest content.
    #[must_use]
    pub fn newest(open: &(impl OpenLines + ?Sized)) -> Self {
        Self::new((0..open.count()).map(|index| (index, open.choices(index) - 1)))
    }

    /// Lines with another content than the oldest.
    #[must_use]
    pub fn chosen(&self) -> &[(usize, u64)] {
        &self.0
    }

    /// Whether every line has its oldest content.
    #[must_use]
    pub fn is_oldest(&self) -> bool {
        self.0.is_empty()
    }

    /// The same with another content of one line.
    #[must_use]
    pub fn with(&self, index: usize, choice: u64) -> Self {
        let before = self.0.iter().copied().filter(|(at, _)| *at < index);
        let after = self.0.iter().copied().filter(|(at, _)| *at > index);
        Self::new(before.chain([(index, choice)]).chain(after))
    }
}

/// `INDEX=CONTENT` of each line that has not its oldest content, or `oldest`.
impl Display for Pick {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        if self.is_oldest() {
            return write!(f, "oldest");
        }
        for (place, (index, choice)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{index}={choice}")?;
        }
        Ok(())
    }
}

/// How many picks are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// All picks of a moment are looked at if they are at most so many.
    pub all_max: u64,
    /// Else so many are drawn, besides the extreme ones: every line oldest, every line newest...
    pub drawn: u64,
    /// ... and of so many lines, spread over all, each alone newest and each alone oldest.
    pub alone_max: usize,
}

/// The picks to look at, each once, and whether they are all that there are.
#[must_use]
pub fn picks(
    open: &(impl OpenLines + ?Sized),
    limits: &Limits,
    rng: &mut Rng,
) -> (Vec<Pick>, bool) {
    match open.images() {
        Some(images) if images <= limits.all_max => (all(open, images), true),
        _ => (sample(open, limits, rng), false),
    }
}

fn all(open: &(impl OpenLines + ?Sized), images: u64) -> Vec<Pick> {
    let choices: Vec<u64> = (0..open.count()).map(|n| open.choices(n)).collect();
    let pick = |number: u64| {
        let mut rest = number;
        Pick::new(choices.iter().enumerate().map(|(index, choices)| {
            let choice = rest % choices;
            rest /= choices;
            (index, choice)
        }))
    };
    (0..images).map(pick).collect()
}

fn sample(open: &(impl OpenLines + ?Sized), limits: &Limits, rng: &mut Rng) -> Vec<Pick> {
    let newest = Pick::newest(open);
    let oldest = Pick::default();
    let mut found = vec![oldest.clone(), newest.clone()];
    let every = open.count().div_ceil(limits.alone_max.max(1)).max(1);
    for index in (0..open.count()).step_by(every) {
        found.push(oldest.with(index, open.choices(index) - 1));
        found.push(newest.with(index, 0));
    }
    for _ in 0..limits.drawn {
        let drawn = (0..open.count()).map(|index| (index, rng.below(open.choices(index))));
        found.push(Pick::new(drawn));
    }
    found
}

/// Makes a failing pick small: as many lines as possible have their oldest content, the others as
/// old a one as still fails. `fails` is asked about each try.
pub fn shrink(pick: &Pick, mut fails: impl FnMut(&Pick) -> bool) -> Pick {
    let mut small = pick.clone();
    let mut size = small.0.len().div_ceil(2);
    // Lines by halves, then quarters and so on.
    while size > 0 {
        let mut at = 0;
        while at < small.0.len() {
            let end = small.0.len().min(at + size);
            let tried = Pick([&small.0[..at], &small.0[end..]].concat());
            if fails(&tried) {
                small = tried;
            } else {
                at = end;
            }
        }
        size /= 2;
    }
    for place in 0..small.0.len() {
        let (index, choice) = small.0[place];
        let older = (1..choice).find(|older| fails(&small.with(index, *older)));
        small.0[place].1 = older.unwrap_or(choice);
    }
    small
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::LINE_BYTES;
    use crate::open::OpenLine;

    fn lines(steps: &[u8]) -> Vec<(u64, OpenLine)> {
        let line = |(number, steps): (usize, &u8)| {
            let mut line = OpenLine::new([0; LINE_BYTES]);
            for step in 1..=*steps {
                line.push([step; LINE_BYTES], false, u64::from(step));
            }
            (number as u64, line)
        };
        steps.iter().enumerate().map(line).collect()
    }

    const LIMITS: Limits = Limits {
        all_max: 24,
        drawn: 7,
        alone_max: 40,
    };

    #[test]
    fn few_images_are_all_looked_at_once() {
        let (found, whole) = picks(&lines(&[1, 2, 3])[..], &LIMITS, &mut Rng(1));
        let distinct: std::collections::HashSet<_> = found.iter().collect();
        assert_eq!((found.len(), distinct.len(), whole), (24, 24, true));
    }

    #[test]
    fn of_many_images_the_extremes_and_some_are_looked_at() {
        let open = lines(&[1, 2, 4]);
        let (found, whole) = picks(&open[..], &LIMITS, &mut Rng(1));
        assert!(!whole);
        assert_eq!(found.len(), 2 + 2 * 3 + 7);
        assert!(found[0].is_oldest());
        assert_eq!(found[1].chosen(), [(0, 1), (1, 2), (2, 4)]);
        assert_eq!(found[2].chosen(), [(0, 1)]);
        assert_eq!(found[3].chosen(), [(1, 2), (2, 4)]);
        let again = picks(&open[..], &LIMITS, &mut Rng(1)).0;
        assert_eq!(found, again, "the seed gives the picks");
        assert_ne!(found, picks(&open[..], &LIMITS, &mut Rng(2)).0);
    }

    #[test]
    fn shrinking_ends_at_the_lines_and_contents_that_matter() {
        let whole = Pick::new((0..100).map(|index| (index, 9)));
        let fails = |pick: &Pick| {
            let choice = |index| pick.chosen().iter().find(|(at, _)| *at == index);
            choice(17).is_some_and(|(_, choice)| *choice >= 4) && choice(70).is_some()
        };
        assert_eq!(shrink(&whole, fails).to_string(), "17=4,70=1");
        assert_eq!(shrink(&whole, |_| true).to_string(), "oldest");
    }
}
