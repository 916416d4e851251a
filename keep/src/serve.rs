// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire of PWR_OK: a drop saves all programs; when the power is back before it went, they go
//! on.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use remanence_vm::line;
use remanence_vm::supply::{Power, Wire};

use crate::abort::abort;
use crate::fault::{Fault, at};
use crate::save::{Caller, Kind, save};

/// Without checkpoints only the wire ends a wait.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Serves until it is ended.
///
/// # Errors
/// If there is no wire.
pub fn serve(caller: &Caller, print: impl Fn(&str)) -> Result<(), Fault> {
    let path = caller.config.wire.as_deref();
    let path = path.ok_or_else(|| Fault::new("the configuration has no wire"))?;
    let own = caller.state.path("wire.sock");
    let (end, news) = line::open(path, &own).map_err(at(path.display()))?;
    print(&format!("serving {}", path.display()));
    let period = caller.config.checkpoint_every_s;
    let period = period.map_or(FOREVER, Duration::from_secs);
    loop {
        let done = match news.recv_timeout(period) {
            Ok(Power::Failing) => power_fails(caller, &end, &print),
            Ok(Power::Present) => power_is_there(caller, &print),
            Err(RecvTimeoutError::Timeout) => checkpoint(caller, &print),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Err(fault) = done {
            print(&format!("{fault}"));
        }
    }
    Err(Fault::new(format!(
        "{}: the wire has ended",
        path.display()
    )))
}

fn checkpoint(caller: &Caller, print: &impl Fn(&str)) -> Result<(), Fault> {
    if caller.saved()?.is_none() {
        let report = save(caller, Kind::Checkpoint)?;
        print(&format!("checkpoint in {} us", report.total_us));
    }
    Ok(())
}

fn power_fails(caller: &Caller, end: &Wire, print: &impl Fn(&str)) -> Result<(), Fault> {
    // Somebody may have saved them before the power failed.
    if caller.saved()?.is_none() {
        let report = save(caller, Kind::ByWire)?;
        end.stopped();
        print(&format!("saved in {} us", report.total_us));
        return Ok(());
    }
    end.stopped();
    Ok(())
}

fn power_is_there(caller: &Caller, print: &impl Fn(&str)) -> Result<(), Fault> {
    // What was saved for a new kernel waits for it.
    if caller.saved()?.is_some_and(|saved| saved.by_wire) {
        abort(caller)?;
        print("the power is back: programs go on");
    }
    Ok(())
}
