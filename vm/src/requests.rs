// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to disks that are under way when the power drops: completed, replayed or failed.
//!
//! QEMU's `stop` waits until disks have answered, so that one disk that does not answer keeps its
//! guest from being saved. With `replay` and `fail` a guest's disks are cut off instead. They are
//! NBD connections, whose requests QEMU's `yank` ends at once, with an error; a file's requests
//! could not be ended. What becomes of an error is QEMU's own policy of the device: with `stop` it
//! keeps the request in the device's state and issues it again when the guest runs next, with
//! `report` the guest has the error.
//!
//! Invariant: a request that no disk has answered is never acknowledged. In place of its disk the
//! device gets one that fails all requests, so that nothing is acknowledged if the guest runs. What
//! a disk has acknowledged is durable without a flush, which a disk that is cut off cannot do: the
//! guest's disks have no write cache.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::Requests;
use crate::qmp::{Monitor, QmpError, Ticket};

/// How long a disk may answer before it is cut off, where it need not answer.
pub const GRACE: Duration = Duration::from_millis(2);
/// What the disks' stand-ins are called, each with a number.
const STAND_IN: &str = "rem-cut-off-";
const DISK: &str = "virtio-blk-device";
/// Not asynchronous, and never under way: its content is memory.
const FLASH: &str = "cfi.pflash01";

/// Why requests cannot be cut off, or a guest did not stop.
#[derive(Debug, thiserror::Error)]
pub enum RequestsError {
    /// QEMU.
    #[error("{0}")]
    Qmp(#[from] QmpError),
    /// A disk's arguments do not allow the choice.
    #[error("requests = \"{choice}\" cannot be kept: {why}")]
    NotAllowed {
        /// `replay` or `fail`.
        choice: &'static str,
        /// The disk, and what to change.
        why: String,
    },
    /// It was cut off with writes that may not be durable.
    #[error("the write cache of {0} is on, which cannot be flushed now")]
    WriteCache(String),
    /// The guest's disks have not answered, and may yet.
    #[error("a disk has not answered its requests in time")]
    UnderWay,
}

/// A disk that can be cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The device, as QEMU's object model has it.
    device: String,
    /// The block node of the NBD connection.
    node: String,
    bytes: u64,
}

impl Requests {
    const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Replay => "replay",
            Self::Fail => "fail",
        }
    }

    /// QEMU's error policies that do this; `auto` is `enospc` for writes, and `report` for reads.
    const fn policies(self) -> &'static [&'static str] {
        match self {
            Self::Complete => &[],
            Self::Replay => &["stop"],
            Self::Fail => &["report", "enospc", "auto"],
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The guest's disks, each of which allows the choice; none for a guest that waits for its disks.
///
/// # Errors
/// The first disk that does not allow it.
pub fn disks<M: Monitor>(qemu: &mut M, requests: Requests) -> Result<Vec<Disk>, RequestsError> {
    let mut disks = Vec::new();
    if requests == Requests::Complete {
        return Ok(disks);
    }
    let found = qemu.execute("query-block", &Value::Null)?;
    for block in found.as_array().into_iter().flatten() {
        let device = text(block, "qdev");
        if device.is_empty() || block["inserted"].is_null() {
            continue;
        }
        let found = property(qemu, device, "type")?;
        let kind = found.as_str().unwrap_or_default();
        if kind == FLASH {
            continue;
        }
        let not_allowed = |why: String| RequestsError::NotAllowed {
            choice: requests.name(),
            why,
        };
        let inserted = &block["inserted"];
        let node = text(inserted, "node-name");
        if kind != DISK {
            return Err(not_allowed(format!("{node} is a {kind}: use virtio-blk")));
        }
        if text(inserted, "drv") != "nbd" || node.starts_with('#') {
            return Err(not_allowed(format!(
                "{node} is no NBD connection: give it as -blockdev driver=nbd,node-name=NAME"
            )));
        }
        for policy in ["werror", "rerror"] {
            let found = property(qemu, device, policy)?;
            let is = found.as_str().unwrap_or_default();
            if !requests.policies().contains(&is) {
                let takes = requests.policies()[0];
                return Err(not_allowed(format!(
                    "{node} has {policy}={is}: give {policy}={takes}"
                )));
            }
        }
        // What a guest without CONFIG_WCE in its driver makes of the cache is not known yet.
        let can_be_on = property(qemu, device, "write-cache")? != "off";
        if can_be_on || property(qemu, device, "config-wce")? != false {
            return Err(not_allowed(format!(
                "{node} may have a write cache, which could not be flushed: \
                 give write-cache=off,config-wce=off"
            )));
        }
        disks.push(Disk {
            device: device.to_owned(),
            node: node.to_owned(),
            bytes: inserted["image"]["virtual-size"].as_u64().unwrap_or(0),
        });
    }
    Ok(disks)
}

fn property<M: Monitor>(qemu: &mut M, device: &str, name: &str) -> Result<Value, QmpError> {
    qemu.execute("qom-get", &json!({"path": device, "property": name}))
}

/// Waits until a guest that was told to `stop` has stopped. Its *disks* are cut off after *grace*,
/// whether they have answered or not; a guest without any has until *end* to complete its requests.
///
/// # Errors
/// As in [`RequestsError`]; then it is not known what its disks do.
pub fn settle<M: Monitor>(
    qemu: &mut M,
    stop: &Ticket,
    disks: &[Disk],
    grace: Duration,
    end: Instant,
) -> Result<(), RequestsError> {
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    if disks.is_empty() {
        let answer = qemu.end(stop, left(end))?;
        return answer.map(drop).ok_or(RequestsError::UnderWay);
    }
    let has_stopped = qemu.end(stop, grace.min(left(end)))?.is_some();
    yank(qemu, disks)?;
    if !has_stopped && qemu.end(stop, left(end))?.is_none() {
        return Err(RequestsError::UnderWay);
    }
    for (number, disk) in disks.iter().enumerate() {
        stand_in(qemu, number, disk)?;
        qemu.execute("blockdev-del", &json!({"node-name": disk.node}))?;
    }
    refuse_write_caches(qemu, disks)
}

/// No guest has switched a write cache on: `config-wce=off` leaves it no way to.
fn refuse_write_caches<M: Monitor>(qemu: &mut M, disks: &[Disk]) -> Result<(), RequestsError> {
    let found = qemu.execute("query-block", &Value::Null)?;
    for disk in disks {
        let is_its = |block: &&Value| text(block, "qdev") == disk.device;
        let block = found.as_array().into_iter().flatten().find(is_its);
        if block.is_none_or(|block| block["inserted"]["cache"]["writeback"] != false) {
            return Err(RequestsError::WriteCache(disk.node.clone()));
        }
    }
    Ok(())
}

/// Ends all requests to these disks, at once.
fn yank<M: Monitor>(qemu: &mut M, disks: &[Disk]) -> Result<(), QmpError> {
    let instance = |disk: &Disk| json!({"type": "block-node", "node-name": disk.node});
    let all: Vec<Value> = disks.iter().map(instance).collect();
    qemu.at_once("yank", &json!({"instances": all}))?;
    Ok(())
}

/// Puts a disk that fails all requests in a disk's place. QEMU saves no guest with a disk that
/// cannot be flushed, and this one can.
fn stand_in<M: Monitor>(qemu: &mut M, number: usize, disk: &Disk) -> Result<(), QmpError> {
    let name = format!("{STAND_IN}{number}");
    let requests = ["read", "write", "write-zeroes", "discard"];
    let fails = requests.map(|kind| json!({"event": "none", "iotype": kind, "errno": 5}));
    let node = json!({
        "driver": "blkdebug",
        "node-name": name,
        "image": {"driver": "null-co", "size": disk.bytes},
        "inject-error": fails,
    });
    qemu.execute("blockdev-add", &node)?;
    attach(qemu, disk, &name)
}

fn attach<M: Monitor>(qemu: &mut M, disk: &Disk, node: &str) -> Result<(), QmpError> {
    let which = json!({"path": disk.device, "property": "drive", "value": node});
    qemu.execute("qom-set", &which)?;
    Ok(())
}

/// Whether a guest's disks were cut off: it can only go on from its image.
///
/// # Errors
/// As in [`QmpError`].
pub fn are_cut_off<M: Monitor>(qemu: &mut M) -> Result<bool, QmpError> {
    let found = qemu.execute("query-block", &Value::Null)?;
    let node = |block: &Value| text(&block["inserted"], "node-name").starts_with(STAND_IN);
    Ok(found.as_array().into_iter().flatten().any(node))
}

/// What is done to disks that are cut off, as far as it can be undone, and undoes it: it takes time,
/// and QEMU may refuse it.
///
/// # Errors
/// As in [`QmpError`].
pub fn rehearse<M: Monitor>(qemu: &mut M, disks: &[Disk]) -> Result<(), QmpError> {
    for (number, disk) in disks.iter().enumerate() {
        let replaced = stand_in(qemu, number, disk);
        attach(qemu, disk, &disk.node)?;
        replaced?;
        let name = format!("{STAND_IN}{number}");
        qemu.execute("blockdev-del", &json!({"node-name": name}))?;
    }
    Ok(())
}
