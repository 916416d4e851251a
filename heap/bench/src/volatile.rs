// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same hash table as plain code over plain memory: what nobody made persistent. Its nodes come
//! from the standard allocator, its links are addresses.

use std::ptr;

struct Node {
    next: *mut Node,
    key: u64,
    value: u64,
}

/// A table with a fixed number of buckets, which the benchmark's other tables do not outgrow either.
pub struct Table {
    buckets: Vec<*mut Node>,
    counters: [u64; 64],
}

#[inline(always)]
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

impl Table {
    pub fn new(buckets: u64) -> Self {
        Self {
            buckets: vec![ptr::null_mut(); buckets as usize],
            counters: [0; 64],
        }
    }

    #[inline(always)]
    fn find(&mut self, key: u64, hash: u64) -> *mut *mut Node {
        let index = hash as usize & (self.buckets.len() - 1);
        let mut link: *mut *mut Node = &raw mut self.buckets[index];
        // SAFETY: links lead to buckets or live nodes.
        unsafe {
            while !(*link).is_null() && (**link).key != key {
                link = &raw mut (**link).next;
            }
        }
        link
    }

    #[inline(always)]
    pub fn get(&mut self, key: u64) -> Option<u64> {
        let link = self.find(key, mix(key));
        // SAFETY: as above.
        unsafe { (*link).as_ref().map(|node| node.value) }
    }

    #[inline(always)]
    pub fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        let hash = mix(key);
        let link = self.find(key, hash);
        // SAFETY: as above.
        unsafe {
            if let Some(node) = (*link).as_mut() {
                return Some(std::mem::replace(&mut node.value, value));
            }
            *link = Box::into_raw(Box::new(Node {
                next: ptr::null_mut(),
                key,
                value,
            }));
        }
        let counter = &mut self.counters[(hash >> 61) as usize * 8];
        *counter = counter.wrapping_add(1);
        None
    }

    #[inline(always)]
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        let hash = mix(key);
        let link = self.find(key, hash);
        // SAFETY: a node was made by `Box::into_raw`, and only its link leads to it.
        let node = unsafe {
            if (*link).is_null() {
                return None;
            }
            let node = Box::from_raw(*link);
            *link = node.next;
            node
        };
        let counter = &mut self.counters[(hash >> 61) as usize * 8];
        *counter = counter.wrapping_sub(1);
        Some(node.value)
    }
}
