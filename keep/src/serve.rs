// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire of PWR_OK: a drop saves all programs; when the power is back before it went, they go
//! on.

use std::mem;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use remanence_vm::line;
use remanence_vm::supply::{Power, Wire};

use crate::abort::abort;
use crate::engine::{self, Engine};
use crate::fault::{Fault, at};
use crate::save::{Caller, Kind, save};

/// After so long, programs that are new have a CRIU that is ready, too.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Serves until it is ended.
///
/// # Errors
/// If there is no wire.
pub fn serve(caller: &Caller, print: impl Fn(&str)) -> Result<(), Fault> {
    let path = caller.config.wire.as_deref();
    let path = path.ok_or_else(|| Fault::new("the configuration has no wire"))?;
    let own = caller.state.path("wire.sock");
    let (end, news) = line::open(path, &own).map_err(at(path.display()))?;
    let mut ready = Vec::new();
    let mut since = Instant::now();
    let mut done = prepare(caller, &mut ready);
    print(&format!("serving {}", path.display()));
    let mut said = None;
    loop {
        // What goes on failing is said once.
        let fault = done.err().map(|fault| fault.to_string());
        if let Some(fault) = fault.as_ref().filter(|_| fault != said) {
            print(fault);
        }
        said = fault;
        done = match news.recv_timeout(left(caller, since).min(LOOK_AGAIN)) {
            Ok(Power::Failing) => power_fails(caller, mem::take(&mut ready), &end, &print),
            Ok(Power::Present) => power_is_there(caller, &print),
            Err(RecvTimeoutError::Timeout) if left(caller, since).is_zero() => {
                since = Instant::now();
                checkpoint(caller, mem::take(&mut ready), &print)
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        done = done.and_then(|()| prepare(caller, &mut ready));
    }
    Err(Fault::new(format!(
        "{}: the wire has ended",
        path.display()
    )))
}

/// Has a CRIU ready for each program: its start is no part of a save then.
fn prepare(caller: &Caller, ready: &mut Vec<Engine>) -> Result<(), Fault> {
    let count = match caller.saved()? {
        None => caller.state.programs()?.len(),
        // They are frozen by others.
        Some(_) => 0,
    };
    engine::have(ready, count).map_err(at("criu"))
}

/// Until the next checkpoint.
fn left(caller: &Caller, since: Instant) -> Duration {
    let period = caller.config.checkpoint_every_s;
    let period = period.map_or(Duration::MAX, Duration::from_secs);
    period.saturating_sub(since.elapsed())
}

fn checkpoint(caller: &Caller, ready: Vec<Engine>, print: &impl Fn(&str)) -> Result<(), Fault> {
    if caller.saved()?.is_none() {
        let report = save(caller, Kind::Checkpoint, ready)?;
        print(&format!("checkpoint in {} us", report.total_us));
    }
    Ok(())
}

fn power_fails(
    caller: &Caller,
    ready: Vec<Engine>,
    end: &Wire,
    print: &impl Fn(&str),
) -> Result<(), Fault> {
    // Somebody may have saved them before the power failed.
    if caller.saved()?.is_none() {
        let report = save(caller, Kind::ByWire, ready)?;
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
