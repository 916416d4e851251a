// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges each cut of a recorded guest in which `work.c` was at work.
//!
//! In each window of the recording, before each fence behind a store to the region, and where an
//! operation has returned, each image that a cut may leave (`remanence-crash-states`) is opened by the
//! core, as a boot would do it. It must be as promised (`promise.h`) after the last operation that had
//! returned or, until that one returns, after the next.

pub mod judge;
pub mod region;
