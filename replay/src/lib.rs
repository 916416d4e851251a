// SPDX-License-Identifier: Apache-2.0 OR MIT
//! After a boot that did not resume: pages that an fsync has acknowledged in memory, and that no
//! disk has, are written to their files.

#[cfg(test)]
mod foreign;
pub mod handle;
#[cfg(test)]
mod hostile;
pub mod mounts;
pub mod registry;
pub mod replay;
