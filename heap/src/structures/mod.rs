// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Structures to use as they are. Each is a pointer to its head; all its functions take a
//! transaction, so that several changes, of several structures, can be one.
//!
//! Keys are compared by what [`Key`] says: numbers by value, arrays in order.

mod avl;
mod bptree;
mod hash;
mod queue;

pub use avl::{AvlHead, AvlMap};
pub use bptree::{BPlusTree, BTreeHead};
pub use hash::{HashHead, HashMap};
pub use queue::{Queue, QueueHead};

use crate::persist::Persist;

/// What can be a key: a value of 8 bytes or a multiple, with an order and a hash.
pub trait Key: Persist + Ord {
    /// A hash in which each bit of the key changes about half of all bits.
    fn mix(&self) -> u64;
}

/// The finisher of SplitMix64.
#[inline(always)]
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Key for u64 {
    #[inline(always)]
    fn mix(&self) -> u64 {
        mix(*self)
    }
}

impl Key for i64 {
    #[inline(always)]
    fn mix(&self) -> u64 {
        mix(u64::from_ne_bytes(self.to_ne_bytes()))
    }
}

impl<const N: usize> Key for [u64; N] {
    fn mix(&self) -> u64 {
        self.iter().fold(0, |hash, word| mix(hash ^ word))
    }
}

impl<const N: usize> Key for [u8; N] {
    fn mix(&self) -> u64 {
        self.chunks(8).fold(0, |hash, part| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            mix(hash ^ u64::from_le_bytes(word))
        })
    }
}
