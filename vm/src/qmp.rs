// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU's control socket, for the few commands that a save needs. Each call blocks until the
//! answer or its time limit: nothing between a drop of PWR_OK and the commit waits for another
//! thread. An answer that comes after its limit is not taken for another one's.

use std::collections::HashMap;
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
    /// No answer within the limit; there may be one yet.
    #[error("QEMU does not answer {0} in time")]
    Late(String),
    /// QEMU refused.
    #[error("QEMU refuses {command}: {why}")]
    Refused {
        /// Which.
        command: String,
        /// In QEMU's words.
        why: String,
    },
}

/// A command that was sent.
#[derive(Debug)]
pub struct Ticket {
    id: u64,
    command: String,
}

impl Ticket {
    /// For the command that was sent as this number.
    #[must_use]
    pub fn new(id: u64, command: &str) -> Self {
        let command = command.to_owned();
        Self { id, command }
    }
}

/// What obeys QEMU's commands: QEMU, or a model of it.
pub trait Monitor {
    /// Sends a command, and does not wait for its answer.
    ///
    /// # Errors
    /// As in [`QmpError`].
    fn begin(&mut self, command: &str, arguments: &Value) -> Result<Ticket, QmpError>;

    /// Its answer; none if that is not there within the limit.
    ///
    /// # Errors
    /// As in [`QmpError`].
    fn end(&mut self, ticket: &Ticket, limit: Duration) -> Result<Option<Value>, QmpError>;

    /// Runs a command out of band: QEMU obeys also while another one keeps its main loop.
    ///
    /// # Errors
    /// As in [`QmpError`].
    fn at_once(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError>;

    /// Runs a command.
    ///
    /// # Errors
    /// As in [`QmpError`].
    fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError> {
        let ticket = self.begin(command, arguments)?;
        let answer = self.end(&ticket, LIMIT)?;
        answer.ok_or(QmpError::Late(ticket.command))
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Qmp {
    reader: BufReader<UnixStream>,
    /// What has come of the next line.
    line: Vec<u8>,
    last: u64,
    /// Answers that nobody has asked for yet, by the number of their command.
    answers: HashMap<u64, Value>,
}

const POLL: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(30);
const SHORTEST: Duration = Duration::from_micros(1); // a socket takes 0 for no limit

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
        Self::greet(stream, LIMIT, runs)
    }

    /// Connects to one that listens, and greets in *limit*.
    ///
    /// # Errors
    /// If it does not: it has another connection, or has ended.
    pub fn connect_within(path: &Path, limit: Duration) -> Result<Self, QmpError> {
        Self::greet(UnixStream::connect(path)?, limit, || true)
    }

    fn greet(
        stream: UnixStream,
        limit: Duration,
        mut runs: impl FnMut() -> bool,
    ) -> Result<Self, QmpError> {
        stream.set_write_timeout(Some(LIMIT))?;
        let mut qmp = Self {
            reader: BufReader::new(stream),
            line: Vec::new(),
            last: 0,
            answers: HashMap::new(),
        };
        // It listens before it has opened its disks, and greets after that.
        let end = Instant::now() + limit;
        while qmp.line(Instant::now() + POLL)?.is_none() {
            if Instant::now() >= end || !runs() {
                return Err(QmpError::Late("the connection".to_owned()));
            }
        }
        qmp.execute("qmp_capabilities", &json!({"enable": ["oob"]}))?;
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

    /// The next line; none if it is not there at *end*.
    fn line(&mut self, end: Instant) -> Result<Option<Value>, QmpError> {
        let left = end.saturating_duration_since(Instant::now());
        let stream = self.reader.get_ref();
        stream.set_read_timeout(Some(left.max(SHORTEST)))?;
        match self.reader.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.ends_with(b"\n") => {
                let line = std::mem::take(&mut self.line);
                Ok(Some(serde_json::from_slice(&line)?))
            }
            Ok(_) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self, how: &str, what: &str, arguments: &Value) -> Result<Ticket, QmpError> {
        self.last += 1;
        let mut request = json!({how: what, "id": self.last});
        if !arguments.is_null() {
            request["arguments"] = arguments.clone();
        }
        let mut text = request.to_string();
        text.push('\n');
        self.reader.get_ref().write_all(text.as_bytes())?;
        Ok(Ticket::new(self.last, what))
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

impl Monitor for Qmp {
    fn begin(&mut self, command: &str, arguments: &Value) -> Result<Ticket, QmpError> {
        self.send("execute", command, arguments)
    }

    /// Events that come before the answer are passed over.
    fn end(&mut self, ticket: &Ticket, limit: Duration) -> Result<Option<Value>, QmpError> {
        let end = Instant::now() + limit;
        while !self.answers.contains_key(&ticket.id) {
            let Some(answer) = self.line(end)? else {
                return Ok(None);
            };
            if let Some(id) = answer["id"].as_u64() {
                self.answers.insert(id, answer);
            } else if answer.get("error").is_some() {
                return Err(refusal(ticket, &answer));
            }
        }
        let mut answer = self.answers.remove(&ticket.id).unwrap_or_default();
        match answer.get_mut("return") {
            Some(value) => Ok(Some(value.take())),
            None => Err(refusal(ticket, &answer)),
        }
    }

    fn at_once(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError> {
        let ticket = self.send("exec-oob", command, arguments)?;
        let answer = self.end(&ticket, LIMIT)?;
        answer.ok_or(QmpError::Late(ticket.command))
    }
}

fn refusal(ticket: &Ticket, answer: &Value) -> QmpError {
    QmpError::Refused {
        command: ticket.command.clone(),
        why: answer["error"]["desc"]
            .as_str()
            .unwrap_or("no reason")
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Goal: an answer that is late belongs to its own command, also if its line came in pieces.
    /// Method: what stands for QEMU answers the first command after the second one.
    #[test]
    fn late_answers_are_not_taken_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qmp.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let qemu = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut say = |text: &str| stream.write_all(text.as_bytes()).unwrap();
            say("{\"QMP\": {}}\n");
            lines.next();
            say("{\"return\": {}, \"id\": 1}\n");
            lines.next();
            say("{\"event\": \"STOP\"}\n{\"return\": \"la");
            lines.next();
            say("te\", \"id\": 2}\n{\"error\": {\"desc\": \"no\"}, \"id\": 3}\n");
        });
        let mut qmp = Qmp::connect_within(&path, LIMIT).unwrap();
        let first = qmp.begin("stop", &Value::Null).unwrap();
        let none = qmp.end(&first, Duration::from_millis(20)).unwrap();
        assert_eq!(none, None);
        let refused = qmp.at_once("yank", &Value::Null).unwrap_err();
        assert_eq!(refused.to_string(), "QEMU refuses yank: no");
        assert_eq!(qmp.end(&first, LIMIT).unwrap(), Some(json!("late")));
        qemu.join().unwrap();
    }
}
