// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Duration of a flush of the caches, by the model of `machine/cache`: the part of a Stop that
//! instruction counts do not give. Provisional: its memory controller takes the same time for each
//! line.
//!
//! All cores flush side by side. Each walks its own caches and the last level, and all write through one
//! memory, so a flush lasts as long as the slowest walk or as all writes together, whichever is longer.

use remanence_cache::{Caches, Core, FlatTiming, Image, Line, Profile};
use serde::{Deserialize, Serialize};

use crate::error::PowerError;
use crate::units::{Ns, PS_PER_NS};

const LINE_BYTES: u64 = remanence_cache::LINE_BYTES;
/// Two bytes of host memory are needed for each byte that is dirty.
const DIRTY_BYTES_MAX: u64 = 512 << 20;

/// How lines are flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// WBINVD on every core.
    Wbinvd,
    /// CLFLUSH of each dirty line, by one core; the lines are known, as in WSP's experiment.
    Clflush,
    /// CLFLUSHOPT of each dirty line and one fence.
    Clflushopt,
    /// As fast as the memory accepts lines.
    Best,
}

/// What is flushed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Profile of `models/parts/processors.toml`.
    pub profile: String,
    /// Number of cores with dirty lines.
    pub cores: usize,
    /// Bytes written before the flush; those that stay in the caches are dirty.
    pub dirty_bytes: u64,
    /// How lines are flushed.
    pub how: How,
    /// Overrides the size of each core's first level.
    pub l1_kib: Option<u64>,
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Flush {
    /// From the first instruction to the last line written.
    pub time_ns: Ns,
    /// Lines that were dirty at the beginning.
    pub lines: u64,
    /// Time of writing them alone.
    pub write_ns: Ns,
}

fn index(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Has the model fill its caches and flush them.
///
/// # Errors
/// [`PowerError::Impossible`] for an invalid profile, number of cores or size.
pub fn flush(ask: &Ask) -> Result<Flush, PowerError> {
    let impossible =
        |what: &str, value, why| PowerError::impossible(format!("flush: {what}"), value, why);
    let mut profile =
        Profile::named(&ask.profile).map_err(|error| PowerError::Cache(error.to_string()))?;
    if let Some(kib) = ask.l1_kib {
        if !kib.is_power_of_two() || !(1..=65_536).contains(&kib) {
            return Err(impossible(
                "first level of KiB",
                kib,
                "give a power of two, 1 to 65536",
            ));
        }
        profile.l1.kib = kib;
    }
    if !(1..=profile.cores_max).contains(&ask.cores) {
        let why = "not a number of cores of that machine";
        return Err(impossible("cores", ask.cores as u64, why));
    }
    if ask.dirty_bytes > DIRTY_BYTES_MAX {
        return Err(impossible(
            "dirty bytes",
            ask.dirty_bytes,
            "give at most 512 MiB",
        ));
    }
    let lines = ask.dirty_bytes / LINE_BYTES;
    let timing = FlatTiming::of(&profile);
    let room = index(lines.max(1));
    let image = Image::new(room as usize);
    let mut caches = Caches::new(profile, ask.cores, room, image, timing);
    for line in 0..lines {
        // Each core has a piece: what exceeds its core's caches is evicted, and clean.
        let core = usize::try_from(line * ask.cores as u64 / lines).unwrap_or(0);
        let line = Line(index(line));
        caches.memory.coherent[line.index()][0] = 1;
        caches.store(Core(core), line);
    }
    let dirty = caches.dirty_lines();
    let write_ps = dirty.len() as u64 * timing.write_ps;
    let before: Vec<u64> = (0..ask.cores)
        .map(|core| caches.waited_ps(Core(core)))
        .collect();
    match ask.how {
        How::Wbinvd => (0..ask.cores).for_each(|core| caches.wbinvd(Core(core))),
        How::Clflush => dirty.iter().for_each(|&line| caches.clflush(Core(0), line)),
        How::Clflushopt => {
            dirty
                .iter()
                .for_each(|&line| caches.clflushopt(Core(0), line));
            caches.fence(Core(0));
        }
        How::Best => {}
    }
    let waited_ps = (0..ask.cores)
        .map(|core| caches.waited_ps(Core(core)) - before[core])
        .max();
    Ok(Flush {
        time_ns: Ns(waited_ps.unwrap_or(0).max(write_ps) / PS_PER_NS),
        lines: dirty.len() as u64,
        write_ns: Ns(write_ps / PS_PER_NS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(profile: &str, cores: usize, dirty_bytes: u64, how: How) -> Flush {
        let ask = Ask {
            profile: profile.to_owned(),
            cores,
            dirty_bytes,
            how,
            l1_kib: None,
        };
        flush(&ask).unwrap()
    }

    #[test]
    fn wbinvd_hardly_depends_on_dirt_and_single_flushes_do() {
        let full = 8 << 20;
        let none = ask("wsp-c5528", 4, 0, How::Wbinvd).time_ns;
        let all = ask("wsp-c5528", 4, full, How::Wbinvd).time_ns;
        assert!(none.0 * 10 > all.0 * 9, "{none:?} {all:?}");
        let little = ask("wsp-c5528", 4, 4096, How::Clflush).time_ns;
        assert!(little.0 * 100 < none.0, "{little:?}");
        assert!(ask("wsp-c5528", 4, full, How::Best).time_ns < all);
    }

    #[test]
    fn everything_that_was_dirty_is_counted_once() {
        let found = ask("lightpc", 8, 8 * 16 * 1024, How::Wbinvd);
        assert_eq!(found.lines, 8 * 256);
        assert_eq!(ask("lightpc", 8, 0, How::Wbinvd).lines, 0);
    }

    #[test]
    fn impossible_questions_are_refused() {
        for (profile, cores, dirty_bytes, l1_kib) in [
            ("none", 1, 0, None),
            ("lightpc", 0, 0, None),
            ("lightpc", 65, 0, None),
            ("lightpc", 1, u64::MAX, None),
            ("lightpc", 1, 0, Some(0)),
            ("lightpc", 1, 0, Some(3)),
        ] {
            let ask = Ask {
                profile: profile.to_owned(),
                cores,
                dirty_bytes,
                how: How::Wbinvd,
                l1_kib,
            };
            assert!(!flush(&ask).unwrap_err().to_string().contains('\n'));
        }
    }
}
