// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels in place of the in-memory databases.

use super::Thread;

const MIB: u64 = 1 << 20;

/// Keys are not equally popular: the smaller of three throws.
fn key(thread: &mut Thread<'_>, keys: u64) -> u64 {
    let (a, b, c) = (thread.below(keys), thread.below(keys), thread.below(keys));
    a.min(b).min(c).wrapping_mul(0x9e37_79b1) % keys
}

fn protocol(thread: &mut Thread<'_>) {
    let stack = (160 + u64::from(thread.cpu)) * MIB;
    for word in 0..24 {
        thread.load(stack + word * 8);
        thread.store(stack + 1024 + word * 8);
        thread.work(10);
    }
}

fn hash(thread: &mut Thread<'_>, sets_of_100: u64) {
    let (buckets, nodes, values) = (0, 16 * MIB, 48 * MIB);
    let keys = 1 << 17;
    for _ in 0..thread.accesses / 64 {
        protocol(thread);
        let key = key(thread, keys);
        thread.load(buckets + key * 8);
        for link in 0..1 + thread.below(2) {
            thread.load(nodes + (key + link * 4099) % keys * 64);
            thread.load(nodes + (key + link * 4099) % keys * 64 + 16);
        }
        let set = thread.below(100) < sets_of_100;
        for word in 0..8 {
            thread.load(values + key * 256 + word * 8);
            if set {
                thread.store(values + key * 256 + word * 24);
            }
        }
        if set {
            thread.store(nodes + key * 64 + 24);
        }
    }
}

pub(super) fn hash_gets(thread: &mut Thread<'_>) {
    hash(thread, 10);
}

pub(super) fn hash_sets(thread: &mut Thread<'_>) {
    hash(thread, 40);
}

/// As Redis, but each hit is moved to the head of a list.
pub(super) fn slabs(thread: &mut Thread<'_>) {
    let (buckets, items) = (0, 16 * MIB);
    let keys = 1 << 17;
    for _ in 0..thread.accesses / 64 {
        protocol(thread);
        let key = key(thread, keys);
        let (before, after) = (thread.below(keys), thread.below(keys));
        thread.load(buckets + key * 8);
        for word in 0..12 {
            thread.load(items + key * 256 + word * 16);
        }
        if thread.below(16) == 0 {
            thread.store(items + key * 256);
            thread.store(items + before * 256);
            thread.store(items + after * 256 + 8);
        }
        if thread.below(100) < 10 {
            for word in 0..8 {
                thread.store(items + key * 256 + 64 + word * 16);
            }
        }
    }
}

/// Three levels of pages of 4 KiB, binary search in each; cells move on insert.
pub(super) fn btree(thread: &mut Thread<'_>) {
    let leaves = 1 << 14;
    for _ in 0..thread.accesses / 80 {
        protocol(thread);
        let leaf = key(thread, leaves);
        for page in [0, 1 + leaf / 128, 256 + leaf] {
            let mut step = 2048;
            let mut at = 0;
            while step >= 64 {
                thread.load(page * 4096 + at + step - 8);
                thread.work(6);
                at += step * thread.below(2);
                step /= 2;
            }
        }
        if thread.below(100) < 10 {
            for word in 0..16 {
                let at = (256 + leaf) * 4096 + 512 + word * 64;
                thread.load(at);
                thread.store(at + 8);
            }
        }
    }
}
