// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command reports when it cannot do its work: one line.

use std::fmt::Display;

/// One line: what, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

impl Fault {
    /// From words that say it all.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// For `map_err`: names what an error is about.
pub fn at<E: Display>(what: impl Display) -> impl FnOnce(E) -> Fault {
    move |error| Fault(format!("{what}: {error}"))
}
