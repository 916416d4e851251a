// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `remanence-vm` with planted bugs: see `remanence_planted`.

include!(concat!(env!("OUT_DIR"), "/patched.rs"));
