// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A test's finding, thrown as a panic, so that it also ends a schedule of threads.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nvheap::testing::Broken;

thread_local! {
    static BROKEN: RefCell<Option<Broken>> = const { RefCell::new(None) };
}

/// Ends the test if something is broken.
pub fn must<T>(result: Result<T, Broken>) -> T {
    result.unwrap_or_else(|broken| {
        BROKEN.set(Some(broken.clone()));
        panic!("{broken}")
    })
}

/// The finding of `run`, if any.
///
/// # Panics
/// If `run` panics for another reason.
#[allow(dead_code, reason = "only planted bugs are expected to be found")]
pub fn broken(run: impl FnOnce()) -> Option<Broken> {
    let payload = catch_unwind(AssertUnwindSafe(run)).err()?;
    let broken = BROKEN.take();
    if broken.is_none() {
        std::panic::resume_unwind(payload);
    }
    broken
}
