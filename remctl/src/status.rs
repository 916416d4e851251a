// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the running kernel says of itself in /sys/kernel/remanence, and what is installed. Every
//! file is optional: kernels differ in what they have.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;

use crate::bzimage::Kernel;
use crate::esp::Esp;
use crate::fault::Fault;
use crate::firmware::Firmware;
use crate::system::System;

/// The kernel's folder.
pub const FOLDER: &str = "sys/kernel/remanence";
const MODULES: &str = "sys/bus/nd/devices";
/// What is said where it has none.
pub const NO_REMANENCE: &str = "this kernel has no Remanence: boot linux-image-remanence";
const RESUME: u32 = 1; // enum rem_boot_reason

/// The kernel that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    release: String,
    build: String,
}

/// The loader's decision at the last boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastBoot {
    /// Whether it entered an image.
    pub resumed: bool,
    /// The name of its reason, of remanence(7).
    pub reason: String,
    /// The number of its reason.
    pub code: u32,
    /// The number of the image.
    pub sequence: u32,
    /// What had differed, if the image was held before.
    pub held: Option<String>,
}

/// How devices are stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// `fast` or `dpm`.
    pub mode: String,
    /// The device or driver because of which it is not fast.
    pub because: Option<String>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// What keeps acknowledged writes.
    pub policy: String,
}

/// Whether images are authenticated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trust {
    /// `on`, `off` or `no-key`.
    pub state: String,
    /// The TPM's counter of this boot.
    pub counter: Option<u64>,
    /// How long the loader waited for the TPM, in microseconds.
    pub tpm_us: Option<u64>,
    /// How much of the kernel's text and read-only data is authenticated, in KiB; 0: none.
    pub text_kib: Option<u64>,
}

/// A part of the kernel that has a state and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// One word, and why if it is off.
    pub state: Option<String>,
    /// Numbers by their names.
    pub counts: BTreeMap<String, i64>,
}

/// The image on the EFI system partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OnEsp {
    /// The image.
    pub file: PathBuf,
    /// Its kernel.
    pub version: String,
    /// Whether that kernel runs.
    pub runs: bool,
    /// Whether it is signed.
    pub signed: bool,
}

/// What user space has said of the supply's health, or of a module's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Its name.
    pub name: String,
    /// `ok`, `bad` or `silent`.
    pub state: String,
    /// When that was said, in seconds before now.
    pub age_s: u64,
    /// Within which it is to be said again; 0: it need not be.
    pub period_s: u64,
    /// What is bad.
    pub why: Option<String>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Whether the next power failure is survived.
    pub armed: bool,
    /// What the kernel says, with the reason.
    pub state: Option<String>,
    /// How the last boot went.
    pub last_boot: Option<LastBoot>,
    /// The number of the next image; 0: none is possible.
    pub sequence: Option<i64>,
    /// Images entered since the last cold boot.
    pub resumes: Option<i64>,
    /// Why the last Stop was abandoned, as a negative errno.
    pub last_error: Option<i64>,
    /// How devices are stopped.
    pub stop_mode: Option<Mode>,
    /// In nanoseconds: bound of a Stop, hold-up, the last and the longest Stop.
    pub budget: BTreeMap<String, i64>,
    /// All disks.
    pub disks: Vec<Disk>,
    /// What the loader does if the machine differs.
    pub hold: Option<String>,
    /// The NVDIMM's flash and its energy.
    pub nvdimm: Option<String>,
    /// Whether images are authenticated.
    pub trust: Option<Trust>,
    /// How often each module's memory was not saved, as it counts itself.
    pub dirty_shutdowns: BTreeMap<String, i64>,
    /// Whether what is in the caches is saved.
    pub flush_on_fail: Option<bool>,
    /// What is reported of the supply's health.
    pub health: Vec<Condition>,
    /// fsync that ends in memory.
    pub persist: Part,
    /// DRAM as a cache.
    pub dram: Part,
    /// How this system was started.
    pub firmware: Firmware,
    /// What is on the EFI system partition.
    pub installed: Option<OnEsp>,
    /// What the administrator has to know.
    pub notes: Vec<String>,
}

fn text(system: &System, path: &str) -> Option<String> {
    let text = fs::read_to_string(system.path(path)).ok()?;
    Some(text.trim().to_owned())
}

/// Files of the kernel's folder; those that are there and cannot be read are noted.
struct Reader<'a> {
    system: &'a System,
    notes: Vec<String>,
}

impl Reader<'_> {
    fn text(&mut self, name: &str) -> Option<String> {
        match fs::read_to_string(self.system.path(FOLDER).join(name)) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
                    self.notes.push(format!("{name} cannot be read: {error}"));
                }
                None
            }
        }
    }

    fn number(&mut self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// A name and a number on each line.
    fn numbers(&mut self, name: &str) -> BTreeMap<String, i64> {
        let text = self.text(name).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        pairs.collect()
    }

    fn part(&mut self, folder: &str) -> Part {
        Part {
            state: self.text(&format!("{folder}/state")),
            counts: self.numbers(&format!("{folder}/counts")),
        }
    }

    fn disks(&mut self) -> Vec<Disk> {
        let text = self.text("disks").unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let disk = |(name, policy): (&str, &str)| Disk {
            name: name.to_owned(),
            policy: policy.to_owned(),
        };
        pairs.map(disk).collect()
    }
}

impl LastBoot {
    /// From `NAME CODE sequence N [held NAME]`.
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let (reason, code, sequence, held) = match words[..] {
            [reason, code, "sequence", sequence] => (reason, code, sequence, None),
            [reason, code, "sequence", sequence, "held", held] => {
                (reason, code, sequence, Some(held))
            }
            _ => return None,
        };
        let code = code.parse().ok()?;
        Some(Self {
            resumed: code == RESUME,
            reason: reason.to_owned(),
            code,
            sequence: sequence.parse().ok()?,
            held: held.map(str::to_owned),
        })
    }
}

impl Mode {
    /// From `MODE[: because of NAME]`.
    fn parse(text: &str) -> Self {
        let (mode, because) = match text.split_once(": because of ") {
            Some((mode, because)) => (mode, Some(because.to_owned())),
            None => (text, None),
        };
        Self {
            mode: mode.to_owned(),
            because,
        }
    }
}

impl Trust {
    /// A word, then names with their numbers.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let state = words.next()?.to_owned();
        let rest: Vec<&str> = words.collect();
        let number = |name: &str| {
            let at = rest.iter().position(|&word| word == name)?;
            rest.get(at + 1)?.parse().ok()
        };
        Some(Self {
            state,
            counter: number("counter"),
            tpm_us: number("tpm_us"),
            text_kib: number("text_kib"),
        })
    }
}

impl Condition {
    /// From `NAME STATE AGE_S PERIOD_S[ TEXT]`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next();
        Some(Self {
            name: word()?.to_owned(),
            state: word()?.to_owned(),
            age_s: word()?.parse().ok()?,
            period_s: word()?.parse().ok()?,
            why: word().map(str::to_owned),
        })
    }

    /// Of all lines of the file; what is none is left out.
    #[must_use]
    pub fn parse_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::parse).collect()
    }

    /// Whether nothing is promised because of it.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.state != "ok"
    }
}

impl Running {
    /// Looks.
    #[must_use]
    pub fn look(system: &System) -> Self {
        Self {
            release: text(system, "proc/sys/kernel/osrelease").unwrap_or_default(),
            build: text(system, "proc/sys/kernel/version").unwrap_or_default(),
        }
    }

    /// Whether it is another one than that of a file.
    #[must_use]
    pub fn is_other(&self, kernel: &Kernel) -> bool {
        !kernel.is(&self.release, &self.build)
    }

    /// What that means, for a kernel that is armed: an image is of the kernel that wrote it.
    #[must_use]
    pub fn warning(&self, kernel: &Kernel) -> String {
        let (release, running) = (kernel.release(), &self.release);
        let what = if release == running {
            format!("another build of {release}")
        } else {
            format!("{release}, not {running}")
        };
        format!(
            "until the next boot a power failure ends in a cold boot (kernel-differs): the \
             installed kernel is {what}"
        )
    }
}

/// Of NVDIMMs by the NFIT, and of CXL memory.
fn dirty_shutdowns(system: &System) -> BTreeMap<String, i64> {
    let modules = fs::read_dir(system.path(MODULES)).into_iter().flatten();
    let names = modules.filter_map(|module| module.ok()?.file_name().into_string().ok());
    let count = |name: &String| {
        let of = |kind| text(system, &format!("{MODULES}/{name}/{kind}/dirty_shutdown"));
        of("nfit").or_else(|| of("cxl"))?.parse().ok()
    };
    names
        .filter_map(|name| Some((count(&name)?, name)))
        .map(|(n, name)| (name, n))
        .collect()
}

fn on_esp(system: &System, notes: &mut Vec<String>) -> Option<(OnEsp, Kernel)> {
    let esp = Esp::find(system, None).ok()?;
    let found = match esp.installed() {
        Ok(found) => found?,
        Err(why) => {
            notes.push(why.to_string());
            return None;
        }
    };
    let on_esp = OnEsp {
        file: esp.image(),
        version: found.kernel.release().to_owned(),
        runs: !Running::look(system).is_other(&found.kernel),
        signed: found.is_signed,
    };
    Some((on_esp, found.kernel))
}

/// Whether the running kernel has Remanence.
#[must_use]
pub fn has_remanence(system: &System) -> bool {
    system.path(FOLDER).is_dir()
}

/// Looks at all of it.
///
/// # Errors
/// One line, if the kernel has no Remanence.
pub fn status(system: &System) -> Result<Status, Fault> {
    if !has_remanence(system) {
        return Err(Fault::new(NO_REMANENCE));
    }
    let mut files = Reader {
        system,
        notes: Vec::new(),
    };
    let state = files.text("status");
    let mut status = Status {
        armed: state.as_deref() == Some("armed"),
        state,
        last_boot: files
            .text("last_boot")
            .and_then(|text| LastBoot::parse(&text)),
        sequence: files.number("sequence"),
        resumes: files.number("resumes"),
        last_error: files.number("last_error"),
        stop_mode: files.text("stop_mode").map(|text| Mode::parse(&text)),
        budget: files.numbers("budget"),
        disks: files.disks(),
        hold: files.text("hold"),
        nvdimm: files.text("nvdimm"),
        trust: files.text("trust").and_then(|text| Trust::parse(&text)),
        dirty_shutdowns: dirty_shutdowns(system),
        flush_on_fail: files.number("flush_on_fail").map(|value| value != 0),
        health: Condition::parse_all(&files.text("health").unwrap_or_default()),
        persist: files.part("persist"),
        dram: files.part("dram"),
        firmware: Firmware::look(system),
        installed: None,
        notes: files.notes,
    };
    if let Some((on_esp, kernel)) = on_esp(system, &mut status.notes) {
        if !on_esp.runs {
            status.notes.push(Running::look(system).warning(&kernel));
        }
        if status.firmware.secure_boot == Some(true) && !on_esp.signed {
            let why = "Secure Boot is on and the installed image is not signed";
            status.notes.push(why.to_owned());
        }
        status.installed = Some(on_esp);
    }
    Ok(status)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bzimage::tests::kernel;
    use crate::pe::tests::loader;
    use crate::system::tests::Fake;
    use crate::unified::{KERNEL, unified};

    /// A machine as the laboratory's, with an image on its partition.
    pub(crate) fn machine() -> Fake {
        let fake = Fake::new();
        for (name, text) in [
            ("status", "armed\n"),
            ("last_boot", "resume 1 sequence 7\n"),
            ("sequence", "8\n"),
            ("resumes", "3\n"),
            ("last_error", "0\n"),
            ("stop_mode", "dpm: because of 0000:00:03.0\n"),
            (
                "budget",
                "bound_ns 2345678\nhold_up_ns 33000000\nlast_ns 512345\nworst_ns 612345\nexceeded 0\n",
            ),
            ("disks", "vda protected\nvdb open\n"),
            ("hold", "60,keep\n"),
            ("nvdimm", "armed ready\n"),
            (
                "trust",
                "on counter 12 tpm_us 13436 text_kib 9880 modules trusted data trusted\n",
            ),
            ("flush_on_fail", "0\n"),
            ("health", "psu ok 12 300\nbattery bad 3 0 at 7 %\n"),
            ("persist/state", "memory\n"),
            ("persist/counts", "in_memory 12\nby_disk 1\n"),
            ("dram/state", "off: memtype=mixed was not given\n"),
            ("dram/counts", "frames 0\nused 0\n"),
        ] {
            fake.write(&format!("sys/kernel/remanence/{name}"), text);
        }
        fake.write("sys/bus/nd/devices/nmem0/nfit/dirty_shutdown", "2\n");
        fake.write("sys/bus/nd/devices/nmem1/cxl/dirty_shutdown", "0\n");
        fake.write("sys/bus/nd/devices/region0/size", "1\n");
        fake.write("proc/sys/kernel/osrelease", "6.12.57-remanence\n");
        fake.write("proc/sys/kernel/version", "#1 SMP Fri\n");
        fake.write("proc/mounts", "/dev/vda1 /boot/efi vfat rw 0 0\n");
        install(&fake, "6.12.57-remanence (a@b) #1 SMP Fri");
        fake
    }

    pub(crate) fn install(fake: &Fake, text: &str) {
        let image = unified(&loader(), &[(KERNEL, &kernel(text, 0))]).unwrap();
        fake.write("boot/efi/EFI/remanence/remanence.efi", image);
    }

    #[test]
    fn all_is_read() {
        let fake = machine();
        let found = status(&fake.system()).unwrap();
        assert!(found.armed);
        assert_eq!(
            found.last_boot,
            Some(LastBoot {
                resumed: true,
                reason: "resume".into(),
                code: 1,
                sequence: 7,
                held: None
            })
        );
        assert_eq!(
            (found.sequence, found.resumes, found.last_error),
            (Some(8), Some(3), Some(0))
        );
        let mode = found.stop_mode.unwrap();
        assert_eq!(
            (mode.mode.as_str(), mode.because.as_deref()),
            ("dpm", Some("0000:00:03.0"))
        );
        assert_eq!(found.budget["hold_up_ns"], 33_000_000);
        assert_eq!(
            (found.disks.len(), found.disks[1].policy.as_str()),
            (2, "open")
        );
        assert_eq!(found.nvdimm.as_deref(), Some("armed ready"));
        let trust = found.trust.unwrap();
        assert_eq!(
            (
                trust.state.as_str(),
                trust.counter,
                trust.tpm_us,
                trust.text_kib,
            ),
            ("on", Some(12), Some(13_436), Some(9880))
        );
        let dirty: Vec<_> = found.dirty_shutdowns.into_iter().collect();
        assert_eq!(dirty, [("nmem0".to_owned(), 2), ("nmem1".to_owned(), 0)]);
        assert_eq!(found.flush_on_fail, Some(false));
        let [psu, battery] = &found.health[..] else {
            panic!("{:?}", found.health);
        };
        let numbers = (psu.age_s, psu.period_s, battery.age_s, battery.period_s);
        assert_eq!(numbers, (12, 300, 3, 0));
        assert_eq!((psu.is_bad(), battery.is_bad()), (false, true));
        assert_eq!(battery.why.as_deref(), Some("at 7 %"));
        assert_eq!(found.persist.counts["in_memory"], 12);
        assert_eq!(
            found.dram.state.as_deref(),
            Some("off: memtype=mixed was not given")
        );
        let installed = found.installed.unwrap();
        assert_eq!(
            (installed.version.as_str(), installed.runs),
            ("6.12.57-remanence", true)
        );
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }

    #[test]
    fn a_kernel_without_remanence_is_one_line() {
        let fake = Fake::new();
        let why = status(&fake.system()).unwrap_err().to_string();
        assert_eq!(
            why,
            "this kernel has no Remanence: boot linux-image-remanence"
        );
    }

    /// Goal: each file may be absent. Method: one file at a time.
    #[test]
    fn every_file_is_optional() {
        let fake = machine();
        let folder = fake.path("sys/kernel/remanence");
        let names = [
            "status",
            "last_boot",
            "sequence",
            "budget",
            "disks",
            "nvdimm",
            "trust",
            "persist/state",
        ];
        for name in names {
            fs::remove_file(folder.join(name)).unwrap();
            let found = status(&fake.system()).unwrap();
            assert!(found.notes.is_empty(), "{:?}", found.notes);
            assert!(!found.armed);
        }
        fs::remove_dir_all(folder.join("dram")).unwrap();
        fs::remove_file(fake.path("proc/mounts")).unwrap();
        let found = status(&fake.system()).unwrap();
        assert_eq!(
            (found.dram, found.last_boot, found.installed),
            (Part::default(), None, None)
        );
        assert_eq!(
            (found.resumes, found.hold.as_deref()),
            (Some(3), Some("60,keep"))
        );
    }

    #[test]
    fn what_the_administrator_has_to_know_is_noted() {
        let fake = machine();
        install(&fake, "6.12.57-remanence (a@b) #2 SMP Sat");
        let variable = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
        fake.write(
            &format!("sys/firmware/efi/efivars/{variable}"),
            b"\x06\0\0\0\x01",
        );
        fs::remove_file(fake.path("sys/kernel/remanence/nvdimm")).unwrap();
        fs::create_dir(fake.path("sys/kernel/remanence/nvdimm")).unwrap();
        let found = status(&fake.system()).unwrap();
        assert!(!found.installed.unwrap().runs);
        assert_eq!(
            found.notes,
            [
                "nvdimm cannot be read: Is a directory (os error 21)",
                "until the next boot a power failure ends in a cold boot (kernel-differs): the \
                 installed kernel is another build of 6.12.57-remanence",
                "Secure Boot is on and the installed image is not signed",
            ]
        );
        fake.write("boot/efi/EFI/remanence/remanence.efi", b"MZ");
        let notes = status(&fake.system()).unwrap().notes;
        assert!(
            notes[1].ends_with("remanence.efi: no UEFI application for x86-64"),
            "{notes:?}"
        );
    }

    #[test]
    fn decisions_of_the_loader_are_read() {
        let cold = LastBoot::parse("asked 48 sequence 0 held disk-differs").unwrap();
        assert!(!cold.resumed);
        assert_eq!(cold.held.as_deref(), Some("disk-differs"));
        for bad in [
            "unknown",
            "",
            "resume x sequence 7",
            "resume 1 sequence",
            "a 1 b 2",
        ] {
            assert_eq!(LastBoot::parse(bad), None, "{bad}");
        }
    }
}
