// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capacitance left after cycles of charge and discharge (WSP, Figure 1).

use crate::error::PowerError;
use crate::units::PERMILLE;

/// Thousandths left by cycles: linear between points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ageing {
    points: Vec<(u64, u64)>,
}

impl Ageing {
    /// From points, of which the first is 0 cycles and 1000 thousandths.
    ///
    /// # Errors
    /// [`PowerError::Impossible`] for fewer than two points, cycles that do not grow, or
    /// capacitance that grows.
    pub fn new(name: &str, points: &[(u64, u64)]) -> Result<Self, PowerError> {
        let bad = |value| {
            let why = "points begin at [0, 1000], cycles grow, thousandths never do";
            PowerError::impossible(format!("ageing {name}"), value, why)
        };
        if points.len() < 2 || points[0] != (0, PERMILLE) {
            return Err(bad(points.first().map_or(0, |point| point.0)));
        }
        for pair in points.windows(2) {
            if pair[1].0 <= pair[0].0 || pair[1].1 > pair[0].1 {
                return Err(bad(pair[1].0));
            }
        }
        Ok(Self {
            points: points.to_vec(),
        })
    }

    /// Thousandths of the capacitance that are left; the last slope continues down to 0.
    #[must_use]
    pub fn left_permille(&self, cycles: u64) -> u64 {
        let last = self.points.len() - 2;
        let index = self.points[1..=last].partition_point(|point| point.0 <= cycles);
        let ((x0, y0), (x1, y1)) = (self.points[index], self.points[index + 1]);
        let fall = u128::from(y0 - y1) * u128::from(cycles - x0) / u128::from(x1 - x0);
        y0.saturating_sub(u64::try_from(fall).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_exact_at_points_and_linear_between() {
        let ageing = Ageing::new("a", &[(0, 1000), (100, 900), (200, 500)]).unwrap();
        let left = [0, 50, 100, 150, 200, 250, 325, 400, u64::MAX].map(|n| ageing.left_permille(n));
        assert_eq!(left, [1000, 950, 900, 700, 500, 300, 0, 0, 0]);
    }

    #[test]
    fn nonsense_is_refused() {
        for points in [
            &[][..],
            &[(0, 1000)],
            &[(1, 1000), (2, 900)],
            &[(0, 1000), (0, 900)],
            &[(0, 1000), (10, 900), (20, 901)],
        ] {
            assert!(Ageing::new("a", points).is_err(), "{points:?}");
        }
    }
}
