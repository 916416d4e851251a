// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ordered map as a B+-tree: entries in leaves of two to four lines that are linked in order.
//!
//! A node is read as a whole, changed in a copy, and of the copy only the words that differ are
//! written: a log holds little more than what changed. A node is freed when it is empty, not
//! earlier: merging half-full nodes would cost writes and gains little.
//!
//! Least number of fences of insert and remove: 1 under a redo log; 2 under an undo log, and 1 more
//! for each node that is split or removed.

use std::marker::PhantomData;

use super::Key;
use crate::persist::{PPtr, Persist, type_id};
use crate::tx::{Range, Tx, TxResult};

/// Entries of a leaf, separators of an inner node.
const FULL: usize = 14;
/// Of a node that is split this many stay.
const HALF: usize = FULL / 2;
/// More levels than any tree in 2^47 bytes has.
const LEVELS_MAX: u64 = 16;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Leaf<K, V> {
    count: u64,
    next: PPtr<Leaf<K, V>>,
    keys: [K; FULL],
    values: [V; FULL],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Inner<K> {
    count: u64,
    keys: [K; FULL],
    /// Offsets of inner nodes or leaves; the one behind key `i` holds keys from it on.
    children: [u64; FULL + 1],
}

// SAFETY: fields in a row that are `Persist`; the constant refuses padding.
unsafe impl<K: Key, V: Persist> Persist for Leaf<K, V> {
    const TYPE_ID: u64 = {
        assert!(size_of::<Self>() == 16 + FULL * (size_of::<K>() + size_of::<V>()));
        type_id("b+ leaf", &[K::TYPE_ID, V::TYPE_ID])
    };
}

// SAFETY: as above.
unsafe impl<K: Key> Persist for Inner<K> {
    const TYPE_ID: u64 = {
        assert!(size_of::<Self>() == 8 + FULL * size_of::<K>() + (FULL + 1) * 8);
        type_id("b+ inner", &[K::TYPE_ID])
    };
}

/// Where a tree begins.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BTreeHead<K, V> {
    /// Offset of the top node; a leaf if there are no levels.
    top: u64,
    /// Levels of inner nodes.
    levels: u64,
    count: u64,
    types: PhantomData<fn() -> (K, V)>,
}

// SAFETY: numbers.
unsafe impl<K: Key, V: Persist> Persist for BTreeHead<K, V> {
    const TYPE_ID: u64 = type_id("b+ tree", &[K::TYPE_ID, V::TYPE_ID]);
}

/// The map.
#[derive(Debug)]
pub struct BPlusTree<K, V> {
    head: PPtr<BTreeHead<K, V>>,
}

impl<K, V> Clone for BPlusTree<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for BPlusTree<K, V> {}

/// The way from the top: nodes, and which child was taken.
type Way<K> = Vec<(PPtr<Inner<K>>, usize)>;

impl<K: Key, V: Persist> Leaf<K, V> {
    /// Entries, however damaged the number is.
    fn len(&self) -> usize {
        usize::try_from(self.count).map_or(FULL, |count| count.min(FULL))
    }

    fn search(&self, key: &K) -> Result<usize, usize> {
        self.keys[..self.len()].binary_search(key)
    }

    fn insert(&mut self, place: usize, key: K, value: V) {
        let count = self.len();
        self.keys.copy_within(place..count, place + 1);
        self.values.copy_within(place..count, place + 1);
        (self.keys[place], self.values[place]) = (key, value);
        self.count = count as u64 + 1;
    }
}

impl<K: Key> Inner<K> {
    fn len(&self) -> usize {
        usize::try_from(self.count).map_or(FULL, |count| count.min(FULL))
    }

    fn child_of(&self, key: &K) -> usize {
        self.keys[..self.len()].partition_point(|separator| separator <= key)
    }

    /// A key, and the child behind it.
    fn insert(&mut self, place: usize, key: K, child: u64) {
        let count = self.len();
        self.keys.copy_within(place..count, place + 1);
        self.children.copy_within(place + 1..=count, place + 2);
        (self.keys[place], self.children[place + 1]) = (key, child);
        self.count = count as u64 + 1;
    }

    fn remove_child(&mut self, child: usize) {
        let count = self.len();
        let key = child.saturating_sub(1);
        self.keys.copy_within(key + 1..count, key);
        self.children.copy_within(child + 1..=count, child);
        self.count = count as u64 - 1;
    }
}

/// Write the words in which a value changed.
fn write_changed<T: Tx, S: Persist>(tx: &mut T, at: PPtr<S>, old: &S, new: &S) -> TxResult<()> {
    tx.check(at.offset(), size_of::<S>() as u64)?;
    let words = |value: &S| -> Vec<u64> {
        let start = (value as *const S).cast::<u64>();
        (0..size_of::<S>() / 8)
            // SAFETY: a `Persist` value has no padding, and has this length.
            .map(|word| unsafe { start.add(word).read_unaligned() })
            .collect()
    };
    let (old, new) = (words(old), words(new));
    let mut ranges: Vec<Range> = Vec::new();
    for word in (0..new.len()).filter(|word| old[*word] != new[*word]) {
        let offset = at.offset() + word as u64 * 8;
        match ranges.last_mut() {
            Some(range) if range.offset + range.words * 8 == offset => range.words += 1,
            _ => ranges.push(Range { offset, words: 1 }),
        }
    }
    tx.will_set(&ranges)?;
    for word in (0..new.len()).filter(|word| old[*word] != new[*word]) {
        // SAFETY: `check` found the value in the chunks.
        unsafe { tx.store(at.offset() + word as u64 * 8, new[word])? };
    }
    Ok(())
}

impl<K: Key, V: Persist> BPlusTree<K, V> {
    /// A new map. `key` and `value` fill places that hold no entry.
    ///
    /// # Errors
    /// As [`Tx::alloc`].
    pub fn create<T: Tx>(tx: &mut T, key: K, value: V) -> TxResult<PPtr<BTreeHead<K, V>>> {
        let leaf = Leaf {
            count: 0,
            next: PPtr::NULL,
            keys: [key; FULL],
            values: [value; FULL],
        };
        let top = tx.alloc(leaf)?.offset();
        tx.alloc(BTreeHead {
            top,
            levels: 0,
            count: 0,
            types: PhantomData,
        })
    }

    /// The map that begins there.
    #[must_use]
    pub fn at(head: PPtr<BTreeHead<K, V>>) -> Self {
        Self { head }
    }

    fn down<T: Tx>(self, tx: &mut T, key: &K, way: &mut Way<K>) -> TxResult<PPtr<Leaf<K, V>>> {
        let head = tx.get(self.head)?;
        let mut at = head.top;
        for _ in 0..head.levels.min(LEVELS_MAX) {
            let inner_at = PPtr::from_offset(at);
            let inner: Inner<K> = tx.get(inner_at)?;
            let child = inner.child_of(key);
            way.push((inner_at, child));
            at = inner.children[child];
        }
        Ok(PPtr::from_offset(at))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn get<T: Tx>(self, tx: &mut T, key: &K) -> TxResult<Option<V>> {
        let at = self.down(tx, key, &mut Vec::new())?;
        let leaf = tx.get(at)?;
        Ok(leaf.search(key).ok().map(|place| leaf.values[place]))
    }

    /// Set the value of a key; returns the one it had.
    ///
    /// # Errors
    /// As [`Tx::set`] and [`Tx::alloc`].
    pub fn insert<T: Tx>(self, tx: &mut T, key: K, value: V) -> TxResult<Option<V>> {
        let mut way = Vec::new();
        let at = self.down(tx, &key, &mut way)?;
        let old = tx.get(at)?;
        let mut leaf = old;
        let place = match leaf.search(&key) {
            Ok(place) => {
                let found = leaf.values[place];
                leaf.values[place] = value;
                write_changed(tx, at, &old, &leaf)?;
                return Ok(Some(found));
            }
            Err(place) => place,
        };
        self.count(tx, 1)?;
        if leaf.len() < FULL {
            leaf.insert(place, key, value);
            write_changed(tx, at, &old, &leaf)?;
            return Ok(None);
        }
        let mut right = leaf;
        right.keys.copy_within(HALF.., 0);
        right.values.copy_within(HALF.., 0);
        right.count = (FULL - HALF) as u64;
        leaf.count = HALF as u64;
        if place <= HALF {
            leaf.insert(place, key, value);
        } else {
            right.insert(place - HALF, key, value);
        }
        let right_at = tx.alloc(right)?;
        leaf.next = right_at;
        write_changed(tx, at, &old, &leaf)?;
        self.add_child(tx, way, right.keys[0], right_at.offset())?;
        Ok(None)
    }

    /// A node got a right neighbour: adds it to the parent, which may be split in turn.
    fn add_child<T: Tx>(self, tx: &mut T, mut way: Way<K>, key: K, child: u64) -> TxResult<()> {
        let (mut key, mut child) = (key, child);
        while let Some((at, place)) = way.pop() {
            let old = tx.get(at)?;
            let mut inner = old;
            if inner.len() < FULL {
                inner.insert(place, key, child);
                return write_changed(tx, at, &old, &inner);
            }
            // The middle key goes up; what is behind it goes right.
            let mut right = inner;
            let up = inner.keys[HALF];
            right.keys.copy_within(HALF + 1.., 0);
            right.children.copy_within(HALF + 1.., 0);
            right.count = (FULL - HALF - 1) as u64;
            inner.count = HALF as u64;
            if place <= HALF {
                inner.insert(place, key, child);
            } else {
                right.insert(place - HALF - 1, key, child);
            }
            write_changed(tx, at, &old, &inner)?;
            child = tx.alloc(right)?.offset();
            key = up;
        }
        let old = tx.get(self.head)?;
        let mut children = [0; FULL + 1];
        (children[0], children[1]) = (old.top, child);
        let top = tx
            .alloc(Inner {
                count: 1,
                keys: [key; FULL],
                children,
            })?
            .offset();
        write_changed(
            tx,
            self.head,
            &old,
            &BTreeHead {
                top,
                levels: old.levels + 1,
                ..old
            },
        )
    }

    /// Remove a key; returns its value.
    ///
    /// # Errors
    /// As [`Tx::set`] and [`Tx::free`].
    pub fn remove<T: Tx>(self, tx: &mut T, key: &K) -> TxResult<Option<V>> {
        let mut way = Vec::new();
        let at = self.down(tx, key, &mut way)?;
        let old = tx.get(at)?;
        let mut leaf = old;
        let Ok(place) = leaf.search(key) else {
            return Ok(None);
        };
        let found = leaf.values[place];
        let count = leaf.len();
        leaf.keys.copy_within(place + 1..count, place);
        leaf.values.copy_within(place + 1..count, place);
        leaf.count = count as u64 - 1;
        self.count(tx, -1)?;
        if leaf.count > 0 || way.is_empty() {
            write_changed(tx, at, &old, &leaf)?;
        } else {
            self.unlink_leaf(tx, &way, at, old.next)?;
            tx.free(at)?;
            self.remove_child(tx, way)?;
        }
        Ok(Some(found))
    }

    /// The leaf before an empty one leads past it.
    fn unlink_leaf<T: Tx>(
        self,
        tx: &mut T,
        way: &Way<K>,
        at: PPtr<Leaf<K, V>>,
        next: PPtr<Leaf<K, V>>,
    ) -> TxResult<()> {
        // Up to the first node that has a child before, then down along the last children.
        let Some(level) = way.iter().rposition(|(_, child)| *child > 0) else {
            return Ok(());
        };
        let (turn, child) = way[level];
        let mut before = tx.get(turn)?.children[child - 1];
        for _ in level + 1..way.len() {
            let inner: Inner<K> = tx.get(PPtr::from_offset(before))?;
            before = inner.children[inner.len()];
        }
        let leaf: PPtr<Leaf<K, V>> = PPtr::from_offset(before);
        let link = field!(leaf, Leaf<K, V>, next);
        assert!(
            tx.get(link)? == at,
            "the leaves' list does not fit the tree"
        );
        tx.set(link, next)
    }

    /// A child is gone: its parent forgets it, and goes as well if it was the last.
    fn remove_child<T: Tx>(self, tx: &mut T, mut way: Way<K>) -> TxResult<()> {
        while let Some((at, child)) = way.pop() {
            let old = tx.get(at)?;
            if old.count > 0 {
                let mut inner = old;
                inner.remove_child(child);
                write_changed(tx, at, &old, &inner)?;
                return if way.is_empty() {
                    self.lower(tx)
                } else {
                    Ok(())
                };
            }
            tx.free(at)?;
        }
        // A top node has two children at least, by `lower`: this is a damaged tree.
        Err(crate::TxError::BadPointer)
    }

    /// While the top has one child only, that child is the top.
    fn lower<T: Tx>(self, tx: &mut T) -> TxResult<()> {
        loop {
            let old = tx.get(self.head)?;
            if old.levels == 0 {
                return Ok(());
            }
            let top_at: PPtr<Inner<K>> = PPtr::from_offset(old.top);
            let top = tx.get(top_at)?;
            if top.count > 0 {
                return Ok(());
            }
            let head = BTreeHead {
                top: top.children[0],
                levels: old.levels - 1,
                ..old
            };
            write_changed(tx, self.head, &old, &head)?;
            tx.free(top_at)?;
        }
    }

    fn count<T: Tx>(self, tx: &mut T, change: i64) -> TxResult<()> {
        let at = field!(self.head, BTreeHead<K, V>, count);
        let now = tx.get(at)?.wrapping_add_signed(change);
        tx.set(at, now)
    }

    /// Number of entries.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn len<T: Tx>(self, tx: &mut T) -> TxResult<u64> {
        tx.get(field!(self.head, BTreeHead<K, V>, count))
    }

    /// Whether there is no entry.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn is_empty<T: Tx>(self, tx: &mut T) -> TxResult<bool> {
        Ok(self.len(tx)? == 0)
    }

    /// A cursor in the order of the keys, from `from` on. It is valid while the map is not changed.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn range<T: Tx>(self, tx: &mut T, from: Option<&K>) -> TxResult<BTreeIter<K, V>> {
        if let Some(key) = from {
            let at = self.down(tx, key, &mut Vec::new())?;
            let leaf = tx.get(at)?;
            let place = leaf.search(key).unwrap_or_else(|place| place);
            return Ok(BTreeIter { leaf: at, place });
        }
        let head = tx.get(self.head)?;
        let mut at = head.top;
        for _ in 0..head.levels.min(LEVELS_MAX) {
            let inner: Inner<K> = tx.get(PPtr::from_offset(at))?;
            at = inner.children[0];
        }
        Ok(BTreeIter {
            leaf: PPtr::from_offset(at),
            place: 0,
        })
    }
}

/// See [`BPlusTree::range`].
#[derive(Debug)]
pub struct BTreeIter<K, V> {
    leaf: PPtr<Leaf<K, V>>,
    place: usize,
}

impl<K: Key, V: Persist> BTreeIter<K, V> {
    /// The next entry.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn next<T: Tx>(&mut self, tx: &mut T) -> TxResult<Option<(K, V)>> {
        while !self.leaf.is_null() {
            let leaf = tx.get(self.leaf)?;
            if self.place < leaf.len() {
                let found = (leaf.keys[self.place], leaf.values[self.place]);
                self.place += 1;
                return Ok(Some(found));
            }
            (self.leaf, self.place) = (leaf.next, 0);
        }
        Ok(None)
    }
}
