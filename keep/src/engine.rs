// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CRIU as a worker (`criu swrk`): it is started before there is a request, and reports by the
//! request's socket what others have scripts for.
//!
//! It goes on after a report when it is answered, and lets its processes run when the socket ends.
//! So a second process has that socket, too (`hold`), which outlives a saver when it must.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use prost::Message;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::criu::{self, PROGRAM};
use crate::fault::{Fault, at};
use crate::hold::{self, Hold};
use crate::processes::ProcessId;

/// Its reports are some words.
const REPORT_MAX_BYTES: usize = 64 << 10;
const DUMP: i32 = 1;
const NOTIFY: i32 = 6;
/// Units of the fresh system have their own groups.
const CGROUPS_IGNORED: i32 = 0;
const LOG_LEVEL: i32 = 2;

/// `criu_opts`, as far as a dump has some.
#[derive(Clone, PartialEq, Eq, Message)]
struct Options {
    #[prost(int32, required, tag = "1")]
    images_dir_fd: i32,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(bool, optional, tag = "5")]
    tcp_established: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    file_locks: Option<bool>,
    #[prost(int32, optional, tag = "9")]
    log_level: Option<i32>,
    #[prost(string, optional, tag = "10")]
    log_file: Option<String>,
    #[prost(bool, optional, tag = "12")]
    notify_scripts: Option<bool>,
    #[prost(string, optional, tag = "14")]
    parent_img: Option<String>,
    #[prost(bool, optional, tag = "15")]
    track_mem: Option<bool>,
    #[prost(int32, optional, tag = "34")]
    manage_cgroups_mode: Option<i32>,
    /// A connection that is not established is tried again by its client.
    #[prost(bool, optional, tag = "46")]
    tcp_skip_in_flight: Option<bool>,
}

/// `criu_req`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Request {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(message, optional, tag = "2")]
    options: Option<Options>,
    #[prost(bool, optional, tag = "3")]
    notify_success: Option<bool>,
}

/// `criu_notify`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Notify {
    #[prost(string, optional, tag = "1")]
    script: Option<String>,
}

/// `criu_resp`, as far as a report has some.
#[derive(Clone, PartialEq, Eq, Message)]
struct Response {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(message, optional, tag = "5")]
    notify: Option<Notify>,
}

/// What goes to CRIU when a program that it keeps frozen is to go on: as after a script's failure.
#[must_use]
pub fn go_on() -> Vec<u8> {
    answer(false)
}

fn answer(success: bool) -> Vec<u8> {
    let request = Request {
        kind: NOTIFY,
        options: None,
        notify_success: Some(success),
    };
    request.encode_to_vec()
}

/// A CRIU that waits for its request, or is at work, and who keeps its program frozen.
#[derive(Debug)]
pub struct Engine {
    criu: ProcessId,
    socket: File,
    hold: Option<Hold>,
}

/// Has so many of them ready; those that have ended are replaced.
///
/// # Errors
/// If one cannot be started.
pub fn have(ready: &mut Vec<Engine>, count: usize) -> io::Result<()> {
    ready.retain(Engine::is_ready);
    ready.truncate(count);
    while ready.len() < count {
        let mut engine = Engine::start()?;
        engine.have_hold()?;
        ready.push(engine);
    }
    Ok(())
}

/// The end of a process is waited for: otherwise it stays in the process table.
fn leave(mut child: Child) {
    thread::spawn(move || child.wait());
}

fn start_with(mut command: Command, socket: OwnedFd) -> io::Result<Child> {
    // CRIU's own words are in its log. It is not ended by what ends us.
    command.stdin(Stdio::from(socket)).process_group(0);
    command.stderr(Stdio::null()).spawn()
}

impl Engine {
    /// Starts one; does not wait until it is ready.
    ///
    /// # Errors
    /// If CRIU cannot be started.
    pub fn start() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let (own, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let mut command = Command::new(PROGRAM);
        command.args(["swrk", "0"]).stdout(Stdio::null());
        let criu = start_with(command, theirs)?;
        let id = ProcessId::of(criu.id());
        leave(criu);
        Ok(Self {
            criu: id.ok_or_else(|| io::Error::other("it has ended as soon as it ran"))?,
            socket: File::from(own),
            hold: None,
        })
    }

    /// Starts who outlives this process with CRIU's socket, if there is none.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn have_hold(&mut self) -> io::Result<()> {
        if self.hold.is_none() {
            let (end, other) = UnixStream::pair()?;
            let mut command = Command::new(criu::own_path()?);
            command.env(hold::HOLDS, "1");
            command.stdout(Stdio::from(OwnedFd::from(other)));
            leave(start_with(command, self.socket.try_clone()?.into())?);
            self.hold = Some(Hold::on(end));
        }
        Ok(())
    }

    /// Whether it, and who holds for it, wait for a request.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.has_reported(), Ok(false)) && self.hold.as_ref().is_some_and(Hold::is_there)
    }

    /// Its process.
    #[must_use]
    pub fn criu(&self) -> ProcessId {
        self.criu
    }

    /// Has it begin to dump a process and its descendants, but for pages of an older image.
    ///
    /// # Errors
    /// If there is no such folder, or what CRIU says.
    pub fn dump(&mut self, pid: u32, images: &Path, older: &Path) -> Result<(), Fault> {
        let folder = File::open(images).map_err(at(images.display()))?;
        let options = options(pid, &folder, older)?;
        let request = Request {
            kind: DUMP,
            options: Some(options),
            notify_success: None,
        };
        self.send(&request.encode_to_vec()).map_err(at("criu"))?;
        // It opens the folder by our descriptor, before its first report.
        self.run_to("pre-dump", images)?;
        self.send(&answer(true)).map_err(at("criu"))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.socket.write_all(message)
    }

    /// Whether it waits for an answer, or has ended.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn has_reported(&self) -> io::Result<bool> {
        hold::has_news(&self.socket)
    }

    /// Lets it work until it reports an action by this name, which is not answered.
    ///
    /// # Errors
    /// What CRIU says, if it gives up before that.
    pub fn run_to(&mut self, action: &str, images: &Path) -> Result<(), Fault> {
        let mut message = vec![0; REPORT_MAX_BYTES];
        loop {
            let length = self.socket.read(&mut message).unwrap_or_default();
            let report = Response::decode(&message[..length]).ok();
            let script = report
                .filter(|report| report.kind == NOTIFY)
                .and_then(|report| report.notify?.script);
            let Some(script) = script else {
                return Err(Fault::new(criu::why_no_dump(images)));
            };
            if script == action {
                return Ok(());
            }
            self.send(&answer(true)).map_err(at("criu"))?;
        }
    }

    /// From here on only the hold has the socket.
    ///
    /// # Errors
    /// If there is none; then the program goes on.
    pub fn into_hold(self) -> io::Result<Hold> {
        let none = || io::Error::other("nothing keeps the program frozen");
        self.hold.ok_or_else(none)
    }
}

fn options(pid: u32, folder: &File, older: &Path) -> Result<Options, Fault> {
    let older = older.to_str();
    let older = older.ok_or_else(|| Fault::new("the folder's path is no text"))?;
    Ok(Options {
        images_dir_fd: folder.as_raw_fd(),
        pid: i32::try_from(pid).ok(),
        tcp_established: Some(true),
        file_locks: Some(true),
        log_level: Some(LOG_LEVEL),
        log_file: Some(criu::DUMP_LOG.to_owned()),
        notify_scripts: Some(true),
        parent_img: Some(older.to_owned()),
        track_mem: Some(true),
        manage_cgroups_mode: Some(CGROUPS_IGNORED),
        tcp_skip_in_flight: Some(true),
    })
}
