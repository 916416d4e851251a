// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes the boot entry and our files away again, and nothing else.

use std::path::{Path, PathBuf};

use crate::boot_entry::Entries;
use crate::esp::Esp;
use crate::fault::Fault;
use crate::step::{Lock, Step};
use crate::system::System;

fn plan(system: &System, esp: &Esp) -> Result<(Vec<Step>, Vec<String>), Fault> {
    let files = [esp.draft(), esp.previous(), esp.image()];
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let there: Vec<PathBuf> = files.into_iter().filter(is_there).collect();
    let entries = Entries::open(system);
    let mut steps = Vec::new();
    let mut notes = Vec::new();
    // First the entry: firmware is never told to start what is not there.
    match entries? {
        Some(entries) => {
            let own = entries.own()?;
            steps.extend(
                own.into_iter()
                    .map(|number| Step::Delete(entries.clone(), number)),
            );
        }
        None if there.is_empty() => {}
        None => notes.push(
            "no variables of firmware here: a boot entry that is there stays, and leads to nothing"
                .to_owned(),
        ),
    }
    steps.extend(there.into_iter().map(Step::Remove));
    if esp.own().is_dir() {
        steps.push(Step::RemoveFolder(esp.own()));
    }
    Ok((steps, notes))
}

/// Removes it; with *dry_run* only finds out how. Returns the steps, and what the administrator
/// has to know.
///
/// # Errors
/// One line.
pub fn remove(
    system: &System,
    esp: Option<&Path>,
    dry_run: bool,
) -> Result<(Vec<String>, Vec<String>), Fault> {
    let esp = Esp::find(system, esp)?;
    let lock = if dry_run {
        None
    } else {
        Some(Lock::take(&esp.folder)?)
    };
    let (steps, notes) = plan(system, &esp)?;
    if let Some(lock) = lock {
        lock.run(&steps)?;
    }
    Ok((steps.iter().map(ToString::to_string).collect(), notes))
}
