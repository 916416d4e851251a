// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library for C: see `crash_states.h`, which says what each function does.

use std::convert::Infallible;
use std::ffi::c_void;

use remanence_crash_states::{Cuts, Image, LINE_BYTES, Limits};

/// Lines of a moment that are shown alone new and alone old.
const ALONE_MAX: usize = 300;

/// `struct crash_states`
#[derive(Debug)]
pub struct CrashStates(Cuts);

/// `look` of C; `struct crash_image` is an [`Image`].
type Look = extern "C" fn(image: *mut c_void, context: *mut c_void);

/// Memory that is on media.
///
/// # Safety
/// `media` is `bytes` long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_states_new(
    media: *const u8,
    bytes: usize,
    all_max: u64,
    drawn: u64,
    seed: u64,
) -> *mut CrashStates {
    // SAFETY: the caller's promise.
    let media = unsafe { std::slice::from_raw_parts(media, bytes) }.to_vec();
    let limits = Limits {
        all_max,
        drawn,
        alone_max: ALONE_MAX,
    };
    Box::into_raw(Box::new(CrashStates(Cuts::new(media, limits, seed))))
}

/// The end of it.
///
/// # Safety
/// `states` is from `crash_states_new()` and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_states_free(states: *mut CrashStates) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(states) });
}

/// Bytes were stored.
///
/// # Safety
/// `states` is from `crash_states_new()`, `data` is `bytes` long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_states_store(
    states: *mut CrashStates,
    offset: usize,
    data: *const u8,
    bytes: usize,
) {
    // SAFETY: the caller's promise.
    let (states, data) = unsafe { (&mut *states, std::slice::from_raw_parts(data, bytes)) };
    states.0.memory.store(offset, data);
}

/// Lines are to be written back.
///
/// # Safety
/// `states` is from `crash_states_new()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_states_flush(states: *mut CrashStates, offset: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    let states = unsafe { &mut *states };
    for line in offset / LINE_BYTES..(offset + bytes).div_ceil(LINE_BYTES) {
        states.0.memory.flush(0, line as u64);
    }
}

/// What was flushed is on media.
///
/// # Safety
/// `states` is from `crash_states_new()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_states_fence(states: *mut CrashStates) {
    // SAFETY: the caller's promise.
    unsafe { &mut *states }.0.memory.fence(0);
}

/// What is on media for certain.
///
/// # Safety
/// `states` is from `crash_states_new()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_states_media(states: *const CrashStates) -> *const u8 {
    // SAFETY: the caller's promise.
    unsafe { &*states }.0.memory.media().as_ptr()
}

/// Shows images.
///
/// # Safety
/// `states` is from `crash_states_new()` and is not used by `look`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_states_show(
    states: *mut CrashStates,
    expected: u64,
    look: Look,
    context: *mut c_void,
) {
    // SAFETY: the caller's promise.
    let states = unsafe { &mut *states };
    let mut show = |image: &mut Image<'_>| -> Result<(), Infallible> {
        look((&raw mut *image).cast(), context);
        Ok(())
    };
    let Ok(()) = states.0.show(expected, &mut show);
}

/// The bytes of an image.
///
/// # Safety
/// `image` is what `look` was given, and `look` has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_image_bytes(image: *mut Image<'_>) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { &mut *image }.bytes_mut().as_mut_ptr()
}

/// Bytes of an image are written to.
///
/// # Safety
/// As for `crash_image_bytes()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crash_image_touch(image: *mut Image<'_>, offset: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { &mut *image }.touch(offset, bytes);
}
