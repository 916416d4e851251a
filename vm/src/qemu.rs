// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU's process: the arguments that make a guest persistent, in a sandbox. What it reads from
//! media after a power failure is data that others may have written.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::config::GuestConfig;
use crate::lock::Lock;

/// No other program is started, and no privileges are gained.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// The command's arguments.
#[must_use]
pub fn arguments(config: &GuestConfig, ram: &Path, qmp: &Path, incoming: bool) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |word: &str, value: String| {
        words.push(word.into());
        words.push(value.into());
    };
    let bytes = config.ram_bytes;
    add("-name", config.name.clone());
    add(
        "-machine",
        format!("{},memory-backend=rem-ram", config.machine),
    );
    for accel in config.accel.split(':') {
        add("-accel", accel.to_owned());
    }
    add("-m", format!("{}K", bytes / 1024));
    add(
        "-object",
        format!(
            "memory-backend-file,id=rem-ram,size={bytes},share=on,mem-path={}",
            ram.display().to_string().replace(',', ",,")
        ),
    );
    add(
        "-qmp",
        format!(
            "unix:{},server=on,wait=off",
            qmp.display().to_string().replace(',', ",,")
        ),
    );
    add("-sandbox", SANDBOX.to_owned());
    words.extend(config.args.iter().map(OsString::from));
    if incoming {
        words.extend(["-incoming", "defer", "-S"].map(OsString::from));
    }
    words
}

/// Its version, as it prints it.
///
/// # Errors
/// One line, if it cannot be started.
pub fn version(qemu: &Path) -> Result<String, String> {
    let failed = |why: &str| format!("{}: {why}", qemu.display());
    let output = Command::new(qemu)
        .arg("--version")
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default();
    let version = line.strip_prefix("QEMU emulator version ");
    version
        .map(str::to_owned)
        .ok_or_else(|| failed("is no QEMU: `--version` names none"))
}

/// A QEMU, started here or by a rem-vm that has ended.
#[derive(Debug)]
pub enum Process {
    /// Our own.
    Child(Child),
    /// One that was there.
    Found(OwnedFd),
}

const END_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

impl Process {
    /// Starts it; it holds the guest's lock, and what it prints goes to the log.
    ///
    /// # Errors
    /// Those of starting a process.
    pub fn start(qemu: &Path, arguments: &[OsString], lock: &Lock, log: &Path) -> io::Result<Self> {
        let log = File::options().append(true).create(true).open(log)?;
        let child = Command::new(qemu)
            .args(arguments)
            .stdin(lock.to_pass()?)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self::Child(child))
    }

    /// One that runs.
    ///
    /// # Errors
    /// If it has ended.
    pub fn found(pid: Pid) -> io::Result<Self> {
        Ok(Self::Found(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        match self {
            Self::Child(child) => matches!(child.try_wait(), Ok(None)),
            Self::Found(process) => {
                // A pidfd is readable when its process has ended.
                let mut one = [PollFd::new(process, PollFlags::IN)];
                poll(&mut one, Some(&Timespec::default())).is_ok_and(|ended| ended == 0)
            }
        }
    }

    /// Kills it, and waits until it has ended.
    pub fn end(&mut self) {
        match self {
            Self::Child(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Self::Found(process) => {
                let _ = pidfd_send_signal(&*process, Signal::KILL);
                let end = Instant::now() + END_LIMIT;
                while self.runs() && Instant::now() < end {
                    thread::sleep(POLL);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Goal: memory is shared, QEMU is sandboxed, and a path cannot add an option.
    #[test]
    fn arguments_are_those_of_a_persistent_guest() {
        let text =
            "folder = \"/f\"\nhold_up_us = 1\n[[guest]]\nname = \"a\"\nram_bytes = 1048576\n";
        let config = Config::parse(text).unwrap();
        let ram = Path::new("/f/a,id=x");
        let words = arguments(&config.guests[0], ram, Path::new("/f/q"), true);
        let text: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        let text = text.join(" ");
        assert!(text.contains("share=on,mem-path=/f/a,,id=x "), "{text}");
        assert!(text.contains("spawn=deny"));
        assert!(text.ends_with("-incoming defer -S"));
    }
}
