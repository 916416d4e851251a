// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Size classes of plain memory. A slab is a chunk of objects of one size and nothing else, so an
//! object is as aligned as its size.

use super::header::CHUNK_BYTES;

/// Bytes of the objects of each class: every multiple of 8 up to 64, then four per doubling. The
/// last ones are what a chunk can be divided into.
pub const SIZES: [u32; 39] = [
    16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768,
    896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5456, 6544, 8192, 10912, 13104,
    16384, 21840, 32768,
];
/// Number of size classes.
pub const CLASSES: usize = SIZES.len();

/// Bytes of a batch, in which free objects pass from thread to thread.
const BATCH_BYTES: u32 = 8192;

/// How a class's slab is divided.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Bytes of an object.
    pub size_bytes: usize,
    /// Objects in a slab.
    pub count: usize,
    /// Objects in a batch.
    pub batch: usize,
}

/// All classes.
pub const CLASS: [Class; CLASSES] = {
    let mut classes = [Class {
        size_bytes: 0,
        count: 0,
        batch: 0,
    }; CLASSES];
    let mut index = 0;
    while index < CLASSES {
        let size = SIZES[index];
        let fits = BATCH_BYTES / size;
        let batch = if fits < 2 { 2 } else { fits };
        classes[index] = Class {
            size_bytes: size as usize,
            count: CHUNK_BYTES / size as usize,
            batch: batch as usize,
        };
        index += 1;
    }
    classes
};

/// Sizes up to this many bytes find their class in a table.
const TABLE_BYTES: usize = 1024;
const TABLE: [u8; TABLE_BYTES / 8 + 1] = {
    let mut table = [0; TABLE_BYTES / 8 + 1];
    let mut index = 0;
    while index < table.len() {
        let mut class = 0;
        while (SIZES[class] as usize) < index * 8 {
            class += 1;
        }
        table[index] = class as u8;
        index += 1;
    }
    table
};

/// The class whose objects have that size and alignment; none for large objects.
#[inline(always)]
#[must_use]
pub fn class_of(bytes: usize, align: usize) -> Option<usize> {
    // A slab begins at a multiple of 64 KiB: multiples of 16 are aligned to 16, powers of two to
    // themselves.
    let bytes = match align {
        0..=8 => bytes,
        9..=16 => bytes.checked_next_multiple_of(16)?,
        _ => bytes.max(align).checked_next_power_of_two()?,
    };
    if bytes <= TABLE_BYTES {
        return Some(usize::from(TABLE[bytes.div_ceil(8)]));
    }
    SIZES.iter().position(|size| *size as usize >= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL_MAX_BYTES: usize = SIZES[CLASSES - 1] as usize;

    #[test]
    fn each_size_has_the_smallest_class_that_holds_it() {
        for bytes in 0..=SMALL_MAX_BYTES {
            let class = class_of(bytes, 8).unwrap();
            assert!(CLASS[class].size_bytes >= bytes);
            assert!(class == 0 || CLASS[class - 1].size_bytes < bytes);
        }
        assert_eq!(class_of(SMALL_MAX_BYTES + 1, 8), None);
    }

    #[test]
    fn objects_are_aligned_as_asked() {
        for align in (0..16).map(|power| 1_usize << power) {
            for bytes in 1..=2 * align {
                let Some(class) = class_of(bytes, align) else {
                    assert!(bytes.max(align).next_power_of_two() > SMALL_MAX_BYTES);
                    continue;
                };
                let size = CLASS[class].size_bytes;
                assert!(
                    size >= bytes && size % align == 0,
                    "{bytes} {align}: {size}"
                );
            }
        }
    }

    #[test]
    fn slab_holds_its_objects() {
        for class in &CLASS {
            assert!(class.count * class.size_bytes <= CHUNK_BYTES);
            assert!(class.count >= 2 && class.batch >= 2);
            assert!(class.size_bytes >= 16 && class.size_bytes % 8 == 0);
        }
    }
}
