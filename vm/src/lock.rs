// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One process at a time has a guest, and its QEMU counts: it may outlive the program that started
//! it, and goes on storing to the guest's memory. One process at a time has a host's folder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// Held as long as this, or a process that got [`Lock::to_pass`], is there.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// `WouldBlock` if somebody has it, and those of the file system.
    pub fn take(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            let error = io::Error::from(error);
            if error.kind() == io::ErrorKind::WouldBlock {
                let why = "it is in use: end the rem-vm that has it, or its QEMU";
                return io::Error::new(error.kind(), why);
            }
            error
        })?;
        Ok(Self(file))
    }

    /// Takes it when its holder, who is about to end, has ended.
    ///
    /// # Errors
    /// As [`Lock::take`], after *limit*.
    pub fn take_within(path: &Path, limit: Duration) -> io::Result<Self> {
        let end = Instant::now() + limit;
        loop {
            match Self::take(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                    thread::sleep(Duration::from_millis(5));
                }
                other => return other,
            }
        }
    }

    /// For the standard input of a process that is to hold it, too.
    ///
    /// # Errors
    /// If there are no more file descriptors.
    pub fn to_pass(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Goal: a guest whose QEMU outlived its host's program is not started again. Method: a
    /// process has the lock, and the one that took it has gone.
    #[test]
    fn a_process_that_outlives_us_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        assert_eq!(
            Lock::take(&path).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let mut sleep = Command::new("sleep");
        let mut child = sleep
            .arg("60")
            .stdin(lock.to_pass().unwrap())
            .spawn()
            .unwrap();
        drop(sleep);
        drop(lock);
        assert_eq!(
            Lock::take(&path).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        child.kill().unwrap();
        child.wait().unwrap();
        Lock::take(&path).unwrap();
    }
}
