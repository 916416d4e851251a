// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Heaps and sessions whose policy is known at run time only.

use std::io;
use std::path::Path;

use heap::dangling::{Dangling, dangling, volatile_memory};
use heap::{
    Error, FocRedo, FocStm, FocUndo, FofStm, FofUndo, Heap, Options, PPtr, PolicyKind, Session, Tx,
    TxError, policy_of,
};

macro_rules! any {
    ($($name:ident),*) => {
        /// An open region.
        #[derive(Debug)]
        pub enum AnyHeap { $($name(Heap<$name>),)* }

        #[derive(Debug)]
        enum Inner { $($name(Session<$name>),)* }

        impl AnyHeap {
            pub fn create(path: &Path, bytes: u64, kind: PolicyKind, options: &Options) -> Result<Self, Error> {
                match kind {
                    $(PolicyKind::$name => Heap::create(path, bytes, options).map(Self::$name),)*
                }
            }

            pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
                match policy_of(path)? {
                    $(PolicyKind::$name => Heap::open(path, options).map(Self::$name),)*
                }
            }

            pub fn kind(&self) -> PolicyKind {
                match self {
                    $(Self::$name(_) => PolicyKind::$name,)*
                }
            }

            pub fn session(&self) -> Result<AnySession, Error> {
                let inner = match self {
                    $(Self::$name(heap) => Inner::$name(heap.session()?),)*
                };
                Ok(AnySession { inner, running: false, failed: None })
            }

            pub fn dangling(&self) -> io::Result<Vec<Dangling>> {
                match self {
                    $(Self::$name(heap) => {
                        let base = heap.base() as u64;
                        let memory = volatile_memory((base, base + heap.layout().size_bytes))?;
                        let word = |at: u64| heap.word(at);
                        Ok(dangling(&heap::fsck::objects(heap.layout(), &word), &word, &memory))
                    })*
                }
            }
        }

        impl AnySession {
            fn begin(&mut self, view: bool) {
                (self.running, self.failed) = (true, None);
                match &mut self.inner {
                    $(Inner::$name(session) => session.begin(view),)*
                }
            }

            fn end(&mut self, answer: i32) -> Result<bool, TxError> {
                self.running = false;
                let outcome = match self.failed.take() {
                    Some(error) => Err(error),
                    None if answer < 0 => Err(TxError::Abort),
                    None => Ok(()),
                };
                match &mut self.inner {
                    $(Inner::$name(session) => session.end(outcome),)*
                }
            }

            fn tx<R>(&mut self, work: impl FnOnce(&mut dyn Words) -> R) -> R {
                match &mut self.inner {
                    $(Inner::$name(session) => work(session.current()),)*
                }
            }

            pub fn root(&mut self, name: &str, bytes: u64) -> Result<u64, Error> {
                match &mut self.inner {
                    $(Inner::$name(session) => {
                        if bytes == 0 {
                            return session.root::<u64>(name).map(PPtr::offset);
                        }
                        session.root_or::<u64>(name, |tx| tx.alloc_zeroed(bytes.div_ceil(8))).map(PPtr::offset)
                    })*
                }
            }
        }
    };
}
any!(FocStm, FocUndo, FocRedo, FofStm, FofUndo);

/// A thread's session.
#[derive(Debug)]
pub struct AnySession {
    inner: Inner,
    running: bool,
    failed: Option<TxError>,
}

/// A transaction without its type.
trait Words {
    fn load(&mut self, from: u64, to: &mut [u8]) -> Result<(), TxError>;
    fn store(&mut self, to: u64, from: &[u8]) -> Result<(), TxError>;
    fn alloc(&mut self, bytes: u64) -> Result<u64, TxError>;
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
        self.will_set(&[heap::Range {
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

impl AnySession {
    /// Run a body that uses the session through the same pointer: no reference lives while it does.
    ///
    /// # Safety
    /// `this` is a session that nobody else uses.
    pub unsafe fn run(
        this: *mut Self,
        view: bool,
        body: &mut dyn FnMut() -> i32,
    ) -> Result<(), TxError> {
        loop {
            // SAFETY: as the caller says.
            unsafe { &mut *this }.begin(view);
            let answer = body();
            // SAFETY: as the caller says.
            if !unsafe { &mut *this }.end(answer)? {
                return Ok(());
            }
        }
    }

    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The body must not commit after this, whatever it returns.
    pub fn fail(&mut self, error: TxError) {
        self.failed.get_or_insert(error);
    }

    pub fn load(&mut self, from: u64, to: &mut [u8]) -> Result<(), TxError> {
        self.tx(|tx| tx.load(from, to))
    }

    pub fn store(&mut self, to: u64, from: &[u8]) -> Result<(), TxError> {
        self.tx(|tx| tx.store(to, from))
    }

    pub fn alloc(&mut self, bytes: u64) -> Result<u64, TxError> {
        self.tx(|tx| tx.alloc(bytes))
    }

    pub fn free(&mut self, at: u64) -> Result<(), TxError> {
        self.tx(|tx| tx.free(at))
    }
}
