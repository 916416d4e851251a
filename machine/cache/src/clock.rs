// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's time, out of the clocks of its cores.
//!
//! Cores that are simulated in turns have clocks that lag behind each other by any amount. So from
//! one look to the next the machine advances by as much as the core that advanced most. Time in
//! which all cores halt is left out.

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    now_ps: u64,
    seen_ps: Vec<u64>,
}

impl Clock {
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            now_ps: 0,
            seen_ps: vec![0; cores],
        }
    }

    /// The time, given the clock of each core.
    pub(crate) fn look(&mut self, clocks_ps: impl Iterator<Item = u64>) -> u64 {
        let mut passed_ps = 0;
        for (seen_ps, clock_ps) in self.seen_ps.iter_mut().zip(clocks_ps) {
            passed_ps = passed_ps.max(clock_ps.saturating_sub(*seen_ps));
            *seen_ps = clock_ps;
        }
        self.now_ps += passed_ps;
        self.now_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_advances_with_the_core_that_advances_most_however_far_it_lags() {
        let mut clock = Clock::new(2);
        assert_eq!(clock.look([1000, 10].into_iter()), 1000);
        assert_eq!(clock.look([1000, 10].into_iter()), 1000);
        assert_eq!(clock.look([1000, 30].into_iter()), 1020);
        assert_eq!(clock.look([1005, 37].into_iter()), 1027);
    }
}
