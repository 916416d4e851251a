// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this program does as an action script of CRIU.
//!
//!   post-restore  all of it is there, and its network is locked still: consumes the image
//!   pre-resume    it is in its final form, and stopped: hands it its pages
//!
//! CRIU goes on after a pre-resume that failed. So a program that has not got its pages is ended
//! here, before it can run.

use std::fs::{File, OpenOptions};
use std::time::Instant;

use remanence_vm::image;
use remanence_vm::record::{Record, body};
use serde::{Deserialize, Serialize};

use crate::criu::HookWords;
use crate::device::Device;
use crate::fault::{Fault, at};
use crate::images::{self, Program};
use crate::permit;
use crate::processes;
use crate::state::{Entering, RunFolder};
use crate::table;

/// What came of handing pages to a program.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Put {
    /// Why it was not done.
    pub why: Option<String>,
    /// Pages that it has as its own.
    pub placed: u64,
    /// Pages that it has as copies.
    pub copied: u64,
    /// What it took.
    pub put_us: u64,
}

/// Does what CRIU calls it for.
///
/// # Errors
/// One line.
pub fn run(action: &str, words: &HookWords) -> Result<(), Fault> {
    let state = RunFolder::open()?;
    match action {
        "post-restore" => consume(&state).map(|_| ()),
        "pre-resume" => put(&state, words),
        _ => Ok(()),
    }
}

/// Whether the image of this `up` is consumed.
#[must_use]
pub fn is_consumed(state: &RunFolder) -> bool {
    state.path("consumed").exists()
}

/// Consumes the image, if no other program's hook has.
fn consume(state: &RunFolder) -> Result<u32, Fault> {
    let entering: Option<Entering> = state.read("entering.json")?;
    let entering = entering.ok_or_else(|| Fault::new("no image is entered now"))?;
    // `up` has the other lock.
    let _lock = state.lock("consuming")?;
    if !is_consumed(state) {
        if entering.asks {
            permit::ask(state)?;
        }
        let device = Device::open()?;
        image::enter(&Record::on(&device), entering.sequence).map_err(at("consuming the image"))?;
        let path = state.path("consumed");
        let mut options = OpenOptions::new();
        let made: Result<File, _> = options.write(true).create(true).truncate(false).open(&path);
        made.map_err(at(path.display()))?;
    }
    Ok(entering.sequence)
}

fn put(state: &RunFolder, words: &HookWords) -> Result<(), Fault> {
    let slot = words.images.parent().unwrap_or(&words.images);
    let programs = images::programs(slot)?;
    let program = programs.iter().find(|program| program.name == words.name);
    let program = program.ok_or_else(|| Fault::new("this program is not in the image"))?;
    let begin = Instant::now();
    let done = put_all(state, program).map(|(placed, copied)| Put {
        placed,
        copied,
        put_us: u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX),
        why: None,
    });
    let (done, why) = match done {
        Ok(put) => (put, None),
        Err(fault) => {
            // Before anything else: CRIU lets it run when this returns.
            program.pids.iter().for_each(|&pid| processes::end(pid));
            let why = Some(fault.to_string());
            (
                Put {
                    why,
                    ..Put::default()
                },
                Some(fault),
            )
        }
    };
    state.write(&format!("{}.put", words.name), &done)?;
    why.map_or(Ok(()), Err)
}

fn put_all(state: &RunFolder, program: &Program) -> Result<(u64, u64), Fault> {
    let sequence = consume(state)?;
    let device = Device::open()?;
    let layout = device.range()?.layout();
    let body = body(&*Record::on(&device).read()?, sequence);
    let length = table::length(&body, layout).map_err(at("the table"))?;
    let bytes = device.read_at(layout.table_offset(sequence), length as u64)?;
    let entries = table::check(&bytes, &body, layout).map_err(at("the table"))?;
    let (mut placed, mut copied) = (0, 0);
    for &pid in &program.pids {
        let own = table::of_process(&entries, pid);
        if !own.is_empty() {
            let put = device.put(pid, &table::encode(own))?;
            placed += u64::from(put.0);
            copied += u64::from(put.1);
        }
    }
    Ok((placed, copied))
}
