// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `off2f` with planted bugs: see `remanence_planted`. Those of `off2f/kernel` are in the same
//! series, for a guest.

include!(concat!(env!("OUT_DIR"), "/patched.rs"));
