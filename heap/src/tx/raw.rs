// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FoF: plain loads and stores. Caches survive a power failure, so there is nothing to do for
//! persistence; there is no log, so nothing can be undone either.

use crate::error::TxError;
use crate::pmem::Pmem;
use crate::tx::core::{Core, Pending};
use crate::tx::{Engine, Range, Tx, TxResult};

/// A transaction in name only.
#[derive(Debug)]
pub struct RawTx<B: Pmem> {
    core: Core<B>,
    changed: bool,
    view: bool,
}

impl<B: Pmem> RawTx<B> {
    /// Allocations and frees are true at once.
    #[inline(always)]
    fn set_map(&self, pending: &Pending, allocated: bool) {
        use crate::alloc::{Chunk, Object};
        let shared = &self.core.shared;
        match pending.object {
            // SAFETY: the byte of an object that `Core` found.
            Object::Small(_, byte) => unsafe {
                shared.pm.store_byte(shared.at(byte), u8::from(allocated));
            },
            Object::Large(first, count) => {
                let word = Chunk::Large(count.into(), pending.bytes).encode();
                let at = shared.at(shared.layout.table_entry(first.into()));
                // SAFETY: a word of the table.
                unsafe { shared.pm.store(at.cast(), if allocated { word } else { 0 }) };
            }
        }
    }

    #[inline(always)]
    fn writes(&mut self) -> TxResult<()> {
        if self.view {
            return Err(TxError::ReadOnly);
        }
        self.changed = true;
        Ok(())
    }
}

impl<B: Pmem> Tx for RawTx<B> {
    #[inline(always)]
    unsafe fn load(&mut self, offset: u64) -> TxResult<u64> {
        Ok(self.core.load(offset))
    }

    #[inline(always)]
    unsafe fn store(&mut self, offset: u64, value: u64) -> TxResult<()> {
        self.writes()?;
        // SAFETY: as the caller says.
        unsafe {
            self.core
                .shared
                .pm
                .store(self.core.base.wrapping_add(offset as usize).cast(), value)
        };
        Ok(())
    }

    #[inline(always)]
    unsafe fn init(&mut self, offset: u64, words: &[u64]) -> TxResult<()> {
        self.core.write_direct::<false>(offset, words);
        Ok(())
    }

    #[inline(always)]
    fn will_set(&mut self, _: &[Range]) -> TxResult<()> {
        Ok(())
    }

    #[inline(always)]
    fn reserve(&mut self, bytes: u64) -> TxResult<u64> {
        self.writes()?;
        let pending = self.core.reserve::<false, false>(bytes)?;
        self.set_map(&pending, true);
        Ok(pending.offset)
    }

    #[inline(always)]
    fn release(&mut self, offset: u64) -> TxResult<()> {
        self.writes()?;
        let (object, _) = self.core.find(offset)?;
        if let crate::alloc::Object::Small(_, byte) = object {
            let alloc = &self.core.shared.alloc;
            let chunk = self.core.shared.layout.chunk_of(byte);
            if !alloc.is_harvested(chunk) {
                let harvested = alloc.lock_slab(chunk, &|| self.core.shared.pm.pause());
                // SAFETY: the byte of an object that `Core` found.
                unsafe { self.core.shared.pm.store_byte(self.core.shared.at(byte), 0) };
                if !harvested {
                    alloc.unlock_slab(chunk, false);
                    return Ok(());
                }
            }
        }
        let pending = Pending {
            offset,
            bytes: 0,
            object,
            fate: crate::tx::core::Fate::Free,
            direct: false,
        };
        self.set_map(&pending, false);
        self.core.give(object, offset);
        Ok(())
    }

    #[inline(always)]
    fn window(&self) -> (u64, u64) {
        self.core.window
    }

    fn nested<R>(&mut self, body: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R> {
        let before = std::mem::take(&mut self.changed);
        let done = body(self);
        let changed = self.changed;
        self.changed |= before;
        if done.is_err() && changed {
            Err(TxError::NoRollback)
        } else {
            done
        }
    }
}

impl<B: Pmem> Engine<B> for RawTx<B> {
    fn new(core: Core<B>) -> Self {
        Self {
            core,
            changed: false,
            view: false,
        }
    }

    #[inline(always)]
    fn begin(&mut self, view: bool) {
        self.changed = false;
        self.view = view;
    }

    #[inline(always)]
    fn commit(&mut self) -> TxResult<()> {
        Ok(())
    }

    fn roll_back(&mut self) -> TxResult<()> {
        if self.changed {
            Err(TxError::NoRollback)
        } else {
            Ok(())
        }
    }

    fn wait_for_change(&mut self) -> bool {
        false
    }

    fn core(&mut self) -> &mut Core<B> {
        &mut self.core
    }
}
