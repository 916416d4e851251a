// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interleaved measurement: in each round every contender runs two short batches, of which the second
//! is counted, so that whatever else the machine does meets all of them. Figures are medians over rounds, spreads are quartiles.

use std::fmt::Write;
use std::time::Instant;

/// One of those that are compared. A batch does that many operations.
pub struct Contender<'a> {
    pub name: &'static str,
    pub batch: Box<dyn FnMut(u64) + 'a>,
}

/// Rounds that nobody counts: caches, branch predictors and first touches of pages.
const WARM_UP_ROUNDS: u64 = 20;

/// Nanoseconds per operation, by contender and round.
pub fn run(contenders: &mut [Contender], rounds: u64, batch: u64) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); contenders.len()];
    for round in 0..WARM_UP_ROUNDS + rounds {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            // What the others have pushed out of the cache comes back.
            (contender.batch)(batch);
            let begin = Instant::now();
            (contender.batch)(batch);
            let ns = begin.elapsed().as_nanos() as f64 / batch as f64;
            if round >= WARM_UP_ROUNDS {
                times.push(ns);
            }
        }
    }
    times
}

/// A value that a fraction of the others is below.
pub fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = ((sorted.len() - 1) as f64 * fraction).round();
    #[allow(clippy::cast_sign_loss)] // a place in the list
    let place = place as usize;
    sorted[place]
}

/// Lines `name value spread_percent` for a reader of standard output.
#[derive(Default)]
pub struct Figures(String);

impl Figures {
    /// The median, and half the distance of the quartiles as a part of it.
    pub fn add(&mut self, name: &str, unit: &str, values: &[f64]) {
        let median = quantile(values, 0.5);
        let spread = (quantile(values, 0.75) - quantile(values, 0.25)) / 2.0 / median * 100.0;
        if writeln!(self.0, "{name} {median:.4} {unit} {spread:.2}").is_err() {
            unreachable!("a string takes all");
        }
    }

    /// The ratio of two contenders, round by round.
    pub fn ratio(&mut self, name: &str, above: &[f64], below: &[f64]) {
        let ratios: Vec<f64> = above.iter().zip(below).map(|(a, b)| a / b).collect();
        self.add(name, "x", &ratios);
    }

    pub fn print(&self) {
        print!("{}", self.0);
    }
}

/// The next request of a program that is the same each time; its high bits are the random ones.
#[inline(always)]
pub fn draw(random: &mut u64) {
    *random = random
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
}
