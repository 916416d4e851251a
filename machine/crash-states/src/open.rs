// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines whose content after a cut is open, and the contents that they may have.
//!
//! Contents of a line are numbered. Number 0 is the oldest, which is on media for certain; the last
//! is the newest, which CPUs see.

use crate::line::{Line, differing, overlaid};

/// Lines whose content after a cut is open, each independent of the others.
pub trait OpenLines {
    /// How many lines.
    fn count(&self) -> usize;
    /// Number of a line in memory; ascending.
    fn line(&self, index: usize) -> u64;
    /// How many contents the line may have; at least 1.
    fn choices(&self, index: usize) -> u64;
    /// One of these contents.
    fn content(&self, index: usize, choice: u64) -> Line;

    /// How many images the lines may make together, or `None` where that is no 64-bit number.
    fn images(&self) -> Option<u64> {
        (0..self.count()).try_fold(1_u64, |all, index| all.checked_mul(self.choices(index)))
    }
}

/// A change of a line that is not on media for certain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    after: Line,
    /// Its words arrive in any order; else all at once.
    torn: bool,
    /// Later steps have higher numbers.
    number: u64,
}

impl Step {
    /// How many contents it adds to those before it.
    fn added(&self, before: &Line) -> u64 {
        if self.torn {
            (1 << differing(before, &self.after).count_ones()) - 1
        } else {
            1
        }
    }
}

/// One line: what is on media for certain, and the changes since, in their order. A cut leaves a
/// number of these changes whole, from the first on, and of the next one, if it may be torn, any
/// words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLine {
    durable: Line,
    steps: Vec<Step>,
}

impl OpenLine {
    /// A line that is on media as a whole.
    #[must_use]
    pub fn new(durable: Line) -> Self {
        Self {
            durable,
            steps: Vec::new(),
        }
    }

    /// A line that was changed by stores that are not known one by one: each word is old or new.
    #[must_use]
    pub fn torn(old: Line, new: Line) -> Self {
        let mut line = Self::new(old);
        line.push(new, true, 0);
        line
    }

    /// A line that was changed as a whole, through these contents in turn; the last is the newest.
    #[must_use]
    pub fn changed(old: Line, contents: impl IntoIterator<Item = Line>) -> Self {
        let mut line = Self::new(old);
        for (number, content) in (0..).zip(contents) {
            line.push(content, false, number);
        }
        line
    }

    /// The line's next content. No change is no step.
    pub(crate) fn push(&mut self, after: Line, torn: bool, number: u64) {
        if after != self.newest() {
            self.steps.push(Step {
                after,
                torn,
                number,
            });
        }
    }

    /// What CPUs see.
    #[must_use]
    pub fn newest(&self) -> Line {
        self.steps.last().map_or(self.durable, |step| step.after)
    }

    /// What is on media for certain.
    #[must_use]
    pub fn durable(&self) -> &Line {
        &self.durable
    }

    /// All steps up to this number are on media.
    pub(crate) fn settle(&mut self, number: u64) {
        let settled = self.steps.partition_point(|step| step.number <= number);
        if let Some(step) = settled.checked_sub(1).and_then(|last| self.steps.get(last)) {
            self.durable = step.after;
            self.steps.drain(..settled);
        }
    }

    /// No step after this number is on media.
    pub(crate) fn forget_after(&mut self, number: u64) {
        let kept = self.steps.partition_point(|step| step.number <= number);
        self.steps.truncate(kept);
    }

    /// How many contents the line may have.
    #[must_use]
    pub fn choices(&self) -> u64 {
        let mut before = &self.durable;
        let mut choices = 1_u64;
        for step in &self.steps {
            choices = choices.saturating_add(step.added(before));
            before = &step.after;
        }
        choices
    }

    /// One of them.
    #[must_use]
    pub fn content(&self, choice: u64) -> Line {
        let mut before = &self.durable;
        let mut left = choice;
        for step in &self.steps {
            let added = step.added(before);
            if left <= added {
                return match left {
                    0 => *before,
                    _ if step.torn => overlaid(before, &step.after, left),
                    _ => step.after,
                };
            }
            left -= added;
            before = &step.after;
        }
        *before
    }

    /// Whether a cut may leave this content.
    #[must_use]
    pub fn allows(&self, content: &Line) -> bool {
        let mut before = &self.durable;
        for step in &self.steps {
            let words = overlaid(before, &step.after, between(before, content, &step.after));
            if content == before || step.torn && words == *content {
                return true;
            }
            before = &step.after;
        }
        content == before
    }
}

/// The differing words in which `content` is `after`; bit n is of the n-th word that differs.
fn between(before: &Line, content: &Line, after: &Line) -> u64 {
    let (differ, new) = (differing(before, after), !differing(content, after));
    let words = (0..8).filter(|word| (differ >> word) & 1 == 1);
    words.enumerate().fold(0, |chosen, (bit, word)| {
        chosen | (u64::from((new >> word) & 1) << bit)
    })
}

impl OpenLines for [(u64, OpenLine)] {
    fn count(&self) -> usize {
        self.len()
    }

    fn line(&self, index: usize) -> u64 {
        self[index].0
    }

    fn choices(&self, index: usize) -> u64 {
        self[index].1.choices()
    }

    fn content(&self, index: usize, choice: u64) -> Line {
        self[index].1.content(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::LINE_BYTES;

    fn with(words: &[(usize, u8)]) -> Line {
        let mut line = [0; LINE_BYTES];
        for (word, value) in words {
            line[word * 8] = *value;
        }
        line
    }

    #[test]
    fn contents_are_prefixes_and_torn_steps_are_subsets() {
        let mut line = OpenLine::new(with(&[]));
        line.push(with(&[(0, 1)]), false, 1);
        line.push(with(&[(0, 1), (2, 5), (3, 6)]), true, 2);
        line.push(with(&[(0, 9), (2, 5), (3, 6)]), false, 3);
        let contents: Vec<Line> = (0..line.choices()).map(|n| line.content(n)).collect();
        let expected = [
            with(&[]),
            with(&[(0, 1)]),
            with(&[(0, 1), (2, 5)]),
            with(&[(0, 1), (3, 6)]),
            with(&[(0, 1), (2, 5), (3, 6)]),
            with(&[(0, 9), (2, 5), (3, 6)]),
        ];
        assert_eq!(contents, expected);
        assert!(expected.iter().all(|content| line.allows(content)));
        assert!(!line.allows(&with(&[(2, 5)])));
        assert!(!line.allows(&with(&[(0, 9)])));
    }

    #[test]
    fn settled_steps_are_no_choice_any_more() {
        let mut line = OpenLine::new(with(&[]));
        line.push(with(&[(0, 1)]), false, 1);
        line.push(with(&[(0, 2)]), false, 4);
        line.push(with(&[(0, 2)]), false, 5); // changes nothing
        line.settle(0);
        assert_eq!(line.choices(), 3);
        line.settle(3);
        assert_eq!((line.choices(), line.durable()), (2, &with(&[(0, 1)])));
        line.settle(5);
        assert_eq!((line.choices(), line.newest()), (1, with(&[(0, 2)])));
    }
}
