// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host runs: a TOML file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where records, device states and sockets are, one folder for each guest.
    pub folder: PathBuf,
    /// How long power lasts after PWR_OK dropped.
    pub hold_up_us: u64,
    /// What the supply holds then, if that is to bound the hold-up, too.
    pub energy_mj: Option<u64>,
    /// What the host draws while it saves.
    pub draw_mw: Option<u64>,
    /// How long a supply may take to connect before images are entered without one.
    #[serde(default = "supply_wait_ms")]
    pub supply_wait_ms: u64,
    /// Where PWR_OK is reported: a serial line, or a socket; `power.sock` in the folder if not
    /// given.
    pub wire: Option<PathBuf>,
    /// QEMU, by its name or path.
    #[serde(default = "qemu")]
    pub qemu: PathBuf,
    /// Guests; those with a higher priority are saved first.
    #[serde(rename = "guest", default)]
    pub guests: Vec<GuestConfig>,
}

/// A guest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestConfig {
    /// Letters, digits and dashes.
    pub name: String,
    /// Of its memory.
    pub ram_bytes: u64,
    /// The file that is its memory; `ram` in its folder if not given.
    pub ram: Option<PathBuf>,
    /// QEMU's machine type.
    #[serde(default = "machine")]
    pub machine: String,
    /// How QEMU executes it.
    #[serde(default = "accel")]
    pub accel: String,
    /// QEMU's other arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Files of its disks, which must be as the image left them.
    #[serde(default)]
    pub disks: Vec<PathBuf>,
    /// Higher is saved first.
    #[serde(default)]
    pub priority: i32,
    /// Whether the host itself is persistent: its caches need no flush.
    #[serde(default)]
    pub host_is_persistent: bool,
    /// What to do with an image of another machine.
    #[serde(default)]
    pub differs: Differs,
    /// What becomes of requests to its disks that are under way when the power drops.
    #[serde(default)]
    pub requests: Requests,
    /// For a guest with peers: what it has missed must not reach its clients.
    pub fence: Option<Fence>,
}

/// After each absence a guest's clients are kept away until a program lets them in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fence {
    /// QEMU's name of the network by which clients come; peers come by another one.
    pub netdev: String,
    /// The program and its arguments; it succeeds when the guest is up to date.
    pub open: Vec<String>,
}

/// An image whose QEMU, arguments or disks are not those of the guest now.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Differs {
    /// It is kept, and the guest is not started: a disk may only be late.
    #[default]
    Hold,
    /// It is given up, and the guest boots cold.
    Cold,
}

/// Requests to disks that are under way when the power drops.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// Disks answer them; a guest with one that does not within the hold-up is not saved.
    #[default]
    Complete,
    /// They need no answer: they are issued again after the return, and the guest sees no error.
    Replay,
    /// They need no answer: they end with an error for the guest.
    Fail,
}

fn qemu() -> PathBuf {
    "qemu-system-x86_64".into()
}
fn supply_wait_ms() -> u64 {
    1000
}
fn machine() -> String {
    "q35".to_owned()
}
fn accel() -> String {
    "kvm:tcg".to_owned()
}

const RAM_MIN_BYTES: u64 = 1 << 20;
const RAM_MAX_BYTES: u64 = 1 << 44;
const PAGE_BYTES: u64 = 4096;
/// Arguments that are this program's own.
const OWN: &[&str] = &[
    "-m",
    "-qmp",
    "-incoming",
    "-machine",
    "-M",
    "-accel",
    "-sandbox",
    "-S",
    "-daemonize",
    "-mem-path",
];

impl Config {
    /// From the file's text.
    ///
    /// # Errors
    /// One line that names what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| {
            error
                .message()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned()
        })?;
        let mut names = HashSet::new();
        for guest in &config.guests {
            guest.check()?;
            if !names.insert(&guest.name) {
                return Err(format!("two guests have the name {}", guest.name));
            }
        }
        if config.hold_up_us == 0 {
            return Err("hold_up_us is 0: nothing could be saved".to_owned());
        }
        if config.energy_mj.is_some() && config.draw_mw.is_none() {
            return Err("energy_mj: give draw_mw, too".to_owned());
        }
        if config.draw_mw == Some(0) {
            return Err("draw_mw is 0: give what the host draws while it saves".to_owned());
        }
        if config.hold_up().is_zero() {
            return Err("energy_mj is drawn at once: nothing could be saved".to_owned());
        }
        Ok(config)
    }

    /// How long saves may take: until the supply ends, or what it holds is drawn.
    #[must_use]
    pub fn hold_up(&self) -> Duration {
        let time = Duration::from_micros(self.hold_up_us);
        match (self.energy_mj, self.draw_mw) {
            (Some(energy_mj), Some(draw_mw)) => {
                let us = u128::from(energy_mj) * 1_000_000 / u128::from(draw_mw.max(1));
                time.min(Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX)))
            }
            _ => time,
        }
    }

    /// What the host draws in a time; none if its draw is not known.
    #[must_use]
    pub fn energy_mj(&self, time: Duration) -> Option<u64> {
        let uj = u128::from(self.draw_mw?) * time.as_micros() / 1000;
        Some(u64::try_from(uj / 1000).unwrap_or(u64::MAX))
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
}

impl GuestConfig {
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(letters) || name.starts_with('-')
        {
            return Err(format!(
                "{name:?} is no name: give up to 32 letters, digits and dashes"
            ));
        }
        if !(RAM_MIN_BYTES..=RAM_MAX_BYTES).contains(&self.ram_bytes)
            || self.ram_bytes % PAGE_BYTES != 0
        {
            return Err(format!(
                "{name}: ram_bytes = {}: give whole pages, 1 MiB to 16 TiB",
                self.ram_bytes
            ));
        }
        if let Some(own) = self.args.iter().find(|word| OWN.contains(&word.as_str())) {
            return Err(format!("{name}: args: {own} is set by rem-vm"));
        }
        if self.requests != Requests::Complete {
            let delays = |word: &String| word.contains("reconnect-delay");
            if self.args.iter().any(delays) {
                return Err(format!(
                    "{name}: args: reconnect-delay would keep requests that are to end: leave it out"
                ));
            }
        }
        let word = |text: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
        };
        if !word(&self.machine) || !word(&self.accel) {
            return Err(format!("{name}: machine and accel are single words"));
        }
        self.fence
            .as_ref()
            .map_or(Ok(()), |fence| self.check_fence(fence))
    }

    fn check_fence(&self, fence: &Fence) -> Result<(), String> {
        let name = &self.name;
        if fence.open.is_empty() {
            return Err(format!("{name}: fence: open names no program"));
        }
        let id = format!("id={}", fence.netdev);
        let has_it = |word: &String| word.split(',').any(|part| part == id);
        if !self.args.iter().any(has_it) {
            return Err(format!("{name}: fence: no -netdev of args has {id}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: &str =
        "folder = \"/f\"\nhold_up_us = 10000\n[[guest]]\nname = \"a\"\nram_bytes = 1048576\n";

    /// Goal: what is given is read, and the rest has its usual value.
    #[test]
    fn a_guest_is_read() {
        let config = Config::parse(GUEST).unwrap();
        assert_eq!(config.guests[0].machine, "q35");
        assert_eq!(config.guests[0].priority, 0);
        assert_eq!(config.supply_wait_ms, 1000);
    }

    /// Goal: what ends first bounds the saves. 500 mJ last for 5 ms at 100 W.
    #[test]
    fn energy_bounds_the_hold_up() {
        let with = |keys: &str| Config::parse(&GUEST.replace("hold_up_us", keys)).unwrap();
        let full = with("energy_mj = 500\ndraw_mw = 100000\nhold_up_us");
        assert_eq!(full.hold_up(), Duration::from_millis(5));
        assert_eq!(full.energy_mj(full.hold_up()), Some(500));
        let ample = with("energy_mj = 5000\ndraw_mw = 100000\nhold_up_us");
        assert_eq!(ample.hold_up(), Duration::from_millis(10));
        assert_eq!(with("hold_up_us").energy_mj(Duration::MAX), None);
    }

    /// Goal: each fault is one line that names it.
    #[test]
    fn faults_are_named() {
        for (from, to, word) in [
            ("\"a\"", "\"../a\"", "no name"),
            ("1048576", "1000", "ram_bytes"),
            ("1048576", "1048577", "ram_bytes"),
            ("10000", "0", "hold_up_us"),
            ("hold_up_us", "energy_mj = 1\nhold_up_us", "draw_mw"),
            ("hold_up_us", "draw_mw = 0\nhold_up_us", "draw_mw is 0"),
            (
                "hold_up_us",
                "energy_mj = 0\ndraw_mw = 9\nhold_up_us",
                "drawn at once",
            ),
            ("name =", "nmae =", "nmae"),
            (
                "ram_bytes",
                "args = [\"-incoming\"]\nram_bytes",
                "-incoming",
            ),
            (
                "ram_bytes",
                "machine = \"q35,nvdimm=on\"\nram_bytes",
                "single words",
            ),
            ("ram_bytes", "requests = \"drop\"\nram_bytes", "`replay`"),
            (
                "ram_bytes",
                "requests = \"fail\"\nargs = [\"nbd,reconnect-delay=9\"]\nram_bytes",
                "reconnect-delay",
            ),
            (
                "ram_bytes",
                "fence = { netdev = \"n\", open = [] }\nram_bytes",
                "no program",
            ),
            (
                "ram_bytes",
                "args = [\"tap,id=nn\"]\nfence = { netdev = \"n\", open = [\"a\"] }\nram_bytes",
                "has id=n",
            ),
        ] {
            let why = Config::parse(&GUEST.replace(from, to)).unwrap_err();
            assert!(why.contains(word), "{why}");
            assert!(!why.contains('\n'));
        }
        let twice = format!("{GUEST}[[guest]]\nname = \"a\"\nram_bytes = 1048576\n");
        assert!(Config::parse(&twice).unwrap_err().contains("two guests"));
    }
}
