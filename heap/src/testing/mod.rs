// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Crash tests of the heap: a back end that records, histories, and a check of every state that a
//! cut of them may leave (`remanence-crash-states`).

mod broken;
mod linear;
mod plain;
mod record;
mod trial;
mod world;

pub use broken::{Broken, verdict};
pub use linear::{Model, Step, allowed};
pub use plain::{Plain, Replica};
pub use record::{Recorder, Threads};
pub use remanence_crash_states::{Event, History, Limits, Visit};
pub use trial::{Check, Recorded, Report, Trial, image_of};
pub use world::{Op, Scenario, World, objects_of, scenarios, self_check};
