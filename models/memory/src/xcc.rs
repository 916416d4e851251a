// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a line is on the devices, and how faults in it are found.
//!
//! A line of 64 bytes is two halves on two devices and their exclusive or (XCC) on
//! a third. As an option a fourth holds a Reed-Solomon symbol for each pair
//! of bytes, `g A + g^2 B` over GF(256), so that any two of four are enough.
//! Each *piece* (32 bytes) is stored with the generation of the line's write and a
//! CRC-32C over data, generation, line and device. That CRC is what *locates* a
//! fault: the exclusive or only shows that something is wrong. The generation
//! distinguishes pieces of different age, after a lost write or a cut.
//!
//! Invariant: what `decode` returns is of one generation, the newest that any intact
//! piece has, and consistent with every intact piece of it; anything else is
//! contained, never guessed. A write that *every* device lost left no trace: the line
//! is what it was before, and no code can tell.

use crate::units::PhysLine;
use serde::{Deserialize, Serialize};

/// Bytes of a piece.
pub const PIECE_BYTES: usize = 32;
/// A line.
pub type Line = [u8; 64];

/// What one device holds of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// A half, or a code.
    pub data: [u8; PIECE_BYTES],
    /// Counts writes of the line, modulo 256.
    pub generation: u8,
    /// Of all of that and of the place.
    pub check: u32,
}

/// Bits of a piece: data, generation, check.
pub const PIECE_BITS: usize = PIECE_BYTES * 8 + 8 + 32;

impl Piece {
    /// Makes a bit wrong.
    pub fn flip(&mut self, bit: usize) {
        const GENERATION: usize = PIECE_BYTES * 8;
        const CHECK: usize = GENERATION + 8;
        match bit {
            0..GENERATION => self.data[bit / 8] ^= 1 << (bit % 8),
            GENERATION..CHECK => self.generation ^= 1 << (bit - GENERATION),
            _ => self.check ^= 1 << ((bit - CHECK) % 32),
        }
    }
}

/// The pieces of a line; without the second code the fourth is not used.
pub type Pieces = [Piece; 4];

/// What a read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// All pieces are well.
    Clean(Line),
    /// Some were not, and the others give the line.
    Repaired(Line),
    /// The containment bit: there is no line, and the machine gets an MCE.
    Contained,
}

impl Read {
    /// The line, if there is one.
    #[must_use]
    pub fn line(&self) -> Option<Line> {
        match self {
            Self::Clean(line) | Self::Repaired(line) => Some(*line),
            Self::Contained => None,
        }
    }
}

fn check(data: &[u8; PIECE_BYTES], generation: u8, phys: PhysLine, index: usize) -> u32 {
    let mut all = [0; PIECE_BYTES + 10];
    all[..PIECE_BYTES].copy_from_slice(data);
    all[PIECE_BYTES] = generation;
    all[PIECE_BYTES + 1] = u8::try_from(index).unwrap_or(u8::MAX);
    all[PIECE_BYTES + 2..].copy_from_slice(&phys.0.to_le_bytes());
    crc32c::crc32c(&all)
}

fn halves(line: &Line) -> ([u8; PIECE_BYTES], [u8; PIECE_BYTES]) {
    let (a, b) = line.split_at(PIECE_BYTES);
    (
        a.try_into().expect("32 bytes"),
        b.try_into().expect("32 bytes"),
    )
}

fn join(a: [u8; PIECE_BYTES], b: [u8; PIECE_BYTES]) -> Line {
    let mut line = [0; 64];
    line[..PIECE_BYTES].copy_from_slice(&a);
    line[PIECE_BYTES..].copy_from_slice(&b);
    line
}

/// Two to the power `n`, and products, in GF(256) with x^8+x^4+x^3+x^2+1.
fn times(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (a, 0);
    for bit in 0..8 {
        if (b >> bit) & 1 != 0 {
            product ^= a;
        }
        a = double(a);
    }
    product
}

fn inverse(a: u8) -> u8 {
    (1..=255).find(|b| times(a, *b) == 1).unwrap_or(0)
}

const G: u8 = 2;
const G2: u8 = 4;

fn combine(f: impl Fn(usize) -> u8) -> [u8; PIECE_BYTES] {
    std::array::from_fn(f)
}

/// Times `G`.
fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 }
}

fn codes(a: &[u8; PIECE_BYTES], b: &[u8; PIECE_BYTES]) -> ([u8; PIECE_BYTES], [u8; PIECE_BYTES]) {
    (
        combine(|i| a[i] ^ b[i]),
        combine(|i| double(a[i] ^ double(b[i]))),
    )
}

/// The pieces of a line.
#[must_use]
pub fn encode(line: &Line, generation: u8, phys: PhysLine) -> Pieces {
    let (a, b) = halves(line);
    let (p, q) = codes(&a, &b);
    let mut index = 0;
    [a, b, p, q].map(|data| {
        let piece = Piece {
            data,
            generation,
            check: check(&data, generation, phys, index),
        };
        index += 1;
        piece
    })
}

/// Pieces that no decoder takes for a line.
#[must_use]
pub fn poison(generation: u8, phys: PhysLine) -> Pieces {
    encode(&[0; 64], generation, phys).map(|piece| Piece {
        check: !piece.check,
        ..piece
    })
}

/// Whether what a device holds is what was written there.
#[must_use]
pub fn intact(piece: &Piece, phys: PhysLine, index: usize) -> bool {
    piece.check == check(&piece.data, piece.generation, phys, index)
}

/// Both halves from any two pieces.
fn solve(pieces: &Pieces, i: usize, j: usize) -> ([u8; PIECE_BYTES], [u8; PIECE_BYTES]) {
    let (x, y) = (&pieces[i].data, &pieces[j].data);
    match (i, j) {
        (0, 1) => (*x, *y),
        (0, 2) => (*x, combine(|n| x[n] ^ y[n])),
        (1, 2) => (combine(|n| x[n] ^ y[n]), *x),
        (0, 3) => {
            let by = inverse(G2);
            (*x, combine(|n| times(y[n] ^ times(G, x[n]), by)))
        }
        (1, 3) => {
            let by = inverse(G);
            (combine(|n| times(y[n] ^ times(G2, x[n]), by)), *x)
        }
        _ => {
            let by = inverse(G ^ G2);
            let a = combine(|n| times(y[n] ^ times(G2, x[n]), by));
            (a, combine(|n| a[n] ^ x[n]))
        }
    }
}

/// The line that two of `members` give, and whether all of them agree with it.
fn agreed(pieces: &Pieces, members: &[usize]) -> (Line, bool) {
    let (a, b) = solve(pieces, members[0], members[1]);
    let (p, q) = codes(&a, &b);
    let all = [a, b, p, q];
    (
        join(a, b),
        members.iter().all(|i| pieces[*i].data == all[*i]),
    )
}

/// A line from its pieces; `count` is 3, or 4 with the second code. Where only a minority has
/// the newest write, the others have lost it: the line is not taken for the older one.
#[must_use]
pub fn decode(pieces: &Pieces, count: usize, phys: PhysLine) -> Read {
    decode_if(pieces, count, phys, |is_newest| is_newest)
}

/// The same for lines that were being programmed when the power went: as long as most pieces are
/// old, the old line is right. Recovery mends all lines, so nobody else needs it.
#[must_use]
pub fn decode_after_cut(pieces: &Pieces, count: usize, phys: PhysLine) -> Read {
    decode_if(pieces, count, phys, |_| true)
}

/// `accepts`: whether the generation with most pieces is taken, by whether it is the newest.
fn decode_if(pieces: &Pieces, count: usize, phys: PhysLine, accepts: fn(bool) -> bool) -> Read {
    let good: Vec<usize> = (0..count)
        .filter(|i| intact(&pieces[*i], phys, *i))
        .collect();
    let age = |i: usize| pieces[i].generation;
    // The generation with most pieces; of two that have as many, the newer.
    let mut members: Vec<usize> = Vec::new();
    for first in &good {
        let same: Vec<usize> = good
            .iter()
            .copied()
            .filter(|i| age(*i) == age(*first))
            .collect();
        let newer = |old: usize| age(*first).wrapping_sub(age(old)) < 128;
        let better = same.len() > members.len()
            || (same.len() == members.len() && members.first().is_some_and(|old| newer(*old)));
        if better {
            members = same;
        }
    }
    if members.len() < 2 {
        return Read::Contained;
    }
    let behind = |i: &usize| age(*i).wrapping_sub(age(members[0]));
    let is_newest = !good.iter().any(|i| (1..128).contains(&behind(i)));
    if !accepts(is_newest) {
        return Read::Contained;
    }
    let (line, agree) = agreed(pieces, &members);
    if agree {
        return if members.len() == count {
            Read::Clean(line)
        } else {
            Read::Repaired(line)
        };
    }
    // All checks are right and the codes disagree. With four pieces the one
    // without which the others agree is the wrong one; with three none is located.
    if members.len() == 4 {
        let without = |left: usize| -> Vec<usize> {
            members.iter().copied().filter(|i| *i != left).collect()
        };
        let fits: Vec<Line> = (0..4)
            .map(|left| agreed(pieces, &without(left)))
            .filter(|(_, all)| *all)
            .map(|(line, _)| line)
            .collect();
        if let [line] = fits[..] {
            return Read::Repaired(line);
        }
    }
    Read::Contained
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seed: u64) -> Line {
        let mut state = seed;
        std::array::from_fn(|_| crate::units::random(&mut state).to_le_bytes()[0])
    }

    #[test]
    fn any_two_of_four_pieces_give_the_line() {
        for seed in 0..50 {
            let pieces = encode(&line(seed), 3, PhysLine(seed));
            for i in 0..4 {
                for j in i + 1..4 {
                    let (a, b) = solve(&pieces, i, j);
                    assert_eq!(join(a, b), line(seed), "{i} {j}");
                }
            }
        }
    }

    #[test]
    fn field_is_one() {
        for a in 1..=255 {
            assert_eq!(times(a, inverse(a)), 1);
        }
    }

    /// Goal: the fault is located by the piece's check alone; each single bit.
    #[test]
    fn every_flipped_bit_is_repaired() {
        let phys = PhysLine(77);
        for count in [3, 4] {
            for index in 0..count {
                for bit in 0..PIECE_BYTES * 8 + 8 + 32 {
                    let mut pieces = encode(&line(1), 9, phys);
                    let piece = &mut pieces[index];
                    match bit {
                        0..256 => piece.data[bit / 8] ^= 1 << (bit % 8),
                        256..264 => piece.generation ^= 1 << (bit - 256),
                        _ => piece.check ^= 1 << (bit - 264),
                    }
                    assert_eq!(decode(&pieces, count, phys), Read::Repaired(line(1)));
                }
            }
        }
    }

    /// A half that a lost write left old is recognised by its age; one that is wrong and
    /// has a right check of the right age cannot be located by three pieces.
    #[test]
    fn lost_writes_are_repaired_and_what_is_not_located_is_contained() {
        let phys = PhysLine(5);
        let (old, new) = (encode(&line(1), 255, phys), encode(&line(2), 0, phys));
        for index in 0..3 {
            let mut pieces = new;
            pieces[index] = old[index];
            assert_eq!(decode(&pieces, 3, phys), Read::Repaired(line(2)));
            let mut pieces = new;
            pieces[index] = encode(&line(3), 0, phys)[index];
            assert_eq!(decode(&pieces, 3, phys), Read::Contained);
            assert_eq!(decode(&pieces, 4, phys), Read::Repaired(line(2)));
        }
    }

    /// Two of three devices that lose the same write leave a majority that is old.
    #[test]
    fn write_that_most_devices_lost_is_contained_but_after_a_cut() {
        let phys = PhysLine(5);
        let (old, new) = (encode(&line(1), 255, phys), encode(&line(2), 0, phys));
        for (count, kept) in [(3, 0), (3, 1), (3, 2), (4, 0), (4, 3)] {
            let mut pieces = old;
            pieces[kept] = new[kept];
            assert_eq!(decode(&pieces, count, phys), Read::Contained);
            let after_cut = decode_after_cut(&pieces, count, phys);
            assert_eq!(after_cut, Read::Repaired(line(1)));
        }
        // Two of four are enough; of a write that all lost nothing is left.
        let half = [old[0], old[1], new[2], new[3]];
        assert_eq!(decode(&half, 4, phys), Read::Repaired(line(2)));
        assert_eq!(decode(&old, 3, phys), Read::Clean(line(1)));
    }

    #[test]
    fn line_of_another_place_is_contained() {
        let pieces = encode(&line(1), 1, PhysLine(5));
        assert_eq!(decode(&pieces, 4, PhysLine(6)), Read::Contained);
        assert_eq!(
            decode(&poison(1, PhysLine(5)), 4, PhysLine(5)),
            Read::Contained
        );
    }
}
