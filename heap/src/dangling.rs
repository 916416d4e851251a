// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks for words in persistent objects that look like addresses of volatile memory of this
//! process. Rust programs cannot store any; C programs can (the WSP paper's dangling references).
//!
//! A number may look like an address by chance; an address that was changed (compressed, tagged)
//! does not look like one. It is a checker for tests, not a proof.

use std::fs;
use std::io;

/// A mapping of this process: (first address, end, name).
pub type Range = (u64, u64, String);

/// Writable memory of this process that a region is not.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn volatile_memory(region: (u64, u64)) -> io::Result<Vec<Range>> {
    Ok(parse(&fs::read_to_string("/proc/self/maps")?, region))
}

fn parse(text: &str, region: (u64, u64)) -> Vec<Range> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        let Some((from, end)) = range.split_once('-') else {
            continue;
        };
        let numbers = (u64::from_str_radix(from, 16), u64::from_str_radix(end, 16));
        let (Ok(from), Ok(end)) = numbers else {
            continue;
        };
        // Code and constants are as much of this process as its data.
        let ours = from < region.1 && region.0 < end;
        if !ours && rights.starts_with('r') {
            let name = words.nth(3).unwrap_or("anonymous memory").to_owned();
            found.push((from, end, name));
        }
    }
    found
}

/// A word that looks like an address of volatile memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dangling {
    /// The object that holds it.
    pub object: u64,
    /// Which of its words.
    pub word: u64,
    /// What it holds.
    pub address: u64,
    /// The mapping that it points into.
    pub mapping: String,
}

/// Look through all allocated objects.
#[must_use]
pub fn dangling(
    objects: &[(u64, u64)],
    word: &dyn Fn(u64) -> u64,
    memory: &[Range],
) -> Vec<Dangling> {
    let mut found = Vec::new();
    for (object, bytes) in objects {
        for index in 0..bytes / 8 {
            let address = word(object + index * 8);
            let hit = memory
                .iter()
                .find(|(from, end, _)| (*from..*end).contains(&address));
            if let Some((_, _, name)) = hit {
                let mapping = name.clone();
                found.push(Dangling {
                    object: *object,
                    word: index,
                    address,
                    mapping,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_and_the_region_left_out() {
        let text = "1000-2000 rw-p 00000000 00:00 0 [heap]\n\
                    8000-9000 rw-s 00000000 00:00 0 /x/region\n\
                    a000-b000 ---p 00000000 00:00 0\nbad line\n";
        let found = parse(text, (0x8000, 0x9000));
        assert_eq!(found, [(0x1000, 0x2000, "[heap]".to_owned())]);
        let words = [0_u64, 0x1800, 0x8800, 5];
        let found = dangling(&[(0, 32)], &|at| words[(at / 8) as usize], &found);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].word, found[0].address), (1, 0x1800));
    }
}
