// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ordered map as an AVL tree: heights of the two sides differ by at most one.
//!
//! Least number of fences of insert and remove: 1 under a redo log; under an undo log 1 for each
//! node that changes (a rotation changes two or three at once), and 1.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::Key;
use crate::persist::{PPtr, Persist, type_id};
use crate::tx::{Tx, TxResult};

/// No tree of 2^48 bytes is higher (1.44 * 42).
const HEIGHT_MAX: usize = 64;

/// What rebalancing needs of a node, in front so that it is read and written as one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Links<K, V> {
    sides: [PPtr<Node<K, V>>; 2],
    height: u64,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Node<K, V> {
    links: Links<K, V>,
    key: K,
    value: V,
}

// SAFETY: pointers and a number in a row.
unsafe impl<K: Key, V: Persist> Persist for Links<K, V> {
    const TYPE_ID: u64 = type_id("avl links", &[]);
}

// SAFETY: fields in a row that are `Persist`; the constant refuses padding.
unsafe impl<K: Key, V: Persist> Persist for Node<K, V> {
    const TYPE_ID: u64 = {
        assert!(size_of::<Self>() == 24 + size_of::<K>() + size_of::<V>());
        type_id("avl node", &[K::TYPE_ID, V::TYPE_ID])
    };
}

/// Where a tree begins.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AvlHead<K, V> {
    top: PPtr<Node<K, V>>,
    count: u64,
    types: PhantomData<fn() -> (K, V)>,
}

// SAFETY: a pointer and a number.
unsafe impl<K: Key, V: Persist> Persist for AvlHead<K, V> {
    const TYPE_ID: u64 = type_id("avl tree", &[K::TYPE_ID, V::TYPE_ID]);
}

/// The map.
#[derive(Debug)]
pub struct AvlMap<K, V> {
    head: PPtr<AvlHead<K, V>>,
}

impl<K, V> Clone for AvlMap<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for AvlMap<K, V> {}

type At<K, V> = PPtr<Node<K, V>>;
/// The way from the top: links that were followed.
type Way<K, V> = Vec<PPtr<At<K, V>>>;

impl<K: Key, V: Persist> AvlMap<K, V> {
    /// A new map.
    ///
    /// # Errors
    /// As [`Tx::alloc`].
    pub fn create<T: Tx>(tx: &mut T) -> TxResult<PPtr<AvlHead<K, V>>> {
        tx.alloc(AvlHead {
            top: PPtr::NULL,
            count: 0,
            types: PhantomData,
        })
    }

    /// The map that begins there.
    #[must_use]
    pub fn at(head: PPtr<AvlHead<K, V>>) -> Self {
        Self { head }
    }

    fn side(node: At<K, V>, side: usize) -> PPtr<At<K, V>> {
        node.cast::<At<K, V>>().element(side as u64)
    }

    fn links(node: At<K, V>) -> PPtr<Links<K, V>> {
        field!(node, Node<K, V>, links)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn get<T: Tx>(self, tx: &mut T, key: &K) -> TxResult<Option<V>> {
        let mut at = tx.get(field!(self.head, AvlHead<K, V>, top))?;
        while !at.is_null() {
            let side = match key.cmp(&tx.get(field!(at, Node<K, V>, key))?) {
                Ordering::Less => 0,
                Ordering::Greater => 1,
                Ordering::Equal => return tx.get(field!(at, Node<K, V>, value)).map(Some),
            };
            at = tx.get(Self::side(at, side))?;
        }
        Ok(None)
    }

    /// The way to a key's node, or to the null link where it would be.
    fn way<T: Tx>(self, tx: &mut T, key: &K) -> TxResult<(Way<K, V>, At<K, V>)> {
        let mut way = Vec::with_capacity(HEIGHT_MAX);
        let mut link = field!(self.head, AvlHead<K, V>, top);
        loop {
            way.push(link);
            let at = tx.get(link)?;
            if at.is_null() {
                return Ok((way, at));
            }
            let side = match key.cmp(&tx.get(field!(at, Node<K, V>, key))?) {
                Ordering::Less => 0,
                Ordering::Greater => 1,
                Ordering::Equal => return Ok((way, at)),
            };
            link = Self::side(at, side);
        }
    }

    /// Set the value of a key; returns the one it had.
    ///
    /// # Errors
    /// As [`Tx::set`] and [`Tx::alloc`].
    pub fn insert<T: Tx>(self, tx: &mut T, key: K, value: V) -> TxResult<Option<V>> {
        let (mut way, found) = self.way(tx, &key)?;
        if !found.is_null() {
            let at = field!(found, Node<K, V>, value);
            let old = tx.get(at)?;
            tx.set(at, value)?;
            return Ok(Some(old));
        }
        let links = Links {
            sides: [PPtr::NULL; 2],
            height: 1,
        };
        let node = tx.alloc(Node { links, key, value })?;
        let link = way
            .pop()
            .unwrap_or_else(|| field!(self.head, AvlHead<K, V>, top));
        self.count(tx, &[link], 1)?;
        tx.set(link, node)?;
        self.rebalance(tx, &way)?;
        Ok(None)
    }

    /// Remove a key; returns its value.
    ///
    /// # Errors
    /// As [`Tx::set`] and [`Tx::free`].
    pub fn remove<T: Tx>(self, tx: &mut T, key: &K) -> TxResult<Option<V>> {
        let (mut way, found) = self.way(tx, key)?;
        if found.is_null() {
            return Ok(None);
        }
        let node = tx.get(found)?;
        let link = way
            .pop()
            .unwrap_or_else(|| field!(self.head, AvlHead<K, V>, top));
        if node.links.sides[0].is_null() || node.links.sides[1].is_null() {
            let rest = node.links.sides[usize::from(node.links.sides[0].is_null())];
            self.count(tx, &[link], -1)?;
            tx.set(link, rest)?;
        } else {
            // The next larger node takes its place.
            let first = way.len();
            way.push(link);
            let mut next_link = Self::side(found, 1);
            let mut next = node.links.sides[1];
            loop {
                way.push(next_link);
                let left = tx.get(Self::side(next, 0))?;
                if left.is_null() {
                    break;
                }
                next_link = Self::side(next, 0);
                next = left;
            }
            way.pop();
            let after = tx.get(Self::side(next, 1))?;
            self.count(tx, &[link, next_link], -1)?;
            tx.set(next_link, after)?;
            let links = tx.get(Self::links(found))?;
            tx.set(Self::links(next), links)?;
            tx.set(link, next)?;
            if way.len() > first + 1 {
                way[first + 1] = Self::side(next, 1);
            }
        }
        tx.free(found)?;
        self.rebalance(tx, &way)?;
        Ok(Some(node.value))
    }

    /// Change the number of entries, and say which links change with it.
    fn count<T: Tx>(self, tx: &mut T, links: &[PPtr<At<K, V>>], change: i64) -> TxResult<()> {
        let count = field!(self.head, AvlHead<K, V>, count);
        let now = tx.get(count)?.wrapping_add_signed(change);
        match links {
            [link] => tx.will_set(&[count.range(), link.range()])?,
            [link, other] => tx.will_set(&[count.range(), link.range(), other.range()])?,
            _ => {}
        }
        tx.set(count, now)
    }

    fn height<T: Tx>(tx: &mut T, at: At<K, V>) -> TxResult<u64> {
        if at.is_null() {
            Ok(0)
        } else {
            Ok(tx.get(Self::links(at))?.height)
        }
    }

    /// From the lowest node upwards, until a height stays as it was.
    fn rebalance<T: Tx>(self, tx: &mut T, way: &Way<K, V>) -> TxResult<()> {
        for link in way.iter().rev() {
            let at = tx.get(*link)?;
            if at.is_null() {
                continue;
            }
            let links = tx.get(Self::links(at))?;
            let heights = [
                Self::height(tx, links.sides[0])?,
                Self::height(tx, links.sides[1])?,
            ];
            let lower = if heights[0] > heights[1] + 1 {
                self.rotate(tx, *link, at, 1)?
            } else if heights[1] > heights[0] + 1 {
                self.rotate(tx, *link, at, 0)?
            } else {
                let height = heights[0].max(heights[1]) + 1;
                if height != links.height {
                    tx.set(Self::links(at), Links { height, ..links })?;
                }
                height
            };
            if lower == links.height {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The side other than `down` is too high: `at` goes down to `down`. Returns the new height.
    fn rotate<T: Tx>(
        self,
        tx: &mut T,
        link: PPtr<At<K, V>>,
        at: At<K, V>,
        down: usize,
    ) -> TxResult<u64> {
        let up = 1 - down;
        let mut top = tx.get(Self::links(at))?;
        let child_at = top.sides[up];
        let mut child = tx.get(Self::links(child_at))?;
        let inner = Self::height(tx, child.sides[down])?;
        if inner > Self::height(tx, child.sides[up])? {
            // Twice: the inner grandchild comes up over both.
            let middle_at = child.sides[down];
            let mut middle = tx.get(Self::links(middle_at))?;
            let (of_at, of_child) = (middle.sides[down], middle.sides[up]);
            child.sides[down] = of_child;
            top.sides[up] = of_at;
            child.height = Self::height_over(tx, &child)?;
            top.height = Self::height_over(tx, &top)?;
            middle.sides[down] = at;
            middle.sides[up] = child_at;
            middle.height = top.height.max(child.height) + 1;
            let changed = [
                Self::links(at),
                Self::links(child_at),
                Self::links(middle_at),
            ];
            tx.will_set(&[
                changed[0].range(),
                changed[1].range(),
                changed[2].range(),
                link.range(),
            ])?;
            tx.set(changed[0], top)?;
            tx.set(changed[1], child)?;
            tx.set(changed[2], middle)?;
            tx.set(link, middle_at)?;
            return Ok(middle.height);
        }
        top.sides[up] = child.sides[down];
        top.height = Self::height_over(tx, &top)?;
        child.sides[down] = at;
        child.height = top.height.max(Self::height(tx, child.sides[up])?) + 1;
        let changed = [Self::links(at), Self::links(child_at)];
        tx.will_set(&[changed[0].range(), changed[1].range(), link.range()])?;
        tx.set(changed[0], top)?;
        tx.set(changed[1], child)?;
        tx.set(link, child_at)?;
        Ok(child.height)
    }

    fn height_over<T: Tx>(tx: &mut T, links: &Links<K, V>) -> TxResult<u64> {
        Ok(Self::height(tx, links.sides[0])?.max(Self::height(tx, links.sides[1])?) + 1)
    }

    /// Number of entries.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn len<T: Tx>(self, tx: &mut T) -> TxResult<u64> {
        tx.get(field!(self.head, AvlHead<K, V>, count))
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
    pub fn range<T: Tx>(self, tx: &mut T, from: Option<&K>) -> TxResult<AvlIter<K, V>> {
        let mut stack = Vec::with_capacity(HEIGHT_MAX);
        let mut at = tx.get(field!(self.head, AvlHead<K, V>, top))?;
        let mut depth = 0;
        while !at.is_null() {
            depth += 1;
            bounded(depth)?;
            let below = match from {
                Some(from) => tx.get(field!(at, Node<K, V>, key))? < *from,
                None => false,
            };
            if !below {
                stack.push(at);
            }
            at = tx.get(Self::side(at, usize::from(below)))?;
        }
        Ok(AvlIter { stack })
    }
}

/// No tree is deeper: pointers that are damaged may go round in a circle.
fn bounded(depth: usize) -> TxResult<()> {
    if depth > HEIGHT_MAX {
        Err(crate::error::TxError::BadPointer)
    } else {
        Ok(())
    }
}

/// See [`AvlMap::range`].
#[derive(Debug)]
pub struct AvlIter<K, V> {
    stack: Vec<At<K, V>>,
}

impl<K: Key, V: Persist> AvlIter<K, V> {
    /// The next entry.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn next<T: Tx>(&mut self, tx: &mut T) -> TxResult<Option<(K, V)>> {
        let Some(at) = self.stack.pop() else {
            return Ok(None);
        };
        let node = tx.get(at)?;
        let mut left = node.links.sides[1];
        while !left.is_null() {
            self.stack.push(left);
            bounded(self.stack.len())?;
            left = tx.get(AvlMap::side(left, 0))?;
        }
        Ok(Some((node.key, node.value)))
    }
}
