// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes, by what the kernel says of them (`/proc/PID/stat`).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, at};

/// A process, and not another one that has got its number.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks after the kernel did.
    pub start_ticks: u64,
}

/// Parts of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One letter; Z and X are of those that have ended.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Its controlling terminal; 0 if it has none.
    pub terminal: i64,
    /// When it began.
    pub start_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name may have spaces and brackets.
        let (_, rest) = text.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            state: words.first()?.chars().next()?,
            parent: words.get(1)?.parse().ok()?,
            terminal: words.get(4)?.parse().ok()?,
            start_ticks: words.get(19)?.parse().ok()?,
        })
    }

    /// Of a process that is there.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn has_ended(self) -> bool {
        "ZX".contains(self.state)
    }
}

impl ProcessId {
    /// Of a process that runs.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| !stat.has_ended())?;
        let start_ticks = stat.start_ticks;
        Some(Self { pid, start_ticks })
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Waits for its end, which a child's parent then knows. Whether it has ended within a limit.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn wait_end(self, limit: Option<Duration>) -> io::Result<bool> {
        let Some(pid) = known(self.pid) else {
            return Ok(true);
        };
        let file = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::SRCH) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        // Between the two the number may have become another process's.
        if !self.is_alive() {
            reap(pid);
            return Ok(true);
        }
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        loop {
            let mut files = [PollFd::new(&file, PollFlags::IN)];
            match poll(&mut files, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(0) => return Ok(false),
                Ok(_) => {
                    reap(pid);
                    return Ok(true);
                }
            }
        }
    }
}

/// If it is a child of this process.
fn reap(pid: Pid) {
    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
}

fn known(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Ends a process at once; one that has ended is none.
pub fn end(pid: u32) {
    if let Some(pid) = known(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Makes the entries of a process's page tables read-only, as for tracking of stores: the next one
/// to a page is seen by the kernel.
///
/// # Errors
/// If the process has ended, or the kernel does not track stores.
pub fn make_read_only(pid: u32) -> Result<(), Fault> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "4").map_err(at(path))
}

/// All processes, and their parents.
#[must_use]
pub fn all() -> HashMap<u32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, Stat::of(pid)?)))
        .filter(|(_, stat)| !stat.has_ended())
        .collect()
}

/// The numbers of a process's threads; its own is one.
#[must_use]
pub fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    let names = entries.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether a thread is stopped by this tracer, by its text in `/proc/PID/task/TID/status`.
fn is_stopped_in(status: &str, tracer: u32) -> bool {
    let word = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next())
    };
    word("State:") == Some("t") && word("TracerPid:") == Some(tracer.to_string().as_str())
}

fn is_stopped(pid: u32, tracer: u32) -> bool {
    let threads = threads(pid);
    let is_stopped = |thread: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status"));
        status.is_ok_and(|status| is_stopped_in(&status, tracer))
    };
    !threads.is_empty() && threads.iter().all(is_stopped)
}

/// A process and all that descend from it, if a tracer has stopped all of them. Who is stopped
/// makes no others.
#[must_use]
pub fn stopped_tree(root: u32, tracer: u32) -> Option<Vec<u32>> {
    if !is_stopped(root, tracer) {
        return None;
    }
    let found = tree(root);
    let all = found.iter().all(|&pid| is_stopped(pid, tracer));
    // One may have been made by another that was not stopped yet.
    (all && tree(root) == found).then_some(found)
}

/// A process and all that descend from it, in the order of their numbers.
#[must_use]
pub fn tree(root: u32) -> Vec<u32> {
    let mut found = descendants(root).unwrap_or_else(|| search(root));
    found.sort_unstable();
    found
}

/// By what each process says of its children; none if one has ended meanwhile.
fn descendants(root: u32) -> Option<Vec<u32>> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        for thread in threads(pid) {
            let path = format!("/proc/{pid}/task/{thread}/children");
            let text = fs::read_to_string(path).ok()?;
            let children = text.split_whitespace().map(str::parse);
            found.extend(children.collect::<Result<Vec<u32>, _>>().ok()?);
        }
        next += 1;
    }
    let mut seen = HashSet::new();
    found.iter().all(|pid| seen.insert(*pid)).then_some(found)
}

/// By the parents of all processes.
fn search(root: u32) -> Vec<u32> {
    let all = all();
    let descends = |pid: &u32| {
        let mut pid = *pid;
        // As many steps as there are processes: the table may have changed while it was read.
        for _ in 0..all.len() {
            if pid == root {
                return true;
            }
            match all.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    };
    all.keys().copied().filter(descends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Goal: a name of any form is no obstacle.
    #[test]
    fn a_stat_is_read() {
        let text = "7 (a) Z (b) S 3 7 7 34816 7 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.state, stat.parent), ('S', 3));
        assert_eq!((stat.terminal, stat.start_ticks), (34816, 4242));
        assert_eq!(Stat::parse("7 (a) S 3"), None);
    }

    /// Goal: only a thread that this tracer has stopped is stopped.
    #[test]
    fn threads_that_are_stopped_are_known() {
        let status = "Name:\ta\nState:\tt (tracing stop)\nPid:\t7\nTracerPid:\t42\n";
        assert!(is_stopped_in(status, 42));
        assert!(!is_stopped_in(status, 4));
        assert!(!is_stopped_in(&status.replace("\tt (", "\tR ("), 42));
        assert!(!is_stopped_in("", 0));
        assert_eq!(stopped_tree(std::process::id(), 1), None);
    }

    /// Goal: a child is in the tree, its end is waited for, and its number alone is not it.
    #[test]
    fn a_child_is_followed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert!(id.is_alive());
        assert_eq!(threads(id.pid), [id.pid]);
        let (own, pid) = (std::process::id(), id.pid);
        for found in [tree(own), search(own), descendants(own).unwrap_or_default()] {
            assert!(found.contains(&own) && found.contains(&pid), "{found:?}");
        }
        assert!(!id.wait_end(Some(Duration::from_millis(1))).unwrap());
        let other = ProcessId {
            start_ticks: id.start_ticks + 1,
            ..id
        };
        assert!(!other.is_alive());
        assert!(other.wait_end(None).unwrap());
        end(id.pid);
        assert!(id.wait_end(None).unwrap());
        assert!(!id.is_alive());
        let _ = child.wait();
    }
}
