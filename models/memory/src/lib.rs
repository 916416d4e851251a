// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory controllers as models: deterministic, without events and without a
//! clock of the host.
//!
//! ```
//! use ocpmem::{build::MemoryJob, units::{LineAddr, Ps}};
//!
//! let mut memory = MemoryJob::named("lightpc").build(1 << 16)?;
//! let accepted = memory.write(Ps::ZERO, LineAddr(5));
//! let read = memory.read(accepted, LineAddr(5));
//! assert!(read > accepted && memory.persist(read) > read);
//! # Ok::<(), ocpmem::error::MediaError>(())
//! ```
//!
//! A controller is a [`memory::Memory`]. [`psm`] is LightPC's, with LightPC-B and
//! the other layouts as settings; [`dram`], [`optane`] and [`hybrid`] are those it is
//! compared with, also as [`far`] memory behind a link between sockets. [`window`] is an
//! out-of-order core; [`cores`] replays a [`trace`]; [`workloads`] makes traces; [`jobs`] is what
//! `rem-media` does.

pub mod build;
pub mod cache;
pub mod cores;
pub mod dram;
pub mod error;
pub mod far;
pub mod hybrid;
pub mod jobs;
pub mod memory;
pub mod oc;
pub mod optane;
pub mod parts;
pub mod psm;
mod spacing;
pub mod startgap;
pub mod stats;
pub mod trace;
pub mod units;
pub mod window;
pub mod workloads;
pub mod xcc;
