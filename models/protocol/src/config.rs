// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is checked: machines, and what may go wrong beside the power.

use crate::lines::Domain;
use crate::steps::{Op, Part, steps};

/// A planted bug: it changes the steps of a part.
pub type Change = fn(Part, &mut Vec<Op>);

/// How many times each may go wrong beside the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
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
}

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
    /// What may go wrong beside the power.
    pub budget: Budget,
    /// The planted bug.
    pub change: Option<Change>,
}

impl Config {
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

/// The machines that are checked, over so many power-ons and resets.
#[must_use]
pub fn machines(boots: u8) -> Vec<Config> {
    let asks = Budget {
        asks: 1,
        ..Budget::default()
    };
    let changes = Budget { changes: 2, ..asks };
    let flaps = Budget {
        returns: 2,
        failures: 1,
        losses: 1,
        ageings: 1,
        ..asks
    };
    let returns = Budget { returns: 1, ..asks };
    let saves = Budget {
        short_saves: 1,
        ..returns
    };
    let machine = |name, budget| Config {
        name,
        boots,
        domain: Domain::Queue,
        nvdimm: false,
        range: false,
        hold: false,
        budget,
        change: None,
    };
    vec![
        machine("plain", asks),
        machine("flaps", flaps),
        Config {
            domain: Domain::Media,
            ..machine("volatile-queue", asks)
        },
        Config {
            domain: Domain::Caches,
            ..machine("eadr", returns)
        },
        Config {
            nvdimm: true,
            ..machine("nvdimm", saves)
        },
        machine("damage", Budget { damages: 1, ..asks }),
        Config {
            range: true,
            ..machine("changes", changes)
        },
        Config {
            hold: true,
            ..machine("hold", changes)
        },
    ]
}
