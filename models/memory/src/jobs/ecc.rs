// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults in cells, devices and DIMMs: each is put in, the line is read, and what
//! comes back is compared with what was written. A read that gives another line
//! without the containment bit is *silent*, and breaks the promise.

use crate::error::MediaError;
use crate::oc::Oc;
use crate::parts::Part;
use crate::psm::{PramPart, Psm, PsmConfig};
use crate::units::{LineAddr, PhysLine, Ps, random};
use crate::xcc::{self, Line, PIECE_BITS, PIECE_BYTES, Pieces, Read};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Of the memory whose lines' generations are read.
const LINES: u64 = 1 << 14;
const WRITES: u64 = 20_000;

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EccJob {
    /// Faults of each kind.
    pub faults: u64,
    /// The fourth piece.
    pub second_code: bool,
    /// Of all choices.
    pub seed: u64,
}

/// Kinds of faults, with the pieces of a line that each touches. Pieces of a line are on
/// different DIMMs, so a dead DIMM takes one of a line, as a dead device does; what
/// differs is what its cells read as.
const KINDS: &[(&str, Fault)] = &[
    ("bit", |it| it.flip(1)),
    ("bits-2-to-8", |it| {
        let bits = 2 + it.below(7);
        it.flip(bits);
    }),
    ("word-of-4-bytes", |it| {
        let (index, at) = (it.piece(), it.below(8) * 4);
        for byte in at..at + 4 {
            it.pieces[index].data[byte] = it.byte();
        }
    }),
    ("device-garbage", |it| {
        let index = it.piece();
        it.garbage(index);
    }),
    ("device-zeros", |it| {
        let index = it.piece();
        it.constant(index, 0);
    }),
    ("dimm-ones", |it| {
        let index = it.piece();
        it.constant(index, 0xff);
    }),
    ("lost-write", |it| {
        let index = it.piece();
        let age = it.pieces[index].generation.wrapping_sub(1);
        it.pieces[index] = xcc::encode(&it.other, age, it.phys)[index];
    }),
    // All but one: the majority is old.
    ("write-lost-by-most", |it| {
        let kept = it.piece();
        it.lose(|index| index != kept);
    }),
    ("misdirected-write", |it| {
        let index = it.piece();
        let age = it.pieces[index].generation;
        it.pieces[index] = xcc::encode(&it.other, age, PhysLine(it.phys.0 ^ 1))[index];
    }),
    ("two-devices", |it| {
        let first = it.piece();
        let second = (first + 1 + it.below(it.count - 1)) % it.count;
        it.garbage(first);
        it.garbage(second);
    }),
    ("three-devices", |it| {
        let spared = it.piece();
        for index in (0..it.count).filter(|index| *index != spared) {
            it.garbage(index);
        }
    }),
    ("wrong-with-a-right-check", |it| {
        let index = it.piece();
        let age = it.pieces[index].generation;
        it.pieces[index] = xcc::encode(&it.other, age, it.phys)[index];
    }),
];

/// No code tells it from a write that was never asked for: it is counted, and no part of the promise.
const UNDETECTABLE: (&str, Fault) = ("write-lost-by-all", |it| it.lose(|_| true));

type Fault = fn(&mut Injection);

struct Injection {
    pieces: Pieces,
    count: usize,
    phys: PhysLine,
    other: Line,
    state: u64,
}

impl Injection {
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(random(&mut self.state) % limit as u64).unwrap_or(0)
    }
    fn byte(&mut self) -> u8 {
        random(&mut self.state).to_le_bytes()[0]
    }
    fn piece(&mut self) -> usize {
        self.below(self.count)
    }
    /// Different bits of one piece, its generation and check included.
    fn flip(&mut self, bits: usize) {
        let index = self.piece();
        let mut flipped = Vec::new();
        while flipped.len() < bits {
            let bit = self.below(PIECE_BITS);
            if flipped.contains(&bit) {
                continue;
            }
            flipped.push(bit);
            self.pieces[index].flip(bit);
        }
    }
    fn garbage(&mut self, index: usize) {
        let state = &mut self.state;
        let piece = &mut self.pieces[index];
        piece
            .data
            .iter_mut()
            .for_each(|byte| *byte = random(state).to_le_bytes()[0]);
        [piece.generation, _, _, _, _, _, _, _] = random(state).to_le_bytes();
        piece.check = u32::from_le_bytes(
            random(state).to_le_bytes()[..4]
                .try_into()
                .expect("4 bytes"),
        );
    }
    /// These devices keep what they had before: the same older line.
    fn lose(&mut self, loses: impl Fn(usize) -> bool) {
        let age = self.pieces[0].generation.wrapping_sub(1);
        let before = xcc::encode(&self.other, age, self.phys);
        for index in (0..self.count).filter(|index| loses(*index)) {
            self.pieces[index] = before[index];
        }
    }
    fn constant(&mut self, index: usize, byte: u8) {
        let piece = &mut self.pieces[index];
        piece.data = [byte; PIECE_BYTES];
        piece.generation = byte;
        piece.check = u32::from_le_bytes([byte; 4]);
    }
}

impl EccJob {
    pub(super) fn run(&self) -> Result<Value, MediaError> {
        if self.faults == 0 {
            return Err(MediaError::Job(
                "ecc: faults = 0: give at least 1".to_owned(),
            ));
        }
        let mut kinds = Map::new();
        let mut silent_all = 0;
        for (name, fault) in KINDS {
            let seen = self.inject(*fault);
            silent_all += seen[3];
            kinds.insert((*name).to_owned(), json!({
                "harmless": seen[0], "repaired": seen[1], "contained": seen[2], "silent": seen[3],
            }));
        }
        let (name, fault) = UNDETECTABLE;
        let undetectable = self.inject(fault)[3];
        Ok(json!({
            "ok": silent_all == 0, "faults": self.faults, "silent": silent_all, "kinds": kinds,
            "undetectable": {name: undetectable}, "generations": self.generations()?,
        }))
    }

    /// What it takes to know a line's generation when it is programmed: a read of one of its pieces,
    /// where the host's writes are of lines at random.
    fn generations(&self) -> Result<Value, MediaError> {
        let part = PramPart::from_part(&Part::built_in("lpc-table1")?)?;
        let psm = Psm::new(PsmConfig::lightpc(), part, LINES)?;
        let mut oc = Oc::new(psm, self.second_code)?;
        let (mut state, mut now) = (self.seed, Ps::ZERO);
        for _ in 0..WRITES {
            let line = LineAddr(random(&mut state) % LINES);
            now = oc.write(now, line, &[7; 64]);
        }
        oc.flush(now);
        let (reads, programs) = (oc.generation_reads(), oc.programs());
        // Of one device, whose array does either at a time.
        let time = (reads * part.read.0) as f64 / (programs * part.program.0) as f64;
        let energy = (reads * part.read_pj) as f64 / (3 * programs * part.program_pj) as f64;
        Ok(json!({
            "writes": WRITES, "programs": programs, "reads": reads,
            "time_share": time, "energy_share": energy,
        }))
    }

    /// Harmless, repaired, contained, silent.
    fn inject(&self, fault: Fault) -> [u64; 4] {
        let mut seen = [0; 4];
        let mut state = self.seed;
        for _ in 0..self.faults {
            let mut words = || random(&mut state).to_le_bytes();
            let (line, other) = (words_line(&mut words), words_line(&mut words));
            let phys = PhysLine(random(&mut state) >> 30);
            let age = random(&mut state).to_le_bytes()[0];
            let count = if self.second_code { 4 } else { 3 };
            let mut it = Injection {
                pieces: xcc::encode(&line, age, phys),
                count,
                phys,
                other,
                state,
            };
            fault(&mut it);
            state = it.state;
            let read = xcc::decode(&it.pieces, count, phys);
            let outcome = match read {
                Read::Clean(read) if read == line => 0,
                Read::Repaired(read) if read == line => 1,
                Read::Contained => 2,
                _ => 3,
            };
            seen[outcome] += 1;
        }
        seen
    }
}

fn words_line(words: &mut impl FnMut() -> [u8; 8]) -> Line {
    let mut line = [0; 64];
    line.chunks_exact_mut(8)
        .for_each(|chunk| chunk.copy_from_slice(&words()));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(second_code: bool) -> Value {
        EccJob {
            faults: 3000,
            second_code,
            seed: 4,
        }
        .run()
        .unwrap()
    }

    /// Goal: one device's faults are repaired, more are contained, none that leaves a trace is silent.
    #[test]
    fn no_fault_is_silent() {
        for second in [false, true] {
            let all = run(second);
            assert_eq!(all["silent"], 0, "{all}");
            for kind in [
                "bit",
                "bits-2-to-8",
                "device-garbage",
                "device-zeros",
                "dimm-ones",
                "lost-write",
                "misdirected-write",
            ] {
                assert_eq!(all["kinds"][kind]["contained"], 0, "{kind} {all}");
            }
            let two = &all["kinds"]["two-devices"];
            assert_eq!(
                two[if second { "repaired" } else { "contained" }],
                3000,
                "{all}"
            );
            assert_eq!(all["kinds"]["three-devices"]["contained"], 3000);
            assert_eq!(all["kinds"]["write-lost-by-most"]["contained"], 3000);
            // What the promise leaves out, said and counted.
            assert_eq!(all["undetectable"]["write-lost-by-all"], 3000);
            let ages = &all["generations"];
            let (reads, programs) = (ages["reads"].as_u64(), ages["programs"].as_u64());
            assert!(reads > Some(0) && reads < programs, "{ages}");
        }
    }
}
