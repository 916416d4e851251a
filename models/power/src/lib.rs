// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The supply at a power failure: the energy left when PWR_OK drops, the share that a Stop takes,
//! the cost of a capacitor for it, and what an NVDIMM's own supply can save.
//!
//! Everything is integer arithmetic on ns, mW, pJ, uF, mV and micro-dollars (1 mW is 1 pJ/ns), so a
//! recording gives the same figures on every host. All numbers come from `models/parts/power.toml`, where each has
//! its source or the word ASSUMED. Nothing here reads a clock or draws a random number.
//!
//! ```
//! use remanence_power::{Activity, Ns, Profiles};
//!
//! let profiles = Profiles::built_in().unwrap();
//! let (supply, machine) = profiles.supply("wsp-amd-525w").unwrap();
//! // All six cores at work until the end: the window that WSP measured when busy.
//! assert_eq!(supply.window(machine.busy_mw()), Ns(22_000_000));
//! // A Stop parks them after 2 ms and so has longer.
//! let mut left = supply.discharge();
//! left.spend(&machine, &Activity::running(6), Ns(2_000_000)).unwrap();
//! assert!(left.lasts(machine.idle_mw()) > Ns(60_000_000));
//! ```

pub mod ageing;
pub mod budget;
pub mod capacitor;
mod error;
pub mod flush;
pub mod nvdimm;
pub mod profiles;
pub mod psu;
pub mod query;
pub mod rails;
pub mod units;

pub use error::PowerError;
pub use profiles::Profiles;
pub use psu::{Activity, Discharge, Machine, RanDry, Supply};
pub use units::{Ns, Pj};
