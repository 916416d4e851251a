// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol of Stop and Go as a state machine, and a checker that looks at every state.
//!
//! | module | subject |
//! |---|---|
//! | [`lines`] | NVRAM behind volatile caches; what a cut may leave |
//! | [`decide`] | the loader's rules |
//! | [`steps`] | the protocol as lists of steps |
//! | [`config`] | the machines that are checked |
//! | [`machine`] | the state of a machine, and what may happen next |
//! | [`events`] | what happens to it |
//! | [`loader`], [`kernel`] | who runs, step by step |
//! | [`promises`] | what must never happen |
//! | [`disk`] | the log of a disk whose write cache stays on |
//! | [`mutants`] | planted bugs |
//! | [`trace`] | whether a recording of a machine is a behaviour of the model |
//! | [`model`] | the checker |

pub mod config;
pub mod decide;
pub mod disk;
pub mod events;
pub mod kernel;
pub mod lines;
pub mod loader;
pub mod machine;
pub mod model;
pub mod mutants;
pub mod promises;
pub mod steps;
pub mod trace;
