// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue: first in, first out.
//!
//! Least number of fences of push and pop: 1 under a redo log, 2 under an undo log.

use std::marker::PhantomData;

use crate::persist::{PPtr, Persist, type_id};
use crate::tx::{Tx, TxResult};

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Node<V> {
    next: PPtr<Node<V>>,
    value: V,
}

// SAFETY: fields in a row that are `Persist`; the constant refuses padding.
unsafe impl<V: Persist> Persist for Node<V> {
    const TYPE_ID: u64 = {
        assert!(size_of::<Self>() == 8 + size_of::<V>());
        type_id("queue node", &[V::TYPE_ID])
    };
}

/// Where a queue begins and ends. Popping and pushing threads write different lines.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QueueHead<V> {
    first: PPtr<Node<V>>,
    popped: u64,
    apart: [u64; 6],
    /// The link that the next node goes into.
    end: PPtr<PPtr<Node<V>>>,
    pushed: u64,
    value: PhantomData<fn() -> V>,
}

// SAFETY: numbers and pointers in a row.
unsafe impl<V: Persist> Persist for QueueHead<V> {
    const TYPE_ID: u64 = type_id("queue", &[V::TYPE_ID]);
}

/// The queue.
#[derive(Debug)]
pub struct Queue<V> {
    head: PPtr<QueueHead<V>>,
}

impl<V> Clone for Queue<V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for Queue<V> {}

impl<V: Persist> Queue<V> {
    /// A new queue.
    ///
    /// # Errors
    /// As [`Tx::alloc`].
    pub fn create<T: Tx>(tx: &mut T) -> TxResult<PPtr<QueueHead<V>>> {
        let head = tx.alloc(QueueHead {
            first: PPtr::NULL,
            popped: 0,
            apart: [0; 6],
            end: PPtr::NULL,
            pushed: 0,
            value: PhantomData,
        })?;
        let first = field!(head, QueueHead<V>, first);
        tx.set(field!(head, QueueHead<V>, end), first)?;
        Ok(head)
    }

    /// The queue that begins there.
    #[must_use]
    pub fn at(head: PPtr<QueueHead<V>>) -> Self {
        Self { head }
    }

    /// Put a value at the end.
    ///
    /// # Errors
    /// As [`Tx::alloc`].
    pub fn push<T: Tx>(self, tx: &mut T, value: V) -> TxResult<()> {
        let (end_at, pushed_at) = (
            field!(self.head, QueueHead<V>, end),
            field!(self.head, QueueHead<V>, pushed),
        );
        let (end, pushed) = (tx.get(end_at)?, tx.get(pushed_at)?);
        tx.will_set(&[end.range(), end_at.range(), pushed_at.range()])?;
        let node = tx.alloc(Node {
            next: PPtr::NULL,
            value,
        })?;
        tx.set(end, node)?;
        tx.set(end_at, field!(node, Node<V>, next))?;
        tx.set(pushed_at, pushed.wrapping_add(1))
    }

    /// Take the value at the beginning.
    ///
    /// # Errors
    /// As [`Tx::free`].
    pub fn pop<T: Tx>(self, tx: &mut T) -> TxResult<Option<V>> {
        let (first_at, popped_at) = (
            field!(self.head, QueueHead<V>, first),
            field!(self.head, QueueHead<V>, popped),
        );
        let first = tx.get(first_at)?;
        if first.is_null() {
            return Ok(None);
        }
        let (node, popped) = (tx.get(first)?, tx.get(popped_at)?);
        let end_at = field!(self.head, QueueHead<V>, end);
        if node.next.is_null() {
            tx.will_set(&[first_at.range(), popped_at.range(), end_at.range()])?;
            tx.set(end_at, first_at)?;
        } else {
            tx.will_set(&[first_at.range(), popped_at.range()])?;
        }
        tx.set(first_at, node.next)?;
        tx.set(popped_at, popped.wrapping_add(1))?;
        tx.free(first)?;
        Ok(Some(node.value))
    }

    /// Number of values.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn len<T: Tx>(self, tx: &mut T) -> TxResult<u64> {
        let pushed = tx.get(field!(self.head, QueueHead<V>, pushed))?;
        Ok(pushed.wrapping_sub(tx.get(field!(self.head, QueueHead<V>, popped))?))
    }

    /// Whether there is no value.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn is_empty<T: Tx>(self, tx: &mut T) -> TxResult<bool> {
        Ok(tx.get(field!(self.head, QueueHead<V>, first))?.is_null())
    }

    /// A cursor from the beginning on. It is valid while the queue is not changed.
    #[must_use]
    pub fn iter(self) -> QueueIter<V> {
        QueueIter {
            next: field!(self.head, QueueHead<V>, first),
        }
    }
}

/// See [`Queue::iter`].
#[derive(Debug)]
pub struct QueueIter<V> {
    next: PPtr<PPtr<Node<V>>>,
}

impl<V: Persist> QueueIter<V> {
    /// The next value.
    ///
    /// # Errors
    /// As [`Tx::get`].
    pub fn next<T: Tx>(&mut self, tx: &mut T) -> TxResult<Option<V>> {
        let at = tx.get(self.next)?;
        if at.is_null() {
            return Ok(None);
        }
        self.next = field!(at, Node<V>, next);
        tx.get(at).map(|node| Some(node.value))
    }
}
