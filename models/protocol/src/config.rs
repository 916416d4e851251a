// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is checked: machines, and what may go wrong beside the power.

use crate::lines::Domain;
use crate::steps::{Op, Part, steps};

/// A planted bug: it changes the steps of a part.
pub type Change = fn(Part, &mut Vec<Op>);

/// What is checked: the machine, and what may go wrong beside the power.
#[derive(Debug, Clone)]
pub struct Config {
    /// By which it is named.
    pub name: &'static str,
    /// Power-ons and resets.
    pub boots: u8,
    /// The persistence domain.
    pub domain: Domain,
    /// NVRAM is an NVDIMM-N, whose DRAM is blank without power.
    pub nvdimm: bool,
    /// The memory of the last CPU is in a range of NVRAM of its own.
    pub range: bool,
    /// Images are held where the machine differs.
    pub hold: bool,
    /// Lines of media that fail.
    pub damages: u8,
    /// Changes of the machine, or uses of the other range elsewhere.
    pub changes: u8,
    /// Stops that do not commit.
    pub failures: u8,
    /// CPUs that do not come back.
    pub losses: u8,
    /// Saves of the NVDIMM for which its energy does not suffice.
    pub short_saves: u8,
    /// Power that returns before it has gone.
    pub returns: u8,
    /// Cold boots that somebody asks for.
    pub asks: u8,
    /// Supplies that no longer last for a Stop.
    pub ageings: u8,
    /// The planted bug.
    pub change: Option<Change>,
}

impl Config {
    /// A machine whose power may fail at any step, and on which nothing else goes wrong.
    #[must_use]
    pub const fn plain(name: &'static str, boots: u8) -> Self {
        Self {
            name,
            boots,
            domain: Domain::Queue,
            nvdimm: false,
            range: false,
            hold: false,
            damages: 0,
            changes: 0,
            failures: 0,
            losses: 0,
            short_saves: 0,
            returns: 0,
            asks: 0,
            ageings: 0,
            change: None,
        }
    }

    /// The steps of a part, with the bug.
    #[must_use]
    pub fn steps(&self, part: Part) -> Vec<Op> {
        let mut ops = steps(part);
        if let Some(change) = self.change {
            change(part, &mut ops);
        }
        ops
    }
}

/// The machines that are checked.
#[must_use]
pub fn machines(boots: u8) -> Vec<Config> {
    let plain = Config {
        asks: 1,
        ..Config::plain("plain", boots)
    };
    vec![
        plain.clone(),
        Config {
            name: "flaps",
            returns: 2,
            failures: 1,
            losses: 1,
            ageings: 1,
            ..plain
        },
        Config {
            name: "volatile-queue",
            domain: Domain::Media,
            ..plain
        },
        Config {
            name: "eadr",
            domain: Domain::Caches,
            returns: 1,
            ..plain
        },
        Config {
            name: "nvdimm",
            nvdimm: true,
            short_saves: 1,
            returns: 1,
            ..plain
        },
        Config {
            name: "damage",
            damages: 1,
            ..plain
        },
        Config {
            name: "changes",
            range: true,
            changes: 2,
            ..plain
        },
        Config {
            name: "hold",
            hold: true,
            changes: 2,
            ..plain
        },
    ]
}
