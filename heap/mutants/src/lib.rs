// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nvheap` with planted bugs: see `remanence_planted`.

// As in the library itself: on x86-64 a usize is a u64.
#![allow(clippy::cast_possible_truncation)]

include!(concat!(env!("OUT_DIR"), "/patched.rs"));
