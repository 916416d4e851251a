// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a structure in plain memory asks of it, whether that outlives the process or not.

use std::alloc::Layout;
use std::ptr::NonNull;

/// An allocator, for one thread.
///
/// # Safety
/// What `alloc` returns is as large and as aligned as asked, and nobody else's until it is freed.
pub unsafe trait Memory {
    /// Memory of that size and alignment; its content is undefined. None if there is none left.
    fn alloc(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Free memory.
    ///
    /// # Safety
    /// `at` is from [`Memory::alloc`] of this memory, with the same layout, and is not used again.
    unsafe fn free(&mut self, at: NonNull<u8>, layout: Layout);

    /// Free memory of which only the address is known. Returns false where it is known that none is
    /// allocated there.
    ///
    /// # Safety
    /// As [`Memory::free`], with whatever layout.
    unsafe fn free_unsized(&mut self, at: NonNull<u8>) -> bool;
}
