// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The restore of one program.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::criu::{self, HookWords};
use crate::fault::{Fault, at};
use crate::hook::Put;
use crate::images::Program;
use crate::policy;
use crate::processes::{self, ProcessId};
use crate::save::Caller;
use crate::state::Registered;

/// What came of a program.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// `resumed` or `restore-failed`.
    pub state: String,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// CRIU's part.
    pub criu_us: u64,
    /// Handing it its pages.
    pub put_us: u64,
    /// Pages that it has as its own.
    pub placed: u64,
    /// Pages that it has as copies.
    pub copied: u64,
}

impl Outcome {
    /// Whether it runs.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.state == "resumed"
    }
}

/// What programs of an image have in common.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Who restores them.
    pub caller: &'a Caller,
    /// The folder of their images.
    pub slot: &'a Path,
    /// Where their memory comes from.
    pub node: u32,
    /// They had run on after the save.
    pub is_checkpoint: bool,
}

/// Restores a program.
#[must_use]
pub fn restore(context: Context<'_>, program: &Program) -> Outcome {
    let begin = Instant::now();
    let done = try_restore(context, program);
    let all_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    let name = program.name.clone();
    match done {
        Ok(put) => Outcome {
            name,
            state: "resumed".to_owned(),
            why: None,
            criu_us: all_us.saturating_sub(put.put_us),
            put_us: put.put_us,
            placed: put.placed,
            copied: put.copied,
        },
        Err(fault) => Outcome {
            name,
            state: "restore-failed".to_owned(),
            why: Some(fault.to_string()),
            criu_us: all_us,
            ..Outcome::default()
        },
    }
}

fn try_restore(context: Context<'_>, program: &Program) -> Result<Put, Fault> {
    let caller = context.caller;
    let words = HookWords {
        config: caller.path.clone(),
        name: program.name.clone(),
        images: context.slot.join(&program.name),
    };
    let mut command = criu::restore(&words, context.is_checkpoint).map_err(at("criu"))?;
    // All processes of the program descend from this one.
    policy::bind(&mut command, context.node);
    let status = command.status().map_err(at("criu"))?;
    let put: Option<Put> = caller.state.read(&format!("{}.put", program.name))?;
    // A failure of the hook is the cause of what CRIU reports.
    if let Some(why) = put.as_ref().and_then(|put| put.why.as_ref()) {
        return Err(Fault::new(why));
    }
    if !status.success() {
        return Err(Fault::new(criu::why_no_restore(&words.images)));
    }
    let put = put.ok_or_else(|| {
        program.pids.iter().for_each(|&pid| processes::end(pid));
        Fault::new("criu has not called the hook that hands pages over")
    })?;
    let process = ProcessId::of(program.pid);
    let process = process.ok_or_else(|| Fault::new("it has ended as soon as it ran"))?;
    let name = program.name.clone();
    caller.state.register(&Registered { name, process })?;
    Ok(put)
}
