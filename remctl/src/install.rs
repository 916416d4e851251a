// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts loader, kernel, initrd and command line on the EFI system partition, as one image, and
//! makes firmware start it. At any moment the image there is the old one or the new one; what is
//! installed beside it stays what firmware tries next.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::boot_entry::Entries;
use crate::bzimage::Kernel;
use crate::cmdline;
use crate::efi::Inputs;
use crate::esp::Esp;
use crate::fault::Fault;
use crate::firmware::Firmware;
use crate::pe::payload;
use crate::sign::Keys;
use crate::status::{FOLDER, Running};
use crate::step::{Lock, Step, mib};
use crate::system::System;
use crate::{version, whole};

const LOADER: &str = "/usr/lib/remanence/loader.efi";
/// For folders and tables of the file system.
const ROOM_BYTES: u64 = 1 << 16;

/// What the administrator has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Another version than the newest.
    pub version: Option<String>,
    /// Where the partition is.
    pub esp: Option<PathBuf>,
    /// What to sign with.
    pub keys: Option<Keys>,
}

/// What was, or would be, done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The kernel's.
    pub version: String,
    /// The image.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Whether it is signed.
    pub signed: bool,
    /// What it took; empty if all was there already.
    pub steps: Vec<String>,
    /// What the administrator has to know.
    pub notes: Vec<String>,
}

fn image(system: &System, version: &str) -> Result<(Vec<u8>, Kernel), Fault> {
    let initrd = system.path(format!("/boot/initrd.img-{version}"));
    let inputs = Inputs {
        loader: system.path(LOADER),
        kernel: system.path(format!("/boot/vmlinuz-{version}")),
        initrd: initrd.exists().then_some(initrd),
        cmdline: cmdline::read(system)?,
    };
    inputs.image()
}

/// Refuses a partition that has no room for the new image beside what is there.
fn check_room(system: &System, esp: &Esp, bytes: u64) -> Result<(), Fault> {
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    let free = system.free_bytes(&esp.folder)? + size(esp.draft());
    let needed = bytes + ROOM_BYTES;
    if free >= needed {
        return Ok(());
    }
    let (folder, needed, free) = (esp.folder.display(), mib(needed), mib(free));
    let previous = match size(esp.previous()) {
        0 => String::new(),
        bytes => format!("; {} has {}", esp.previous().display(), mib(bytes)),
    };
    Err(Fault::new(format!(
        "{folder} has {free} free, {needed} are needed{previous}"
    )))
}

/// The steps that bring the image there; none if it is there already.
fn file_steps(
    system: &System,
    esp: &Esp,
    image: Vec<u8>,
    signed: bool,
) -> Result<Vec<Step>, Fault> {
    let (new, to, old) = (esp.draft(), esp.image(), esp.previous());
    let there = whole::read(&to).ok().and_then(|there| payload(&there).ok());
    let is_same = there.as_ref() == Some(&payload(&image)?);
    if is_same && !signed {
        return Ok(Vec::new());
    }
    check_room(system, esp, image.len() as u64)?;
    let mut steps = vec![Step::Folder(esp.own()), Step::Write(new.clone(), image)];
    // Worth to be kept: an image, and not the same but for its signature.
    if there.is_some() && !is_same {
        steps.push(Step::Exchange(new.clone(), to));
        steps.push(Step::Rename(new, old));
    } else {
        steps.push(Step::Rename(new, to));
    }
    Ok(steps)
}

/// The steps that make firmware start it, or why there are none.
fn entry_steps(system: &System, esp: &Esp) -> Result<Result<Vec<Step>, String>, Fault> {
    let Some(entries) = Entries::open(system)? else {
        return Ok(Err(
            "no variables of firmware here; an entry that is there stays".to_owned(),
        ));
    };
    if entries.is_first()? {
        return Ok(Ok(Vec::new()));
    }
    let first = Step::First(entries.clone());
    if !entries.own()?.is_empty() {
        return Ok(Ok(vec![first]));
    }
    match esp.place(system) {
        Ok(place) => Ok(Ok(vec![Step::Create(entries, place), first])),
        Err(why) => Ok(Err(why.to_string())),
    }
}

fn notes(system: &System, kernel: &Kernel, signed: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !signed && Firmware::look(system).secure_boot == Some(true) {
        notes.push("Secure Boot is on and the image is not signed: firmware will refuse it".into());
    }
    let running = Running::look(system);
    if system.path(FOLDER).is_dir() && running.is_other(kernel) {
        notes.push(running.warning(kernel));
    }
    notes
}

/// Finds out what has to be done. Changes nothing.
///
/// # Errors
/// One line, if it cannot be done.
pub fn plan(system: &System, wishes: &Wishes) -> Result<(Esp, Vec<Step>, Report), Fault> {
    let newest = || version::newest(&system.path("/boot"));
    let version = wishes.version.clone().map_or_else(newest, Ok)?;
    version::check(&version)?;
    let esp = Esp::find(system, wishes.esp.as_deref())?;
    let keys = Keys::choose(system, wishes.keys.clone())?;
    let (mut image, kernel) = image(system, &version)?;
    if let Some(keys) = &keys {
        image = keys.sign(system, &image)?;
    }
    let bytes = image.len() as u64;
    let mut steps = file_steps(system, &esp, image, keys.is_some())?;
    let signed = match keys {
        Some(_) => true,
        // What is there may be signed, and then stays so.
        None => steps.is_empty() && esp.installed()?.is_some_and(|there| there.is_signed),
    };
    let mut notes = notes(system, &kernel, signed);
    match entry_steps(system, &esp)? {
        Ok(more) => steps.extend(more),
        Err(why) => notes.push(format!("no boot entry: {why}")),
    }
    let report = Report {
        version,
        file: esp.image(),
        bytes,
        signed,
        steps: steps.iter().map(ToString::to_string).collect(),
        notes,
    };
    Ok((esp, steps, report))
}

/// Installs it; with *dry_run* only finds out how.
///
/// # Errors
/// One line. The image there is whole, the old one or the new one.
pub fn install(system: &System, wishes: &Wishes, dry_run: bool) -> Result<Report, Fault> {
    if dry_run {
        return plan(system, wishes).map(|(_, _, report)| report);
    }
    let esp = Esp::find(system, wishes.esp.as_deref())?;
    let lock = Lock::take(&esp.folder)?;
    let (_, steps, report) = plan(system, wishes)?;
    lock.run(&steps)?;
    Ok(report)
}

#[cfg(test)]
mod tests;
