// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts a program that is kept, or waits for the one that `up` has restored.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::config::check_name;
use crate::device::Device;
use crate::fault::{Fault, at};
use crate::images;
use crate::policy;
use crate::processes::{self, ProcessId};
use crate::save::Caller;
use crate::state::Registered;

/// Numbers of one program. Others get theirs between them, too.
const BLOCK: u32 = 1000;
/// Another process may get the number that is meant for the program.
const ATTEMPTS: u32 = 16;
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
const GROUPS: &str = "/sys/fs/cgroup";
/// After standard input, output and error.
const FIRST_OTHER: u8 = 3;
/// What a shell makes of a signal.
const SIGNAL_STATUS: i32 = 128;

/// Runs a program to its end, or leaves it running. Returns its exit status.
///
/// # Errors
/// If it cannot be started.
pub fn run(
    caller: &Caller,
    name: &str,
    command: &[OsString],
    is_detached: bool,
) -> Result<i32, Fault> {
    check_name(name)?;
    let lock = caller.state.lock("lock")?;
    if let Some(program) = caller.state.program(name)? {
        drop(lock);
        return adopt(&program, is_detached);
    }
    let node = Device::open()?.range()?.node;
    let mut child = start(caller, name, command, node)?;
    let process = ProcessId::of(child.id());
    let Some(process) = process else {
        return Ok(status_of(&mut child)?);
    };
    let name = name.to_owned();
    caller.state.register(&Registered { name, process })?;
    drop(lock);
    if is_detached {
        return Ok(0);
    }
    Ok(status_of(&mut child)?)
}

fn status_of(child: &mut Child) -> io::Result<i32> {
    let status = child.wait()?;
    let signal = status.signal().map(|signal| SIGNAL_STATUS + signal);
    Ok(status.code().or(signal).unwrap_or(1))
}

/// It was restored: nobody is told how it ends.
fn adopt(program: &Registered, is_detached: bool) -> Result<i32, Fault> {
    // A unit that is stopped ends what is in its group.
    join_group(program.process.pid);
    if !is_detached {
        program.process.wait_end(None)?;
    }
    Ok(0)
}

fn join_group(root: u32) {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(group) = own.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return;
    };
    let members = Path::new(GROUPS).join(group).join("cgroup.procs");
    for pid in processes::tree(root) {
        // Without groups, it is no unit's.
        let _ = fs::write(&members, pid.to_string());
    }
}

fn start(caller: &Caller, name: &str, words: &[OsString], node: u32) -> Result<Child, Fault> {
    let (program, args) = words
        .split_first()
        .ok_or_else(|| Fault::new("give a command after --"))?;
    let streams = Streams::open(caller, name)?;
    let block = free_block(caller)?;
    for _ in 0..ATTEMPTS {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command.stdout(streams.for_output(io::stdout().as_fd())?);
        command.stderr(streams.for_output(io::stderr().as_fd())?);
        policy::bind(&mut command, node);
        in_session_of_its_own(&mut command, block);
        fs::write(LAST_PID, block.to_string()).map_err(at(LAST_PID))?;
        match command.spawn() {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            other => return other.map_err(at(program.to_string_lossy())),
        }
    }
    Err(Fault::new(format!(
        "{name} gets no number above {block}: others get them first"
    )))
}

/// A session without a terminal; only if the process has one of its block's numbers.
fn in_session_of_its_own(command: &mut Command, block: u32) {
    let begin = move || {
        let pid = std::process::id();
        if !(block..block + BLOCK).contains(&pid) {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        rustix::process::setsid()?;
        close_others()
    };
    // SAFETY: between fork and exec it makes three system calls, and allocates nothing.
    unsafe { command.pre_exec(begin) };
}

/// What was left open by others (a shell, an agent) is not the program's.
fn close_others() -> io::Result<()> {
    // SAFETY: descriptors are closed at the exec, and only those that it would leave open.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            libc::c_uint::from(FIRST_OTHER),
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The first number of a block that no process has one of.
fn free_block(caller: &Caller) -> Result<u32, Fault> {
    let text = fs::read_to_string(PID_MAX).map_err(at(PID_MAX))?;
    let end: u32 = text.trim().parse().map_err(at(PID_MAX))?;
    let used: Vec<u32> = processes::all().into_keys().collect();
    let first = caller.config.first_pid;
    first_free(first, end, &used).ok_or_else(|| {
        Fault::new(format!(
            "no {BLOCK} process numbers are free from first_pid = {first} to {end}: \
             raise kernel.pid_max"
        ))
    })
}

fn first_free(first: u32, end: u32, used: &[u32]) -> Option<u32> {
    let last = end.checked_sub(BLOCK)?;
    let step = usize::try_from(BLOCK).ok()?;
    (first..=last)
        .step_by(step)
        .find(|&block| used.iter().all(|pid| !(block..block + BLOCK).contains(pid)))
}

/// What a program writes to. A terminal, a pipe or a journal would not be there after a return.
struct Streams(File);

impl Streams {
    fn open(caller: &Caller, name: &str) -> Result<Self, Fault> {
        let folder = &caller.config.folder;
        images::make(folder)?;
        let path = folder.join(format!("{name}.log"));
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&path);
        file.map(Self).map_err(at(path.display()))
    }

    /// Ours, if it is a file; the program's log otherwise.
    fn for_output(&self, own: BorrowedFd<'_>) -> Result<Stdio, Fault> {
        let own = File::from(own.try_clone_to_owned()?);
        let is_file = own.metadata()?.is_file();
        Ok(if is_file { own } else { self.0.try_clone()? }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a program's numbers are nobody's, as long as there are any.
    #[test]
    fn blocks_are_free() {
        assert_eq!(first_free(20000, 32768, &[1, 19999]), Some(20000));
        assert_eq!(first_free(20000, 32768, &[20000, 21500]), Some(22000));
        assert_eq!(first_free(20000, 20999, &[]), None);
        assert_eq!(first_free(20000, 21000, &[]), Some(20000));
        assert_eq!(first_free(20000, 22000, &[20999, 21000]), None);
        assert_eq!(first_free(20000, 7, &[]), None);
    }

    /// Goal: the exit status is the program's.
    #[test]
    fn the_status_is_the_programs() {
        let run = |script: &str| {
            let spawned = Command::new("sh").args(["-c", script]).spawn();
            status_of(&mut spawned.unwrap()).unwrap()
        };
        assert_eq!(run("exit 7"), 7);
        assert_eq!(run("kill -9 $$"), 137);
    }

    /// Goal: a process with a number of another block does not begin.
    #[test]
    fn a_wrong_number_does_not_begin() {
        let mut command = Command::new("true");
        in_session_of_its_own(&mut command, 1 << 30);
        let why = command.spawn().unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EAGAIN));
    }
}
