// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was seen of either side: the same quantities, so that they can be compared.

use ocpmem::stats::Latency;
use ocpmem::units::{LINE_BYTES, Ps};
use serde_json::{Value, json};

/// Of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Of reads, from the moment that the host wanted them.
    pub reads: Latency,
    /// Writes that were accepted.
    pub writes: u64,
    /// Until the last request was served.
    pub time: Ps,
    /// Rows that were opened; each read its cells out and has to write them back.
    pub activations: u64,
    /// Refreshes of a channel.
    pub refreshes: u64,
    /// Until when these two were counted.
    pub counted: Ps,
}

impl Seen {
    /// For the answer.
    pub fn json(&self) -> Value {
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let bytes = ((self.reads.count + self.writes) * LINE_BYTES) as f64;
        json!({
            "time_ns": self.time.ns(),
            "bandwidth_bytes_per_ns": bytes / self.time.ns(),
            "read_mean_ns": self.reads.mean_ns(),
            "reads": self.reads.count,
            "writes": self.writes,
            "activations": self.activations,
            "refreshes": self.refreshes,
            "counted_ns": self.counted.ns(),
        })
    }
}
