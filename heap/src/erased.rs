// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions whose policy is known at run time only, and whose bodies use them through one pointer, as
//! those of C do (`heap/c`). Nothing then keeps a body from asking its session for another
//! transaction, which would end the one that runs: that is refused, and so is the commit of a
//! transaction whose body asked.

use std::fmt;

use crate::error::{Error, TxError};
use crate::heap::Session;
use crate::persist::PPtr;
use crate::pmem::Pmem;
use crate::policy::Policy;
use crate::tx::{Range, Tx};

/// A thread's session.
pub struct AnySession {
    /// Borrowed while a transaction runs: its body reaches `running` only.
    inner: Box<dyn Transact>,
    running: Running,
}

/// What a body reaches of its session.
#[derive(Default)]
pub struct Running {
    /// The transaction, while there is one.
    tx: Option<*mut dyn Words>,
    failed: Option<TxError>,
}

/// A transaction without its type.
pub trait Words {
    /// Read words.
    ///
    /// # Errors
    /// As [`Tx::get`].
    fn load(&mut self, from: u64, to: &mut [u8]) -> Result<(), TxError>;
    /// Change words.
    ///
    /// # Errors
    /// As [`Tx::set`].
    fn store(&mut self, to: u64, from: &[u8]) -> Result<(), TxError>;
    /// Memory for an object.
    ///
    /// # Errors
    /// As [`Tx::reserve`].
    fn alloc(&mut self, bytes: u64) -> Result<u64, TxError>;
    /// Free the object that begins there.
    ///
    /// # Errors
    /// As [`Tx::release`].
    fn free(&mut self, at: u64) -> Result<(), TxError>;
}

impl<T: Tx> Words for T {
    fn load(&mut self, from: u64, to: &mut [u8]) -> Result<(), TxError> {
        self.check(from, to.len() as u64)?;
        for (at, word) in (from..).step_by(8).zip(to.chunks_exact_mut(8)) {
            // SAFETY: `check` found the words in the chunks.
            word.copy_from_slice(&unsafe { Tx::load(self, at)? }.to_ne_bytes());
        }
        Ok(())
    }

    fn store(&mut self, to: u64, from: &[u8]) -> Result<(), TxError> {
        self.check(to, from.len() as u64)?;
        self.will_set(&[Range {
            offset: to,
            words: from.len() as u64 / 8,
        }])?;
        for (at, word) in (to..).step_by(8).zip(from.chunks_exact(8)) {
            let word = u64::from_ne_bytes(word.try_into().unwrap_or([0; 8]));
            // SAFETY: `check` found the words in the chunks.
            unsafe { Tx::store(self, at, word)? };
        }
        Ok(())
    }

    fn alloc(&mut self, bytes: u64) -> Result<u64, TxError> {
        self.reserve(bytes)
    }

    fn free(&mut self, at: u64) -> Result<(), TxError> {
        self.release(at)
    }
}

type Attempt<'a> = &'a mut dyn FnMut(*mut dyn Words) -> Result<(), TxError>;

/// A session without its type.
trait Transact {
    fn transact(&mut self, view: bool, attempt: Attempt<'_>) -> Result<(), TxError>;
    fn root(&mut self, name: &str, bytes: u64) -> Result<u64, Error>;
}

impl<P: Policy, B: Pmem + 'static> Transact for Session<P, B>
where
    P::Tx<B>: 'static,
{
    fn transact(&mut self, view: bool, attempt: Attempt<'_>) -> Result<(), TxError> {
        if view {
            self.view(|tx| attempt(tx))
        } else {
            self.run(|tx| attempt(tx))
        }
    }

    fn root(&mut self, name: &str, bytes: u64) -> Result<u64, Error> {
        if bytes == 0 {
            return Self::root::<u64>(self, name).map(PPtr::offset);
        }
        let make = |tx: &mut P::Tx<B>| tx.alloc_zeroed(bytes.div_ceil(8));
        self.root_or::<u64>(name, make).map(PPtr::offset)
    }
}

impl fmt::Debug for AnySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnySession")
            .field("runs", &self.running.tx.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl AnySession {
    /// A session whose policy is forgotten.
    #[must_use]
    pub fn of<P: Policy, B: Pmem + 'static>(session: Session<P, B>) -> Self
    where
        P::Tx<B>: 'static,
    {
        Self {
            inner: Box::new(session),
            running: Running::default(),
        }
    }

    /// What the body reaches, which is borrowed by nothing else.
    ///
    /// # Safety
    /// `this` is a session of the calling thread, and the reference ends before the next one begins.
    pub unsafe fn running<'a>(this: *mut Self) -> &'a mut Running {
        // SAFETY: as the caller says; the transaction that may run borrows the other field.
        unsafe { &mut (*this).running }
    }

    /// Refuse what would end the transaction that runs, and that transaction with it: it lacks what
    /// its body wanted to be done.
    ///
    /// # Errors
    /// [`TxError::InTransaction`].
    ///
    /// # Safety
    /// `this` is a session of the calling thread.
    pub unsafe fn must_be_idle(this: *mut Self) -> Result<(), TxError> {
        // SAFETY: as the caller says.
        let running = unsafe { Self::running(this) };
        if running.tx.is_none() {
            return Ok(());
        }
        running.failed.get_or_insert(TxError::InTransaction);
        Err(TxError::InTransaction)
    }

    /// Run a body that uses the session through the same pointer; a negative answer aborts.
    ///
    /// # Errors
    /// As [`Session::run`], [`TxError::Abort`] if the body aborts, and [`TxError::InTransaction`].
    ///
    /// # Safety
    /// `this` is a session of the calling thread.
    pub unsafe fn run(
        this: *mut Self,
        view: bool,
        body: &mut dyn FnMut() -> i32,
    ) -> Result<(), TxError> {
        // SAFETY: as the caller says.
        unsafe { Self::must_be_idle(this)? };
        let mut attempt = move |tx: *mut dyn Words| {
            // SAFETY: the references end before the body begins, and begin after it ended.
            unsafe {
                *Self::running(this) = Running {
                    tx: Some(tx),
                    failed: None,
                }
            };
            let answer = body();
            // SAFETY: as above.
            match std::mem::take(unsafe { Self::running(this) }).failed {
                Some(error) => Err(error),
                None if answer < 0 => Err(TxError::Abort),
                None => Ok(()),
            }
        };
        // SAFETY: no transaction runs, so nobody else uses this field.
        unsafe { &mut (*this).inner }.transact(view, &mut attempt)
    }

    /// The root of that name, made of so many bytes if it is missing and `bytes` is not zero; outside
    /// of a transaction.
    ///
    /// # Errors
    /// As [`Session::root_or`], and [`TxError::InTransaction`].
    ///
    /// # Safety
    /// `this` is a session of the calling thread.
    pub unsafe fn root(this: *mut Self, name: &str, bytes: u64) -> Result<u64, Error> {
        // SAFETY: as the caller says; no body runs, so nobody else uses the session.
        let inner = unsafe {
            Self::must_be_idle(this)?;
            &mut (*this).inner
        };
        inner.root(name, bytes)
    }
}

impl Running {
    /// Do something in the transaction that runs; none if there is none. After an error the body cannot
    /// commit, whatever it returns.
    pub fn within<R>(
        &mut self,
        work: impl FnOnce(&mut dyn Words) -> Result<R, TxError>,
    ) -> Option<Result<R, TxError>> {
        // SAFETY: the transaction lives as long as its body runs, which is the only one to use it.
        let done = work(unsafe { &mut *self.tx? });
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
        Some(done)
    }
}
