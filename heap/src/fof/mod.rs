// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flush on fail: plain memory that outlives the process, on a platform that saves caches when the
//! power fails.
//!
//! A [`Region`] is mapped at the same address in each opening, so that pointers are addresses, and
//! [`Local`] allocates in it as malloc() does. Nothing is logged, checked or flushed: an update costs
//! what it costs in any other memory. After a power failure with Stop, memory and process are what they
//! were. A process that dies leaves its last update half done, and nothing can undo it: such a region
//! is refused ([`Error::NotClosed`](crate::Error::NotClosed)). So is one of which a thread's [`Local`]
//! was dropped by a panic. A panic that is caught while the `Local` lives on undoes nothing: the stores
//! that were made stay, and it is the program that puts them right before it closes the region.
//!
//! ```
//! use std::alloc::Layout;
//! use nvheap::fof::{Memory, Options, Region};
//!
//! struct Node { next: *mut Node, number: u64 }
//!
//! let region = Region::anonymous(1 << 20, &Options::assume_all())?;
//! let mut local = region.local()?;
//! for number in 0..3 {
//!     let node = local.alloc(Layout::new::<Node>()).expect("memory").cast::<Node>();
//!     let next = region.root("list", 1)?.cast();
//!     // SAFETY: the node was just allocated with its layout.
//!     unsafe { node.write(Node { next, number }) };
//!     region.set_root("list", 1, node.as_ptr().cast(), 16)?;
//! }
//! // SAFETY: the root is the node that was stored last.
//! assert_eq!(unsafe { (*region.root("list", 1)?.cast::<Node>()).number }, 2);
//! # Ok::<(), nvheap::Error>(())
//! ```

pub mod check;
mod classes;
pub mod header;
mod hold;
mod local;
mod memory;
mod reclaim;
mod region;
mod roots;
mod runs;
mod space;
mod tx;
mod volatile;

pub use header::{Header, Mark};
pub use hold::Hold;
pub(crate) use hold::{Asked, Protected, Turn};
pub use local::Local;
pub use memory::Memory;
pub use region::{Options, Region, header_of, is_region};
pub use tx::PlainTx;
