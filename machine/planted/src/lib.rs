// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted bugs ("mutants") of a crate: tests must find each, or they are no proof.
//!
//! The crate knows nothing of them. Beside its sources is a folder with a patch for each bug
//! (`lab/setup/patch_series.py` describes it) that is a crate, too: its build script calls
//! [`series::build`], which copies the sources, applies all patches and makes a library of the copy.
//! A patch asks [`planted`] whether its bug is on. Tests switch it on with [`plant`].
//!
//! ```
//! use remanence_planted::{healthy, plant, planted};
//!
//! let fences = || if planted("skip-fence") { 0 } else { 1 };
//! assert_eq!(fences(), 1);
//! assert_eq!(plant("skip-fence", fences), 0);
//! assert_eq!(plant("skip-fence", || healthy(fences)), 1);
//! ```

pub mod series;

use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<&'static str> = const { Cell::new("") };
}

/// A bug of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// By which it is switched on.
    pub name: &'static str,
    /// Promises that it breaks, each with the verdict that must report it.
    pub violates: &'static [(&'static str, &'static str)],
}

impl Mutant {
    /// Whether this verdict on this promise finds the bug.
    #[must_use]
    pub fn is_found_by(&self, promise: &str, verdict: &str) -> bool {
        self.violates.contains(&(promise, verdict))
    }

    /// Whether it must be found where this promise is checked.
    #[must_use]
    pub fn violates(&self, promise: &str) -> bool {
        self.violates.iter().any(|(broken, _)| *broken == promise)
    }
}

/// Whether this bug is on in this thread.
#[must_use]
pub fn planted(name: &str) -> bool {
    PLANTED.get() == name
}

/// Runs `work` with a bug switched on in this thread.
pub fn plant<R>(name: &'static str, work: impl FnOnce() -> R) -> R {
    /// Switches back, after a panic too.
    struct Before(&'static str);
    impl Drop for Before {
        fn drop(&mut self) {
            PLANTED.set(self.0);
        }
    }
    let _before = Before(PLANTED.replace(name));
    work()
}

/// Runs `work` without a bug: a preparation that is not what a test is about.
pub fn healthy<R>(work: impl FnOnce() -> R) -> R {
    plant("", work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_chosen_bug_is_on_and_only_meanwhile() {
        assert!(!planted("one"));
        plant("one", || {
            assert!(planted("one") && !planted("two"));
            healthy(|| assert!(!planted("one")));
            assert!(planted("one"));
            let other = std::thread::spawn(|| planted("one"));
            assert_eq!(other.join().ok(), Some(false));
        });
        assert!(!planted("one"));
    }

    #[test]
    fn mutants_are_found_by_their_own_verdicts() {
        let mutant = Mutant {
            name: "one",
            violates: &[("first", "torn"), ("second", "lost")],
        };
        assert!(mutant.is_found_by("first", "torn"));
        assert!(!mutant.is_found_by("first", "lost"));
        assert!(mutant.violates("second") && !mutant.violates("third"));
    }
}
