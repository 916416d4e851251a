// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A transaction as a body in C has it: reached by the pointer to its session.

use crate::erased::{AnySession, Words};
use crate::error::TxError;
use crate::tx::{Range, Tx, TxResult};

/// The session whose body runs.
pub(super) struct ByPointer(pub *mut AnySession);

impl ByPointer {
    fn within<R>(&self, work: impl FnOnce(&mut dyn Words) -> TxResult<R>) -> TxResult<R> {
        // SAFETY: a session of this thread, and the reference ends here.
        let done = unsafe { AnySession::running(self.0) }.within(work);
        done.unwrap_or(Err(TxError::Abort)) // outside of a transaction
    }
}

impl Tx for ByPointer {
    unsafe fn load(&mut self, offset: u64) -> TxResult<u64> {
        let mut word = [0; 8];
        self.within(|tx| tx.load(offset, &mut word))?;
        Ok(u64::from_ne_bytes(word))
    }

    unsafe fn store(&mut self, offset: u64, value: u64) -> TxResult<()> {
        self.within(|tx| tx.store(offset, &value.to_ne_bytes()))
    }

    unsafe fn init(&mut self, offset: u64, words: &[u64]) -> TxResult<()> {
        let content: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.within(|tx| tx.store(offset, &content))
    }

    fn will_set(&mut self, _: &[Range]) -> TxResult<()> {
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> TxResult<u64> {
        self.within(|tx| tx.alloc(bytes))
    }

    fn release(&mut self, offset: u64) -> TxResult<()> {
        self.within(|tx| tx.free(offset))
    }

    fn window(&self) -> (u64, u64) {
        (0, u64::MAX) // the transaction itself checks
    }

    fn nested<R>(&mut self, _: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R> {
        Err(TxError::NoRollback) // C has no parts
    }
}
