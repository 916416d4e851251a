// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of addresses, by which a program finds its data again.

use std::ptr;

use super::header::ROOTS_OFFSET;
use super::space::Space;
use crate::error::{Error, TxError};
use crate::heap::{NAME_WORDS, name_words};
use crate::layout::ROOTS;

/// A root as it lies in the region.
#[repr(C)]
struct Root {
    name: [u64; NAME_WORDS],
    type_id: u64,
    at: *mut u8,
    bytes: u64,
}

fn entries(space: &Space) -> *mut Root {
    space.at(ROOTS_OFFSET).cast()
}

/// The entry whose name that is. The caller holds the lock.
fn entry(space: &Space, name: &[u64; NAME_WORDS]) -> Option<*mut Root> {
    (0..ROOTS as usize)
        .map(|index| entries(space).wrapping_add(index))
        // SAFETY: entries of the table of roots, which the lock makes ours.
        .find(|entry| unsafe { (**entry).name == *name })
}

/// The address of a root; null if there is none.
pub fn find(space: &Space, name: &str, type_id: u64) -> Result<*mut u8, Error> {
    let words = name_words(name)?;
    let _guard = space.lock();
    let Some(entry) = entry(space, &words) else {
        return Ok(ptr::null_mut());
    };
    // SAFETY: as in `entry`.
    unsafe {
        if (*entry).type_id == type_id {
            Ok((*entry).at)
        } else {
            Err(Error::RootType)
        }
    }
}

/// Store, replace or, with null, remove a root.
pub fn set(
    space: &Space,
    name: &str,
    (type_id, at, bytes): (u64, *mut u8, u64),
) -> Result<(), Error> {
    let words = name_words(name)?;
    let _guard = space.lock();
    let found = entry(space, &words);
    let Some(place) = found.or_else(|| entry(space, &[0; NAME_WORDS])) else {
        return Err(TxError::Full.into());
    };
    // SAFETY: as in `entry`.
    unsafe {
        if found.is_some() && (*place).type_id != type_id {
            return Err(Error::RootType);
        }
        let name = if at.is_null() { [0; NAME_WORDS] } else { words };
        place.write(Root {
            name,
            type_id,
            at,
            bytes,
        });
    }
    Ok(())
}
