// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which guests can be saved in the hold-up, in the order in which they are.

use std::cmp::Reverse;
use std::time::Duration;

/// A save that was rehearsed may take twice as long when it counts.
pub const MARGIN: u32 = 2;

/// A guest that asks to be persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Higher is saved first.
    pub priority: i32,
    /// What its save took when it was rehearsed, from when it stood still.
    pub save: Duration,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Until its image is committed, from the drop of PWR_OK, at worst.
    pub bound: Duration,
    /// Whether that is within the hold-up.
    pub admitted: bool,
}

/// The order of saves: by priority, then as they stand in the configuration.
#[must_use]
pub fn order(requests: &[Request]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&index| Reverse(requests[index].priority));
    order
}

/// Places for all, `at_once` saves at a time, which begin after `first`. One that is not admitted
/// takes no time from others.
#[must_use]
pub fn admit(
    requests: &[Request],
    first: Duration,
    hold_up: Duration,
    at_once: usize,
) -> Vec<Place> {
    let mut free = vec![first; at_once.max(1)];
    let mut places = vec![
        Place {
            bound: Duration::ZERO,
            admitted: false
        };
        requests.len()
    ];
    for index in order(requests) {
        let Some(worker) = free.iter_mut().min() else {
            break;
        };
        let bound = worker.saturating_add(requests[index].save.saturating_mul(MARGIN));
        let admitted = bound <= hold_up;
        if admitted {
            *worker = bound;
        }
        places[index] = Place { bound, admitted };
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(priority: i32, ms: u64) -> Request {
        Request {
            priority,
            save: Duration::from_millis(ms),
        }
    }

    /// Goal: the important guest gets the hold-up, wherever it stands.
    #[test]
    fn priority_decides_who_fits() {
        let places = admit(
            &[request(0, 5), request(9, 5), request(0, 1)],
            Duration::ZERO,
            Duration::from_millis(12),
            1,
        );
        let admitted: Vec<bool> = places.iter().map(|place| place.admitted).collect();
        assert_eq!(admitted, [false, true, true]);
        assert_eq!(places[2].bound, Duration::from_millis(12));
    }

    proptest! {
        /// Goal: every guest that is admitted is committed within the hold-up, even if every save takes
        /// twice what it took. Method: saves run as the host runs them.
        #[test]
        fn admitted_guests_fit(
            given in prop::collection::vec((0..3i32, 0..40u64), 0..12),
            first in 0..20u64,
            hold_up in 0..100u64,
            at_once in 1..4usize,
        ) {
            let requests: Vec<Request> = given.iter().map(|&(p, ms)| request(p, ms)).collect();
            let hold_up = Duration::from_millis(hold_up);
            let first = Duration::from_millis(first);
            let places = admit(&requests, first, hold_up, at_once);
            let mut free = vec![first; at_once];
            for index in order(&requests) {
                if places[index].admitted {
                    let worker = free.iter_mut().min().unwrap();
                    *worker += requests[index].save * 2;
                    prop_assert!(*worker <= hold_up);
                }
            }
        }
    }
}
