// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer, in a library of its own that is loaded at run time: nvheap does not depend on it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

/// Functions of bench/peer.h.
#[derive(Clone, Copy)]
pub struct Peer {
    pub set: unsafe extern "C" fn(u64) -> c_int,
    pub swap: unsafe extern "C" fn() -> c_int,
    pub alloc_free: unsafe extern "C" fn(usize) -> c_int,
    pub insert: unsafe extern "C" fn(u64, u64) -> c_int,
    pub remove: unsafe extern "C" fn(u64) -> c_int,
    pub lookup: unsafe extern "C" fn(u64, *mut u64) -> c_int,
}

/// Load the library and make a pool.
pub fn open(library: &Path, pool: &Path, bytes: usize, buckets: u64) -> Result<Peer, String> {
    let text = |path: &Path| CString::new(path.to_string_lossy().as_bytes());
    let (name, file) = (text(library), text(pool));
    let (Ok(name), Ok(file)) = (name, file) else {
        return Err("a zero byte in a path".to_owned());
    };
    // SAFETY: a C string; the library is ours and stays loaded.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        // SAFETY: any thread may ask.
        let why = unsafe { libc::dlerror() };
        if why.is_null() {
            return Err(format!("the peer: {} cannot be loaded", library.display()));
        }
        // SAFETY: a C string, of this thread until its next call.
        let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
        return Err(format!("the peer: {why}"));
    }
    // SAFETY: the types are those of bench/peer.h.
    unsafe {
        let open: unsafe extern "C" fn(*const c_char, usize, u64) -> c_int =
            std::mem::transmute(symbol(handle, c"peer_open")?);
        let error: unsafe extern "C" fn() -> *const c_char =
            std::mem::transmute(symbol(handle, c"peer_error")?);
        if open(file.as_ptr(), bytes, buckets) != 0 {
            return Err(format!(
                "the peer: {}",
                CStr::from_ptr(error()).to_string_lossy()
            ));
        }
        Ok(Peer {
            set: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64) -> c_int>(symbol(
                handle,
                c"peer_set",
            )?),
            swap: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(symbol(
                handle,
                c"peer_swap",
            )?),
            alloc_free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize) -> c_int>(
                symbol(handle, c"peer_alloc_free")?,
            ),
            insert: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64, u64) -> c_int>(
                symbol(handle, c"peer_insert")?,
            ),
            remove: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64) -> c_int>(symbol(
                handle,
                c"peer_remove",
            )?),
            lookup: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64, *mut u64) -> c_int>(
                symbol(handle, c"peer_lookup")?,
            ),
        })
    }
}

fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is that of a loaded library.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        Err(format!("the peer has no {}", name.to_string_lossy()))
    } else {
        Ok(found)
    }
}
