// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with what one is given; each message is one line.

use ocpmem::error::MediaError;

/// One error for the crate.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No job of the known form.
    #[error("job: {0}")]
    Job(String),
    /// The model refuses its numbers or the trace.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The peer's files.
    #[error("{path}: {cause}")]
    Io {
        /// Which.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The peer did not write what it writes.
    #[cfg_attr(
        not(feature = "dramsim3"),
        expect(dead_code, reason = "only the peer fails so")
    )]
    #[error("DRAMsim3: {0}")]
    Peer(String),
}
