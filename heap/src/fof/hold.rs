// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of stores while the platform does not save caches. Plain stores ask nobody, so the
//! memory itself refuses them: its pages become read-only. All but those of the state, which the mark
//! is in.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::error::Error;
use crate::map::Mapping;

/// What a store to a held region does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It ends the process with SIGSEGV.
    Fault,
    /// It waits until the region is released. The library then handles SIGSEGV, and hands on what
    /// is not its own. A system call that is to write to the region fails with EFAULT.
    #[default]
    Wait,
}

/// Who wants a region to be held: it is as long as anybody does.
#[derive(Debug, Default)]
pub struct Asked {
    /// The program.
    pub program: Option<Hold>,
    /// The library, as the platform's promise has ended.
    pub platform: Option<Hold>,
    now: Option<Hold>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing has changed.
    Stays,
    /// Stores are to be refused from now on.
    Begins(Hold),
    /// They are, but are to do something else.
    Other(Hold),
    /// They are to go on.
    Ends,
}

impl Asked {
    /// What to do about it.
    pub fn turn(&self) -> Turn {
        match (self.now, self.program.or(self.platform)) {
            (None, Some(hold)) => Turn::Begins(hold),
            (Some(_), None) => Turn::Ends,
            (Some(now), Some(hold)) if now != hold => Turn::Other(hold),
            _ => Turn::Stays,
        }
    }

    /// It has been done.
    pub fn done(&mut self) {
        self.now = self.program.or(self.platform);
    }
}

/// Regions whose stores may wait at the same time.
const SLOTS: usize = 16;
/// Between two tries of a store that waits.
const RETRY_NS: i64 = 1_000_000;

/// A region's range, from its first hold with [`Hold::Wait`] until it is unmapped: a store that met
/// the protection may come to the handler after the release.
struct Slot {
    from: AtomicUsize,
    end: AtomicUsize,
    waits: AtomicBool,
}

static SLOTS_IN_USE: Mutex<()> = Mutex::new(());
static HELD: [Slot; SLOTS] = [const {
    Slot {
        from: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        waits: AtomicBool::new(false),
    }
}; SLOTS];

/// The protection of a region, and who wants it.
#[derive(Debug)]
pub struct Protected {
    asked: Mutex<Asked>,
    /// What stays writable.
    state: Range<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic within changes nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Protected {
    /// Nobody wants it yet; `state` stays writable.
    pub fn new(state: Range<usize>) -> Self {
        Self {
            asked: Mutex::default(),
            state,
        }
    }

    /// Who wants it. While this is held nobody else changes it.
    pub fn asked(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked)
    }

    /// The platform's promise is kept, or it has ended: `follow` does what is then to be done.
    ///
    /// Ends the process where stores could go on that nobody saves, and the program could not know.
    pub fn promise_is(
        &self,
        kept: bool,
        when_withdrawn: Hold,
        follow: impl Fn(&mut Asked) -> Result<(), Error>,
    ) {
        let mut asked = self.asked();
        asked.platform = (!kept).then_some(when_withdrawn);
        let mut done = follow(&mut asked);
        if done.is_err() && !kept {
            // There is no room for more whose stores wait.
            asked.platform = Some(Hold::Fault);
            done = follow(&mut asked);
        }
        if done.is_err() {
            std::process::abort();
        }
    }

    /// Refuse stores.
    pub fn protect(&self, map: &Mapping, hold: Hold) -> Result<(), Error> {
        let slot = slot_of(map).or_else(|| (hold == Hold::Wait).then(|| take_slot(map))?);
        match slot {
            Some(slot) => slot.waits.store(hold == Hold::Wait, Ordering::SeqCst),
            None if hold == Hold::Wait => {
                return Err(failed(io::Error::other("too many regions are held")));
            }
            None => {}
        }
        self.set_rights(map, libc::PROT_READ)
    }

    /// Let stores go on.
    pub fn release(&self, map: &Mapping) -> Result<(), Error> {
        self.set_rights(map, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// The mapping goes away.
    pub fn forget(&self, map: &Mapping) {
        let _guard = lock(&SLOTS_IN_USE);
        if let Some(slot) = slot_of(map) {
            slot.end.store(0, Ordering::SeqCst);
            slot.from.store(0, Ordering::SeqCst);
        }
    }

    /// Of all but the state.
    fn set_rights(&self, map: &Mapping, rights: libc::c_int) -> Result<(), Error> {
        for (from, end) in [(0, self.state.start), (self.state.end, map.bytes())] {
            let at = map.base().wrapping_add(from);
            // SAFETY: pages of a mapping of ours.
            if unsafe { libc::mprotect(at.cast(), end - from, rights) } != 0 {
                return Err(failed(io::Error::last_os_error()));
            }
        }
        Ok(())
    }
}

fn failed(error: io::Error) -> Error {
    Error::Io(PathBuf::from("holding a region"), error)
}

fn slot_of(map: &Mapping) -> Option<&'static Slot> {
    let from = map.base() as usize;
    HELD.iter()
        .find(|slot| slot.from.load(Ordering::SeqCst) == from)
}

fn take_slot(map: &Mapping) -> Option<&'static Slot> {
    static HANDLER: Once = Once::new();
    let _guard = lock(&SLOTS_IN_USE);
    let slot = HELD
        .iter()
        .find(|slot| slot.from.load(Ordering::SeqCst) == 0)?;
    let from = map.base() as usize;
    slot.from.store(from, Ordering::SeqCst);
    slot.end.store(from + map.bytes(), Ordering::SeqCst);
    HANDLER.call_once(install);
    Some(slot)
}

/// What handled SIGSEGV before: function and flags.
static BEFORE: (AtomicUsize, AtomicI32) = (AtomicUsize::new(0), AtomicI32::new(0));

fn install() {
    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    // SAFETY: both structures are valid when zeroed, and are filled before they are used.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut before);
        BEFORE.0.store(before.sa_sigaction, Ordering::SeqCst);
        BEFORE.1.store(before.sa_flags, Ordering::SeqCst);
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_fault as Handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const ours, std::ptr::null_mut());
    }
}

/// A store met a protected page: wait, then the CPU tries it again. Only calls that a signal handler
/// may make.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid structure to a handler with SA_SIGINFO.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let waits = code == SEGV_ACCERR
        && HELD.iter().any(|slot| {
            let range = slot.from.load(Ordering::SeqCst)..slot.end.load(Ordering::SeqCst);
            range.contains(&at) && slot.waits.load(Ordering::SeqCst)
        });
    if waits {
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: RETRY_NS,
        };
        // SAFETY: a valid time; what is left of it does not matter.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
        return;
    }
    hand_on(signal, info, context);
}

/// The page is mapped and refuses the access.
const SEGV_ACCERR: libc::c_int = 2;

fn hand_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.0.load(Ordering::SeqCst);
    let flags = BEFORE.1.load(Ordering::SeqCst);
    // SAFETY: `before` is what sigaction() gave: the address of a handler of that kind, or one of
    // the two numbers that are none.
    unsafe {
        if before == libc::SIG_DFL || before == libc::SIG_IGN {
            // Tried again it ends the process as it would have.
            libc::signal(signal, libc::SIG_DFL);
        } else if flags & libc::SA_SIGINFO != 0 {
            let call: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(before);
            call(signal, info, context);
        } else {
            let call: extern "C" fn(libc::c_int) = std::mem::transmute(before);
            call(signal);
        }
    }
}
