// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A persistent heap: objects in memory that outlives the process and, with the right policy, a
//! power failure.
//!
//! A *region* is a file or anonymous memory. What lies in it is reached by pointers that are offsets
//! ([`PPtr`]), is of a type that holds no address of the process ([`Persist`]), and is found again by
//! the name and type of a *root*. It changes in *transactions* ([`Session::run`]), which happen
//! wholly or not at all, whenever the power goes. How they are made good is the region's *policy*
//! ([`PolicyKind`]): flush on commit with a redo log, an undo log or software transactional memory,
//! or flush on fail, where caches survive and the work is saved.
//!
//! ```
//! use nvheap::{FocRedo, Heap, Options, PPtr, Tx, TxError, field, persist};
//!
//! persist! { struct Account { balance: u64, changes: u64 } }
//!
//! let heap = Heap::<FocRedo>::anonymous(1 << 24, &Options::default())?;
//! let mut session = heap.session()?;
//! let account: PPtr<Account> =
//!     session.root_or("account", |tx| tx.alloc(Account { balance: 100, changes: 0 }))?;
//!
//! session.run(|tx| {
//!     let old = tx.get(account)?;
//!     tx.set(account, Account { balance: old.balance - 30, changes: old.changes + 1 })
//! })?;
//!
//! // An abort leaves nothing of what was done.
//! let aborted = session.run(|tx| {
//!     tx.set(field!(account, Account, balance), 0)?;
//!     Err::<(), _>(TxError::Abort)
//! });
//! assert_eq!(aborted, Err(TxError::Abort));
//! assert_eq!(session.view(|tx| tx.get(account))?.balance, 70);
//! # Ok::<(), nvheap::Error>(())
//! ```
//!
//! Only x86-64 is known: which instructions make a store durable is each machine's own matter.

// On x86-64 a usize is a u64.
#![allow(clippy::cast_possible_truncation)]

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
compile_error!("nvheap knows how stores become durable on x86-64 only");

// Its macros are used below.
#[macro_use]
mod persist;

mod alloc;
mod blank;
mod classes;
pub mod dangling;
pub mod erased;
mod error;
pub mod fof;
pub mod fsck;
mod heap;
mod held;
pub mod layout;
pub mod log;
mod map;
mod pmem;
mod policy;
mod promise;
pub mod recover;
mod shared;
pub mod structures;
#[cfg(feature = "testing")]
pub mod testing;
mod tx;

pub use error::{Error, TxError};
pub use heap::{Heap, Options, Session, platform_flushes_on_fail, policy_of};
pub use map::{MapOptions, Mapping};
pub use persist::{FNV_SEED, PBytes, PPtr, Persist, fnv1a, type_id};
pub use pmem::{LINE_BYTES, LINE_WORDS, Native, Pmem};
pub use policy::{FocRedo, FocStm, FocUndo, FofStm, FofUndo, Policy, PolicyKind};
pub use tx::{Core, Engine, Range, Tx, TxResult};
