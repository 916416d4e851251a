// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Crash tests of the heap: a back end that records, histories, and a check of every state that a
//! cut of them may leave (`remanence-crash-states`).

mod broken;
mod by_pointer;
mod histories;
mod linear;
mod plain;
mod record;
mod scenario;
mod trial;
mod world;

pub use crate::promise::{platform_has_changed, take_for_the_platform};
pub use broken::{Broken, verdict};
pub use histories::scenarios;
pub use linear::{Model, Step, allowed};
pub use plain::{Plain, Replica};
pub use record::{Recorder, Threads};
pub use remanence_crash_states::{Event, History, Limits, Visit};
pub use scenario::{Scenario, self_check};
pub use trial::{Check, Recorded, Report, Trial, image_of};
pub use world::{Op, World};
