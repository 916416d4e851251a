// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hash table with chains that grows one bucket at a time (linear hashing): no insertion costs more
//! than one chain's split, so each fits a transaction. Numbers of entries are kept in several
//! words, so that threads seldom write the same line.
//!
//! Least number of fences of insert, replace and remove: 1 under a redo log, 2 under an undo log.

use std::marker::PhantomData;

use super::Key;
use crate::persist::{PPtr, Persist, type_id};
use crate::tx::{Tx, TxResult};

/// Segments of buckets: the first holds the initial number, each further one as many as all before.
const SEGMENTS: usize = 40;
/// Words that share the number of entries, a line apart.
const COUNTERS: u64 = 8;
/// Entries per bucket above which a bucket is split, looked at in the chain at hand.
const CHAIN_MAX: u64 = 4;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Node<K, V> {
    next: PPtr<Node<K, V>>,
    key: K,
    value: V,
}

// SAFETY: fields in a row that are `Persist`; the constant refuses padding.
unsafe impl<K: Key, V: Persist> Persist for Node<K, V> {
    const TYPE_ID: u64 = {
        assert!(size_of::<Self>() == 8 + size_of::<K>() + size_of::<V>());
        type_id("hash node", &[K::TYPE_ID, V::TYPE_ID])
    };
}

/// Where a table begins.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HashHead<K, V> {
    /// Buckets at the beginning, a power of two.
    initial: u64,
    /// Buckets now.
    buckets: u64,
    /// As many bits as count the buckets.
    mask: u64,
    counters: PPtr<u64>,
    segments: [PPtr<u64>; SEGMENTS],
    types: PhantomData<fn() -> (K, V)>,
}

// SAFETY: numbers and pointers in a row.
unsafe impl<K: Key, V: Persist> Persist for HashHead<K, V> {
    const TYPE_ID: u64 = type_id("hash table", &[K::TYPE_ID, V::TYPE_ID]);
}

/// The table.
#[derive(Debug)]
pub struct HashMap<K, V> {
    head: PPtr<HashHead<K, V>>,
}

impl<K, V> Clone for HashMap<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for HashMap<K, V> {}

/// What [`HashMap::find`] finds: a link, what it leads to, and how many nodes come before.
type Found<K, V> = (Link<K, V>, PPtr<Node<K, V>>, u64);
type Link<K, V> = PPtr<PPtr<Node<K, V>>>;

impl<K: Key, V: Persist> HashMap<K, V> {
    /// A new table with at least so many buckets.
    ///
    /// # Errors
    /// As [`Tx::alloc`].
    pub fn create<T: Tx>(tx: &mut T, buckets: u64) -> TxResult<PPtr<HashHead<K, V>>> {
        let initial = buckets.clamp(1, 1 << 40).next_power_of_two();
        let mut segments = [PPtr::NULL; SEGMENTS];
        segments[0] = tx.alloc_zeroed(initial)?;
        let counters = tx.alloc_zeroed(COUNTERS * 8)?;
        let types = PhantomData;
        tx.alloc(HashHead {
            initial,
            buckets: initial,
            mask: initial - 1,
            counters,
            segments,
            types,
        })
    }

    /// The table that begins there.
    #[must_use]
    pub fn at(head: PPtr<HashHead<K, V>>) -> Self {
        Self { head }
    }

    /// Where bucket `index` is.
    #[inline(always)]
    fn bucket<T: Tx>(self, tx: &mut T, index: u64, initial: u64) -> TxResult<Link<K, V>> {
        let (segment, within) = place(index, initial);
        let segments = field!(self.head, HashHead<K, V>, segments).cast::<PPtr<u64>>();
        let start = tx.get(segments.element(segment))?;
        Ok(start.element(within).cast())
    }

    /// The bucket of a hash.
    #[inline(always)]
    fn link<T: Tx>(self, tx: &mut T, hash: u64) -> TxResult<Link<K, V>> {
        let initial = tx.get(field!(self.head, HashHead<K, V>, initial))?;
        let buckets = tx.get(field!(self.head, HashHead<K, V>, buckets))?;
        let mask = tx.get(field!(self.head, HashHead<K, V>, mask))?;
        let index = index_of(hash, buckets, mask);
        self.bucket(tx, index, initial)
    }

    #[inline(always)]
    fn counter<T: Tx>(self, tx: &mut T, hash: u64) -> TxResult<PPtr<u64>> {
        let counters = tx.get(field!(self.head, HashHead<K, V>, counters))?;
        // The highest bits: the lowest choose the bucket.
        Ok(counters.element((hash >> 61) * 8))
    }

    /// The link to the key's node, or the null link at the end; and the length of the chain to it.
    #[inline(always)]
    fn find<T: Tx>(self, tx: &mut T, key: &K, hash: u64) -> TxResult<Found<K, V>> {
        let mut link = self.link(tx, hash)?;
        let mut length = 0;
        loop {
            let node = tx.get(link)?;
            if node.is_null() || tx.get(field!(node, Node<K, V>, key))? == *key {
                return Ok((link, node, length));
            }
            link = field!(node, Node<K, V>, next);
            length += 1;
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Tx::get`].
    #[inline(always)]
    pub fn get<T: Tx>(self, tx: &mut T, key: &K) -> TxResult<Option<V>> {
        let (_, node, _) = self.find(tx, key, key.mix())?;
        if node.is_null() {
            return Ok(None);
        }
        tx.get(field!(node, Node<K, V>, value)).map(Some)
    }

    /// Set the value of a key; returns the one it had.
    ///
    /// # Errors
    /// As [`Tx::set`] and [`Tx::alloc`].
    #[inline(always)]
    pub fn insert<T: Tx>(self, tx: &mut T, key: K, value: V) -> TxResult<Option<V>> {
        let hash = key.mix();
        let (link, node, length) = self.find(tx, &key, hash)?;
        if !node.is_null() {
            let at = field!(node, Node<K, V>, value);
            let old = tx.get(at)?;
            tx.set(at, value)?;
            return Ok(Some(old));
        }
        let counter = self.counter(tx, hash)?;
        let count = tx.get(counter)?;
        tx.will_set(&[link.range(), counter.range()])?;
        let node = tx.alloc(Node {
            next: PPtr::NULL,
            key,
            value,
        })?;
        tx.set(link, node)?;
        tx.set(counter, count.wrapping_add(1))?;
        if length >= CHAIN_MAX {
            self.split(tx)?;
        }
        Ok(None)
    }

    /// Remove a key; returns its value.
    ///
    /// # Errors
    /// As [`Tx::set`] and [`Tx::free`].
    #[inline(always)]
    pub fn remove<T: Tx>(self, tx: &mut T, key: &K) -> TxResult<Option<V>> {
        let hash = key.mix();
        let (link, node, _) = self.find(tx, key, hash)?;
        if node.is_null() {
            return Ok(None);
        }
        let found = tx.get(node)?;
        let counter = self.counter(tx, hash)?;
        let count = tx.get(counter)?;
        tx.will_set(&[link.range(), counter.range()])?;
        tx.set(link, found.next)?;
        tx.set(counter, count.wrapping_sub(1))?;
        tx.free(node)?;
        Ok(Some(found.value))
    }

    /// Number of entries.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn len<T: Tx>(self, tx: &mut T) -> TxResult<u64> {
        let counters = tx.get(field!(self.head, HashHead<K, V>, counters))?;
        let mut sum: u64 = 0;
        for counter in 0..COUNTERS {
            sum = sum.wrapping_add(tx.get(counters.element(counter * 8))?);
        }
        Ok(sum)
    }

    /// Whether there is no entry.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn is_empty<T: Tx>(self, tx: &mut T) -> TxResult<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// One more bucket: some of the entries of the one that is its counterpart move there.
    #[cold]
    #[inline(never)]
    fn split<T: Tx>(self, tx: &mut T) -> TxResult<()> {
        let initial = tx.get(field!(self.head, HashHead<K, V>, initial))?;
        let buckets_at = field!(self.head, HashHead<K, V>, buckets);
        let new = tx.get(buckets_at)?;
        let (segment, within) = place(new, initial);
        if segment as usize >= SEGMENTS {
            return Ok(());
        }
        if within == 0 {
            let segments = field!(self.head, HashHead<K, V>, segments).cast::<PPtr<u64>>();
            let made = tx.alloc_zeroed(new)?;
            tx.set(segments.element(segment), made)?;
        }
        let half = 1 << new.ilog2();
        let mask = half * 2 - 1;
        let mut stays = self.bucket(tx, new - half, initial)?;
        let mut moves = self.bucket(tx, new, initial)?;
        let mut node = tx.get(stays)?;
        while !node.is_null() {
            let next_at = field!(node, Node<K, V>, next);
            let next = tx.get(next_at)?;
            let key = tx.get(field!(node, Node<K, V>, key))?;
            let end = if index_of(key.mix(), new + 1, mask) == new {
                &mut moves
            } else {
                &mut stays
            };
            // Only links that change are written.
            if tx.get(*end)? != node {
                tx.set(*end, node)?;
            }
            *end = next_at;
            node = next;
        }
        for end in [stays, moves] {
            if !tx.get(end)?.is_null() {
                tx.set(end, PPtr::NULL)?;
            }
        }
        let mask_at = field!(self.head, HashHead<K, V>, mask);
        tx.will_set(&[buckets_at.range(), mask_at.range()])?;
        tx.set(mask_at, mask)?;
        tx.set(buckets_at, new + 1)
    }

    /// Call `each` for every entry, in no order.
    ///
    /// # Errors
    /// What `each` returns, and as [`Tx::get`].
    pub fn for_each<T: Tx>(
        self,
        tx: &mut T,
        mut each: impl FnMut(&mut T, K, V) -> TxResult<()>,
    ) -> TxResult<()> {
        let mut iter = self.iter();
        while let Some((key, value)) = iter.next(tx)? {
            each(tx, key, value)?;
        }
        Ok(())
    }

    /// A cursor over all entries, in no order. It is valid while the table is not changed.
    #[must_use]
    pub fn iter(self) -> HashIter<K, V> {
        HashIter {
            map: self,
            bucket: 0,
            node: PPtr::NULL,
        }
    }
}

/// See [`HashMap::iter`]. Not the standard library's trait: each step needs the transaction.
#[derive(Debug)]
pub struct HashIter<K, V> {
    map: HashMap<K, V>,
    bucket: u64,
    node: PPtr<Node<K, V>>,
}

impl<K: Key, V: Persist> HashIter<K, V> {
    /// The next entry.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn next<T: Tx>(&mut self, tx: &mut T) -> TxResult<Option<(K, V)>> {
        let head = self.map.head;
        let initial = tx.get(field!(head, HashHead<K, V>, initial))?;
        let buckets = tx.get(field!(head, HashHead<K, V>, buckets))?;
        while self.node.is_null() {
            if self.bucket == buckets {
                return Ok(None);
            }
            let link = self.map.bucket(tx, self.bucket, initial)?;
            self.node = tx.get(link)?;
            self.bucket += 1;
        }
        let node = tx.get(self.node)?;
        self.node = node.next;
        Ok(Some((node.key, node.value)))
    }
}

/// Segment and place in it of a bucket.
#[inline(always)]
fn place(index: u64, initial: u64) -> (u64, u64) {
    if index < initial {
        return (0, index);
    }
    let top = u64::from(index.ilog2());
    let first = u64::from(initial.max(1).ilog2());
    // A damaged head gives some segment or other, never an address outside of the table.
    (
        top.saturating_sub(first).min(SEGMENTS as u64 - 2) + 1,
        index - (1 << top),
    )
}

/// Linear hashing: as many bits as count the buckets; those not yet split have one bit less.
#[inline(always)]
fn index_of(hash: u64, buckets: u64, mask: u64) -> u64 {
    let index = hash & mask;
    if index < buckets {
        index
    } else {
        hash & (mask >> 1)
    }
}
