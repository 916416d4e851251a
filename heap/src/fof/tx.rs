// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library's structures over plain memory: the operations of a transaction without one. A load
//! is a load and a store is a store; nothing is checked and nothing can be undone. The memory may be
//! that of a region or any other: the code is the same.

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use super::memory::Memory;
use crate::error::TxError;
use crate::persist::{PPtr, Persist};
use crate::tx::{Range, Tx, TxResult};

/// Plain memory under the name of a transaction. Its [`PPtr`]s hold addresses.
#[derive(Debug)]
pub struct PlainTx<'a, M> {
    memory: &'a mut M,
}

impl<'a, M: Memory> PlainTx<'a, M> {
    /// The operations of a transaction on plain memory, for structures that are written for them.
    ///
    /// # Safety
    /// As long as it lives, every pointer that it is given, and every one that is in what it
    /// reads, leads to an object that is allocated there and that no other thread changes.
    #[inline(always)]
    pub unsafe fn new(memory: &'a mut M) -> Self {
        Self { memory }
    }
}

fn word(at: u64) -> *mut u64 {
    ptr::with_exposed_provenance_mut(at as usize)
}

impl<M: Memory> PlainTx<'_, M> {
    #[inline(always)]
    fn take(&mut self, bytes: u64) -> TxResult<NonNull<u8>> {
        // Only a type whose size is a multiple of 16 can be aligned to 16.
        let align = if bytes % 16 == 0 { 16 } else { 8 };
        let layout = Layout::from_size_align(bytes as usize, align);
        let layout = layout.map_err(|_| TxError::OutOfSpace)?;
        self.memory.alloc(layout).ok_or(TxError::OutOfSpace)
    }
}

impl<M: Memory> Tx for PlainTx<'_, M> {
    #[inline(always)]
    unsafe fn load(&mut self, offset: u64) -> TxResult<u64> {
        // SAFETY: as the maker of this says.
        Ok(unsafe { *word(offset) })
    }

    #[inline(always)]
    unsafe fn store(&mut self, offset: u64, value: u64) -> TxResult<()> {
        // SAFETY: as the maker of this says.
        unsafe { *word(offset) = value };
        Ok(())
    }

    #[inline(always)]
    unsafe fn init(&mut self, offset: u64, words: &[u64]) -> TxResult<()> {
        // SAFETY: the object was just allocated, and is as large.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr(), word(offset), words.len()) };
        Ok(())
    }

    #[inline(always)]
    fn will_set(&mut self, _: &[Range]) -> TxResult<()> {
        Ok(())
    }

    #[inline(always)]
    fn reserve(&mut self, bytes: u64) -> TxResult<u64> {
        Ok(self.take(bytes)?.as_ptr().expose_provenance() as u64)
    }

    #[inline(always)]
    fn release(&mut self, offset: u64) -> TxResult<()> {
        let at = NonNull::new(word(offset).cast()).ok_or(TxError::BadFree)?;
        // SAFETY: as the maker of this says.
        if unsafe { self.memory.free_unsized(at) } {
            Ok(())
        } else {
            Err(TxError::BadFree)
        }
    }

    /// All addresses.
    fn window(&self) -> (u64, u64) {
        (0, u64::MAX)
    }

    /// There is no log: what the part did stays, and the program must not go on as if it did not.
    fn nested<R>(&mut self, body: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R> {
        body(self).map_err(|_| TxError::NoRollback)
    }

    fn alloc_zeroed<T: Persist>(&mut self, count: u64) -> TxResult<PPtr<T>> {
        let bytes = count
            .checked_mul(size_of::<T>() as u64)
            .ok_or(TxError::OutOfSpace)?;
        let at = self.take(bytes.max(1))?;
        // SAFETY: the object was just allocated, and is as large.
        unsafe { ptr::write_bytes(at.as_ptr(), 0, bytes as usize) };
        Ok(PPtr::from_offset(at.as_ptr().expose_provenance() as u64))
    }

    #[inline(always)]
    fn check(&self, _: u64, _: u64) -> TxResult<()> {
        Ok(())
    }
}
