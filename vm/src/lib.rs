// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual machines that outlive the power of their host.
//!
//! QEMU runs a guest whose memory is a shared file in non-volatile memory. When PWR_OK drops, all
//! guests stop, QEMU saves what is not memory (its devices and CPUs, about a megabyte), and a
//! record says that this image is complete. When power returns, each image is entered once, or
//! its guest boots cold with a reason.

pub mod budget;
pub mod config;
pub mod describe;
pub mod fence;
pub mod gate;
pub mod guest;
pub mod host;
pub mod image;
pub mod line;
pub mod lock;
pub mod memory;
pub mod qemu;
pub mod qmp;
pub mod queue;
pub mod record;
pub mod requests;
pub mod supply;
pub mod takeover;
