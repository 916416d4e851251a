// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU's control socket, for the few commands that a save needs. Each call blocks until the
//! answer or its time limit: nothing between a drop of PWR_OK and the commit waits for another
//! thread.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::{Value, json};

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU has ended, or does not answer in time.
    #[error("QEMU does not answer: {0}")]
    Io(#[from] io::Error),
    /// What came is no answer.
    #[error("QEMU sent what is no answer: {0}")]
    Answer(#[from] serde_json::Error),
    /// QEMU refused.
    #[error("QEMU refuses {command}: {why}")]
    Refused {
        /// Which.
        command: String,
        /// In QEMU's words.
        why: String,
    },
}

/// An open connection.
#[derive(Debug)]
pub struct Qmp {
    reader: BufReader<UnixStream>,
}

const POLL: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(30);

impl Qmp {
    /// Connects when QEMU listens, at the latest in *limit*, and while it *runs*.
    ///
    /// # Errors
    /// If it does not listen by then, has ended, or greets otherwise than QEMU does.
    pub fn connect(
        path: &Path,
        limit: Duration,
        mut runs: impl FnMut() -> bool,
    ) -> Result<Self, QmpError> {
        let end = Instant::now() + limit;
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() >= end || !runs() => return Err(error.into()),
                Err(_) => std::thread::sleep(POLL),
            }
        };
        Self::greet(stream, LIMIT)
    }

    /// Connects to one that listens, and greets in *limit*.
    ///
    /// # Errors
    /// If it does not: it has another connection, or has ended.
    pub fn connect_within(path: &Path, limit: Duration) -> Result<Self, QmpError> {
        Self::greet(UnixStream::connect(path)?, limit)
    }

    fn greet(stream: UnixStream, limit: Duration) -> Result<Self, QmpError> {
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let mut qmp = Self {
            reader: BufReader::new(stream),
        };
        qmp.line()?;
        qmp.execute("qmp_capabilities", &Value::Null)?;
        qmp.reader.get_ref().set_read_timeout(Some(LIMIT))?;
        Ok(qmp)
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn peer(&self) -> io::Result<Pid> {
        let credentials = rustix::net::sockopt::socket_peercred(self.reader.get_ref())?;
        Ok(credentials.pid)
    }

    /// What the guest's CPUs do, in QEMU's words: `running`, `paused`, `postmigrate`, ...
    ///
    /// # Errors
    /// As in [`QmpError`].
    pub fn status(&mut self) -> Result<String, QmpError> {
        let found = self.execute("query-status", &Value::Null)?;
        Ok(found["status"].as_str().unwrap_or_default().to_owned())
    }

    fn line(&mut self) -> Result<Value, QmpError> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Runs a command; events that come before its answer are passed over.
    ///
    /// # Errors
    /// As in [`QmpError`].
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError> {
        let mut request = json!({"execute": command});
        if !arguments.is_null() {
            request["arguments"] = arguments.clone();
        }
        let mut text = request.to_string();
        text.push('\n');
        self.reader.get_ref().write_all(text.as_bytes())?;
        loop {
            let mut answer = self.line()?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = answer.get("error") {
                let why = error["desc"].as_str().unwrap_or("no reason").to_owned();
                let command = command.to_owned();
                return Err(QmpError::Refused { command, why });
            }
        }
    }

    /// Settings with which QEMU saves and restores everything but shared memory.
    ///
    /// # Errors
    /// As in [`QmpError`]: QEMU before 8.2 has no such mode.
    pub fn leave_memory_in_place(&mut self) -> Result<(), QmpError> {
        let on = json!({"capabilities": [{"capability": "x-ignore-shared", "state": true}]});
        self.execute("migrate-set-capabilities", &on)?;
        self.execute("migrate-set-parameters", &json!({"mode": "cpr-reboot"}))?;
        Ok(())
    }

    /// Waits until a save or a restore has ended.
    ///
    /// # Errors
    /// As in [`QmpError`]; a save that failed is refused.
    pub fn wait_migrated(&mut self, limit: Duration) -> Result<(), QmpError> {
        let end = Instant::now() + limit;
        loop {
            let info = self.execute("query-migrate", &Value::Null)?;
            let refused = |why: &str| QmpError::Refused {
                command: "migrate".to_owned(),
                why: why.to_owned(),
            };
            match info["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    return Err(refused(info["error-desc"].as_str().unwrap_or("it failed")));
                }
                _ if Instant::now() >= end => return Err(refused("it takes too long")),
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }
}
