// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that outlive the system they run on.
//!
//! Their memory lies in a range of non-volatile memory. A save has CRIU write what is not memory,
//! and writes a table of which page of the range is which address of which process. A fresh system
//! withholds all pages of the range, has CRIU restore the rest of each program, and hands the
//! pages to its processes: no page is copied. An image is entered once.

pub mod abort;
pub mod blocks;
pub mod check;
pub mod collect;
pub mod config;
pub mod criu;
pub mod descriptors;
pub mod device;
pub mod digest;
pub mod dump;
pub mod engine;
pub mod fault;
pub mod frames;
pub mod hold;
pub mod hook;
pub mod images;
pub mod layout;
pub mod mappings;
pub mod pagemap_image;
pub mod pages_image;
pub mod parent;
pub mod permit;
pub mod policy;
pub mod present;
pub mod processes;
pub mod range;
pub mod restore;
pub mod run;
pub mod save;
pub mod sealed;
pub mod serve;
pub mod shared;
pub mod state;
pub mod status;
pub mod sync;
pub mod table;
pub mod up;
