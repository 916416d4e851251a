// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looking at a region as a whole: what is allocated, whether it is in order. Reads words through a
//! function, so that mapped memory and the bytes of a damaged file are looked at by the same code.
//! Nothing that is read is believed: every offset is computed from the checked header.

use crate::alloc::Chunk;
use crate::classes::{CLASS, SIZES};
use crate::error::Error;
use crate::layout::{
    CHUNK_BYTES, Layout, OPEN_OFFSET, ROOT_BYTES, ROOT_NAME_BYTES, ROOT_POINTER_OFFSET,
    ROOT_SIZE_OFFSET, ROOT_TYPE_OFFSET, ROOTS, ROOTS_OFFSET,
};

/// How full a region is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Objects that are allocated.
    pub objects: u64,
    /// Bytes of them, as their size classes have it.
    pub object_bytes: u64,
    /// Bytes of chunks in use.
    pub chunk_bytes: u64,
    /// Bytes of all chunks.
    pub capacity_bytes: u64,
}

impl Usage {
    /// The part of the chunks in use that no object fills, in thousandths.
    #[must_use]
    pub fn fragmentation_permille(&self) -> u64 {
        if self.chunk_bytes == 0 {
            return 0;
        }
        1000 - self.object_bytes * 1000 / self.chunk_bytes
    }
}

/// An allocated object: (offset, bytes).
pub type Allocated = (u64, u64);

/// Of a slab's map the first `count` bytes that are not zero: (index, byte). Most words are zero.
fn map_bytes(word: &dyn Fn(u64) -> u64, start: u64, count: u32, mut each: impl FnMut(u64, u8)) {
    for first in (0..u64::from(count)).step_by(8) {
        let bytes = word(start + first);
        if bytes == 0 {
            continue;
        }
        for (index, byte) in (first..u64::from(count)).zip(bytes.to_le_bytes()) {
            if byte != 0 {
                each(index, byte);
            }
        }
    }
}

/// Call `each` for every chunk that begins something: (chunk, what it is).
fn chunks(layout: &Layout, word: &dyn Fn(u64) -> u64, mut each: impl FnMut(u64, Chunk)) {
    let mut chunk = 0;
    while chunk < layout.chunks {
        let what = Chunk::decode(word(layout.table_entry(chunk)));
        each(chunk, what);
        chunk += match what {
            Chunk::Large(count, _) => count,
            _ => 1,
        };
    }
}

/// All allocated objects, in the order of their offsets.
#[must_use]
pub fn objects(layout: &Layout, word: &dyn Fn(u64) -> u64) -> Vec<Allocated> {
    let mut found = Vec::new();
    chunks(layout, word, |chunk, what| match what {
        Chunk::Slab(class) => {
            let start = layout.chunk_offset(chunk);
            let class = &CLASS[class];
            map_bytes(word, start, class.count, |index, _| {
                found.push((start + class.object(index), u64::from(class.size_bytes)));
            });
        }
        Chunk::Large(_, bytes) => found.push((layout.chunk_offset(chunk), bytes)),
        Chunk::Free | Chunk::Impossible => {}
    });
    found
}

/// How full it is.
#[must_use]
pub fn usage(layout: &Layout, word: &dyn Fn(u64) -> u64) -> Usage {
    let mut usage = Usage {
        capacity_bytes: layout.chunks * CHUNK_BYTES,
        ..Usage::default()
    };
    chunks(layout, word, |_, what| {
        usage.chunk_bytes += match what {
            Chunk::Slab(_) => CHUNK_BYTES,
            Chunk::Large(count, _) => count * CHUNK_BYTES,
            Chunk::Free | Chunk::Impossible => 0,
        };
    });
    for (_, bytes) in objects(layout, word) {
        usage.objects += 1;
        usage.object_bytes += bytes;
    }
    usage
}

/// Slabs without an object.
#[must_use]
pub fn empty_slabs(layout: &Layout, word: &dyn Fn(u64) -> u64) -> Vec<u64> {
    let mut found = Vec::new();
    chunks(layout, word, |chunk, what| {
        if let Chunk::Slab(class) = what {
            let start = layout.chunk_offset(chunk);
            if (0..u64::from(CLASS[class].data) / 8).all(|index| word(start + index * 8) == 0) {
                found.push(chunk);
            }
        }
    });
    found
}

/// A root as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its name; what is not UTF-8 is replaced.
    pub name: String,
    /// Its type's identity.
    pub type_id: u64,
    /// Where it is.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

/// All roots.
#[must_use]
pub fn roots(word: &dyn Fn(u64) -> u64) -> Vec<Root> {
    let mut found = Vec::new();
    for root in 0..ROOTS {
        found.extend(root_at(word, ROOTS_OFFSET + root * ROOT_BYTES));
    }
    found
}

/// The root whose entry begins there, if it is in use.
pub(crate) fn root_at(word: &dyn Fn(u64) -> u64, at: u64) -> Option<Root> {
    let mut name = Vec::with_capacity(ROOT_NAME_BYTES);
    for index in 0..ROOT_NAME_BYTES as u64 / 8 {
        name.extend(word(at + index * 8).to_le_bytes());
    }
    if name[0] == 0 {
        return None;
    }
    name.truncate(
        name.iter()
            .position(|byte| *byte == 0)
            .unwrap_or(name.len()),
    );
    Some(Root {
        name: String::from_utf8_lossy(&name).into_owned(),
        type_id: word(at + ROOT_TYPE_OFFSET),
        offset: word(at + ROOT_POINTER_OFFSET),
        bytes: word(at + ROOT_SIZE_OFFSET),
    })
}

/// Something that no program leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub offset: u64,
    /// What.
    pub what: String,
}

/// Everything that is not in order, once the header is. The logs are to be empty (recovered).
#[must_use]
pub fn check(layout: &Layout, word: &dyn Fn(u64) -> u64) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut report = |offset: u64, what: String| found.push(Finding { offset, what });
    chunks(layout, word, |chunk, what| {
        let table = layout.table_entry(chunk);
        match what {
            Chunk::Impossible => {
                report(
                    table,
                    format!("chunk {chunk}: word {:#x} is impossible", word(table)),
                );
            }
            Chunk::Large(count, bytes) if count > layout.chunks - chunk => {
                report(
                    table,
                    format!("chunk {chunk}: object of {bytes} bytes goes past the end"),
                );
            }
            Chunk::Large(count, _) => {
                for tail in chunk + 1..chunk + count {
                    if word(layout.table_entry(tail)) != 0 {
                        report(
                            layout.table_entry(tail),
                            format!("chunk {tail}: used twice"),
                        );
                    }
                }
            }
            Chunk::Slab(class) => check_map(layout, word, chunk, class, &mut report),
            Chunk::Free => {}
        }
    });
    let objects = objects(layout, word);
    for root in roots(word) {
        let at = objects.binary_search_by_key(&root.offset, |object| object.0);
        let fits = at.is_ok_and(|place| objects[place].1 >= root.bytes);
        if root.offset != 0 && !fits {
            report(
                root.offset,
                format!("root {:?} points to no object of its size", root.name),
            );
        }
    }
    found
}

fn check_map(
    layout: &Layout,
    word: &dyn Fn(u64) -> u64,
    chunk: u64,
    class: usize,
    report: &mut impl FnMut(u64, String),
) {
    let start = layout.chunk_offset(chunk);
    map_bytes(word, start, CLASS[class].data, |index, byte| {
        let limit = u8::from(index < u64::from(CLASS[class].count));
        if byte > limit {
            let size = SIZES[class];
            report(
                start + index,
                format!("slab {chunk} of {size}: byte {byte} in its map"),
            );
        }
    });
}

/// Whether the region says that a program has it open, or died with it open.
#[must_use]
pub fn is_open(word: &dyn Fn(u64) -> u64) -> bool {
    word(OPEN_OFFSET) != 0
}

/// The header of a file's bytes, and the bytes as words, if they are as long as it says.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<(Layout, Vec<u64>), Error> {
    let layout = Layout::decode(bytes)?;
    if layout.size_bytes > bytes.len() as u64 {
        return Err(Error::Short(bytes.len() as u64, layout.size_bytes));
    }
    let words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap_or([0; 8])))
        .collect();
    Ok((layout, words))
}
