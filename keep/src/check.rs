// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a program can be kept: what its processes have, and a rehearsal of its save.

use std::time::{Duration, Instant};

use remanence_format::REM_KEEP_PAGE_BYTES;
use remanence_vm::image::Source;
use remanence_vm::record::Record;
use serde::Serialize;

use crate::descriptors;
use crate::device::Device;
use crate::fault::Fault;
use crate::images;
use crate::mappings::{self, Shared};
use crate::processes::{self, Stat};
use crate::save::{self, Caller, Report as SaveReport, Saver};
use crate::state::Registered;

/// A save that was rehearsed may take twice as long when it counts.
const MARGIN: u32 = 2;
const REHEARSAL: &str = "rehearsal";

/// What is printed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Its name.
    pub program: String,
    /// Whether it can be kept.
    pub kept: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Of its pages, in the rehearsal.
    pub copied_bytes: u64,
    /// Of its pages, in the rehearsal.
    pub in_place_bytes: u64,
    /// What the rehearsal took.
    pub save_us: u64,
}

/// Checks a program, which goes on.
///
/// # Errors
/// If it does not run, or does not go on.
pub fn check(caller: &Caller, name: &str) -> Result<Report, Fault> {
    let _lock = caller.state.lock("lock")?;
    caller.check_running()?;
    let program = caller.state.program(name)?;
    let program =
        program.ok_or_else(|| Fault::new(format!("{name} does not run: start it by `run`")))?;
    let mut report = Report {
        program: name.to_owned(),
        reasons: reasons(caller, &program),
        ..Report::default()
    };
    // What would be lost is known without stopping the program.
    if report.reasons.is_empty() {
        rehearse(caller, program, &mut report)?;
    }
    report.kept = report.reasons.is_empty();
    Ok(report)
}

fn reasons(caller: &Caller, program: &Registered) -> Vec<String> {
    let tree = processes::tree(program.process.pid);
    let mut found = Vec::new();
    let mut shared = Shared::new();
    for &pid in &tree {
        found.extend(descriptors::reasons(pid));
        let devices = mappings::devices(pid).into_iter();
        found.extend(devices.map(|path| format!("device: {path} is mapped")));
        if mappings::has_huge(pid) {
            found.push("hugetlb: pages of hugetlbfs are mapped".to_owned());
        }
        if Stat::of(pid).is_some_and(|stat| stat.terminal != 0) {
            found.push("terminal: it has a controlling terminal".to_owned());
        }
        let low = |number: &u32| *number < caller.config.first_pid;
        if let Some(number) = processes::threads(pid).into_iter().find(low) {
            found.push(format!(
                "low-number: another boot gives the number {number} to other processes"
            ));
        }
        shared.extend(mappings::shared(pid));
    }
    if !shared.is_empty() {
        found.extend(sharers(&tree, &shared));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Processes that are not of the program and have shared memory of it.
fn sharers(tree: &[u32], shared: &Shared) -> Option<String> {
    let others = processes::all()
        .into_keys()
        .filter(|pid| !tree.contains(pid));
    let mut sharers = others.filter(|&pid| !mappings::shared(pid).is_disjoint(shared));
    let pid = sharers.next()?;
    Some(format!(
        "shared-memory-outside: process {pid} has memory of it, and is not kept"
    ))
}

fn too_long(save: Duration, hold_up: Duration) -> Option<String> {
    let may = hold_up / MARGIN;
    (save > may).then(|| {
        format!(
            "does-not-fit-the-hold-up: a save takes {} us; half of hold_up_us is {} us",
            save.as_micros(),
            may.as_micros()
        )
    })
}

/// A whole save without a commit.
fn rehearse(caller: &Caller, program: Registered, report: &mut Report) -> Result<(), Fault> {
    let device = Device::open()?;
    let record = Record::on(&device);
    // The slot of the next image has none that may be entered: its table may be written.
    let sequence = save::next(&record)?;
    let programs = [program];
    let folder = caller.config.folder.join(REHEARSAL);
    let begin = Instant::now();
    let mut saver = Saver::new(caller, &device, &programs, folder.clone(), Vec::new())?;
    let done = saver.write_state(sequence);
    let done = done.and_then(|()| saver.flush_memory());
    let save = begin.elapsed();
    let released = saver.release();
    images::remove(&folder)?;
    released?;
    match done {
        Err(fault) => report.reasons.push(format!("criu: {fault}")),
        Ok(()) => {
            let SaveReport {
                in_place_pages,
                copied_pages,
                ..
            } = *saver.report();
            report.in_place_bytes = in_place_pages * REM_KEEP_PAGE_BYTES;
            report.copied_bytes = copied_pages * REM_KEEP_PAGE_BYTES;
            report.save_us = u64::try_from(save.as_micros()).unwrap_or(u64::MAX);
            report
                .reasons
                .extend(too_long(save, caller.config.hold_up()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a save may take twice what it took, and both figures are named.
    #[test]
    fn half_of_the_hold_up_must_do() {
        let ms = Duration::from_millis;
        assert_eq!(too_long(ms(5), ms(10)), None);
        let why = too_long(ms(6), ms(10)).unwrap();
        assert!(why.contains("6000 us") && why.contains("5000 us"), "{why}");
    }
}
