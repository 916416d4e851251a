// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes of each line on the devices. Almost every write touches another line,
//! so the table has to be small: a byte a line, and what is above in a second
//! table that is touched once in 256 writes (and is no memory until then). Writes
//! are put into the table some dozens at once: the host then fetches many lines
//! of the table at a time, where one after another each would be waited for.

use serde::{Deserialize, Serialize};

/// Writes that wait for the table.
const PENDING: usize = 64;

/// The table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wear {
    low: Vec<u8>,
    high: Vec<u32>,
    pending: Vec<u64>,
}

impl Wear {
    /// Of lines that were never written.
    #[must_use]
    pub fn new(lines: usize) -> Self {
        Self {
            low: vec![0; lines],
            high: vec![0; lines],
            pending: Vec::with_capacity(PENDING),
        }
    }

    /// How many lines there are.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.low.len() as u64
    }

    /// One more write. Beyond the table there is nothing to wear (the rest of a
    /// block at the end of memory).
    #[inline]
    pub fn add(&mut self, line: u64) {
        self.pending.push(line);
        if self.pending.len() == PENDING {
            self.settle();
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index of the table, or beyond it"
    )]
    fn settle(&mut self) {
        for line in self.pending.drain(..) {
            if let Some(low) = self.low.get_mut(line as usize) {
                *low = low.wrapping_add(1);
                if *low == 0 {
                    self.high[line as usize] += 1;
                }
            }
        }
    }

    /// Writes of a line.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index of the table, or it panics"
    )]
    pub fn of(&self, line: u64) -> u64 {
        let pending = self.pending.iter().filter(|it| **it == line).count() as u64;
        u64::from(self.low[line as usize]) + (u64::from(self.high[line as usize]) << 8) + pending
    }

    /// Writes of all lines.
    pub fn counts(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.settle();
        let high = self.high.iter().map(|high| u64::from(*high) << 8);
        self.low
            .iter()
            .zip(high)
            .map(|(low, high)| u64::from(*low) + high)
    }

    /// The most of any line.
    #[must_use]
    pub fn max(&self) -> u64 {
        let table = self.low.iter().zip(&self.high);
        let most = table
            .map(|(low, high)| u64::from(*low) + (u64::from(*high) << 8))
            .max();
        let waiting = self.pending.iter().map(|line| self.of(*line)).max();
        most.max(waiting).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_beyond_a_byte() {
        let mut wear = Wear::new(2);
        (0..70_000).for_each(|_| wear.add(1));
        assert_eq!(wear.counts().sum::<u64>(), 70_000);
        wear.add(1);
        wear.add(1);
        assert_eq!(wear.of(1), 70_002);
        assert_eq!(wear.max(), 70_002);
        assert_eq!((wear.of(0), wear.lines()), (0, 2));
    }
}
