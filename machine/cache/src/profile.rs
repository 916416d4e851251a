// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of the modelled machines: `models/parts/processors.toml`, parsed and checked.

use crate::LINE_BYTES;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The parameters of all profiles, each with its source.
pub use remanence_parts::PROCESSORS as PROFILES;

/// The directory of holders has one bit per core in a 64-bit word.
pub const CORES_MAX: usize = 64;
/// Larger than any real last level, to catch typing errors.
const KIB_MAX: u64 = 1 << 21;
/// No machine has more ways, except for fully associative buffers.
const WAYS_MAX: u32 = 64;

/// Which line of a full set is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// The least recently used.
    Lru,
    /// A random one, from a generator with a fixed seed.
    Random,
}

/// What still reaches media after power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// Nothing: the controller's queue is lost.
    None,
    /// What the memory controller has accepted.
    Adr,
    /// Also the content of the caches.
    Eadr,
}

/// Size and speed of one array.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Its size.
    pub kib: u64,
    /// Lines per set.
    pub ways: u32,
    /// Latency of an access that misses the levels above and hits here.
    pub latency_ns: f64,
}

impl Geometry {
    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.kib << 10
    }
}

/// One machine. Units and sources: `models/parts/processors.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the file explains each next to its numbers")]
pub struct Profile {
    #[serde(skip)]
    pub name: String,
    pub cores_max: usize,
    pub mhz: u64,
    pub l1: Geometry,
    pub l2: Option<Geometry>,
    pub llc: Option<Geometry>,
    pub inclusive: bool,
    pub replacement: Replacement,
    pub domain: Domain,
    pub fill_buffers: usize,
    pub queue_lines: usize,
    pub memory_read_ns: f64,
    pub memory_write_ns: f64,
    pub walk_ns: f64,
    pub flush_ns: f64,
}

/// Why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// The text is not a valid table.
    Syntax(String),
    /// No profile of this name; the known names follow.
    Unknown(String, Vec<String>),
    /// Profile, and the invalid value.
    Impossible(String, String),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(why) => write!(f, "cache profiles: {why}"),
            Self::Unknown(name, known) => {
                write!(f, "no cache profile {name:?}: choose {}", known.join(", "))
            }
            Self::Impossible(name, why) => write!(f, "cache profile {name}: {why}"),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Picoseconds of a checked figure in nanoseconds.
pub(crate) fn ps(ns: f64) -> u64 {
    let ps = (ns * 1000.0).round();
    assert!(
        (0.0..1e15).contains(&ps),
        "a checked profile has valid times"
    );
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "asserted above"
    )]
    let whole = ps as u64;
    whole
}

impl Profile {
    /// All profiles of `text`, by name.
    ///
    /// # Errors
    /// The first invalid profile.
    pub fn parse_all(text: &str) -> Result<BTreeMap<String, Self>, ProfileError> {
        let mut all: BTreeMap<String, Self> = toml::from_str(text)
            .map_err(|error| ProfileError::Syntax(error.to_string().replace('\n', " ")))?;
        for (name, profile) in &mut all {
            profile.name.clone_from(name);
            profile.check()?;
        }
        Ok(all)
    }

    /// The built-in profile of this name.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        let mut all = Self::parse_all(PROFILES)?;
        all.remove(name).ok_or_else(|| {
            let known = all.keys().cloned().collect();
            ProfileError::Unknown(name.to_owned(), known)
        })
    }

    /// Duration of a core's cycle.
    #[must_use]
    pub fn cycle_ps(&self) -> u64 {
        1_000_000 / self.mhz
    }

    /// Bytes that can be dirty in the caches of so many cores.
    #[must_use]
    pub fn dirty_bytes_max(&self, cores: u64) -> u64 {
        let last = self.llc.map_or(0, |level| level.bytes());
        if self.inclusive {
            return last;
        }
        last + cores * (self.l1.bytes() + self.l2.map_or(0, |level| level.bytes()))
    }

    /// Time in which a core walks its own caches and the last level.
    #[must_use]
    pub fn walk_all_ps(&self) -> u64 {
        let levels = [Some(self.l1), self.l2, self.llc];
        let bytes: u64 = levels.iter().flatten().map(Geometry::bytes).sum();
        bytes / LINE_BYTES * ps(self.walk_ns)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let refuse = |why: String| Err(ProfileError::Impossible(self.name.clone(), why));
        if !(1..=CORES_MAX).contains(&self.cores_max) {
            return refuse(format!("cores_max: from 1 to {CORES_MAX}"));
        }
        if !(1..=10_000).contains(&self.mhz) {
            return refuse("mhz: from 1 to 10000".to_owned());
        }
        let levels = [("l1", Some(self.l1)), ("l2", self.l2), ("llc", self.llc)];
        for (what, geometry) in levels {
            let Some(geometry) = geometry else { continue };
            if geometry.kib == 0 || geometry.kib > KIB_MAX {
                return refuse(format!("{what}: kib from 1 to {KIB_MAX}"));
            }
            if !(1..=WAYS_MAX).contains(&geometry.ways) {
                return refuse(format!("{what}: ways from 1 to {WAYS_MAX}"));
            }
            if geometry.bytes() % (LINE_BYTES * u64::from(geometry.ways)) != 0 {
                let ways = geometry.ways;
                return refuse(format!("{what}: {ways} ways do not divide its lines"));
            }
        }
        if self.inclusive && self.llc.is_none() {
            return refuse("inclusive: there is no last level".to_owned());
        }
        if self.fill_buffers == 0 || self.queue_lines == 0 {
            return refuse("fill_buffers and queue_lines: at least 1".to_owned());
        }
        let times = [
            self.l1.latency_ns,
            self.l2.map_or(0.0, |level| level.latency_ns),
            self.llc.map_or(0.0, |level| level.latency_ns),
            self.memory_read_ns,
            self.memory_write_ns,
            self.walk_ns,
            self.flush_ns,
        ];
        if times.iter().any(|ns| !(0.0..1e9).contains(ns)) {
            return refuse("times: from 0 to a second".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_profiles_are_valid_and_found_by_name() {
        let all = Profile::parse_all(PROFILES).unwrap();
        assert_eq!(all.len(), 8);
        for name in all.keys() {
            assert_eq!(&Profile::named(name).unwrap().name, name);
        }
        let unknown = Profile::named("c64").unwrap_err().to_string();
        assert!(unknown.contains("wsp-c5528") && unknown.contains("c64"));
    }

    #[test]
    fn each_number_has_its_source() {
        for line in PROFILES.lines().filter(|line| !line.starts_with('#')) {
            let (setting, source) = line.split_once('#').unwrap_or((line, ""));
            let value = setting.split_once('=').map_or("", |(_, value)| value);
            if value.contains(|c: char| c.is_ascii_digit()) {
                assert!(source.contains('['), "no source: {line}");
            }
        }
    }

    #[test]
    fn invalid_geometry_is_refused_by_name() {
        let (_, profile) = PROFILES.split_once("[lightpc]").unwrap();
        let (profile, _) = profile.split_once("\n[").unwrap();
        let with = |from: &str, to: &str| {
            assert!(profile.contains(from), "{from}");
            let text = format!("[x]{}", profile.replace(from, to));
            Profile::parse_all(&text).unwrap_err().to_string()
        };
        assert!(with("ways = 4", "ways = 3").contains("3 ways"));
        assert!(with("ways = 4", "ways = 0").contains("ways from 1"));
        assert!(with("kib = 16", "kib = 0").contains("kib from 1"));
        assert!(with("mhz = 1600", "mhz = 0").contains("mhz"));
        assert!(with("inclusive = false", "inclusive = true").contains("no last level"));
        assert!(with("fill_buffers = 2", "fill_buffers = 0").contains("fill_buffers"));
        assert!(with("walk_ns = 10.0", "walk_ns = -1.0").contains("times"));
        assert!(with("mhz = 1600", "mhz = 1600\nghz = 1").contains("ghz"));
        assert!(with("cores_max = 64", "cores_max = 65").contains("cores_max"));
    }
}
