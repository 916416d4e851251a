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

/// A core that goes on while lines that it has asked for are under way. Its fill buffers bound those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// Instructions in a cycle where nothing is waited for.
    pub width: u64,
    /// Instructions in flight.
    pub window: u64,
    /// Stores that wait for their lines.
    pub store_buffer: u64,
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
    pub l1i: Option<Geometry>,
    pub l2: Option<Geometry>,
    pub llc: Option<Geometry>,
    pub inclusive: bool,
    pub replacement: Replacement,
    pub domain: Domain,
    pub fill_buffers: usize,
    pub write_backs: Option<usize>,
    pub width: Option<u64>,
    pub window: Option<u64>,
    pub store_buffer: Option<u64>,
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

    /// The built-in profile of this name. Numbers of its cores may follow that are others, for a
    /// sweep: `xeon-6330:fill_buffers=48:window=224`; `in-order` is a core without these, with
    /// `random` caches evict any line, and with `no-fetches` instructions come from nowhere.
    ///
    /// # Errors
    /// There is no such profile, or no such number.
    pub fn named(word: &str) -> Result<Self, ProfileError> {
        let (name, settings) = word.split_once(':').unwrap_or((word, ""));
        let mut all = Self::parse_all(PROFILES)?;
        let mut profile = all.remove(name).ok_or_else(|| {
            let known = all.keys().cloned().collect();
            ProfileError::Unknown(name.to_owned(), known)
        })?;
        for setting in settings.split(':').filter(|setting| !setting.is_empty()) {
            profile.set(setting)?;
        }
        profile.check()?;
        Ok(profile)
    }

    fn set(&mut self, setting: &str) -> Result<(), ProfileError> {
        if setting == "in-order" {
            (self.width, self.window, self.store_buffer) = (None, None, None);
            return Ok(());
        }
        if setting == "random" {
            self.replacement = Replacement::Random;
            return Ok(());
        }
        if setting == "no-fetches" {
            self.l1i = None;
            return Ok(());
        }
        let refused = || {
            let known = "mhz, l1_kib, l1i_kib, llc_kib, fill_buffers, write_backs, width, \
                         window, store_buffer";
            let why =
                format!("{setting}: give in-order, random, no-fetches, or NAME=NUMBER of {known}");
            ProfileError::Impossible(self.name.clone(), why)
        };
        let (key, value) = setting.split_once('=').ok_or_else(refused)?;
        let number: u64 = value.parse().map_err(|_| refused())?;
        match key {
            "mhz" => self.mhz = number,
            "fill_buffers" => self.fill_buffers = usize::try_from(number).map_err(|_| refused())?,
            "write_backs" => {
                self.write_backs = Some(usize::try_from(number).map_err(|_| refused())?);
            }
            "l1_kib" => self.l1.kib = number,
            "l1i_kib" => self.l1i.as_mut().ok_or_else(refused)?.kib = number,
            "llc_kib" => self.llc.as_mut().ok_or_else(refused)?.kib = number,
            "width" => self.width = Some(number),
            "window" => self.window = Some(number),
            "store_buffer" => self.store_buffer = Some(number),
            _ => return Err(refused()),
        }
        Ok(())
    }

    /// The core, if it is out of order.
    #[must_use]
    pub fn out_of_order(&self) -> Option<OutOfOrder> {
        Some(OutOfOrder {
            width: self.width?,
            window: self.window?,
            store_buffer: self.store_buffer?,
        })
    }

    /// Lines of one core that are on their way to memory at most.
    #[must_use]
    pub fn write_backs(&self) -> usize {
        self.write_backs.unwrap_or(self.fill_buffers)
    }

    /// From one instruction to the next where nothing is waited for.
    #[must_use]
    pub fn instruction_ps(&self) -> u64 {
        self.cycle_ps() / self.out_of_order().map_or(1, |core| core.width)
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
        let levels = [
            ("l1", Some(self.l1)),
            ("l1i", self.l1i),
            ("l2", self.l2),
            ("llc", self.llc),
        ];
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
        if self.fill_buffers == 0 || self.queue_lines == 0 || self.write_backs() == 0 {
            return refuse("fill_buffers, write_backs and queue_lines: at least 1".to_owned());
        }
        let core = [self.width, self.window, self.store_buffer];
        if core.iter().any(Option::is_some) && self.out_of_order().is_none() {
            return refuse("width, window and store_buffer go together".to_owned());
        }
        if core
            .into_iter()
            .flatten()
            .any(|number| !(1..=4096).contains(&number))
        {
            return refuse("width, window and store_buffer: from 1 to 4096".to_owned());
        }
        if self.instruction_ps() == 0 {
            return refuse("width: more than one instruction in a picosecond".to_owned());
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
        assert_eq!(all.len(), 10);
        for name in all.keys() {
            assert_eq!(&Profile::named(name).unwrap().name, name);
        }
        let unknown = Profile::named("c64").unwrap_err().to_string();
        assert!(unknown.contains("wsp-c5528") && unknown.contains("c64"));
    }

    #[test]
    fn core_out_of_order_is_the_rows_and_settings_change_it() {
        let of = |word: &str| Profile::named(word).unwrap();
        assert_eq!(of("xeon-6330:in-order").out_of_order(), None);
        assert_eq!(of("xeon-6330:in-order").instruction_ps(), 500);
        let core = of("xeon-6330").out_of_order().unwrap();
        assert_eq!((core.width, core.window, core.store_buffer), (5, 352, 72));
        assert_eq!(of("xeon-6330").instruction_ps(), 100);
        let other = of("xeon-6330:fill_buffers=48:width=1:window=224:store_buffer=56:mhz=3100");
        let core = other.out_of_order().unwrap();
        assert_eq!((core.width, core.window, core.store_buffer), (1, 224, 56));
        assert_eq!((other.fill_buffers, other.mhz), (48, 3100));
        assert_eq!(other.write_backs(), 48, "as many as misses");
        assert_eq!(of("xeon-6330:write_backs=1").write_backs(), 1);
        assert_eq!(of("lightpc-o3").write_backs(), 1);
        assert_eq!(of("xeon-6330:llc_kib=10752").llc.unwrap().kib, 10752);
        assert_eq!(of("lightpc:l1_kib=4").l1.bytes(), 4096);
        assert_eq!(of("lightpc:l1i_kib=4").l1i.unwrap().bytes(), 4096);
        assert_eq!(of("lightpc:no-fetches").l1i, None);
        assert_eq!(of("xeon-6330:random").replacement, Replacement::Random);
        for bad in [
            "window",
            "window=",
            "window=0",
            "ways=3",
            "window=-1",
            "width=5000",
            "llc_kib=7",
            "l1_kib=0",
            "l1i_kib=0",
            "no-fetches:l1i_kib=4",
        ] {
            let refused = Profile::named(&format!("xeon-6330:{bad}")).unwrap_err();
            assert!(refused.to_string().contains("xeon-6330"), "{refused}");
        }
        let partly = Profile::named("lightpc:window=8").unwrap_err().to_string();
        assert!(partly.contains("go together"), "{partly}");
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
