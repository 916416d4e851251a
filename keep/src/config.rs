// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where kept memory and images are: a TOML file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use remanence_format::REM_KEEP_PAGE_BYTES;
use serde::Deserialize;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where images of what is not memory are.
    pub folder: PathBuf,
    /// The range's physical address.
    pub start: Option<u64>,
    /// Its size.
    pub bytes: Option<u64>,
    /// Instead of both: the NVDIMMs' namespace that is the range.
    pub namespace: Option<String>,
    /// The module's file; without it, the installed one is loaded.
    pub module: Option<PathBuf>,
    /// How long power lasts after PWR_OK dropped.
    pub hold_up_us: u64,
    /// The wire of PWR_OK: a serial line, or a socket's path.
    pub wire: Option<PathBuf>,
    /// An image is consumed without word of the supply after so long.
    #[serde(default = "supply_wait_ms")]
    pub supply_wait_ms: u64,
    /// Between two checkpoints, while `serve` runs; none without it.
    pub checkpoint_every_s: Option<u64>,
    /// Programs get numbers from here, which no process of another boot has.
    #[serde(default = "first_pid")]
    pub first_pid: u32,
}

/// Where the range is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// By its address and size.
    Span {
        /// Physical.
        start: u64,
        /// A multiple of the page size.
        bytes: u64,
    },
    /// By its name below /sys/bus/nd/devices.
    Namespace(String),
}

/// The supply repeats each status every few milliseconds, until one has heard it.
fn supply_wait_ms() -> u64 {
    100
}

fn first_pid() -> u32 {
    20000
}

/// Below are numbers that the processes of any boot may have.
const FIRST_PID_MIN: u32 = 1000;
/// The kernel's `PID_MAX_LIMIT`, without one block of a program.
const FIRST_PID_MAX: u32 = (1 << 22) - 1000;
/// The smallest memory block of x86-64 is larger.
const RANGE_MIN_BYTES: u64 = 1 << 20;
/// Frames are 32-bit numbers of pages.
const RANGE_MAX_BYTES: u64 = 1 << 43;
/// Names are those of files, and of sockets, whose paths are short.
const NAME_MAX: usize = 32;
/// Files of this name hold a state of the whole.
const RESERVED: [&str; 4] = ["up", "saved", "entering", "checkpoint"];

/// Whether a program may have this name.
///
/// # Errors
/// One line that says what a name is.
pub fn check_name(name: &str) -> Result<(), String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty()
        || name.len() > NAME_MAX
        || !name.chars().all(letters)
        || name.starts_with('-')
    {
        return Err(format!(
            "{name:?} is no name: give up to {NAME_MAX} letters, digits and dashes"
        ));
    }
    if RESERVED.contains(&name) {
        return Err(format!("the name {name} is rem-keep's own: give another"));
    }
    Ok(())
}

impl Config {
    /// From the file's text.
    ///
    /// # Errors
    /// One line that names what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let message = error.message();
            message.lines().next().unwrap_or_default().to_owned()
        })?;
        config.place()?;
        if !config.folder.is_absolute() {
            return Err("folder: give a path from the root".to_owned());
        }
        if config.hold_up_us == 0 {
            return Err("hold_up_us is 0: nothing could be saved".to_owned());
        }
        if config.checkpoint_every_s == Some(0) {
            return Err("checkpoint_every_s is 0: give a period".to_owned());
        }
        if !(FIRST_PID_MIN..=FIRST_PID_MAX).contains(&config.first_pid) {
            return Err(format!(
                "first_pid = {}: give {FIRST_PID_MIN} to {FIRST_PID_MAX}",
                config.first_pid
            ));
        }
        for (key, path) in [("module", &config.module), ("wire", &config.wire)] {
            if path.as_ref().is_some_and(|path| !path.is_absolute()) {
                return Err(format!("{key}: give a path from the root"));
            }
        }
        Ok(config)
    }

    /// From a file.
    ///
    /// # Errors
    /// One line that names file and fault.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Where the range is.
    ///
    /// # Errors
    /// One line, if it is not given, or twice.
    pub fn place(&self) -> Result<Place, String> {
        match (self.start, self.bytes, &self.namespace) {
            (Some(start), Some(bytes), None) => check_span(start, bytes),
            (None, None, Some(name)) => check_namespace(name),
            (None, None, None) => Err("give start and bytes, or namespace".to_owned()),
            (_, _, Some(_)) => Err("namespace: it has start and bytes by itself".to_owned()),
            (Some(_), None, None) => Err("start: give bytes, too".to_owned()),
            (None, Some(_), None) => Err("bytes: give start, too".to_owned()),
        }
    }

    /// How long a save may take.
    #[must_use]
    pub fn hold_up(&self) -> Duration {
        Duration::from_micros(self.hold_up_us)
    }
}

fn check_span(start: u64, bytes: u64) -> Result<Place, String> {
    if start % REM_KEEP_PAGE_BYTES != 0 {
        return Err(format!("start = {start:#x}: give a multiple of a page"));
    }
    if !(RANGE_MIN_BYTES..=RANGE_MAX_BYTES).contains(&bytes) || bytes % REM_KEEP_PAGE_BYTES != 0 {
        return Err(format!("bytes = {bytes}: give whole pages, 1 MiB to 8 TiB"));
    }
    if start.checked_add(bytes).is_none() {
        return Err(format!("start = {start:#x}: the range ends beyond 2^64"));
    }
    Ok(Place::Span { start, bytes })
}

fn check_namespace(name: &str) -> Result<Place, String> {
    let right = |c: char| c.is_ascii_alphanumeric() || c == '.';
    if name.starts_with('.') || name.is_empty() || !name.chars().all(right) {
        return Err(format!(
            "namespace = {name:?}: give a name such as namespace1.0"
        ));
    }
    Ok(Place::Namespace(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "folder = \"/f\"\nstart = 0x120000000\nbytes = 536870912\n\
                        hold_up_us = 2000000\n";

    /// Goal: what is given is read, and the rest has its usual value.
    #[test]
    fn a_configuration_is_read() {
        let config = Config::parse(TEXT).unwrap();
        let (start, bytes) = (0x1_2000_0000, 536_870_912);
        assert_eq!(config.place().unwrap(), Place::Span { start, bytes });
        assert_eq!(config.first_pid, 20000);
        assert_eq!(config.hold_up(), Duration::from_secs(2));
        let named = "folder = \"/f\"\nnamespace = \"namespace1.0\"\nhold_up_us = 1\n";
        let place = Config::parse(named).unwrap().place().unwrap();
        assert_eq!(place, Place::Namespace("namespace1.0".to_owned()));
    }

    /// Goal: each fault is one line that names it.
    #[test]
    fn faults_are_named() {
        for (from, to, word) in [
            ("\"/f\"", "\"f\"", "folder"),
            ("folder", "fodler", "fodler"),
            ("start = 0x120000000\n", "", "give start"),
            ("bytes = 536870912\n", "", "give bytes"),
            (
                "start = 0x120000000\nbytes = 536870912\n",
                "",
                "or namespace",
            ),
            ("0x120000000", "0x120000001", "start = 0x120000001"),
            ("536870912", "5368", "bytes = 5368"),
            ("536870912", "-1", "-1"),
            ("= 2000000", "= 0", "hold_up_us"),
            ("= 2000000", "= \"2\"", "string"),
            ("hold_up_us", "namespace = \"n\"\nhold_up_us", "by itself"),
            ("hold_up_us", "first_pid = 1\nhold_up_us", "first_pid"),
            ("hold_up_us", "wire = \"ttyS1\"\nhold_up_us", "wire"),
            ("hold_up_us", "module = \"m.ko\"\nhold_up_us", "module"),
        ] {
            let why = Config::parse(&TEXT.replace(from, to)).unwrap_err();
            assert!(why.contains(word), "{why}");
            assert!(!why.contains('\n'));
        }
        let named = "folder = \"/f\"\nnamespace = \"../x\"\nhold_up_us = 1\n";
        assert!(Config::parse(named).unwrap_err().contains("namespace"));
    }

    /// Goal: a name is a plain word, and no file of our own.
    #[test]
    fn names_are_plain() {
        for name in ["db", "a-1", "UP"] {
            check_name(name).unwrap();
        }
        for name in ["", "../a", "-a", "a b", "saved", &"a".repeat(33)] {
            check_name(name).unwrap_err();
        }
    }
}
