// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all controllers have in common: the trait by which a machine's model
//! asks them on misses and write-backs.

use crate::error::MediaError;
use crate::stats::{Energy, Figure, Latency};
use crate::units::{LineAddr, Ps};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// A controller with its memory. Requests are of one line of 64 bytes, and come
/// with moments that never decrease; a line beyond `lines` is the caller's mistake.
pub trait Memory: Debug {
    /// Number of lines that can be addressed.
    fn lines(&self) -> u64;
    /// A miss: when the data is at the host.
    fn read(&mut self, at: Ps, line: LineAddr) -> Ps;
    /// A write-back: when the host may forget it. It need not be on media yet.
    fn write(&mut self, at: Ps, line: LineAddr) -> Ps;
    /// A fence of the CPU: when nothing that was written is on its way or volatile any more. What
    /// the module keeps by a reserve of its own counts as kept, and DRAM keeps nothing beyond what it
    /// accepts. So a memory without a flush port answers when the last write is accepted; another one
    /// drives that port.
    fn persist(&mut self, at: Ps) -> Ps;
    /// Whether accepted lines are volatile until a port is driven. If not, a fence sends no request:
    /// the answers to its writes are enough.
    fn has_flush_port(&self) -> bool;
    /// All to media: the flush port, or what a module does by its own reserve when power is gone.
    fn flush(&mut self, at: Ps) -> Ps;
    /// The reset port: when all is wiped.
    fn reset(&mut self, at: Ps) -> Ps;
    /// What was counted.
    fn counts(&self) -> &Counts;
    /// Energy from the start until `until`.
    fn energy(&self, until: Ps) -> Energy;
    /// All state, for `restore` of the same type.
    fn checkpoint(&self) -> Vec<u8>;
    /// Figures that only this controller has.
    fn own_figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

/// What every controller counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Reads, from the request to the data.
    pub read: Latency,
    /// Writes, from the request until the host may go on.
    pub write: Latency,
    /// Writes that met an open row or page, or the DRAM of a memory mode.
    pub row_writes: u64,
    /// Reads that did.
    pub row_reads: u64,
    /// Reads rebuilt from the other half and the code.
    pub rebuilt_reads: u64,
    /// Reads that waited for a device that was busy with a write.
    pub blocked_reads: u64,
    /// Lines (or blocks) programmed or written into arrays on behalf of the host.
    pub array_writes: u64,
    /// The same on behalf of wear levelling, its journal included.
    pub extra_writes: u64,
    /// Array reads for read-modify-write and wear levelling.
    pub extra_reads: u64,
}

impl Counts {
    /// As figures.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        use crate::stats::count;
        let ns = |name, value, about| Figure {
            name,
            value,
            unit: "ns",
            about,
        };
        vec![
            count("reads", self.read.count, "Reads of the host."),
            count("writes", self.write.count, "Writes of the host."),
            ns("read_mean_ns", self.read.mean_ns(), "Mean time of a read."),
            ns("read_max_ns", self.read.max.ns(), "Longest read."),
            ns(
                "write_mean_ns",
                self.write.mean_ns(),
                "Mean time until a write is accepted.",
            ),
            ns("write_max_ns", self.write.max.ns(), "Longest such time."),
            count(
                "row_writes",
                self.row_writes,
                "Writes that met an open row or page.",
            ),
            count("row_reads", self.row_reads, "Reads that did."),
            count(
                "rebuilt_reads",
                self.rebuilt_reads,
                "Reads rebuilt from half and code.",
            ),
            count(
                "blocked_reads",
                self.blocked_reads,
                "Reads that waited for a write.",
            ),
            count(
                "array_writes",
                self.array_writes,
                "Lines written into arrays for the host.",
            ),
            count(
                "extra_writes",
                self.extra_writes,
                "Lines written for wear levelling.",
            ),
            count(
                "extra_reads",
                self.extra_reads,
                "Arrays read for other reasons than reads.",
            ),
        ]
    }
}

/// Write all state of a model.
#[must_use]
pub fn save<T: Serialize>(state: &T) -> Vec<u8> {
    postcard::to_stdvec(state).expect("a model is plain data, which postcard can write")
}

/// Read the state of a model of the same type.
///
/// # Errors
/// When the bytes are no such state.
pub fn restore<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, MediaError> {
    match postcard::take_from_bytes(bytes) {
        Ok((state, [])) => Ok(state),
        Ok((_, rest)) => Err(MediaError::Checkpoint(format!(
            "{} bytes too many",
            rest.len()
        ))),
        Err(error) => Err(MediaError::Checkpoint(error.to_string())),
    }
}
