// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain memory for C: include/nvheap.h says what each function does.

use std::alloc::Layout;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;

use heap::fof::{Hold, Local, Memory, Options, Region};
use heap::{Error, TxError};

use crate::{fail, fail_tx, fail_with, give, path_of, when_withdrawn};

/// Objects are aligned as malloc's are.
const ALIGN_BYTES: usize = 16;
/// All roots of C programs have one type: what they point to is the program's own matter.
const TYPE_ID: u64 = heap::type_id("void *", &[]);

fn options(flags: c_uint) -> Options {
    Options {
        assume_flush_on_fail: flags & 2 != 0,
        accept_unclosed: flags & 4 != 0,
        overwrite: flags & 8 != 0,
        address: None,
        when_withdrawn: when_withdrawn(flags),
    }
}

fn done(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fail_with(&error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_create(
    path: *const c_char,
    size_bytes: u64,
    flags: c_uint,
    ret_region: *mut *mut Region,
) -> c_int {
    // SAFETY: the header asks for a C string.
    let Some(path) = (unsafe { path_of(path) }) else {
        return fail(&"no path", libc::EINVAL);
    };
    give(
        Region::create(&path, size_bytes, &options(flags)),
        ret_region,
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_open(
    path: *const c_char,
    flags: c_uint,
    ret_region: *mut *mut Region,
) -> c_int {
    // SAFETY: the header asks for a C string.
    let Some(path) = (unsafe { path_of(path) }) else {
        return fail(&"no path", libc::EINVAL);
    };
    // SAFETY: the header asks for a file that only this library writes to.
    give(unsafe { Region::open(&path, &options(flags)) }, ret_region)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_close(region: *mut Region) -> c_int {
    if !region.is_null() {
        // SAFETY: made by `give`, and closed once.
        drop(unsafe { Box::from_raw(region) });
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_local_new(
    region: *const Region,
    ret_local: *mut *mut Local,
) -> c_int {
    // SAFETY: null or an open region.
    match unsafe { region.as_ref() } {
        Some(region) => give(region.local(), ret_local),
        None => fail(&"no region", libc::EINVAL),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_local_delete(local: *mut Local) -> c_int {
    if !local.is_null() {
        // SAFETY: made by `give`, and deleted once.
        drop(unsafe { Box::from_raw(local) });
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_alloc(
    local: *mut Local,
    size_bytes: usize,
    ret_at: *mut *mut c_void,
) -> c_int {
    // SAFETY: null or a thread's allocator.
    let Some(local) = (unsafe { local.as_mut() }).filter(|_| !ret_at.is_null()) else {
        return fail(&"no allocator, or no place for the result", libc::EINVAL);
    };
    let layout = Layout::from_size_align(size_bytes, ALIGN_BYTES);
    match layout.ok().and_then(|layout| local.alloc(layout)) {
        Some(at) => {
            // SAFETY: not null; the caller gave it for this.
            unsafe { *ret_at = at.as_ptr().cast() };
            0
        }
        None => fail_tx(TxError::OutOfSpace),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_free(local: *mut Local, at: *mut c_void) -> c_int {
    // SAFETY: null or a thread's allocator.
    let Some(local) = (unsafe { local.as_mut() }) else {
        return fail(&"no allocator", libc::EINVAL);
    };
    let Some(at) = NonNull::new(at.cast()) else {
        return 0;
    };
    // SAFETY: the header asks for an address of nvheap_fof_alloc().
    if unsafe { local.free_unsized(at) } {
        0
    } else {
        fail_tx(TxError::BadFree)
    }
}

/// The name in a C string.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a str, Error> {
    if name.is_null() {
        return Err(Error::RootName);
    }
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| Error::RootName)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_root(
    region: *const Region,
    name: *const c_char,
    ret_at: *mut *mut c_void,
) -> c_int {
    // SAFETY: null or an open region.
    let Some(region) = (unsafe { region.as_ref() }).filter(|_| !ret_at.is_null()) else {
        return fail(&"no region, or no place for the result", libc::EINVAL);
    };
    // SAFETY: the header asks for a C string.
    match unsafe { name_of(name) }.and_then(|name| region.root(name, TYPE_ID)) {
        Ok(at) => {
            // SAFETY: not null; the caller gave it for this.
            unsafe { *ret_at = at.cast() };
            0
        }
        Err(error) => fail_with(&error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_set_root(
    region: *const Region,
    name: *const c_char,
    at: *mut c_void,
) -> c_int {
    // SAFETY: null or an open region.
    let Some(region) = (unsafe { region.as_ref() }) else {
        return fail(&"no region", libc::EINVAL);
    };
    // SAFETY: the header asks for a C string.
    let name = unsafe { name_of(name) };
    done(name.and_then(|name| region.set_root(name, TYPE_ID, at.cast(), 0)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_hold(region: *const Region, stores_wait: c_int) -> c_int {
    let hold = if stores_wait == 0 {
        Hold::Fault
    } else {
        Hold::Wait
    };
    // SAFETY: null or an open region.
    match unsafe { region.as_ref() } {
        Some(region) => done(region.hold(hold)),
        None => fail(&"no region", libc::EINVAL),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvheap_fof_release(region: *const Region) -> c_int {
    // SAFETY: null or an open region.
    match unsafe { region.as_ref() } {
        Some(region) => done(region.release()),
        None => fail(&"no region", libc::EINVAL),
    }
}
