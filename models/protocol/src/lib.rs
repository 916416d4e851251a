// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol of Stop and Go as a state machine, and a checker that looks at every state.
//!
//! | module | subject |
//! |---|---|
//! | [`lines`] | NVRAM behind volatile caches; what a cut may leave |
//! | [`decide`] | the loader's rules |
//! | [`steps`] | the protocol as lists of steps |
//! | [`machine`] | who runs, what the power does, what outlives it |
//! | [`promises`] | what must never happen |
//! | [`mutants`] | planted bugs |
//! | [`model`] | the checker |

pub mod decide;
pub mod lines;
pub mod machine;
pub mod model;
pub mod mutants;
pub mod promises;
pub mod steps;
