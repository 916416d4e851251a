// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Size classes. A slab is a chunk of objects of one size; a map of one byte per object comes first.
//! A byte and not a bit: two sessions change their objects' bytes without a locked instruction.

use crate::layout::CHUNK_BYTES;

/// Number of size classes.
pub const CLASSES: usize = SIZES.len();

/// Bytes of the objects of each class: four per doubling, at the end parts of a chunk.
pub const SIZES: [u32; 39] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8176, 9344, 10912, 13088,
    16368, 21824, 32736, 65472,
];

/// How a class's slab is divided.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Bytes of an object.
    pub size_bytes: u32,
    /// Objects in a slab.
    pub count: u32,
    /// Where the first object is: behind the map.
    pub data: u32,
    /// 2^32 / size, rounded up: a division as a multiplication.
    reciprocal: u64,
}

/// All classes.
pub const CLASS: [Class; CLASSES] = {
    let mut classes = [Class {
        size_bytes: 0,
        count: 0,
        data: 0,
        reciprocal: 0,
    }; CLASSES];
    let mut index = 0;
    while index < CLASSES {
        let size = SIZES[index];
        let mut count = CHUNK_BYTES as u32 / (size + 1);
        while count.next_multiple_of(64) + count * size > CHUNK_BYTES as u32 {
            count -= 1;
        }
        let reciprocal = (1_u64 << 32).div_ceil(size as u64);
        let data = count.next_multiple_of(64);
        assert!(count > 0 && size % 16 == 0);
        classes[index] = Class {
            size_bytes: size,
            count,
            data,
            reciprocal,
        };
        index += 1;
    }
    classes
};

/// Sizes up to this many bytes find their class in a table.
const TABLE_BYTES: usize = 1024;
const TABLE: [u8; TABLE_BYTES / 16 + 1] = {
    let mut table = [0; TABLE_BYTES / 16 + 1];
    let mut index = 0;
    while index < table.len() {
        let mut class = 0;
        while (SIZES[class] as usize) < index * 16 {
            class += 1;
        }
        table[index] = class as u8;
        index += 1;
    }
    table
};

/// The class whose objects hold so many bytes; none for large objects.
#[inline(always)]
#[must_use]
pub fn class_of(bytes: u64) -> Option<usize> {
    if bytes <= TABLE_BYTES as u64 {
        return Some(usize::from(TABLE[(bytes as usize).div_ceil(16)]));
    }
    SIZES.iter().position(|size| u64::from(*size) >= bytes)
}

impl Class {
    /// The object of that number that begins `within` bytes into the slab, if one does.
    #[inline(always)]
    #[must_use]
    pub fn index_of(&self, within: u64) -> Option<u64> {
        let into = within.checked_sub(u64::from(self.data))?;
        let index = into.wrapping_mul(self.reciprocal) >> 32;
        (index < u64::from(self.count) && index * u64::from(self.size_bytes) == into)
            .then_some(index)
    }

    /// Where an object begins within its slab.
    #[must_use]
    pub fn object(&self, index: u64) -> u64 {
        u64::from(self.data) + index * u64::from(self.size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_the_smallest_class_that_holds_it() {
        for bytes in 0..=u64::from(SIZES[CLASSES - 1]) {
            let class = class_of(bytes).unwrap();
            assert!(u64::from(SIZES[class]) >= bytes);
            assert!(class == 0 || u64::from(SIZES[class - 1]) < bytes);
        }
        assert_eq!(class_of(u64::from(SIZES[CLASSES - 1]) + 1), None);
    }

    #[test]
    fn address_has_one_object_or_none() {
        for class in &CLASS {
            let mut found = 0;
            for within in 0..CHUNK_BYTES {
                if let Some(index) = class.index_of(within) {
                    assert_eq!(class.object(index), within);
                    assert_eq!(index, found);
                    found += 1;
                }
            }
            assert_eq!(found, u64::from(class.count));
            assert!(class.object(found) <= CHUNK_BYTES);
        }
    }
}
