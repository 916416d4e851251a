// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of single bits, each on its own, at a given rate: how many lines are contained, and
//! whether one is silent. What a rate too low to be simulated gives follows from these
//! (`experiments/lpc-mce`).

use crate::error::MediaError;
use crate::units::{PhysLine, random};
use crate::xcc::{self, PIECE_BITS, Read};
use serde::Deserialize;
use serde_json::{Value, json};

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UberJob {
    /// Wrong bits of those that are read.
    pub raw_ber: f64,
    /// Lines that are read.
    pub lines: u64,
    /// The fourth piece.
    pub second_code: bool,
    /// Of all choices.
    pub seed: u64,
}

/// Distances between wrong bits.
struct Errors {
    state: u64,
    /// The logarithm of a right bit's probability.
    log_right: f64,
    /// Right bits until the next wrong one.
    left: usize,
}

impl Errors {
    fn new(raw_ber: f64, seed: u64) -> Self {
        let mut errors = Self {
            state: seed,
            log_right: (-raw_ber).ln_1p(),
            left: 0,
        };
        errors.left = errors.distance();
        errors
    }

    /// Geometrically distributed.
    fn distance(&mut self) -> usize {
        // Of 53 bits; never 0, whose logarithm is infinite.
        let uniform = ((random(&mut self.state) >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and saturates"
        )]
        let right = (uniform.ln() / self.log_right) as usize;
        right
    }

    /// The wrong bits of the next so many.
    fn of(&mut self, bits: usize) -> Vec<usize> {
        let mut wrong = Vec::new();
        let mut at = 0;
        while self.left < bits - at {
            at += self.left;
            wrong.push(at);
            at += 1;
            self.left = self.distance();
        }
        self.left -= bits - at;
        wrong
    }
}

impl UberJob {
    pub(super) fn run(&self) -> Result<Value, MediaError> {
        let why = if self.lines == 0 {
            "uber: lines = 0: give at least 1"
        } else if !(self.raw_ber > 0.0 && self.raw_ber < 1.0) {
            "uber: raw_ber: give a share between 0 and 1"
        } else {
            return Ok(self.read());
        };
        Err(MediaError::Job(why.to_owned()))
    }

    fn read(&self) -> Value {
        let count = if self.second_code { 4 } else { 3 };
        let mut errors = Errors::new(self.raw_ber, self.seed);
        let mut words = !self.seed;
        let (mut bits, mut seen) = (0, [0u64; 4]);
        for _ in 0..self.lines {
            let mut line = [0; 64];
            line.chunks_exact_mut(8)
                .for_each(|chunk| chunk.copy_from_slice(&random(&mut words).to_le_bytes()));
            let phys = PhysLine(random(&mut words) >> 30);
            let age = random(&mut words).to_le_bytes()[0];
            let mut pieces = xcc::encode(&line, age, phys);
            let wrong = errors.of(PIECE_BITS * count);
            bits += wrong.len() as u64;
            for bit in wrong {
                pieces[bit / PIECE_BITS].flip(bit % PIECE_BITS);
            }
            let outcome = match xcc::decode(&pieces, count, phys) {
                Read::Clean(read) if read == line => 0,
                Read::Repaired(read) if read == line => 1,
                Read::Contained => 2,
                _ => 3,
            };
            seen[outcome] += 1;
        }
        json!({
            "ok": true, "lines": self.lines, "wrong_bits": bits, "piece_bits": PIECE_BITS,
            "pieces": count, "clean": seen[0], "repaired": seen[1], "contained": seen[2],
            "silent": seen[3],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(raw_ber: f64, second_code: bool) -> UberJob {
        UberJob {
            raw_ber,
            lines: 20_000,
            second_code,
            seed: 3,
        }
    }

    /// Goal: as many bits are wrong as the rate says, and lines are contained as often as two
    /// pieces (three with the second code) are wrong at once. Method: binomial counts, within five
    /// standard deviations.
    #[test]
    fn lines_are_contained_as_often_as_pieces_are_wrong() {
        for (raw_ber, second) in [(1e-3, false), (3e-4, false), (1e-3, true)] {
            let found = job(raw_ber, second).run().unwrap();
            let number = |name: &str| found[name].as_f64().unwrap();
            let bits = number("lines") * number("pieces") * number("piece_bits");
            let near = |found: f64, total: f64, share: f64| {
                let spread = (total * share * (1.0 - share)).sqrt();
                (found - total * share).abs() < 5.0 * spread
            };
            assert!(near(number("wrong_bits"), bits, raw_ber), "{found}");
            let wrong = 1.0 - (1.0 - raw_ber).powf(number("piece_bits"));
            let right = 1.0 - wrong;
            let contained = if second {
                wrong.powi(4) + 4.0 * wrong.powi(3) * right
            } else {
                wrong.powi(3) + 3.0 * wrong.powi(2) * right
            };
            assert!(
                near(number("contained"), number("lines"), contained),
                "{found}"
            );
            assert_eq!(found["silent"], 0, "{found}");
        }
    }

    /// Goal: what is no rate is refused in one line.
    #[test]
    fn wrong_jobs_are_refused() {
        for raw_ber in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(
                job(raw_ber, false)
                    .run()
                    .unwrap_err()
                    .to_string()
                    .contains("raw_ber")
            );
        }
        let none = UberJob {
            lines: 0,
            ..job(0.1, false)
        };
        assert!(none.run().unwrap_err().to_string().contains("lines"));
    }
}
