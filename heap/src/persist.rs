// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What may lie in a region, and pointers to it.
//!
//! A pointer from persistent to volatile memory dangles after a cut. [`Persist`] refuses it when
//! the program is compiled: no type with an address of the process is `Persist`.
//!
//! ```compile_fail,E0277
//! nvheap::persist! { struct Node { name: &'static str } }
//! ```
//! ```compile_fail,E0277
//! nvheap::persist! { struct Node { next: Option<Box<u64>> } }
//! ```
//! ```compile_fail,E0277
//! nvheap::persist! { struct Node { data: *const u64 } }
//! ```
//! ```compile_fail,E0277
//! nvheap::persist! { struct Node { call: fn() } }
//! ```
//! ```compile_fail,E0277
//! nvheap::persist! { struct Node { text: String } }
//! ```
//! A number that only some bit patterns are valid for would not survive a damaged region:
//! ```compile_fail,E0277
//! nvheap::persist! { struct Flag { set: bool, pad: [u8; 7] } }
//! ```
//! Nor are there bytes that belong to no field:
//! ```compile_fail,E0080
//! nvheap::persist! { struct Gap { small: u32, large: u64 } }
//! let _ = <Gap as nvheap::Persist>::TYPE_ID;
//! ```
//! What is right compiles:
//! ```
//! nvheap::persist! { struct Node { next: nvheap::PPtr<Node>, key: u64 } }
//! assert_eq!(std::mem::size_of::<Node>(), 16);
//! ```

use std::fmt;
use std::marker::PhantomData;

/// A value that may lie in a region.
///
/// # Safety
/// Every bit pattern is a valid value, no byte is padding, and it holds no address of the process
/// nor anything else that means something in this process only.
pub unsafe trait Persist: Copy + 'static {
    /// Identifies the type across programs: made of names and of the fields with all that is in them,
    /// never of addresses. What a pointer leads to has no part in it but its name.
    const TYPE_ID: u64;
}

/// FNV-1a, continued from `hash`.
#[must_use]
pub const fn fnv1a(bytes: &[u8], mut hash: u64) -> u64 {
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        index += 1;
    }
    hash
}

/// Where a hash of a type begins.
pub const FNV_SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// The identity of a type made of a name and the types it is made of.
#[must_use]
pub const fn type_id(name: &str, parts: &[u64]) -> u64 {
    let mut hash = fnv1a(name.as_bytes(), FNV_SEED);
    let mut index = 0;
    while index < parts.len() {
        hash = fnv1a(&parts[index].to_le_bytes(), hash);
        index += 1;
    }
    hash
}

macro_rules! plain {
    ($($type:ty)*) => {
        $(
            // SAFETY: a number: every bit pattern is one, and it is no address.
            unsafe impl Persist for $type {
                const TYPE_ID: u64 = type_id(stringify!($type), &[]);
            }
        )*
    };
}
plain!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 f32 f64);

// SAFETY: as its elements; an array has no padding.
unsafe impl<T: Persist, const N: usize> Persist for [T; N] {
    const TYPE_ID: u64 = type_id("array", &[T::TYPE_ID, N as u64]);
}

/// Declare a struct that may lie in a region: each field must be, and there is no padding.
#[macro_export]
macro_rules! persist {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident : $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)*
        }

        // SAFETY: each field is `Persist`, which `is_persist` has the compiler check, and the
        // constant refuses padding.
        unsafe impl $crate::Persist for $name {
            const TYPE_ID: u64 = {
                const fn is_persist<T: $crate::Persist>() -> usize { ::core::mem::size_of::<T>() }
                assert!(
                    ::core::mem::size_of::<$name>() == 0 $(+ is_persist::<$type>())*,
                    "there is padding between the fields"
                );
                $crate::type_id(
                    concat!(stringify!($name), $(" ", stringify!($field), ":", stringify!($type)),*),
                    // A field of the same name and type may be laid out otherwise.
                    &[$(<$type as $crate::Persist>::TYPE_ID),*],
                )
            };
        }
    };
}

/// A pointer into a region: the offset from its beginning, so that it means the same wherever the
/// region is mapped. Zero is null.
#[repr(transparent)]
pub struct PPtr<T> {
    offset: u64,
    type_: PhantomData<fn() -> T>,
}

impl<T> PPtr<T> {
    /// The pointer to nothing.
    pub const NULL: Self = Self::from_offset(0);

    /// A pointer to that offset. Nothing is believed of it: each access is checked to lie in the
    /// region's objects, and every bit pattern there is a value.
    #[must_use]
    pub const fn from_offset(offset: u64) -> Self {
        Self {
            offset,
            type_: PhantomData,
        }
    }

    /// The offset from the beginning of the region.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Whether it points to nothing.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.offset == 0
    }

    /// A pointer to what lies `bytes` further on, e.g. a field; see [`field!`](crate::field).
    #[must_use]
    #[inline(always)]
    pub const fn at<F>(self, bytes: usize, _: fn(&T) -> &F) -> PPtr<F> {
        PPtr::from_offset(self.offset.wrapping_add(bytes as u64))
    }

    /// The same place as another type.
    #[must_use]
    pub const fn cast<U>(self) -> PPtr<U> {
        PPtr::from_offset(self.offset)
    }

    /// The element `index` of an array that begins here.
    #[must_use]
    #[inline(always)]
    pub const fn element(self, index: u64) -> Self {
        Self::from_offset(
            self.offset
                .wrapping_add(index.wrapping_mul(size_of::<T>() as u64)),
        )
    }
}

/// A pointer to a field: `field!(node, Node, next)`.
#[macro_export]
macro_rules! field {
    ($pointer:expr, $type:ty, $field:ident) => {
        $pointer.at(::core::mem::offset_of!($type, $field), |it: &$type| {
            &it.$field
        })
    };
}

impl<T> Clone for PPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for PPtr<T> {}
impl<T> PartialEq for PPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}
impl<T> Eq for PPtr<T> {}
impl<T> fmt::Debug for PPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PPtr({:#x})", self.offset)
    }
}

// SAFETY: an offset; each access is checked.
unsafe impl<T: 'static> Persist for PPtr<T> {
    // Not the target's identity: types may point to themselves.
    const TYPE_ID: u64 = type_id("pointer", &[]);
}

/// Bytes in a region: a pointer and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PBytes {
    /// Where they are; null if there are none.
    pub start: PPtr<u64>,
    /// How many.
    pub bytes: u64,
}

// SAFETY: a pointer and a number, without padding.
unsafe impl Persist for PBytes {
    const TYPE_ID: u64 = type_id("bytes", &[]);
}
