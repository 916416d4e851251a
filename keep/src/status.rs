// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known now, as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::device::Device;
use crate::fault::Fault;
use crate::restore::Outcome;
use crate::save::Caller;
use crate::state::boot_id;
use crate::up;

/// The range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RangeStatus {
    /// Physical address.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// NUMA node of its pages.
    pub node: u32,
    /// Pages that are held.
    pub held_pages: u32,
}

/// A program that is kept, or was in the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProgramStatus {
    /// What came of it at the last `up`; without `state`, it was started in this boot.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The first of its processes, if it runs.
    pub pid: Option<u32>,
    /// Whether it runs.
    pub is_alive: bool,
    /// Whether it is saved and frozen.
    pub is_saved: bool,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// None if the module is not loaded.
    pub range: Option<RangeStatus>,
    /// Of the last `up`; none if there was none in this boot.
    pub verdict: Option<String>,
    /// It has entered a checkpoint.
    pub checkpoint: bool,
    /// Words about it.
    pub why: Option<String>,
    /// What it took.
    pub up_us: Option<u64>,
    /// By name.
    pub programs: Vec<ProgramStatus>,
}

/// What is known now.
///
/// # Errors
/// Those of the file system and of the device.
pub fn status(caller: &Caller) -> Result<Status, Fault> {
    let mut found = Status::default();
    if Device::is_there() {
        let range = Device::open()?.range()?;
        found.range = Some(RangeStatus {
            start: range.start,
            bytes: range.layout().range_bytes(),
            node: range.node,
            held_pages: range.held,
        });
    }
    let mut programs: BTreeMap<String, ProgramStatus> = BTreeMap::new();
    let up: Option<up::Report> = caller.state.read("up.json")?;
    if let Some(up) = up.filter(|up| up.boot_id == boot_id()) {
        found.verdict = Some(up.verdict);
        found.checkpoint = up.checkpoint;
        found.why = up.why;
        found.up_us = Some(up.total_us);
        for outcome in up.programs {
            let name = outcome.name.clone();
            programs.entry(name).or_default().outcome = outcome;
        }
    }
    for program in caller.state.programs()? {
        let one = programs.entry(program.name.clone()).or_default();
        one.outcome.name = program.name;
        one.pid = Some(program.process.pid);
        one.is_alive = true;
    }
    for program in caller.saved()?.unwrap_or_default().programs {
        let one = programs.entry(program.name.clone()).or_default();
        one.is_saved = true;
    }
    found.programs = programs.into_values().collect();
    Ok(found)
}
