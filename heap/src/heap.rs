// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making and opening regions; sessions, in which transactions run; roots.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blank::is_blank;
use crate::error::{Error, TxError};
use crate::fof::Hold;
use crate::held::Held;
use crate::layout::{
    Layout, OPEN_OFFSET, PAGE_BYTES, ROOT_BYTES, ROOT_NAME_BYTES, ROOT_POINTER_OFFSET,
    ROOT_SIZE_OFFSET, ROOT_TYPE_OFFSET, ROOTS, ROOTS_OFFSET,
};
use crate::map::{MapOptions, Mapping};
use crate::persist::{PPtr, Persist};
use crate::pmem::{Native, Pmem};
use crate::policy::{Policy, PolicyKind};
use crate::recover::{Recovered, closed, recover};
use crate::shared::Shared;
use crate::tx::{Core, Engine, Tx, TxResult, guarded};

/// How a region is made and opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Take a file for persistent memory though the system does not say that it is.
    pub assume_persistent: bool,
    /// Take the platform for one with flush on fail though it does not say that it is.
    pub assume_flush_on_fail: bool,
    /// Map the region at this address.
    pub address: Option<usize>,
    /// Make a region over what is in the file.
    pub overwrite: bool,
    /// With flush on fail, what a store does while the platform does not promise that caches are saved,
    /// if that ends: the region is then written back once, and read only until the promise returns.
    pub when_withdrawn: Hold,
    /// Sessions (threads at work at the same time) of a new region.
    pub sessions: u32,
    /// Lines of 64 bytes of each redo log of a new region: bounds recovery and a transaction's size.
    pub redo_lines: u32,
    /// Lines of each undo log of a new region.
    pub undo_lines: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            assume_persistent: false,
            assume_flush_on_fail: false,
            address: None,
            overwrite: false,
            when_withdrawn: Hold::Wait,
            sessions: 8,
            redo_lines: 4096,
            undo_lines: 2048,
        }
    }
}

impl Options {
    /// Options that take both promises as given, for tests and benchmarks.
    #[must_use]
    pub fn assume_all() -> Self {
        Self {
            assume_persistent: true,
            assume_flush_on_fail: true,
            ..Self::default()
        }
    }

    fn map(&self, policy: PolicyKind) -> MapOptions {
        MapOptions {
            assume_persistent: self.assume_persistent || policy.is_flush_on_fail(),
            must_be_persistent: true,
            address: self.address,
        }
    }
}

/// Whether the platform promises, now, that caches survive a power failure: a Stop is armed, and ends
/// within a hold-up that is known. The answer may change; an open region follows it.
#[must_use]
pub fn platform_flushes_on_fail() -> bool {
    crate::promise::kept()
}

/// An open region with the policy `P`.
pub struct Heap<P: Policy, B: Pmem = Native> {
    shared: Arc<Shared<B>>,
    recovered: Recovered,
    path: Option<PathBuf>,
    policy: PhantomData<P>,
}

impl<P: Policy, B: Pmem> fmt::Debug for Heap<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("policy", &P::KIND)
            .field("path", &self.path)
            .finish()
    }
}

impl<P: Policy> Heap<P> {
    /// Make a region in a file.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] where something is in the file; see [`Error`].
    pub fn create(path: &Path, bytes: u64, options: &Options) -> Result<Self, Error> {
        let map = Mapping::create(path, bytes, &options.map(P::KIND))?;
        if !options.overwrite && !is_blank(&map) {
            return Err(Error::NotEmpty(path.to_owned()));
        }
        let mut heap = Self::format(Native::new(), map, options)?;
        heap.path = Some(path.to_owned());
        Ok(heap)
    }

    /// Open a region that is in a file.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let map = Mapping::open(path, &options.map(P::KIND))?;
        let mut heap = Self::attach(Native::new(), map, options)?;
        heap.path = Some(path.to_owned());
        Ok(heap)
    }

    /// A region in anonymous memory: under Stop-and-Go that is persistent.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn anonymous(bytes: u64, options: &Options) -> Result<Self, Error> {
        Self::format(Native::new(), Mapping::anonymous(bytes)?, options)
    }
}

/// The policy of the region in a file, for [`with_policy!`](crate::with_policy).
///
/// # Errors
/// See [`Error`].
pub fn policy_of(path: &Path) -> Result<PolicyKind, Error> {
    use std::io::Read;
    let failed = |error| Error::Io(path.to_owned(), error);
    let mut head = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(PAGE_BYTES)
        .read_to_end(&mut head)
        .map_err(failed)?;
    Ok(Layout::decode(&head)?.policy)
}

impl<P: Policy, B: Pmem> Heap<P, B> {
    /// Make a region in zeroed memory, through a back end.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn format(pm: B, map: Mapping, options: &Options) -> Result<Self, Error> {
        Self::check_promise(options)?;
        let bytes = map.bytes() as u64;
        let lines = (options.sessions, options.redo_lines, options.undo_lines);
        let layout = Layout::new(bytes, P::KIND, new_uuid(), lines)?;
        clear(&pm, &map, layout.chunks_offset);
        let encoded = layout.encode();
        // The first word last: without it there is no region.
        for (index, word) in encoded.chunks_exact(8).enumerate().rev() {
            let word = u64::from_le_bytes(word.try_into().unwrap_or([0; 8]));
            if index == 0 {
                pm.fence();
            }
            // SAFETY: the header is the first page of the mapping.
            unsafe {
                let at = map.base().cast::<u64>().add(index);
                pm.store(at, word);
                pm.flush(at.cast());
            }
        }
        pm.fence();
        Self::start(pm, map, layout, Recovered::default(), options)
    }

    /// Open a region that lies in memory, through a back end: recover what a cut left.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn attach(pm: B, map: Mapping, options: &Options) -> Result<Self, Error> {
        // SAFETY: the mapping is at least a page long, and nobody writes its header.
        let head = unsafe { std::slice::from_raw_parts(map.base(), PAGE_BYTES as usize) };
        let layout = Layout::decode(head)?;
        if layout.policy != P::KIND {
            return Err(Error::Policy {
                wanted: P::KIND,
                found: layout.policy,
            });
        }
        if layout.size_bytes > map.bytes() as u64 {
            return Err(Error::Short(map.bytes() as u64, layout.size_bytes));
        }
        Self::check_promise(options)?;
        // SAFETY: the state page is part of the mapping.
        let open = unsafe { map.base().add(OPEN_OFFSET as usize).cast::<u64>().read() };
        // A region that was closed has empty logs: opening it takes the same time whatever is in it.
        let recovered = if open == 0 {
            closed(map.base(), &layout)?
        } else {
            recover(&pm, map.base(), &layout)?
        };
        Self::start(pm, map, layout, recovered, options)
    }

    fn check_promise(options: &Options) -> Result<(), Error> {
        let promised = options.assume_flush_on_fail || platform_flushes_on_fail();
        if P::KIND.is_flush_on_fail() && !promised {
            Err(Error::NoFlushOnFail)
        } else {
            Ok(())
        }
    }

    fn start(
        pm: B,
        map: Mapping,
        layout: Layout,
        recovered: Recovered,
        options: &Options,
    ) -> Result<Self, Error> {
        let mut shared = Shared::new(pm, map, layout, recovered.clock);
        shared.store_through::<true>(OPEN_OFFSET, 1);
        shared.pm.fence();
        if P::KIND.is_flush_on_fail() && !options.assume_flush_on_fail {
            // SAFETY: `Shared` ends it before its mapping goes.
            shared.held = Some(unsafe { Held::begin(&shared.map, options.when_withdrawn) });
        }
        Ok(Self {
            shared: Arc::new(shared),
            recovered,
            path: None,
            policy: PhantomData,
        })
    }

    /// What the opening had to do.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// The region's header.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// Where the region is mapped.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.shared.map.base()
    }

    /// The back end.
    #[must_use]
    pub fn pmem(&self) -> &B {
        &self.shared.pm
    }

    /// A session: each thread that runs transactions has one.
    ///
    /// # Errors
    /// [`Error::NoSession`] if all are in use.
    pub fn session(&self) -> Result<Session<P, B>, Error> {
        let sessions = self.shared.layout.sessions;
        let core = Core::new(Arc::clone(&self.shared)).ok_or(Error::NoSession(sessions))?;
        Ok(Session {
            tx: Engine::new(core),
            turns: 0,
        })
    }

    /// Write everything back and empty the logs.
    pub fn checkpoint(&self) {
        self.shared.checkpoint::<true>();
    }

    /// Give slabs without objects back, so that other sizes can have their memory.
    ///
    /// # Errors
    /// [`Error::InUse`] while there are sessions.
    pub fn reclaim(&mut self) -> Result<u64, Error> {
        self.shared.checkpoint::<true>();
        let shared = Arc::get_mut(&mut self.shared).ok_or(Error::InUse)?;
        let freed = crate::fsck::empty_slabs(&shared.layout, &|at| load_plain(&shared.map, at));
        for chunk in &freed {
            shared.store_through::<true>(shared.layout.table_entry(*chunk), 0);
        }
        shared.pm.fence();
        shared.alloc.reset();
        Ok(freed.len() as u64)
    }

    /// What is allocated, and how much of the memory in use it fills.
    #[must_use]
    pub fn usage(&self) -> crate::fsck::Usage {
        crate::fsck::usage(&self.shared.layout, &|at| load_plain(&self.shared.map, at))
    }

    /// Words of the region as they are now.
    #[must_use]
    pub fn word(&self, offset: u64) -> u64 {
        self.shared.load(offset)
    }
}

fn load_plain(map: &Mapping, offset: u64) -> u64 {
    assert!(offset % 8 == 0 && offset as usize + 8 <= map.bytes());
    let at = map.base().wrapping_add(offset as usize).cast::<u64>();
    // SAFETY: aligned and in the mapping.
    unsafe { std::sync::atomic::AtomicU64::from_ptr(at) }.load(std::sync::atomic::Ordering::Acquire)
}

/// Make everything before the chunks zero, whatever the memory held.
fn clear<B: Pmem>(pm: &B, map: &Mapping, bytes: u64) {
    for offset in (0..bytes).step_by(8) {
        if load_plain(map, offset) != 0 {
            let at = map.base().wrapping_add(offset as usize);
            // SAFETY: in the mapping: the layout was made for its size.
            unsafe {
                pm.store(at.cast(), 0);
                pm.flush(at);
            }
        }
    }
    pm.fence();
}

pub(crate) fn new_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    // SAFETY: the buffer has that length. A failure leaves zeros: no identity, no harm.
    unsafe { libc::getrandom(uuid.as_mut_ptr().cast(), uuid.len(), 0) };
    uuid
}

impl<P: Policy, B: Pmem> Drop for Heap<P, B> {
    fn drop(&mut self) {
        // Sessions may live on; the last of all closes nothing, which a recovery does not mind.
        if Arc::strong_count(&self.shared) == 1 && !std::thread::panicking() {
            if let Some(held) = &self.shared.held {
                held.end();
            }
            self.shared.checkpoint::<true>();
            self.shared.store_through::<true>(OPEN_OFFSET, 0);
            self.shared.pm.fence();
        }
    }
}

/// Runs transactions, one at a time. For one thread; a program has one per thread.
pub struct Session<P: Policy, B: Pmem = Native> {
    tx: P::Tx<B>,
    turns: u32,
}

impl<P: Policy, B: Pmem> fmt::Debug for Session<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("policy", &P::KIND).finish()
    }
}

/// The body of a transaction panicked. Its log has room for the record that ends it, as with each
/// change; if it had none, only a recovery could undo the transaction, so the process must end.
fn roll_back_all<B: Pmem>(tx: &mut impl Engine<B>) {
    if tx.roll_back().is_err() {
        std::process::abort();
    }
}

/// Conflicts in a row before a session gives its CPU away.
const TURNS_BEFORE_PAUSE: u32 = 3;

impl<P: Policy, B: Pmem> Session<P, B> {
    /// Run a transaction: all of it becomes durable before this returns, or nothing of it. The body
    /// may run several times: it must have no effect besides. If it panics nothing of it happens, and
    /// the code that catches the panic can use the session.
    ///
    /// # Errors
    /// What the body returns, or why there was no commit.
    #[inline(always)]
    pub fn run<R>(&mut self, mut body: impl FnMut(&mut P::Tx<B>) -> TxResult<R>) -> TxResult<R> {
        loop {
            self.tx.begin(false);
            match guarded(&mut self.tx, roll_back_all, &mut body) {
                Ok(value) => match self.tx.commit() {
                    Ok(()) => return Ok(value),
                    Err(TxError::Conflict) => self.back_off(),
                    Err(error) => return Err(error),
                },
                Err(error) => self.failed(error)?,
            }
        }
    }

    /// Run a transaction that changes nothing.
    ///
    /// # Errors
    /// What the body returns; [`TxError::ReadOnly`] if it changes something.
    #[inline(always)]
    pub fn view<R>(&mut self, mut body: impl FnMut(&mut P::Tx<B>) -> TxResult<R>) -> TxResult<R> {
        loop {
            self.tx.begin(true);
            match body(&mut self.tx) {
                Err(TxError::Conflict) => self.back_off(),
                done => return done,
            }
        }
    }

    /// Whether to run it again.
    #[cold]
    fn failed(&mut self, error: TxError) -> TxResult<()> {
        // What it waits for may be what it has locked: it waits without.
        self.tx.roll_back()?;
        let again = match error {
            TxError::Conflict => true,
            TxError::Retry => self.tx.wait_for_change(),
            _ => false,
        };
        if !again {
            return Err(error);
        }
        self.back_off();
        Ok(())
    }

    #[cold]
    fn back_off(&mut self) {
        self.turns += 1;
        if self.turns % TURNS_BEFORE_PAUSE == 0 {
            self.tx.core().shared.pm.pause();
        }
    }

    /// The root of that name; null if there is none.
    ///
    /// # Errors
    /// [`Error::RootType`] if it has another type.
    pub fn root<T: Persist>(&mut self, name: &str) -> Result<PPtr<T>, Error> {
        let words = name_words(name)?;
        let found = self.view(|tx| find_root(tx, &words))?;
        match found {
            None => Ok(PPtr::NULL),
            Some(at) => match self.view(|tx| read_root(tx, at))? {
                (type_, offset) if type_ == T::TYPE_ID => Ok(PPtr::from_offset(offset)),
                _ => Err(Error::RootType),
            },
        }
    }

    /// The root of that name; if there is none it is made, in one transaction with `make`.
    ///
    /// # Errors
    /// [`Error::RootType`] if it has another type, [`TxError::Full`] with [`ROOTS`] of them.
    pub fn root_or<T: Persist>(
        &mut self,
        name: &str,
        mut make: impl FnMut(&mut P::Tx<B>) -> TxResult<PPtr<T>>,
    ) -> Result<PPtr<T>, Error> {
        let words = name_words(name)?;
        self.run(|tx| {
            if find_root(tx, &words)?.is_some() {
                return Ok(());
            }
            let made = make(tx)?;
            set_root(tx, &words, T::TYPE_ID, made.offset(), size_of::<T>() as u64)
        })?;
        self.root(name)
    }
}

/// Words of a root's name.
pub(crate) const NAME_WORDS: usize = ROOT_NAME_BYTES / 8;

pub(crate) fn name_words(name: &str) -> Result<[u64; NAME_WORDS], Error> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= ROOT_NAME_BYTES || bytes.contains(&0) {
        return Err(Error::RootName);
    }
    let mut padded = [0; ROOT_NAME_BYTES];
    padded[..bytes.len()].copy_from_slice(bytes);
    Ok(std::array::from_fn(|word| {
        u64::from_le_bytes(padded[word * 8..word * 8 + 8].try_into().unwrap_or([0; 8]))
    }))
}

fn find_root(tx: &mut impl Tx, name: &[u64; NAME_WORDS]) -> TxResult<Option<u64>> {
    for root in 0..ROOTS {
        let at = ROOTS_OFFSET + root * ROOT_BYTES;
        let mut same = true;
        for (word, wanted) in name.iter().enumerate() {
            // SAFETY: a word of the roots.
            same &= unsafe { tx.load(at + word as u64 * 8)? } == *wanted;
        }
        if same {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn read_root(tx: &mut impl Tx, at: u64) -> TxResult<(u64, u64)> {
    // SAFETY: words of the roots.
    unsafe {
        Ok((
            tx.load(at + ROOT_TYPE_OFFSET)?,
            tx.load(at + ROOT_POINTER_OFFSET)?,
        ))
    }
}

fn set_root(
    tx: &mut impl Tx,
    name: &[u64; NAME_WORDS],
    type_: u64,
    offset: u64,
    bytes: u64,
) -> TxResult<()> {
    for root in 0..ROOTS {
        let at = ROOTS_OFFSET + root * ROOT_BYTES;
        // SAFETY: words of the roots.
        unsafe {
            if tx.load(at)? != 0 {
                continue;
            }
            for (word, value) in name.iter().enumerate() {
                tx.store(at + word as u64 * 8, *value)?;
            }
            tx.store(at + ROOT_TYPE_OFFSET, type_)?;
            tx.store(at + ROOT_POINTER_OFFSET, offset)?;
            return tx.store(at + ROOT_SIZE_OFFSET, bytes);
        }
    }
    Err(TxError::Full)
}
