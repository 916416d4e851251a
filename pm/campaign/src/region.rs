// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The core of persistent memory, in C: it opens an image of a region (`state.c`).

use std::ffi::{c_int, c_void};

/// `struct state`: what a reader finds in a region.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// Of all that counts, as `promise.h` makes it.
    pub digest: u64,
    /// Halves, segments and blocks that do not check.
    pub damaged: u64,
    /// Copies that opening repaired.
    pub repaired: u64,
}

/// `struct promise`: what the program in the guest reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// Operations that have returned.
    pub done: u64,
    /// Of what a reader finds then.
    pub digest: u64,
    /// Line of `work.c` that found something wrong, or 0.
    pub broken: u64,
}

impl Promise {
    /// Out of the line that begins with it.
    #[must_use]
    pub fn of_line(line: &[u8; 64]) -> Self {
        let word = |n: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&line[n * 8..n * 8 + 8]);
            u64::from_le_bytes(raw)
        };
        Self {
            done: word(0),
            digest: word(1),
            broken: word(2),
        }
    }
}

/// Bytes that the core has written to: offset and how many.
pub type Touched = Vec<(usize, usize)>;

type Touch = extern "C" fn(context: *mut c_void, offset: usize, bytes: usize);

unsafe extern "C" {
    fn pm_state(
        memory: *mut u8,
        bytes: usize,
        touch: Touch,
        context: *mut c_void,
        ret: *mut State,
    ) -> c_int;
    fn pm_promise(memory: *const u8, bytes: usize) -> u64;
    fn pm_sample(memory: *mut u8, bytes: usize, touch: Touch, context: *mut c_void) -> c_int;
}

extern "C" fn touch(context: *mut c_void, offset: usize, bytes: usize) {
    // SAFETY: the context is the list that the call below was given, which nothing else uses.
    unsafe { &mut *context.cast::<Touched>() }.push((offset, bytes));
}

/// Opens an image as a boot would, and reads all of it. Also what was written to on the way.
///
/// # Errors
/// The core's error number.
pub fn state(image: &mut [u8], touched: &mut Touched) -> Result<State, c_int> {
    let mut state = State::default();
    // SAFETY: the image is as long as it says; the core keeps to it, and calls `touch` meanwhile.
    let err = unsafe {
        pm_state(
            image.as_mut_ptr(),
            image.len(),
            touch,
            (&raw mut *touched).cast(),
            &raw mut state,
        )
    };
    if err == 0 { Ok(state) } else { Err(err) }
}

/// Where the segment of the promise is in a region; `None` where there is none.
#[must_use]
pub fn promise_offset(memory: &[u8]) -> Option<usize> {
    // SAFETY: the region is opened for reading only.
    let offset = unsafe { pm_promise(memory.as_ptr(), memory.len()) };
    usize::try_from(offset).ok().filter(|offset| *offset > 0)
}

/// For tests: a region with the segment of the promise, and a promise that is kept.
///
/// # Panics
/// If the core cannot make it.
#[must_use]
pub fn sample(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    let mut touched = Touched::new();
    // SAFETY: as in `state()`.
    let err = unsafe {
        pm_sample(
            memory.as_mut_ptr(),
            memory.len(),
            touch,
            (&raw mut touched).cast(),
        )
    };
    assert_eq!(err, 0, "the core makes a region");
    memory
}
