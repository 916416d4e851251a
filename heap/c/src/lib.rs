// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library: include/nvheap.h says what each function does.

#![allow(clippy::missing_safety_doc, missing_docs)] // include/nvheap.h and the manual pages

mod any;
mod fof;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;

use heap::erased::{AnySession, Words};
use heap::fof::Hold;
use heap::{Error, Options, PolicyKind, TxError};

use crate::any::AnyHeap;

thread_local! {
    static WHY: RefCell<CString> = RefCell::default();
}

fn fail(error: &dyn std::fmt::Display, errno: c_int) -> c_int {
    let text = CString::new(error.to_string()).unwrap_or_default();
    WHY.with(|why| *why.borrow_mut() = text);
    -errno
}

fn fail_with(error: &Error) -> c_int {
    let errno = match error {
        Error::Io(_, io) => io.raw_os_error().unwrap_or(libc::EIO),
        Error::Busy(_) | Error::InUse => libc::EBUSY,
        Error::NoFlushOnFail | Error::NotPersistent(_) => libc::EOPNOTSUPP,
        Error::NotClosed => libc::EUCLEAN,
        Error::AddressTaken { .. } | Error::NotEmpty(_) => libc::EEXIST,
        Error::NoSession(_) => libc::EAGAIN,
        Error::Tx(error) => return fail_tx(*error),
        Error::Size(_)
        | Error::Sessions(_)
        | Error::RootName
        | Error::RootType
        | Error::Policy { .. } => libc::EINVAL,
        _ => libc::EUCLEAN,
    };
    fail(error, errno)
}

fn fail_tx(error: TxError) -> c_int {
    let errno = match error {
        TxError::Abort => libc::ECANCELED,
        TxError::Retry | TxError::Conflict => libc::EAGAIN,
        TxError::OutOfSpace => libc::ENOSPC,
        TxError::TooLarge => libc::E2BIG,
        TxError::BadPointer => libc::EFAULT,
        TxError::ReadOnly => libc::EROFS,
        TxError::NoRollback => libc::EOPNOTSUPP,
        TxError::Full => libc::ENFILE,
        TxError::InTransaction => libc::EBUSY,
        _ => libc::EINVAL,
    };
    fail(&error, errno)
}

/// Bits of the flags that hold the number of sessions of a new region.
const SESSIONS_SHIFT: u32 = 16;

/// As in include/nvheap.h.
const FAULT_WHEN_WITHDRAWN: c_uint = 0x100;

/// What a store does while the platform does not promise that caches are saved.
fn when_withdrawn(flags: c_uint) -> Hold {
    if flags & FAULT_WHEN_WITHDRAWN == 0 {
        Hold::Wait
    } else {
        Hold::Fault
    }
}

fn options(flags: c_uint) -> Options {
    let sessions = match flags >> SESSIONS_SHIFT {
        0 => Options::default().sessions,
        number => number,
    };
    Options {
        sessions,
        assume_persistent: flags & 1 != 0,
        assume_flush_on_fail: flags & 2 != 0,
        overwrite: flags & 8 != 0,
        when_withdrawn: when_withdrawn(flags),
        ..Options::default()
    }
}

/// The path in a C string.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn path_of(path: *const c_char) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

fn give<T>(made: Result<T, Error>, ret: *mut *mut T) -> c_int {
    match made {
        Ok(made) if !ret.is_null() => {
            // SAFETY: not null; the caller gave it for this.
            unsafe { *ret = Box::into_raw(Box::new(made)) };
            0
        }
        Ok(_) => fail(&"no place for the result", libc::EINVAL),
        Err(error) => fail_with(&error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_create(
    path: *const c_char,
    size_bytes: u64,
    policy: c_uint,
    flags: c_uint,
    ret_heap: *mut *mut AnyHeap,
) -> c_int {
    // SAFETY: the header asks for a C string.
    let path = unsafe { path_of(path) };
    let (Some(path), Some(kind)) = (path, PolicyKind::from_number(policy)) else {
        return fail(&"no path, or no such policy", libc::EINVAL);
    };
    give(
        AnyHeap::create(&path, size_bytes, kind, &options(flags)),
        ret_heap,
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_open(
    path: *const c_char,
    flags: c_uint,
    ret_heap: *mut *mut AnyHeap,
) -> c_int {
    // SAFETY: the header asks for a C string.
    let Some(path) = (unsafe { path_of(path) }) else {
        return fail(&"no path", libc::EINVAL);
    };
    give(AnyHeap::open(&path, &options(flags)), ret_heap)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_close(heap: *mut AnyHeap) -> c_int {
    if !heap.is_null() {
        // SAFETY: made by `give`, and closed once.
        drop(unsafe { Box::from_raw(heap) });
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_policy(heap: *const AnyHeap) -> c_int {
    // SAFETY: null or an open heap.
    match unsafe { heap.as_ref() } {
        Some(heap) => heap.kind() as c_int,
        None => fail(&"no heap", libc::EINVAL),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_session_new(
    heap: *mut AnyHeap,
    ret_session: *mut *mut AnySession,
) -> c_int {
    // SAFETY: null or an open heap.
    match unsafe { heap.as_ref() } {
        Some(heap) => give(heap.session(), ret_session),
        None => fail(&"no heap", libc::EINVAL),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_session_delete(session: *mut AnySession) -> c_int {
    if session.is_null() {
        return 0;
    }
    // SAFETY: a session of this thread.
    if let Err(error) = unsafe { AnySession::must_be_idle(session) } {
        return fail_tx(error);
    }
    // SAFETY: made by `give`, and deleted once.
    drop(unsafe { Box::from_raw(session) });
    0
}

type Body = Option<unsafe extern "C" fn(*mut AnySession, *mut c_void) -> c_int>;

fn run(session: *mut AnySession, body: Body, context: *mut c_void, view: bool) -> c_int {
    let Some(body) = body else {
        return fail(&"no body", libc::EINVAL);
    };
    if session.is_null() {
        return fail(&"no session", libc::EINVAL);
    }
    let mut answer = 0;
    // SAFETY: a session of this thread.
    let done = unsafe {
        AnySession::run(session, view, &mut || {
            answer = body(session, context);
            answer
        })
    };
    match done {
        Ok(()) => answer,
        Err(TxError::Abort) if answer < 0 => {
            fail(&TxError::Abort, libc::ECANCELED);
            answer
        }
        Err(error) => fail_tx(error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_run(s: *mut AnySession, body: Body, context: *mut c_void) -> c_int {
    run(s, body, context, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_view(
    s: *mut AnySession,
    body: Body,
    context: *mut c_void,
) -> c_int {
    run(s, body, context, true)
}

/// A session within a body.
///
/// # Safety
/// Null, or the session that a body was called with.
unsafe fn within(
    tx: *mut AnySession,
    work: impl FnOnce(&mut dyn Words) -> Result<(), TxError>,
) -> c_int {
    if tx.is_null() {
        return fail(&"no session", libc::EINVAL);
    }
    // SAFETY: as the caller says; the body is the only one that uses it now.
    match unsafe { AnySession::running(tx) }.within(work) {
        None => fail(&"outside of a transaction", libc::EINVAL),
        Some(Ok(())) => 0,
        Some(Err(error)) => fail_tx(error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_load(
    tx: *mut AnySession,
    from: u64,
    to: *mut c_void,
    size_bytes: usize,
) -> c_int {
    if size_bytes % 8 != 0 || to.is_null() {
        return fail(
            &"a size that is no multiple of 8, or no place",
            libc::EINVAL,
        );
    }
    // SAFETY: the caller's buffer has that length.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), size_bytes) };
    // SAFETY: as the header says.
    unsafe { within(tx, |tx| tx.load(from, to)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_store(
    tx: *mut AnySession,
    to: u64,
    from: *const c_void,
    size_bytes: usize,
) -> c_int {
    if size_bytes % 8 != 0 || from.is_null() {
        return fail(
            &"a size that is no multiple of 8, or nothing to store",
            libc::EINVAL,
        );
    }
    // SAFETY: the caller's buffer has that length.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size_bytes) };
    // SAFETY: as the header says.
    unsafe { within(tx, |tx| tx.store(to, from)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_alloc(
    tx: *mut AnySession,
    size_bytes: usize,
    ret: *mut u64,
) -> c_int {
    if ret.is_null() {
        return fail(&"no place for the result", libc::EINVAL);
    }
    // SAFETY: as the header says; `ret` is not null.
    unsafe {
        within(tx, |tx| {
            *ret = tx.alloc(size_bytes as u64)?;
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_free(tx: *mut AnySession, ptr: u64) -> c_int {
    // SAFETY: as the header says.
    unsafe { within(tx, |tx| tx.free(ptr)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_root(
    session: *mut AnySession,
    name: *const c_char,
    size_bytes: usize,
    ret_ptr: *mut u64,
) -> c_int {
    // SAFETY: null, or what the header asks for.
    let Some(name) = (unsafe { path_of(name) }).filter(|_| !session.is_null()) else {
        return fail(&"no session or no name", libc::EINVAL);
    };
    // SAFETY: a session of this thread.
    match unsafe { AnySession::root(session, &name.to_string_lossy(), size_bytes as u64) } {
        Ok(offset) if !ret_ptr.is_null() => {
            // SAFETY: not null.
            unsafe { *ret_ptr = offset };
            0
        }
        Ok(_) => fail(&"no place for the result", libc::EINVAL),
        Err(error) => fail_with(&error),
    }
}

type Found = Option<unsafe extern "C" fn(u64, u64, u64, *const c_char, *mut c_void)>;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_check_dangling(
    heap: *mut AnyHeap,
    found: Found,
    context: *mut c_void,
) -> c_int {
    // SAFETY: null or an open heap.
    let Some(heap) = (unsafe { heap.as_ref() }) else {
        return fail(&"no heap", libc::EINVAL);
    };
    let all = match heap.dangling() {
        Ok(all) => all,
        Err(error) => return fail(&error, libc::EIO),
    };
    if let Some(found) = found {
        for it in &all {
            let mapping = CString::new(it.mapping.as_str()).unwrap_or_default();
            // SAFETY: the caller's function, with what the header says.
            unsafe { found(it.object, it.word, it.address, mapping.as_ptr(), context) };
        }
    }
    c_int::try_from(all.len()).unwrap_or(c_int::MAX)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvheap_why() -> *const c_char {
    WHY.with(|why| why.borrow().as_ptr())
}
