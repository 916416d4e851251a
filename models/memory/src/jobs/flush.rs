// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The longest wait at the end of a Stop, whatever programs did before. Their writes have filled all
//! that a memory keeps before its devices; then a core writes its caches back, one line after the
//! other, and waits until memory keeps them (`Memory::persist`). The last writes of programs may be
//! under way when it begins, so they count, too.
//!
//! Which history takes longest depends on the memory: lines that share a device wait for each other.
//! So earlier writes go through all of memory at each power of two of lines up to a page, and then
//! the caches' lines are a page apart; once all are anywhere. The answer is the longest of these. On
//! an Optane-like DIMM each line makes room in full buffers (`answer_is_the_room_that_lines_need`).
//!
//! What such a DIMM then has in its buffers goes to media by its own reserve, after the machine's
//! power is gone. The longest time and the largest energy of that are the second answer.

use crate::build::MemoryJob;
use crate::error::MediaError;
use crate::units::{LINE_BYTES, LineAddr, Ps, random};
use serde::Deserialize;
use serde_json::{Value, json};

const PAGE_LINES: u64 = 4096 / LINE_BYTES;
/// Earlier writes that may be under way: as many as the queue of a processor's controller has
/// (`queue_lines` of processors.toml), and that of an Optane-like DIMM (`lsq_entries`).
const QUEUE_LINES: u64 = 64;

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlushJob {
    /// On what.
    pub memory: MemoryJob,
    /// Lines of memory.
    pub lines: u64,
    /// Lines of the caches, all of them dirty.
    pub dirty_lines: u64,
}

/// What the end of a Stop takes: the CPU, and then the memory by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    persist: Ps,
    left: Ps,
    left_pj: u64,
}

impl Took {
    fn or_longer(self, other: Self) -> Self {
        Self {
            persist: self.persist.max(other.persist),
            left: self.left.max(other.left),
            left_pj: self.left_pj.max(other.left_pj),
        }
    }
}

impl FlushJob {
    pub(super) fn run(&self) -> Result<Value, MediaError> {
        if self.dirty_lines > self.lines {
            let why = format!(
                "dirty_lines = {}: give at most lines, which are {}",
                self.dirty_lines, self.lines
            );
            return Err(MediaError::Job(why));
        }
        let mut most = self.after(None)?;
        let mut apart = 1;
        while apart <= PAGE_LINES {
            most = most.or_longer(self.after(Some(apart))?);
            apart *= 2;
        }
        Ok(json!({
            "longest_ns": most.persist.ns(),
            "left_ns": most.left.ns(),
            "left_pj": most.left_pj,
        }))
    }

    /// After writes to lines that are so far apart, or anywhere.
    fn after(&self, apart: Option<u64>) -> Result<Took, MediaError> {
        let mut memory = self.memory.build(self.lines)?;
        let mut state = 1;
        let mut line = |number: u64, apart: Option<u64>| {
            let any = || random(&mut state);
            LineAddr(apart.map_or_else(any, |apart| number * apart) % self.lines)
        };
        let earlier = self.lines / apart.unwrap_or(1);
        let (mut now, mut begun) = (Ps::ZERO, Ps::ZERO);
        for number in 0..earlier {
            if number + QUEUE_LINES == earlier {
                begun = now;
            }
            now = memory.write(now, line(number, apart));
        }
        for number in 0..self.dirty_lines {
            now = memory.write(now, line(number, apart.map(|_| PAGE_LINES)));
        }
        let kept = memory.persist(now);
        let used = memory.energy(kept);
        let over = memory.flush(kept);
        Ok(Took {
            persist: kept - begun,
            left: over - kept,
            left_pj: memory.energy(over).since(&used).total_pj(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Part;

    const LINES: u64 = 1 << 19; // twice what an Optane-like DIMM keeps before its media
    const DIRTY: u64 = 256; // of one of LightPC's cores
    const PAGE_BYTES: f64 = 4096.0;

    fn answer(controller: &str, change: &[(&str, f64)]) -> Value {
        let mut memory = MemoryJob::named(controller);
        let changes = change
            .iter()
            .map(|(key, value)| ((*key).to_owned(), *value));
        memory.change.extend(changes);
        let job = FlushJob {
            memory,
            lines: LINES,
            dirty_lines: DIRTY,
        };
        job.run().unwrap()
    }

    fn number(answer: &Value, key: &str) -> f64 {
        answer[key].as_f64().unwrap()
    }

    fn part(key: &str) -> f64 {
        Part::built_in("optane-200-128").unwrap().values[key].value
    }

    /// Blocks of media that one bank writes for each 4 KiB of the buffer, at most.
    fn bank_blocks_of_page() -> f64 {
        PAGE_BYTES / part("block_bytes") / part("media_banks")
    }

    /// Goal: no history takes longer. Each line of the caches makes room for its 4 KiB, all of which
    /// one bank has to write as long as any; and before that its queue may be full of writes to it.
    /// The requests' own ways are the difference. Negative proof: with all that the buffers hold, as
    /// if a fence waited for media, it is red (`persist-waits-for-media`, and the next test).
    #[test]
    fn answer_is_the_room_that_lines_need() {
        let blocks = part("lsq_entries") + DIRTY as f64 * bank_blocks_of_page();
        let most_ns = blocks * part("media_write_ns");
        let found_ns = number(&answer("optane", &[]), "longest_ns");
        println!("{found_ns} found, {most_ns} at most");
        assert!((found_ns - most_ns).abs() < 1000.0);
    }

    /// Goal: what the DIMM's own reserve has to write is what its buffers hold, and a fence waits for
    /// a small part of it. Of the 4 KiB in which a line of the caches is, the rest may be clean.
    #[test]
    fn buffers_are_left_to_the_reserve() {
        let pages = part("buffer_bytes") / PAGE_BYTES;
        let most_ns =
            (part("lsq_entries") + pages * bank_blocks_of_page()) * part("media_write_ns");
        let found = answer("optane", &[]);
        let (left_ns, left_pj) = (number(&found, "left_ns"), number(&found, "left_pj"));
        println!("{left_ns} ns and {left_pj} pJ found, {most_ns} ns at most");
        assert!((1.0 - DIRTY as f64 / pages..=1.0).contains(&(left_ns / most_ns)));
        assert!(left_ns > 10.0 * number(&found, "longest_ns"));
        let blocks = part("buffer_bytes") / part("block_bytes");
        // 1 mW for 1 ns is 1 pJ.
        let most_pj = blocks * part("media_write_pj") + most_ns * part("background_mw");
        assert!((0.9..=1.0).contains(&(left_pj / most_pj)));
        // As README.md has them.
        assert!((most_ns / 1e6 - 7.4).abs() < 0.05 && (most_pj / 1e9 - 24.5).abs() < 0.05);
    }

    /// Goal: the answers follow the table: media with four times as many banks, and a quarter of the
    /// buffer, which a fence does not wait for.
    #[test]
    fn answers_follow_the_part() {
        let whole = answer("optane", &[]);
        for (change, persist, left) in [
            (("media_banks", 16.0), 0.2..0.35, 0.2..0.3),
            (("buffer_bytes", 4_194_304.0), 0.99..1.01, 0.2..0.3),
        ] {
            let changed = answer("optane", &[change]);
            let share = |key| number(&changed, key) / number(&whole, key);
            let (persists, leaves) = (share("longest_ns"), share("left_ns"));
            assert!(persist.contains(&persists), "{change:?}: {persists}");
            assert!(left.contains(&leaves), "{change:?}: {leaves}");
        }
    }

    /// Goal: memories that keep little before their devices take the time of the caches' lines, and
    /// leave nothing.
    #[test]
    fn other_memories_take_the_time_of_the_lines() {
        for name in ["dram", "lightpc", "bare-pram"] {
            let found = answer(name, &[]);
            let each_ns = number(&found, "longest_ns") / (DIRTY + QUEUE_LINES) as f64;
            assert!((10.0..2000.0).contains(&each_ns), "{name}: {each_ns}");
            assert!(number(&found, "left_ns") < 100.0, "{name}: {found}");
        }
    }
}
