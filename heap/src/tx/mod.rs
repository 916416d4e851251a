// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transactions: what a program may do in one ([`Tx`]), and the three ways in which it is made good.

mod core;
mod redo;
mod undo;
mod word_set;

pub use self::core::Core;
pub use self::redo::RedoTx;
pub use self::undo::UndoTx;

use std::mem::MaybeUninit;

use crate::error::TxError;
use crate::persist::{PBytes, PPtr, Persist};
use crate::pmem::Pmem;

/// Result of an operation in a transaction. An error must be handed on: the transaction is over.
pub type TxResult<T> = Result<T, TxError>;

/// What can be done in a transaction.
pub trait Tx: Sized {
    /// Read a word.
    ///
    /// # Errors
    /// [`TxError::Conflict`] under STM.
    ///
    /// # Safety
    /// The offset is a multiple of 8 in the region.
    unsafe fn load(&mut self, offset: u64) -> TxResult<u64>;

    /// Change a word.
    ///
    /// # Errors
    /// [`TxError::TooLarge`] or [`TxError::ReadOnly`].
    ///
    /// # Safety
    /// The offset is a multiple of 8 in the roots or chunks.
    unsafe fn store(&mut self, offset: u64, value: u64) -> TxResult<()>;

    /// Write words of an object that was allocated in this transaction.
    ///
    /// # Errors
    /// As [`Tx::store`].
    ///
    /// # Safety
    /// The words lie in an object that [`Tx::reserve`] returned in this transaction.
    unsafe fn init(&mut self, offset: u64, words: &[u64]) -> TxResult<()>;

    /// Say which words are about to change: an undo log then waits once for all of them. The other
    /// policies do nothing.
    ///
    /// # Errors
    /// As [`Tx::store`].
    fn will_set(&mut self, ranges: &[Range]) -> TxResult<()>;

    /// Memory for an object; its content is undefined.
    ///
    /// # Errors
    /// [`TxError::OutOfSpace`] or [`TxError::ReadOnly`].
    fn reserve(&mut self, bytes: u64) -> TxResult<u64>;

    /// Free the object that begins at an offset.
    ///
    /// # Errors
    /// [`TxError::BadFree`] or [`TxError::ReadOnly`].
    fn release(&mut self, offset: u64) -> TxResult<()>;

    /// Where objects are: (offset of the first chunk, bytes).
    fn window(&self) -> (u64, u64);

    /// Run a part that can be undone alone: if it returns an error or panics, what it did is undone;
    /// the program may then go on, but not after an error other than [`TxError::Abort`].
    ///
    /// # Errors
    /// What the part returns.
    fn nested<R>(&mut self, body: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R>;

    /// Read a value.
    ///
    /// # Errors
    /// [`TxError::BadPointer`], or [`TxError::Conflict`] under STM.
    #[inline(always)]
    fn get<T: Persist>(&mut self, at: PPtr<T>) -> TxResult<T> {
        const {
            assert!(
                size_of::<T>() % 8 == 0,
                "values are read in words of 8 bytes"
            )
        };
        self.check(at.offset(), size_of::<T>() as u64)?;
        let mut value = MaybeUninit::<T>::uninit();
        for word in 0..size_of::<T>() / 8 {
            // SAFETY: `check` found the words in the region; `value` has as many.
            unsafe {
                let loaded = self.load(at.offset() + word as u64 * 8)?;
                value
                    .as_mut_ptr()
                    .cast::<u64>()
                    .add(word)
                    .write_unaligned(loaded);
            }
        }
        // SAFETY: all words are written, and every bit pattern is a `T`.
        Ok(unsafe { value.assume_init() })
    }

    /// Change a value.
    ///
    /// # Errors
    /// [`TxError::BadPointer`], and as [`Tx::store`].
    #[inline(always)]
    fn set<T: Persist>(&mut self, at: PPtr<T>, value: T) -> TxResult<()> {
        self.check(at.offset(), size_of::<T>() as u64)?;
        if size_of::<T>() > 8 {
            self.will_set(&[at.range()])?;
        }
        for (word, value) in words_of(&value).into_iter().enumerate() {
            // SAFETY: `check` found the words in the chunks.
            unsafe { self.store(at.offset() + word as u64 * 8, value)? };
        }
        Ok(())
    }

    /// A new object.
    ///
    /// # Errors
    /// [`TxError::OutOfSpace`].
    #[inline(always)]
    fn alloc<T: Persist>(&mut self, value: T) -> TxResult<PPtr<T>> {
        let offset = self.reserve(size_of::<T>() as u64)?;
        // SAFETY: the object was just reserved and is as large as `T`.
        unsafe { self.init(offset, words_of(&value).as_slice())? };
        Ok(PPtr::from_offset(offset))
    }

    /// Zeroed memory for `count` values.
    ///
    /// # Errors
    /// [`TxError::OutOfSpace`].
    fn alloc_zeroed<T: Persist>(&mut self, count: u64) -> TxResult<PPtr<T>> {
        let bytes = count
            .checked_mul(size_of::<T>() as u64)
            .ok_or(TxError::OutOfSpace)?;
        let offset = self.reserve(bytes.max(1))?;
        // A multiple of the size of a record's entry, so that large arrays are written as such.
        let words = usize::try_from(bytes.div_ceil(8)).map_err(|_| TxError::OutOfSpace)?;
        // SAFETY: the object was just reserved.
        unsafe { self.init(offset, &vec![0; words])? };
        Ok(PPtr::from_offset(offset))
    }

    /// Free an object.
    ///
    /// # Errors
    /// [`TxError::BadFree`] if nothing is allocated there.
    #[inline(always)]
    fn free<T>(&mut self, at: PPtr<T>) -> TxResult<()> {
        self.release(at.offset())
    }

    /// A copy of bytes, as an object of its own.
    ///
    /// # Errors
    /// [`TxError::OutOfSpace`].
    fn alloc_bytes(&mut self, data: &[u8]) -> TxResult<PBytes> {
        if data.is_empty() {
            return Ok(PBytes {
                start: PPtr::NULL,
                bytes: 0,
            });
        }
        let words: Vec<u64> = data
            .chunks(8)
            .map(|part| {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                u64::from_le_bytes(word)
            })
            .collect();
        let offset = self.reserve(data.len() as u64)?;
        // SAFETY: the object was just reserved; sizes of objects are multiples of 16.
        unsafe { self.init(offset, &words)? };
        Ok(PBytes {
            start: PPtr::from_offset(offset),
            bytes: data.len() as u64,
        })
    }

    /// Bytes that [`Tx::alloc_bytes`] stored.
    ///
    /// # Errors
    /// [`TxError::BadPointer`].
    fn get_bytes(&mut self, at: PBytes) -> TxResult<Vec<u8>> {
        if at.bytes == 0 {
            return Ok(Vec::new());
        }
        let bytes = at
            .bytes
            .checked_next_multiple_of(8)
            .ok_or(TxError::BadPointer)?;
        self.check(at.start.offset(), bytes)?;
        let mut data = Vec::with_capacity(usize::try_from(bytes).map_err(|_| TxError::BadPointer)?);
        for offset in (at.start.offset()..at.start.offset() + bytes).step_by(8) {
            // SAFETY: `check` found the words in the region.
            data.extend(unsafe { self.load(offset)? }.to_le_bytes());
        }
        data.truncate(usize::try_from(at.bytes).map_err(|_| TxError::BadPointer)?);
        Ok(data)
    }

    /// Free bytes.
    ///
    /// # Errors
    /// [`TxError::BadFree`].
    fn free_bytes(&mut self, at: PBytes) -> TxResult<()> {
        if at.bytes == 0 {
            Ok(())
        } else {
            self.free(at.start)
        }
    }

    /// Whether words lie in the chunks.
    ///
    /// # Errors
    /// [`TxError::BadPointer`] if not.
    #[inline(always)]
    fn check(&self, offset: u64, bytes: u64) -> TxResult<()> {
        let (start, length) = self.window();
        let within = offset.wrapping_sub(start);
        if within <= length.wrapping_sub(bytes) && bytes <= length && offset % 8 == 0 {
            Ok(())
        } else {
            Err(TxError::BadPointer)
        }
    }
}

/// Words of 8 bytes: (offset, number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub words: u64,
}

impl<T: Persist> PPtr<T> {
    /// The words of what it points to.
    #[must_use]
    #[inline(always)]
    pub const fn range(self) -> Range {
        Range {
            offset: self.offset(),
            words: size_of::<T>() as u64 / 8,
        }
    }
}

/// The words of a value, by copy.
#[inline(always)]
fn words_of<T: Persist>(value: &T) -> WordsOf<'_, T> {
    const {
        assert!(
            size_of::<T>() % 8 == 0,
            "values are written in words of 8 bytes"
        )
    };
    const { assert!(align_of::<T>() >= 8 || size_of::<T>() % 8 == 0) };
    WordsOf(value)
}

struct WordsOf<'a, T>(&'a T);

impl<T: Persist> WordsOf<'_, T> {
    #[inline(always)]
    fn into_iter(self) -> impl Iterator<Item = u64> {
        let start = (self.0 as *const T).cast::<u64>();
        // SAFETY: `T` has no padding and is at least that long; it may be less aligned than u64.
        (0..size_of::<T>() / 8).map(move |word| unsafe { start.add(word).read_unaligned() })
    }

    #[inline(always)]
    fn as_slice(&self) -> &[u64] {
        assert!(
            (self.0 as *const T).cast::<u64>().is_aligned(),
            "objects hold words of 8 bytes"
        );
        // SAFETY: aligned, initialised, without padding, and as long as `T`.
        unsafe {
            std::slice::from_raw_parts((self.0 as *const T).cast::<u64>(), size_of::<T>() / 8)
        }
    }
}

/// Undoes what a body did if that panics: see [`guarded`].
struct Guard<'a, T, U: Fn(&mut T)> {
    tx: &'a mut T,
    undo: U,
}

impl<T, U: Fn(&mut T)> Drop for Guard<'_, T, U> {
    #[cold]
    fn drop(&mut self) {
        (self.undo)(self.tx);
    }
}

/// Run a body of a program, which may panic: then it is undone before the panic goes on, so that
/// the code that catches it finds the transaction as it was before. The only way to call one, for whole
/// transactions and their parts, under each policy. Costs nothing where there is no panic.
#[inline(always)]
pub(crate) fn guarded<T, R>(
    tx: &mut T,
    undo: impl Fn(&mut T),
    body: impl FnOnce(&mut T) -> R,
) -> R {
    let guard = Guard { tx, undo };
    let done = body(guard.tx);
    std::mem::forget(guard);
    done
}

/// Parts of a transaction that can be undone alone.
trait Parts: Sized {
    /// A part begins.
    fn begin_part(&mut self);
    /// The innermost part ends; if it failed it is undone.
    fn end_part(&mut self, failed: bool);

    /// [`Tx::nested`].
    fn part<R>(&mut self, body: impl FnOnce(&mut Self) -> TxResult<R>) -> TxResult<R> {
        self.begin_part();
        let done = guarded(self, |tx| tx.end_part(true), body);
        self.end_part(done.is_err());
        done
    }
}

/// How a policy's transactions begin and end. One per session, used again and again.
pub trait Engine<B: Pmem>: Tx + Send {
    /// For a session.
    fn new(core: Core<B>) -> Self;
    /// Begin; a view changes nothing.
    fn begin(&mut self, view: bool);
    /// Make it durable, or nothing of it.
    ///
    /// # Errors
    /// [`TxError::Conflict`] or [`TxError::TooLarge`]; then nothing has changed.
    fn commit(&mut self) -> TxResult<()>;
    /// Undo all of it.
    ///
    /// # Errors
    /// [`TxError::TooLarge`] where the log has no room for the record that ends it.
    fn roll_back(&mut self) -> TxResult<()>;
    /// After a roll back, wait until something that was read has changed. False if it cannot know.
    fn wait_for_change(&mut self) -> bool;
    /// The session's part.
    fn core(&mut self) -> &mut Core<B>;
}
