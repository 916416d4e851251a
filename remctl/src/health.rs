// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what a Stop at a power failure needs is well, as far as the kernel cannot know it: one
//! pass over all sources. What is bad is reported to the kernel, which then promises nothing
//! (`kernel/stop/health.c`); a battery that is nearly empty is a Stop.

use std::fs;
use std::io::ErrorKind;

use serde::Serialize;

use crate::fault::{Fault, at};
use crate::status::{Condition, FOLDER, NO_REMANENCE, has_remanence};
use crate::stop::stop;
use crate::system::{System, put, run};

pub mod memory;
pub mod power;
pub mod read;
pub mod redfish;
pub mod supplies;
pub mod thermal;

const FILE: &str = "health";
/// The kernel cuts there, too (`REM_CONDITION_TEXT_BYTES`).
const TEXT_BYTES: usize = 79;
const GONE: &str = "was there, and is gone";

/// What one source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This machine has none of it.
    None,
    /// All is well.
    Good,
    /// Something is not.
    Bad(String),
}

impl Found {
    /// Of some devices, and what is wrong with them.
    fn of(there: bool, faults: impl Iterator<Item = String>) -> Self {
        let faults: Vec<String> = faults.collect();
        match (there, faults.is_empty()) {
            (_, false) => Self::Bad(faults.join("; ")),
            (true, true) => Self::Good,
            (false, true) => Self::None,
        }
    }
}

/// One source in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The name of its condition.
    pub name: &'static str,
    /// `none`, `ok` or `bad`.
    pub state: &'static str,
    /// What is bad.
    pub why: Option<String>,
}

/// What a pass has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// All sources.
    pub sources: Vec<Source>,
    /// A line for each one that is another than the kernel knew.
    pub changes: Vec<String>,
    /// Whether batteries are nearly empty, and the machine is to stop.
    pub low: bool,
}

/// What is wanted of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Within which there is another pass, in seconds; 0: somebody looks once.
    pub period_s: u32,
    /// In percent: a battery that has no more is nearly empty; 0: none is.
    pub low_percent: u8,
    /// Only look.
    pub dry_run: bool,
}

impl Report {
    /// Whether anything is bad.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.sources.iter().any(|source| source.why.is_some())
    }

    /// Lines for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.sources.iter().map(Source::line).collect()
    }
}

impl Source {
    fn new(name: &'static str, found: Found) -> Self {
        let (state, why) = match found {
            Found::None => ("none", None),
            Found::Good => ("ok", None),
            Found::Bad(why) => ("bad", Some(short(&why))),
        };
        Self { name, state, why }
    }

    fn line(&self) -> String {
        let why = self.why.iter().map(|why| format!(" {why}"));
        format!("{}: {}{}", self.name, self.state, why.collect::<String>())
    }

    /// For the kernel.
    fn report(&self, period_s: u32) -> String {
        match (&self.why, self.state) {
            (Some(why), _) => format!("{} {period_s} bad {why}\n", self.name),
            (None, "none") => format!("{} 0 ok\n", self.name),
            (None, _) => format!("{} {period_s} ok\n", self.name),
        }
    }

    /// A line, if the kernel knew another state or reason.
    fn change(&self, known: &[Condition]) -> Option<String> {
        let known = known.iter().find(|known| known.name == self.name);
        let before = known.map(|known| (known.state.as_str(), known.why.as_deref()));
        let now = (self.state, self.why.as_deref());
        let same = match before {
            Some(before) => before == now,
            None => self.why.is_none(),
        };
        (!same).then(|| self.line())
    }
}

/// As the kernel keeps it: otherwise each pass would find a change.
fn short(why: &str) -> String {
    let kept = |letter| matches!(letter, ' '..='~');
    let letters = why.chars().take(TEXT_BYTES);
    let text: String = letters
        .map(|letter| if kept(letter) { letter } else { '?' })
        .collect();
    text.trim_end().to_owned()
}

/// What the kernel has been told.
fn known(system: &System) -> Result<Vec<Condition>, Fault> {
    if !has_remanence(system) {
        return Err(Fault::new(NO_REMANENCE));
    }
    let path = system.path(FOLDER).join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Condition::parse_all(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let why = "this kernel takes no reports of health: boot a newer linux-image-remanence";
            Err(Fault::new(why))
        }
        Err(error) => Err(at(path.display())(error)),
    }
}

fn look(system: &System, known: &[Condition], wishes: Wishes) -> Report {
    let power = power::Power::look(system, wishes.low_percent);
    let found = [
        ("battery", power.batteries()),
        ("mains", power.mains()),
        ("psu", supplies::look(system)),
        ("redfish", redfish::look(system)),
        ("nvdimm", memory::look(system)),
        ("thermal", thermal::look(system)),
    ];
    let source = |(name, found): (&'static str, Found)| {
        // It is no health, that what was watched cannot be seen any more.
        let is_gone = found == Found::None && known.iter().any(|known| known.name == name);
        let gone = || Found::Bad(GONE.to_owned());
        Source::new(name, if is_gone { gone() } else { found })
    };
    let sources: Vec<Source> = found.into_iter().map(source).collect();
    Report {
        changes: sources.iter().filter_map(|it| it.change(known)).collect(),
        sources,
        low: power.is_ending(),
    }
}

/// One write for each report, as the kernel takes them.
fn tell(system: &System, line: &str) -> Result<(), Fault> {
    let path = system.path(FOLDER).join(FILE);
    put(&path, line.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Fault::new("a report needs CAP_SYS_BOOT: be root"),
        _ => at(path.display())(error),
    })
}

/// Looks, and reports what there is to the kernel.
///
/// # Errors
/// One line, if the kernel does not take a report; the others were made nevertheless.
pub fn health(system: &System, wishes: Wishes) -> Result<Report, Fault> {
    let known = known(system)?;
    let report = look(system, &known, wishes);
    if wishes.dry_run {
        return Ok(report);
    }
    let told: Vec<_> = report
        .sources
        .iter()
        .map(|source| tell(system, &source.report(wishes.period_s)))
        .collect();
    told.into_iter().collect::<Result<(), Fault>>()?;
    Ok(report)
}

/// Takes back all that this program reports: nobody will look any more, or what is gone may be.
///
/// # Errors
/// As above.
pub fn forget(system: &System) -> Result<(), Fault> {
    known(system)?;
    for name in ["battery", "mains", "psu", "redfish", "nvdimm", "thermal"] {
        tell(system, &format!("{name} 0 ok\n"))?;
    }
    Ok(())
}

/// A machine of which the next Stop has an image. What is bad is the supply, and nothing else.
fn would_resume(system: &System) -> bool {
    let status = fs::read_to_string(system.path(FOLDER).join("status")).unwrap_or_default();
    let status = status.trim();
    status == "armed" || status.starts_with("unhealthy:")
}

/// Batteries are nearly empty: a Stop, or what is done elsewhere. Returns when the machine is back.
///
/// # Errors
/// One line, if the machine can neither be stopped nor shut down.
pub fn battery_low(system: &System) -> Result<(), Fault> {
    if would_resume(system) && stop(system).is_ok() {
        return Ok(());
    }
    let shutdown = system.program("shutdown", "systemd-sysv")?;
    run(&shutdown, &["-h", "+0"]).map(drop)
}

#[cfg(test)]
mod tests;
