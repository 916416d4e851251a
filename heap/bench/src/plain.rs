// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hash table as plain code over plain memory: what a program has that nobody made persistent. Its
//! links are addresses. Its memory comes from any allocator, so that the same code runs on glibc, on
//! mimalloc and in a region.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use mimalloc::MiMalloc;

/// An allocator.
pub trait Memory {
    /// Memory of that size and alignment; its content is undefined.
    fn take(&mut self, layout: Layout) -> *mut u8;

    /// Free it.
    ///
    /// # Safety
    /// `at` is from [`Memory::take`] with the same layout, and is not used again.
    unsafe fn give(&mut self, at: *mut u8, layout: Layout);
}

/// The C library's allocator.
pub struct Glibc;

impl Memory for Glibc {
    #[inline(always)]
    fn take(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: no caller asks for zero bytes.
        unsafe { System.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn give(&mut self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }
}

/// mimalloc.
pub struct Mimalloc;

impl Memory for Mimalloc {
    #[inline(always)]
    fn take(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: no caller asks for zero bytes.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn give(&mut self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { MiMalloc.dealloc(at, layout) }
    }
}

struct Node {
    next: *mut Node,
    key: u64,
    value: u64,
}

const NODE: Layout = Layout::new::<Node>();

/// Words that share the number of entries, a line apart: as the heap's table has them.
const COUNTERS: usize = 8;

/// Where a table begins.
pub struct Head {
    buckets: *mut *mut Node,
    mask: u64,
    counters: [u64; COUNTERS * 8],
}

/// A table with a fixed number of buckets, which the benchmark's other tables do not outgrow either.
pub struct Table<M> {
    head: *mut Head,
    memory: M,
}

#[inline(always)]
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

impl<M: Memory> Table<M> {
    /// `buckets` is a power of two.
    pub fn new(buckets: u64, mut memory: M) -> Self {
        assert!(buckets.is_power_of_two());
        let count = buckets as usize;
        let layout = Layout::array::<*mut Node>(count).expect("a number of buckets");
        let buckets = memory.take(layout).cast::<*mut Node>();
        let head = memory.take(Layout::new::<Head>()).cast::<Head>();
        assert!(
            !buckets.is_null() && !head.is_null(),
            "no memory for a table"
        );
        // SAFETY: both were just allocated with these layouts.
        unsafe {
            ptr::write_bytes(buckets, 0, count);
            head.write(Head {
                buckets,
                mask: count as u64 - 1,
                counters: [0; COUNTERS * 8],
            });
        }
        Self { head, memory }
    }

    /// The link to the key's node, or the null link at the end of its chain.
    #[inline(always)]
    fn find(&self, key: u64, hash: u64) -> *mut *mut Node {
        // SAFETY: links lead to buckets or live nodes, which only this table changes.
        unsafe {
            let head = &*self.head;
            let mut link = head.buckets.add((hash & head.mask) as usize);
            while !(*link).is_null() && (**link).key != key {
                link = &raw mut (**link).next;
            }
            link
        }
    }

    #[inline(always)]
    fn count(&mut self, hash: u64, change: i64) {
        // SAFETY: the head is this table's.
        let counter = unsafe { &mut (*self.head).counters[(hash >> 61) as usize * 8] };
        *counter = counter.wrapping_add_signed(change);
    }

    #[inline(always)]
    pub fn get(&mut self, key: u64) -> Option<u64> {
        let link = self.find(key, mix(key));
        // SAFETY: as in `find`.
        unsafe { (*link).as_ref().map(|node| node.value) }
    }

    #[inline(always)]
    pub fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        let hash = mix(key);
        let link = self.find(key, hash);
        // SAFETY: as in `find`.
        unsafe {
            if let Some(node) = (*link).as_mut() {
                return Some(std::mem::replace(&mut node.value, value));
            }
            let node = self.memory.take(NODE).cast::<Node>();
            assert!(!node.is_null(), "no memory for a node");
            node.write(Node {
                next: ptr::null_mut(),
                key,
                value,
            });
            *link = node;
        }
        self.count(hash, 1);
        None
    }

    #[inline(always)]
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        let hash = mix(key);
        let link = self.find(key, hash);
        // SAFETY: as in `find`; only this link leads to the node, which `insert` allocated.
        let value = unsafe {
            let node = *link;
            if node.is_null() {
                return None;
            }
            let value = (*node).value;
            *link = (*node).next;
            self.memory.give(node.cast(), NODE);
            value
        };
        self.count(hash, -1);
        Some(value)
    }
}
