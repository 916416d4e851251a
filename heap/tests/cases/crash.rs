// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the histories of `nvheap::testing` are checked.

use nvheap::testing::Trial;

/// A trial; the soak tier checks more random states.
pub fn trial() -> Trial {
    let mut trial = Trial::default();
    if let Ok(text) = std::env::var("NVHEAP_DRAWN") {
        trial.limits.drawn = text.parse().unwrap();
    }
    trial
}
