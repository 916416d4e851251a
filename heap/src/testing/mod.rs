// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a cut can leave: a back end that records, and every state that the record allows.
//!
//! The rules are those of [`crate::Pmem`]. They are wider than any one cache: a line may be written
//! back after each store, or never before it is flushed and awaited. What a model of real caches
//! leaves is always among these states.

mod linear;
mod plain;
mod record;
mod states;
mod trial;
mod world;

pub use linear::{Model, Step, allowed};
pub use plain::Plain;
pub use record::{Event, Recorder, Threads};
pub use states::{Limits, States, Visit};
pub use trial::{Check, Recorded, Report, Trial, image_of};
pub use world::{Op, Scenario, World, objects_of, scenarios, self_check};
