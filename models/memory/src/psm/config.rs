// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a PSM can be asked to be, and the numbers of its devices.

use crate::error::MediaError;
use crate::parts::Part;
use crate::startgap::WearConfig;
use crate::units::Ps;
use serde::{Deserialize, Serialize};

/// How devices of a DIMM serve a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Bare-NVDIMM: 32 B of two devices, the others stay free (LightPC, Figure 13b).
    Dual,
    /// As DRAM: all eight devices at once, 256 B, so that a line's write is a
    /// read-modify-write (Figure 13a).
    Rank,
}

/// When halves and code of a line are programmed one after another, so that two of
/// three devices can be read at any moment. It costs write bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stagger {
    /// Whatever waits.
    Always,
    /// Unless another line waits for the same devices.
    WhenIdle,
    /// They are programmed at the same time.
    Never,
}

/// Which requests begin in the order in which they came: one that waits for its devices
/// then holds up those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// None: each waits for its own devices only.
    Free,
    /// Those of a channel, as in a conventional queue.
    Channel,
    /// All: one queue for the whole module.
    Module,
}

/// The mechanisms of a PSM; each can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PsmConfig {
    /// How devices serve a line.
    pub layout: Layout,
    /// A third device holds the code of two halves, and a read of a busy half is
    /// rebuilt from the others.
    pub xcc: bool,
    /// Order of programming with `xcc`.
    pub stagger: Stagger,
    /// A write is accepted when the row buffer has it, not when the device is done.
    pub early_return: bool,
    /// Writes to the open page are put together.
    pub row_buffer: bool,
    /// Which requests keep their order.
    pub order: Order,
    /// Wear levelling.
    pub wear: WearConfig,
}

impl PsmConfig {
    /// LightPC.
    #[must_use]
    pub fn lightpc() -> Self {
        Self {
            layout: Layout::Dual,
            xcc: true,
            stagger: Stagger::WhenIdle,
            early_return: true,
            row_buffer: true,
            order: Order::Free,
            wear: WearConfig::paper(1),
        }
    }

    /// LightPC-B: the same devices behind a conventional controller.
    #[must_use]
    pub fn lightpc_b() -> Self {
        Self {
            xcc: false,
            early_return: false,
            row_buffer: false,
            order: Order::Channel,
            ..Self::lightpc()
        }
    }
}

/// The numbers of a part of kind `pram`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PramPart {
    /// DIMMs, each with a channel.
    pub dimms: u64,
    /// Devices on one, those with codes included.
    pub devices_per_dimm: u64,
    /// Row buffer of one device.
    pub page_bytes: u64,
    /// Into the controller and out of it, together.
    pub controller: Ps,
    /// A device's array, 32 B.
    pub read: Ps,
    /// Heating and cooling, 32 B.
    pub program: Ps,
    /// Into or out of a row buffer.
    pub row_buffer: Ps,
    /// Encoding or rebuilding.
    pub xcc: Ps,
    /// A line on the channel.
    pub burst: Ps,
    /// One device, 32 B.
    pub read_pj: u64,
    /// One device, 32 B.
    pub program_pj: u64,
    /// One device, 32 B.
    pub row_buffer_pj: u64,
    /// One device.
    pub background_mw: f64,
    /// Writes that a cell endures.
    pub endurance_writes: u64,
}

impl PramPart {
    /// From its table.
    ///
    /// # Errors
    /// When it is no such part.
    pub fn from_part(part: &Part) -> Result<Self, MediaError> {
        let mut from = part.reader("pram")?;
        let read = Self {
            dimms: from.count("dimms")?,
            devices_per_dimm: from.count("devices_per_dimm")?,
            page_bytes: from.power_of_two("page_bytes")?,
            controller: from.ns("controller_ns")?,
            read: from.ns("read_ns")?,
            program: from.ns("program_ns")? + from.ns("cooling_ns")?,
            row_buffer: from.ns("row_buffer_ns")?,
            xcc: from.ns("xcc_ns")?,
            burst: from.ns("tburst_ns")?,
            read_pj: from.count("read_pj")?,
            program_pj: from.count("program_pj")?,
            row_buffer_pj: from.count("row_buffer_pj")?,
            background_mw: from.number("background_mw")?,
            endurance_writes: from.count("endurance_writes")?,
        };
        from.finish()?;
        let geometry =
            |why: String| Err(MediaError::Geometry(format!("part {}: {why}", part.name)));
        if read.dimms > 64 || read.devices_per_dimm > 64 {
            return geometry("more than 64 DIMMs, or devices on one".to_owned());
        }
        if !(32..=1024).contains(&read.page_bytes) {
            return geometry(format!("page_bytes = {}: give 32 to 1024", read.page_bytes));
        }
        if read.devices_per_dimm % 3 != 0 || read.dimms < 3 {
            return geometry(format!(
                "{} devices on each of {} DIMMs: halves and code need a multiple of 3 devices, on 3 DIMMs at least",
                read.devices_per_dimm, read.dimms
            ));
        }
        if read.read == Ps::ZERO || read.program == Ps::ZERO {
            return geometry("a device that takes no time".to_owned());
        }
        Ok(read)
    }
}
