// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest whose QEMU has outlived the rem-vm that started it: it is taken over, and is persistent
//! again. Only a QEMU that holds the guest's lock is; one that had not begun to run, or was cut off
//! from its disks for a save, is ended: its guest goes on from the image.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::lock::Lock;
use crate::qemu::Process;
use crate::qmp::{Qmp, QmpError};
use crate::requests;

const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const END_LIMIT: Duration = Duration::from_secs(20);

/// What a guest's lock is about.
#[derive(Debug)]
pub enum Holder {
    /// Nobody had it; it is ours now.
    Nobody(Lock),
    /// A QEMU has it, and its guest has begun to run.
    Qemu(Process, Qmp),
}

/// Who has the lock.
///
/// # Errors
/// If it is held by what cannot be taken over, a rem-vm that runs among these.
pub fn holder(folder: &Path) -> io::Result<Holder> {
    let path = folder.join("lock");
    let held = match Lock::take(&path) {
        Ok(lock) => return Ok(Holder::Nobody(lock)),
        Err(held) => held,
    };
    let Ok((mut process, qmp, goes_on)) = connect(folder, &path) else {
        return Err(held);
    };
    if goes_on {
        return Ok(Holder::Qemu(process, qmp));
    }
    drop(qmp);
    process.end();
    Ok(Holder::Nobody(Lock::take_within(&path, END_LIMIT)?))
}

/// Its process, its control socket, and whether its guest has begun to run and has its disks.
fn connect(folder: &Path, lock: &Path) -> Result<(Process, Qmp, bool), QmpError> {
    // A QEMU whose rem-vm runs has its one connection, and does not greet.
    let mut qmp = Qmp::connect_within(&folder.join("qmp.sock"), ANSWER_LIMIT)?;
    let pid = qmp.peer()?;
    let process = Process::found(pid)?;
    // Its standard input is the lock: it is the process that was started for this guest.
    let input = fs::metadata(format!("/proc/{}/fd/0", pid.as_raw_nonzero()))?;
    let file = fs::metadata(lock)?;
    if (input.dev(), input.ino()) != (file.dev(), file.ino()) {
        return Err(io::Error::other("a process that is not this guest's").into());
    }
    let status = qmp.status()?;
    let has_begun = [
        "running",
        "paused",
        "postmigrate",
        "finish-migrate",
        "io-error",
    ];
    let has_begun = has_begun.contains(&status.as_str());
    let goes_on = has_begun && !requests::are_cut_off(&mut qmp)?;
    Ok((process, qmp, goes_on))
}
