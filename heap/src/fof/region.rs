// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making, opening and closing a region of plain memory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

use super::check;
use super::header::{
    ALIGN_BYTES, CHUNK_BYTES, HEADER_BYTES, Header, MARK_OFFSET, Mark, OPENING_OFFSET, ROOTS_OFFSET,
};
use super::hold::{Asked, Hold, Protected, Turn};
use super::local::Local;
use super::space::Space;
use super::volatile::Volatile;
use super::{reclaim, roots};
use crate::blank::is_blank;
use crate::error::{Error, TxError};
use crate::fsck::{Finding, Usage};
use crate::heap::{new_uuid, platform_flushes_on_fail};
use crate::map::{MapOptions, Mapping};
use crate::pmem::{LINE_BYTES, Native, Pmem};
use crate::promise::{self, Holder};

/// Where regions are mapped that no address was given for: far from what the kernel chooses.
const ADDRESS_MIN: u64 = 0x2000_0000_0000;
const ADDRESS_MAX: u64 = 0x5000_0000_0000;
/// Addresses that are tried for a new region: one that is taken is rare.
const ADDRESS_TRIES: u64 = 16;

/// How a region is made and opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Take the platform for one with flush on fail though it does not say that it is.
    pub assume_flush_on_fail: bool,
    /// Open a region that was not closed, if its allocator is in order.
    pub accept_unclosed: bool,
    /// Make the region at this address, a multiple of a page. An existing one has its own.
    pub address: Option<usize>,
    /// Make a region over what is in the file.
    pub overwrite: bool,
    /// What a store does while the platform does not promise that caches are saved, if that ends: the
    /// region is then held, as by [`Region::hold`], and released when the promise returns.
    pub when_withdrawn: Hold,
}

impl Options {
    /// Options that take the platform's promise as given, for tests and benchmarks.
    #[must_use]
    pub fn assume_all() -> Self {
        Self {
            assume_flush_on_fail: true,
            ..Self::default()
        }
    }

    fn check_promise(&self) -> Result<(), Error> {
        if self.assume_flush_on_fail || platform_flushes_on_fail() {
            Ok(())
        } else {
            Err(Error::NoFlushOnFail)
        }
    }
}

/// What the threads of a process share of an open region.
pub(super) struct Inner {
    pub space: Space,
    pm: Box<dyn Pmem>,
    map: Mapping,
    /// It is in a file: what is written back outlives the process.
    outlives: bool,
    poisoned: AtomicBool,
    protected: Protected,
    /// What a store does while the promise is withdrawn.
    when_withdrawn: Hold,
    /// The region and its allocators. Who tells of the promise is none.
    users: AtomicUsize,
}

/// An open region of plain memory.
pub struct Region {
    inner: Arc<Inner>,
    path: Option<PathBuf>,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("path", &self.path)
            .field("header", self.header())
            .finish()
    }
}

impl Region {
    /// Make a region in a file.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] where something is in the file, [`Error::AddressTaken`]; see [`Error`].
    pub fn create(path: &Path, bytes: u64, options: &Options) -> Result<Self, Error> {
        options.check_promise()?;
        let map = map_new(path, bytes, options)?;
        if !options.overwrite && !is_blank(&map) {
            return Err(Error::NotEmpty(path.to_owned()));
        }
        // SAFETY: the file is locked: no other process has it, and the mapping is only ours.
        let mut region = unsafe { Self::format(Box::new(Native::new()), map, true, options) }?;
        region.path = Some(path.to_owned());
        Ok(region)
    }

    /// Open a region that is in a file, at its address.
    ///
    /// # Errors
    /// [`Error::NotClosed`] if the process that had it open last died, [`Error::AddressTaken`] if
    /// something else is where its pointers lead; see [`Error`].
    ///
    /// # Safety
    /// Nothing but this library has written to the file, except to objects through their owners:
    /// the addresses in it are followed as they are.
    pub unsafe fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        options.check_promise()?;
        let base = header_of(path)?.base;
        let map = Mapping::open(path, &map_options(Some(base as usize)))
            .map_err(|error| taken(error, base))?;
        // SAFETY: as the caller says.
        let mut region = unsafe { Self::attach(Box::new(Native::new()), map, true, options) }?;
        region.path = Some(path.to_owned());
        Ok(region)
    }

    /// A region in anonymous memory: under Stop-and-Go that is persistent.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn anonymous(bytes: u64, options: &Options) -> Result<Self, Error> {
        options.check_promise()?;
        let map = Mapping::anonymous(bytes)?;
        // SAFETY: the mapping was just made, and is only ours.
        unsafe { Self::format(Box::new(Volatile), map, false, options) }
    }

    /// Make a region in mapped memory, through a back end that writes back. `outlives`: what is
    /// written back outlives the process.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Safety
    /// Nobody else uses the mapping.
    pub unsafe fn format(
        pm: Box<dyn Pmem>,
        map: Mapping,
        outlives: bool,
        options: &Options,
    ) -> Result<Self, Error> {
        options.check_promise()?;
        let header = Header::new(map.bytes() as u64, map.base() as u64, new_uuid())?;
        let before_chunks = 0..header.entry_offset(header.chunks) as usize;
        for at in before_chunks.step_by(8).map(|offset| word_at(&map, offset)) {
            // SAFETY: a word of the mapping, which is ours.
            unsafe {
                if *at != 0 {
                    pm.store(at, 0);
                    pm.flush(at.cast());
                }
            }
        }
        pm.fence();
        // The first word last: without it there is no region.
        for (index, word) in header.encode().chunks_exact(8).enumerate().rev() {
            let word = u64::from_le_bytes(word.try_into().unwrap_or([0; 8]));
            if index == 0 {
                pm.fence();
            }
            let at = word_at(&map, index * 8);
            // SAFETY: as above.
            unsafe {
                pm.store(at, word);
                pm.flush(at.cast());
            }
        }
        pm.fence();
        // SAFETY: the header divides this mapping, and the caller says that it is ours.
        let space = unsafe { Space::new(map.base(), header) };
        space.format();
        Ok(Self::start(pm, map, (outlives, options), space))
    }

    /// Open a region in mapped memory, through a back end that writes back.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Safety
    /// As [`Region::open`], and nobody else uses the mapping.
    pub unsafe fn attach(
        pm: Box<dyn Pmem>,
        map: Mapping,
        outlives: bool,
        options: &Options,
    ) -> Result<Self, Error> {
        options.check_promise()?;
        if map.bytes() < CHUNK_BYTES {
            return Err(Error::Short(map.bytes() as u64, CHUNK_BYTES as u64));
        }
        // SAFETY: the mapping is at least as long as a header, and nobody writes that.
        let head = unsafe { std::slice::from_raw_parts(map.base(), HEADER_BYTES) };
        let header = Header::decode(head)?;
        if header.size_bytes > map.bytes() as u64 {
            return Err(Error::Short(map.bytes() as u64, header.size_bytes));
        }
        if header.base != map.base() as u64 {
            return Err(Error::Header("base"));
        }
        // SAFETY: a word of the mapping.
        let mark = unsafe { *word_at(&map, MARK_OFFSET) };
        if Mark::of(mark) != Some(Mark::Closed) && !options.accept_unclosed {
            return Err(Error::NotClosed);
        }
        // SAFETY: as the caller says.
        let space = unsafe { Space::new(map.base(), header) };
        if mark != Mark::Closed as u64 {
            // SAFETY: offsets that `check` asks for are multiples of 8 in the region.
            let word = |offset: u64| unsafe { *word_at(&map, offset as usize) };
            if let Some(first) = check::look(&header, &word).findings.first() {
                return Err(Error::Corrupt("the allocator", first.offset));
            }
            space.recount();
        }
        Ok(Self::start(pm, map, (outlives, options), space))
    }

    fn start(
        pm: Box<dyn Pmem>,
        map: Mapping,
        (outlives, options): (bool, &Options),
        space: Space,
    ) -> Self {
        dont_fork(&map);
        let inner = Inner {
            space,
            pm,
            map,
            outlives,
            poisoned: AtomicBool::new(false),
            protected: Protected::new(MARK_OFFSET..ROOTS_OFFSET),
            when_withdrawn: options.when_withdrawn,
            users: AtomicUsize::new(1),
        };
        // SAFETY: a word of the state, which only this changes.
        let opening = unsafe { *word_at(&inner.map, OPENING_OFFSET) };
        inner.set(OPENING_OFFSET, opening.wrapping_add(1).max(1));
        inner.mark(Mark::Open);
        let inner = Arc::new(inner);
        if !options.assume_flush_on_fail {
            let holder: Weak<Inner> = Arc::downgrade(&inner);
            promise::watch(inner.key(), holder);
        }
        Self { inner, path: None }
    }

    /// The region's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.inner.space.header()
    }

    /// Where the region is mapped: the same in each opening.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.inner.map.base()
    }

    /// An allocator: each thread has its own.
    ///
    /// # Errors
    /// [`TxError::OutOfSpace`](crate::TxError::OutOfSpace) if the region has no memory for it.
    pub fn local(&self) -> Result<Local, Error> {
        Local::new(Arc::clone(&self.inner)).ok_or(Error::Tx(TxError::OutOfSpace))
    }

    /// The address that was stored under that name; null if none was.
    ///
    /// # Errors
    /// [`Error::RootType`] if it has another type, [`Error::RootName`].
    pub fn root(&self, name: &str, type_id: u64) -> Result<*mut u8, Error> {
        roots::find(&self.inner.space, name, type_id)
    }

    /// Store an address under a name, in place of the one before. Null removes the name.
    ///
    /// # Errors
    /// [`Error::RootType`] if the name has another type, [`Error::RootName`], or
    /// [`TxError::Full`](crate::TxError::Full).
    pub fn set_root(&self, name: &str, type_id: u64, at: *mut u8, bytes: u64) -> Result<(), Error> {
        roots::set(&self.inner.space, name, (type_id, at, bytes))
    }

    /// Make slabs without objects free chunks again, so that other sizes can have their memory.
    /// Returns how many they were.
    ///
    /// # Errors
    /// [`Error::InUse`] while there are allocators.
    pub fn reclaim(&mut self) -> Result<u64, Error> {
        if self.inner.users.load(Ordering::Acquire) != 1 {
            return Err(Error::InUse);
        }
        // SAFETY: every `Local` is a user, and the only one is this, which nobody else has now.
        Ok(unsafe { reclaim::reclaim(&self.inner.space) })
    }

    /// What is allocated. Threads must be at rest for it to be exact.
    #[must_use]
    pub fn usage(&self) -> Usage {
        check::look(self.header(), &|offset| self.word(offset)).usage
    }

    /// What is not in order in the allocator. Threads must be at rest.
    #[must_use]
    pub fn check(&self) -> Vec<Finding> {
        check::look(self.header(), &|offset| self.word(offset)).findings
    }

    fn word(&self, offset: u64) -> u64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.header().size_bytes);
        // SAFETY: aligned and in the mapping.
        unsafe { word_at(&self.inner.map, offset as usize).read_volatile() }
    }

    /// Stop all stores to the region: the platform no longer promises that caches survive. What is
    /// in it is written back once, and the region is marked as held. A store then waits for
    /// [`Region::release`] or ends the process with SIGSEGV, as `stores` says.
    ///
    /// # Errors
    /// [`Error::Io`] if the memory cannot be protected.
    pub fn hold(&self, stores: Hold) -> Result<(), Error> {
        let mut asked = self.inner.protected.asked();
        asked.program = Some(stores);
        self.inner.follow(&mut asked)
    }

    /// Let stores to the region go on: the platform promises again that caches survive. Where the
    /// library knows that it does not, they go on when it does.
    ///
    /// # Errors
    /// [`Error::Io`] if the memory cannot be made writable.
    pub fn release(&self) -> Result<(), Error> {
        let mut asked = self.inner.protected.asked();
        asked.program = None;
        self.inner.follow(&mut asked)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.inner.leave();
    }
}

impl Inner {
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// One user more.
    pub fn join(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// One user less. After the last one nobody is told of the promise, so that it is this user who
    /// closes the region.
    pub fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            promise::unwatch(self.key());
        }
    }

    /// Hold the region, or release it, as the requests say.
    fn follow(&self, asked: &mut Asked) -> Result<(), Error> {
        match asked.turn() {
            Turn::Stays => {}
            Turn::Begins(hold) => {
                // A store that meets the protection waits with all that its thread has locked: so
                // nobody may have this, which is needed to see what there is to write back.
                let guard = self.space.lock();
                self.protected.protect(&self.map, hold)?;
                self.write_back(&guard);
                self.mark(Mark::Held);
            }
            Turn::Other(hold) => self.protected.protect(&self.map, hold)?,
            Turn::Ends => {
                self.mark(Mark::Open);
                self.protected.release(&self.map)?;
            }
        }
        asked.done();
        Ok(())
    }

    /// A thread ended in a panic: what is in the region may be half changed.
    pub fn poison(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
    }

    /// Store a word of the state, durably.
    fn set(&self, offset: usize, word: u64) {
        let at = word_at(&self.map, offset);
        // SAFETY: a word of the state page, which stays writable.
        unsafe {
            self.pm.store(at, word);
            self.pm.flush(at.cast());
        }
        self.pm.fence();
    }

    fn mark(&self, mark: Mark) {
        self.set(MARK_OFFSET, mark as u64);
    }

    /// Make all that is in the region durable.
    fn write_back(&self, guard: &MutexGuard<'_, ()>) {
        if !self.outlives {
            return;
        }
        self.space.used(guard, |offset, bytes| {
            for line in (offset..offset + bytes).step_by(LINE_BYTES) {
                // SAFETY: in the mapping.
                unsafe { self.pm.flush(self.map.base().wrapping_add(line)) };
            }
        });
        self.pm.fence();
    }
}

impl Holder for Inner {
    fn promise_is(&self, kept: bool) {
        let follow = |asked: &mut Asked| self.follow(asked);
        self.protected.promise_is(kept, self.when_withdrawn, follow);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let whole = !self.poisoned.load(Ordering::Relaxed) && !std::thread::panicking();
        if whole {
            self.write_back(&self.space.lock());
            self.mark(Mark::Closed);
        }
        self.protected.forget(&self.map);
    }
}

fn word_at(map: &Mapping, offset: usize) -> *mut u64 {
    map.base().wrapping_add(offset).cast()
}

fn map_options(address: Option<usize>) -> MapOptions {
    MapOptions {
        // Caches are saved by the platform: no mapping has to be synchronous.
        assume_persistent: true,
        must_be_persistent: true,
        address,
    }
}

/// Map a new file: at the address that was asked for, or at one that is free.
fn map_new(path: &Path, bytes: u64, options: &Options) -> Result<Mapping, Error> {
    if let Some(address) = options.address {
        return Mapping::create(path, bytes, &map_options(Some(address)))
            .map_err(|error| taken(error, address as u64));
    }
    let step = bytes.next_multiple_of(ALIGN_BYTES as u64);
    let places = (ADDRESS_MAX - ADDRESS_MIN) / step;
    if places == 0 {
        return Err(Error::Size(bytes));
    }
    let mut tries = 0;
    loop {
        let drawn = u64::from_le_bytes(new_uuid()[..8].try_into().unwrap_or([0; 8]));
        let address = ADDRESS_MIN + drawn % places * step;
        match Mapping::create(path, bytes, &map_options(Some(address as usize))) {
            Err(error) if is_taken(&error) && tries < ADDRESS_TRIES => tries += 1,
            done => return done.map_err(|error| taken(error, address)),
        }
    }
}

fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Io(_, error) if error.raw_os_error() == Some(libc::EEXIST))
}

/// An error of a mapping, with the name of what is in its place.
fn taken(error: Error, address: u64) -> Error {
    match error {
        Error::Io(path, io) if io.raw_os_error() == Some(libc::EEXIST) => {
            let bytes = std::fs::metadata(&path).map_or(1, |is| is.len().max(1));
            let by = crate::dangling::volatile_memory((0, 0))
                .unwrap_or_default()
                .into_iter()
                .find(|(from, end, _)| *from < address.saturating_add(bytes) && address < *end)
                .map_or_else(|| "another mapping".to_owned(), |(_, _, name)| name);
            Error::AddressTaken { path, address, by }
        }
        error => error,
    }
}

/// The header of a region in a file.
///
/// # Errors
/// What is wrong with it.
pub fn header_of(path: &Path) -> Result<Header, Error> {
    use std::io::Read;
    let failed = |error: io::Error| Error::Io(path.to_owned(), error);
    let mut head = Vec::with_capacity(HEADER_BYTES);
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(HEADER_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    Header::decode(&head)
}

/// Whether a file begins as a region of plain memory does.
#[must_use]
pub fn is_region(path: &Path) -> bool {
    !matches!(
        header_of(path),
        Err(Error::NotARegion | Error::Io(..) | Error::Short(..))
    )
}

/// A child has none of it: two processes with one allocator would give memory out twice.
fn dont_fork(map: &Mapping) {
    if !cfg!(miri) {
        // SAFETY: about a mapping of ours.
        unsafe { libc::madvise(map.base().cast(), map.bytes(), libc::MADV_DONTFORK) };
    }
}
