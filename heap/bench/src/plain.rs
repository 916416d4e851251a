// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hash table as plain code over plain memory: what a program has that nobody made persistent. Its
//! links are addresses. Its memory comes from any allocator, so that the same code runs on glibc, on
//! mimalloc and in a region.

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use nvheap::fof::Memory;

/// The C library's allocator.
pub struct Glibc;

/// mimalloc.
pub struct Mimalloc;

macro_rules! memory {
    ($name:ident, $malloc:path, $free:path) => {
        // SAFETY: malloc's objects are aligned for any type that needs no more than 16.
        unsafe impl Memory for $name {
            #[inline(always)]
            fn alloc(&mut self, layout: Layout) -> Option<NonNull<u8>> {
                assert!(layout.align() <= 16);
                // SAFETY: malloc takes any size.
                NonNull::new(unsafe { $malloc(layout.size()) }.cast())
            }

            #[inline(always)]
            unsafe fn free(&mut self, at: NonNull<u8>, _: Layout) {
                // SAFETY: as the caller says.
                unsafe { $free(at.as_ptr().cast()) }
            }

            #[inline(always)]
            unsafe fn free_unsized(&mut self, at: NonNull<u8>) -> bool {
                // SAFETY: as the caller says.
                unsafe { $free(at.as_ptr().cast()) };
                true
            }
        }
    };
}
memory!(Glibc, libc::malloc, libc::free);
memory!(
    Mimalloc,
    libmimalloc_sys::mi_malloc,
    libmimalloc_sys::mi_free
);

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
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl<M: Memory> Table<M> {
    /// `buckets` is a power of two.
    pub fn new(buckets: u64, mut memory: M) -> Self {
        assert!(buckets.is_power_of_two());
        let count = buckets as usize;
        let layout = Layout::array::<*mut Node>(count).expect("a number of buckets");
        let none = "no memory for a table";
        let buckets = memory.alloc(layout).expect(none).as_ptr().cast();
        let head = memory.alloc(Layout::new::<Head>()).expect(none);
        let head: *mut Head = head.as_ptr().cast();
        // SAFETY: both were just allocated with these layouts.
        unsafe {
            ptr::write_bytes::<*mut Node>(buckets, 0, count);
            head.write(Head {
                buckets,
                mask: count as u64 - 1,
                counters: [0; COUNTERS * 8],
            });
        }
        Self { head, memory }
    }

    /// Where it begins: by this it is found again.
    pub fn head(&self) -> *mut Head {
        self.head
    }

    /// The table that begins there.
    ///
    /// # Safety
    /// The head is of a table in that memory that nobody else has.
    pub unsafe fn at(head: *mut Head, memory: M) -> Self {
        Self { head, memory }
    }

    /// Its entries, in no order, but no more than so many: links that are damaged may go round in a
    /// circle.
    pub fn entries(&self, most: usize) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        // SAFETY: as in `find`.
        unsafe {
            let head = &*self.head;
            for bucket in 0..=head.mask as usize {
                let mut node = *head.buckets.add(bucket);
                while !node.is_null() && found.len() < most {
                    found.push(((*node).key, (*node).value));
                    node = (*node).next;
                }
            }
        }
        found
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
            let node = self.memory.alloc(NODE).expect("no memory for a node");
            let node = node.cast::<Node>();
            node.write(Node {
                next: ptr::null_mut(),
                key,
                value,
            });
            *link = node.as_ptr();
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
            self.memory.free(NonNull::new_unchecked(node.cast()), NODE);
            value
        };
        self.count(hash, -1);
        Some(value)
    }
}
