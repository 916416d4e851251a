// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest whose disk has requests under way when the power drops, on a model of QEMU.
//!
//! The model has what counts of QEMU: `stop` waits for the disk, `yank` ends its requests, an error
//! does what the device's policy says, a disk that cannot be flushed keeps the guest from being
//! saved, and what a write cache holds is lost with the power. Every combination of a choice and of
//! a device's settings is tried with a disk that answers and with one that does not.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use remanence_vm::config::Requests;
use remanence_vm::qmp::{Monitor, QmpError, Ticket};
use remanence_vm::requests::{RequestsError, disks, settle};
use serde_json::{Value, json};

use crate::life::Broken;

const DEVICE: &str = "/machine/peripheral/disk/virtio-backend";

fn broken(verdict: &'static str, qemu: &Model, requests: Requests) -> Result<(), Broken> {
    let how = format!("{requests:?}, {qemu:?}");
    Err(Broken { verdict, how })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    /// The disk has done it, and the guest knows.
    Done,
    Failed,
    /// In the device's state, for the next life.
    Kept,
    /// The guest believes that it is done.
    Pretended,
}

#[derive(Debug)]
enum Node {
    Disk { answers: bool },
    StandIn { fails: Vec<String> },
}

/// QEMU with one disk, and one write and one read under way.
#[derive(Debug)]
struct Model {
    driver: &'static str,
    werror: &'static str,
    rerror: &'static str,
    has_cache: bool,
    may_switch: bool,
    writeback: bool,
    nodes: HashMap<String, Node>,
    attached: String,
    write: Fate,
    read: Fate,
    /// What was acknowledged before is in the disk's cache, and not yet flushed.
    is_dirty: bool,
}

impl Model {
    fn finish(&mut self) {
        let Some(Node::Disk { answers }) = self.nodes.get(&self.attached) else {
            return;
        };
        if *answers {
            self.write = Fate::Done;
            self.read = Fate::Done;
            self.is_dirty = false; // `stop` flushes
        }
    }

    fn obey(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError> {
        let word = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        let refused = |why: &str| QmpError::Refused {
            command: command.to_owned(),
            why: why.to_owned(),
        };
        match command {
            "query-block" => Ok(json!([{"qdev": DEVICE, "inserted": {
                "node-name": self.attached,
                "drv": self.driver,
                "image": {"virtual-size": 1 << 20},
                "cache": {"writeback": self.writeback},
            }}])),
            "qom-get" => match word("property").as_str() {
                "type" => Ok(json!("virtio-blk-device")),
                "werror" => Ok(json!(self.werror)),
                "rerror" => Ok(json!(self.rerror)),
                "write-cache" => Ok(json!(if self.has_cache { "auto" } else { "off" })),
                "config-wce" => Ok(json!(self.may_switch)),
                _ => Err(refused("no such property")),
            },
            "yank" => {
                self.write = ended(self.write, self.werror);
                self.read = ended(self.read, self.rerror);
                if let Some(Node::Disk { answers }) = self.nodes.get_mut("data") {
                    *answers = false;
                }
                Ok(Value::Null)
            }
            "blockdev-add" => {
                let rules = arguments["inject-error"].as_array().cloned();
                let kind = |rule: &Value| rule["iotype"].as_str().map(str::to_owned);
                let fails = rules.iter().flatten().filter_map(kind).collect();
                self.nodes
                    .insert(word("node-name"), Node::StandIn { fails });
                Ok(Value::Null)
            }
            "blockdev-del" => {
                self.nodes.remove(&word("node-name"));
                Ok(Value::Null)
            }
            "qom-set" => {
                self.attached = word("value");
                Ok(Value::Null)
            }
            _ => Err(refused("no such command")),
        }
    }

    /// Whether QEMU would save it.
    fn can_be_saved(&self) -> bool {
        let is_flushed = |node: &Node| !matches!(node, Node::Disk { answers: false });
        self.nodes.values().all(is_flushed)
    }

    /// Whether a guest that runs on is told that something is done which is not.
    fn pretends(&self) -> bool {
        match self.nodes.get(&self.attached) {
            Some(Node::StandIn { fails }) => ["read", "write", "write-zeroes", "discard"]
                .iter()
                .any(|kind| !fails.iter().any(|fails| fails == kind)),
            _ => false,
        }
    }
}

fn ended(fate: Fate, policy: &str) -> Fate {
    match (fate, policy) {
        (Fate::UnderWay, "stop") => Fate::Kept,
        (Fate::UnderWay, "ignore") => Fate::Pretended,
        (Fate::UnderWay, _) => Fate::Failed,
        (other, _) => other,
    }
}

impl Monitor for Model {
    fn begin(&mut self, command: &str, arguments: &Value) -> Result<Ticket, QmpError> {
        if command == "stop" {
            self.finish();
        } else {
            self.obey(command, arguments)?;
        }
        Ok(Ticket::new(0, command))
    }

    fn end(&mut self, _: &Ticket, _: Duration) -> Result<Option<Value>, QmpError> {
        let is_over = self.write != Fate::UnderWay && self.read != Fate::UnderWay;
        Ok(is_over.then_some(Value::Null))
    }

    fn at_once(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError> {
        self.obey(command, arguments)
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, QmpError> {
        self.obey(command, arguments)
    }
}

/// Cuts the power with every combination; the first that breaks a promise.
pub fn check() -> Result<(), Broken> {
    for requests in [Requests::Replay, Requests::Fail, Requests::Complete] {
        for werror in ["report", "enospc", "auto", "ignore", "stop"] {
            for rerror in ["report", "auto", "ignore", "stop"] {
                for rest in 0..64 {
                    one(requests, werror, rerror, rest)?;
                }
            }
        }
    }
    Ok(())
}

fn one(
    requests: Requests,
    werror: &'static str,
    rerror: &'static str,
    rest: u8,
) -> Result<(), Broken> {
    let bit = |number: u8| rest >> number & 1 == 1;
    let (answers, is_file, has_cache, may_switch) = (bit(0), bit(1), bit(2), bit(3));
    // Firmware may have left a cache off, and something may switch it on.
    let (writeback, switches) = (has_cache && bit(4), bit(5));
    let mut qemu = Model {
        driver: if is_file { "file" } else { "nbd" },
        werror,
        rerror,
        has_cache,
        may_switch,
        writeback,
        nodes: HashMap::from([("data".to_owned(), Node::Disk { answers })]),
        attached: "data".to_owned(),
        write: Fate::UnderWay,
        read: Fate::UnderWay,
        is_dirty: writeback,
    };
    let is_right = match requests {
        Requests::Complete => true,
        Requests::Replay => (werror, rerror) == ("stop", "stop"),
        Requests::Fail => ![werror, rerror]
            .iter()
            .any(|is| ["stop", "ignore"].contains(is)),
    };
    let is_to_be_taken =
        is_right && (requests == Requests::Complete || !is_file && !has_cache && !may_switch);
    let Ok(found) = disks(&mut qemu, requests) else {
        return if is_to_be_taken {
            broken("refused", &qemu, requests)
        } else {
            Ok(())
        };
    };
    if switches {
        qemu.writeback = true;
        qemu.is_dirty = true;
    }
    let Ok(stop) = qemu.begin("stop", &Value::Null) else {
        return broken("refused", &qemu, requests);
    };
    let end = Instant::now() + Duration::from_secs(60);
    match settle(&mut qemu, &stop, &found, Duration::ZERO, end) {
        Ok(()) => after_the_return(&qemu, requests),
        Err(RequestsError::UnderWay) if requests == Requests::Complete && !answers => Ok(()),
        Err(RequestsError::UnderWay) => broken("late", &qemu, requests),
        Err(RequestsError::WriteCache(_)) if switches => Ok(()),
        Err(_) => broken("unsaved", &qemu, requests),
    }
}

fn after_the_return(qemu: &Model, requests: Requests) -> Result<(), Broken> {
    let fates = [qemu.write, qemu.read];
    if !qemu.can_be_saved() {
        return broken("unsaved", qemu, requests);
    }
    if fates.contains(&Fate::Pretended) || qemu.pretends() {
        return broken("pretended", qemu, requests);
    }
    if qemu.is_dirty {
        return broken("lost", qemu, requests);
    }
    let is_kept = |fate: &Fate| match requests {
        Requests::Complete => *fate == Fate::Done,
        Requests::Replay => matches!(fate, Fate::Done | Fate::Kept),
        Requests::Fail => matches!(fate, Fate::Done | Fate::Failed),
    };
    if fates.iter().all(is_kept) {
        Ok(())
    } else {
        broken("fate", qemu, requests)
    }
}
