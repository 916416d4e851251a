// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guest: its power-on, its save, and what its image consists of.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use remanence_format::RemVmBody;
use serde_json::{Value, json};

use crate::config::{Differs, GuestConfig, Requests};
use crate::describe::Description;
use crate::fence;
use crate::gate::Gate;
use crate::image::{self, Source};
use crate::lock::Lock;
use crate::memory::{Id, Memory};
use crate::qemu::{self, Process};
use crate::qmp::{Monitor, Qmp, QmpError, Ticket};
use crate::record::{self, Record, Verdict};
use crate::requests::{self, Disk, RequestsError};
use crate::takeover::{self, Holder};

const CONNECT_LIMIT: Duration = Duration::from_secs(20);
const RESTORE_LIMIT: Duration = Duration::from_secs(60);
const RESUMED: &str = "resume";
const TAKEN_OVER: &str = "taken-over";
const DIFFERS: &str = "machine-differs";
/// What the QEMU that runs was started as.
const RUNNING: &str = "machine.running";
/// What QEMU calls a guest that an error of a disk has stopped.
const IO_ERROR: &str = "io-error";
const REASON_MAX: usize = 400;

/// What went wrong, in one line.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A file.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// QEMU.
    #[error("{0}")]
    Qmp(#[from] QmpError),
    /// Requests to its disks.
    #[error("{0}")]
    Requests(#[from] RequestsError),
    /// The image is kept for an administrator, who changes the machine back or gives it up.
    #[error("held: {0}")]
    Held(String),
}

/// Adds the path to an error of the file system.
trait At<T> {
    fn at(self, path: &Path) -> Result<T, GuestError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, GuestError> {
        self.map_err(|cause| GuestError::File {
            path: path.to_owned(),
            cause,
        })
    }
}

/// How a guest came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// From its image.
    pub resumed: bool,
    /// `resume`, or why not.
    pub reason: String,
    /// Until its CPUs ran.
    pub took: Duration,
    /// Since its save, by the time of day; 0 if it boots cold.
    pub away: Duration,
}

/// A save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// From the drop of PWR_OK until its commit is durable.
    pub took: Duration,
    /// Of device state.
    pub state_bytes: u64,
}

/// A rehearsal of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// Until the guest stood still.
    pub stop: Duration,
    /// The save.
    pub saved: Saved,
}

/// A guest that runs.
#[derive(Debug)]
pub struct Guest {
    /// As configured.
    pub config: GuestConfig,
    /// How it came up.
    pub boot: Boot,
    folder: PathBuf,
    record: Record,
    memory: Memory,
    ram_id: Id,
    version: String,
    next: u32,
    qmp: Qmp,
    process: Process,
    qemu: PathBuf,
    /// Those that are cut off at a save.
    disks: Vec<Disk>,
    are_cut_off: bool,
    /// A `stop` that has no answer yet.
    stopping: Option<Ticket>,
    is_saved: bool,
}

fn state_file(folder: &Path, sequence: u32) -> PathBuf {
    folder.join(format!("state.{}", sequence % 2))
}

fn description_file(folder: &Path, sequence: u32) -> PathBuf {
    folder.join(format!("machine.{}", sequence % 2))
}

/// CRC32C and length.
fn checksum(path: &Path) -> io::Result<(u32, u64)> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut crc, mut bytes) = (0, 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((crc, bytes)),
            count => {
                crc = crc32c::crc32c_append(crc, &buffer[..count]);
                bytes += count as u64;
            }
        }
    }
}

/// What guests have of their host.
#[derive(Debug)]
pub struct Host<'a> {
    /// QEMU's program.
    pub qemu: &'a Path,
    /// Its version.
    pub version: &'a str,
    /// When an image may be consumed; without one at once.
    pub gate: Option<Gate>,
}

/// Parts of a guest before its QEMU runs.
struct Parts<'a> {
    config: &'a GuestConfig,
    folder: &'a Path,
    ram: PathBuf,
    record: &'a Record,
    memory: &'a Memory,
    on: &'a Host<'a>,
    /// Whether the start is given up: an image is not consumed then.
    is_over: &'a dyn Fn() -> bool,
}

/// A QEMU that runs its guest.
struct Up {
    reason: String,
    away: Duration,
    next: u32,
    process: Process,
    qmp: Qmp,
}

impl Parts<'_> {
    /// The image's guest, once; or a cold boot with the reason.
    fn bring_up(&self, lock: &Lock) -> Result<Up, GuestError> {
        let path = self.folder.join("record");
        let mut reason = match self.image()? {
            Ok(body) => {
                let sequence = body.sequence;
                // A QEMU that cannot even start costs no image: it is consumed only now.
                let (mut process, mut qmp) = self.start(lock, true)?;
                if let Some(gate) = &self.on.gate {
                    gate.wait();
                }
                image::enter(self.record, sequence).at(&path)?;
                match restore(&mut qmp, self.config, self.folder, sequence) {
                    Ok(()) => {
                        return Ok(Up {
                            reason: RESUMED.to_owned(),
                            away: since(body.saved_s),
                            next: sequence.saturating_add(1),
                            process,
                            qmp,
                        });
                    }
                    Err(error) => {
                        process.end();
                        format!("restore-failed: {error}")
                    }
                }
            }
            Err(reason) if reason.starts_with(DIFFERS) && self.config.differs == Differs::Hold => {
                return Err(GuestError::Held(reason));
            }
            Err(reason) => reason,
        };
        reason.truncate(REASON_MAX);
        let next = self.record.close_all().at(&path)?;
        self.memory.begin_anew().at(&self.ram)?;
        let (process, qmp) = self.start(lock, false)?;
        Ok(Up {
            reason,
            away: Duration::ZERO,
            next,
            process,
            qmp,
        })
    }

    /// A QEMU that has run its guest without a rem-vm: its clients wait at the fence, no older
    /// image can be entered, and its CPUs go on if a save had stopped them.
    fn take_over(&self, process: Process, mut qmp: Qmp) -> Result<Up, GuestError> {
        let kept = fs::read_to_string(self.folder.join(RUNNING)).unwrap_or_default();
        let now = Description::of(self.config, self.on.version);
        if kept != now.text() {
            let difference = now.difference(&kept);
            return Err(GuestError::Held(format!(
                "it runs, and {DIFFERS}: {difference}"
            )));
        }
        let path = self.folder.join("record");
        let next = self.record.close_all().at(&path)?;
        qmp.leave_memory_in_place()?;
        if let Some(fence) = &self.config.fence {
            fence::set_link(&mut qmp, fence, false)?;
        }
        if qmp.status()? != "running" {
            qmp.execute("cont", &Value::Null)?;
        }
        Ok(Up {
            reason: TAKEN_OVER.to_owned(),
            away: Duration::ZERO,
            next,
            process,
            qmp,
        })
    }

    /// The image that may be entered, or why there is none.
    fn image(&self) -> Result<Result<RemVmBody, String>, GuestError> {
        let path = self.folder.join("record");
        let bytes = self.record.read().at(&path)?;
        let sequence = match record::judge(&bytes) {
            Verdict::Enter(sequence) => sequence,
            other => return Ok(Err(other.name().to_owned())),
        };
        let body = record::body(&bytes, sequence);
        if self.memory.id().at(&self.ram)? != Some(body.ram_id)
            || body.ram_bytes != self.config.ram_bytes
        {
            return Ok(Err(
                "memory-differs: its content is not that of the image".to_owned()
            ));
        }
        let now = Description::of(self.config, self.on.version);
        if now.fingerprint() != body.machine {
            let kept = fs::read_to_string(description_file(self.folder, sequence));
            let difference = now.difference(&kept.unwrap_or_default());
            return Ok(Err(format!("{DIFFERS}: {difference}")));
        }
        let found = checksum(&state_file(self.folder, sequence));
        if found.ok() != Some((body.state_crc, body.state_bytes)) {
            return Ok(Err("state-damaged".to_owned()));
        }
        Ok(Ok(body))
    }

    /// Starts QEMU; for an image, it waits for one.
    fn start(&self, lock: &Lock, incoming: bool) -> Result<(Process, Qmp), GuestError> {
        let socket = self.folder.join("qmp.sock");
        let log = self.folder.join("qemu.log");
        let words = qemu::arguments(self.config, &self.ram, &socket, incoming);
        let mut process = Process::start(self.on.qemu, &words, lock, &log).at(self.on.qemu)?;
        let began = Qmp::connect(&socket, CONNECT_LIMIT, || {
            process.runs() && !(self.is_over)()
        })
        .and_then(|mut qmp| {
            qmp.leave_memory_in_place()?;
            Ok(qmp)
        });
        match began {
            Ok(qmp) => {
                let kept = self.folder.join(RUNNING);
                let now = Description::of(self.config, self.on.version);
                fs::write(&kept, now.text()).at(&kept)?;
                Ok((process, qmp))
            }
            Err(error) => {
                process.end();
                let told = fs::read_to_string(&log).unwrap_or_default();
                let why = told.lines().last().unwrap_or_default();
                Err(GuestError::File {
                    path: self.on.qemu.to_owned(),
                    cause: io::Error::other(format!("{error}; its last words: {why}")),
                })
            }
        }
    }
}

fn write_state(
    qmp: &mut Qmp,
    folder: &Path,
    sequence: u32,
    limit: Duration,
) -> Result<(u32, u64), GuestError> {
    let path = state_file(folder, sequence);
    let uri = format!("file:{}", path.display());
    qmp.execute("migrate", &json!({"uri": uri}))?;
    qmp.wait_migrated(limit)?;
    File::open(&path)
        .and_then(|file| file.sync_data())
        .at(&path)?;
    checksum(&path).at(&path)
}

/// Since a time of day.
fn since(then_s: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
        .saturating_sub(Duration::from_secs(then_s))
}

/// Loads an image into a QEMU that waits for it; its CPUs run, and its clients wait at the fence.
fn restore(
    qmp: &mut Qmp,
    config: &GuestConfig,
    folder: &Path,
    sequence: u32,
) -> Result<(), QmpError> {
    let uri = format!("file:{}", state_file(folder, sequence).display());
    qmp.execute("migrate-incoming", &json!({"uri": uri}))?;
    qmp.wait_migrated(RESTORE_LIMIT)?;
    if let Some(fence) = &config.fence {
        fence::set_link(qmp, fence, false)?;
    }
    qmp.execute("cont", &Value::Null)?;
    Ok(())
}

/// A guest while it is saved.
struct Saving<'a> {
    config: &'a GuestConfig,
    folder: &'a Path,
    memory: &'a Memory,
    ram_id: Id,
    version: &'a str,
    qmp: &'a mut Qmp,
    limit: Duration,
    began: Instant,
    state: (u32, u64),
}

impl Source for Saving<'_> {
    type Error = GuestError;

    fn write_state(&mut self, sequence: u32) -> Result<(), GuestError> {
        self.state = write_state(self.qmp, self.folder, sequence, self.limit)?;
        Ok(())
    }

    fn flush_memory(&mut self) -> Result<(), GuestError> {
        if self.config.host_is_persistent {
            return Ok(());
        }
        self.memory.flush().at(self.folder)
    }

    fn body(&mut self, sequence: u32) -> Result<RemVmBody, GuestError> {
        let machine = Description::of(self.config, self.version);
        let kept = description_file(self.folder, sequence);
        fs::write(&kept, machine.text()).at(&kept)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(RemVmBody {
            sequence,
            state_crc: self.state.0,
            state_bytes: self.state.1,
            ram_bytes: self.config.ram_bytes,
            saved_s: now.map_or(0, |since| since.as_secs()),
            save_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            ram_id: self.ram_id,
            machine: machine.fingerprint(),
            ..RemVmBody::default()
        })
    }
}

impl From<io::Error> for GuestError {
    /// Of the record: its path is that of the guest's folder.
    fn from(cause: io::Error) -> Self {
        Self::File {
            path: "record".into(),
            cause,
        }
    }
}

impl Guest {
    /// Power on: resumes the image, once, or boots cold with a reason.
    ///
    /// # Errors
    /// If it cannot even boot cold.
    pub fn power_on(
        config: &GuestConfig,
        folder: &Path,
        on: &Host<'_>,
    ) -> Result<Self, GuestError> {
        Self::power_on_unless(config, folder, on, &|| false)
    }

    fn power_on_unless(
        config: &GuestConfig,
        folder: &Path,
        on: &Host<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Self, GuestError> {
        let began = Instant::now();
        fs::create_dir_all(folder).at(folder)?;
        let holder = takeover::holder(folder).at(&folder.join("lock"))?;
        let path = folder.join("record");
        let record = Record::open(&path).at(&path)?;
        let ram = config.ram.clone().unwrap_or_else(|| folder.join("ram"));
        let memory = Memory::open(&ram, config.ram_bytes).at(&ram)?;
        let parts = Parts {
            config,
            folder,
            ram: ram.clone(),
            record: &record,
            memory: &memory,
            on,
            is_over,
        };
        let up = match holder {
            Holder::Nobody(lock) => parts.bring_up(&lock)?,
            Holder::Qemu(process, qmp) => parts.take_over(process, qmp)?,
        };
        let ram_id = memory.id().at(&ram)?.unwrap_or_default();
        Ok(Self {
            config: config.clone(),
            boot: Boot {
                resumed: up.reason == RESUMED,
                reason: up.reason,
                took: began.elapsed(),
                away: up.away,
            },
            folder: folder.to_owned(),
            ram_id,
            version: on.version.to_owned(),
            next: up.next,
            qmp: up.qmp,
            process: up.process,
            record,
            memory,
            qemu: on.qemu.to_owned(),
            disks: Vec::new(),
            are_cut_off: false,
            stopping: None,
            is_saved: false,
        })
    }

    /// Whether QEMU still runs.
    pub fn runs(&mut self) -> bool {
        self.process.runs()
    }

    /// Whether its memory is the medium itself ([`Memory::is_in_place`]).
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.memory.is_in_place()
    }

    /// Whether it goes on from an image, or has never stopped: it may have missed something.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.boot.resumed || self.boot.reason == TAKEN_OVER
    }

    /// CPUs stop, and disks have to answer what is under way. Nothing is waited for.
    ///
    /// # Errors
    /// As in [`GuestError`].
    pub fn begin_stop(&mut self) -> Result<(), GuestError> {
        self.stopping = Some(self.qmp.begin("stop", &Value::Null)?);
        Ok(())
    }

    /// The guest stands still, at the latest at *end*: its requests are completed, or cut off
    /// after *grace*.
    ///
    /// # Errors
    /// As in [`GuestError`]; then it cannot be saved.
    pub fn end_stop(&mut self, grace: Duration, end: Instant) -> Result<(), GuestError> {
        if let Some(stop) = &self.stopping {
            self.are_cut_off |= !self.disks.is_empty();
            let settled = requests::settle(&mut self.qmp, stop, &self.disks, grace, end);
            if !matches!(settled, Err(RequestsError::UnderWay)) {
                self.stopping = None;
            }
            settled?;
        }
        Ok(())
    }

    /// Whether its `stop` has no answer within the limit.
    fn is_stopping(&mut self, limit: Duration) -> Result<bool, QmpError> {
        if let Some(stop) = &self.stopping {
            if self.qmp.end(stop, limit)?.is_some() {
                self.stopping = None;
            }
        }
        Ok(self.stopping.is_some())
    }

    /// A guest that an error of a disk has stopped issues its requests again, where it is to see
    /// no error: the disk may be back. One that did not go on without it does; true if so.
    ///
    /// # Errors
    /// As in [`GuestError`].
    pub fn try_again(&mut self, fails: &dyn Fn() -> bool) -> Result<bool, GuestError> {
        if self.are_cut_off {
            return self.power_cycle(fails).map(|()| true);
        }
        let is_to_wait = self.config.requests == Requests::Replay && !self.disks.is_empty();
        if is_to_wait && !self.is_stopping(Duration::ZERO)? && self.qmp.status()? == IO_ERROR {
            self.qmp.execute("cont", &Value::Null)?;
        }
        Ok(false)
    }

    /// The clients' link goes down or up, where the guest has a fence.
    ///
    /// # Errors
    /// As in [`GuestError`].
    pub fn let_clients_in(&mut self, are_in: bool) -> Result<(), GuestError> {
        if self.are_cut_off {
            return Ok(()); // its next QEMU begins with the link down
        }
        let is_late = self.is_stopping(Duration::ZERO)?;
        match &self.config.fence {
            // QEMU obeys in order: before it lets the CPUs go on.
            Some(fence) if is_late => drop(fence::begin_set_link(&mut self.qmp, fence, are_in)?),
            Some(fence) => fence::set_link(&mut self.qmp, fence, are_in)?,
            None => {}
        }
        Ok(())
    }

    /// CPUs go on; what a save has committed meanwhile is given up first. A guest that was cut off
    /// from its disks goes on from its image, with a new QEMU, unless the power *fails* meanwhile.
    ///
    /// # Errors
    /// As in [`GuestError`]; then they do not, or, with [`RequestsError::UnderWay`], not before
    /// its disks have answered.
    pub fn go_on(&mut self, fails: &dyn Fn() -> bool) -> Result<(), GuestError> {
        if self.are_cut_off {
            return self.power_cycle(fails);
        }
        let path = self.folder.join("record");
        image::give_up(&self.record, self.next).at(&path)?;
        self.next = self.next.saturating_add(1);
        self.is_saved = false;
        if self.is_stopping(Duration::ZERO)? {
            self.qmp.begin("cont", &Value::Null)?;
            return Err(RequestsError::UnderWay.into());
        }
        self.qmp.execute("cont", &Value::Null)?;
        Ok(())
    }

    /// Off and on again, as if the power had gone. What was not saved in time is now.
    fn power_cycle(&mut self, fails: &dyn Fn() -> bool) -> Result<(), GuestError> {
        let now = Instant::now();
        if !self.is_saved {
            self.end_stop(Duration::ZERO, now + RESTORE_LIMIT)?;
            self.save(now, RESTORE_LIMIT)?;
        }
        self.process.end();
        let (config, folder) = (self.config.clone(), self.folder.clone());
        // As for a guest that was not cut off, charge is not asked for.
        let on = Host {
            qemu: &self.qemu,
            version: &self.version,
            gate: None,
        };
        let guest = Self::power_on_unless(&config, &folder, &on, fails)?;
        let disks = std::mem::take(&mut self.disks);
        *self = Self { disks, ..guest };
        Ok(())
    }

    /// What a save takes, without one: the guest stops, its state is written, it goes on. Finds
    /// out which disks are to be cut off, and whether they can be.
    ///
    /// # Errors
    /// As in [`GuestError`].
    pub fn rehearse(&mut self, limit: Duration) -> Result<Rehearsed, GuestError> {
        self.disks = requests::disks(&mut self.qmp, self.config.requests)?;
        self.begin_stop()?;
        let rehearsed = self.rehearse_save(Instant::now(), limit);
        let went_on = self.go_on(&|| false);
        let rehearsed = rehearsed?;
        went_on?;
        Ok(rehearsed)
    }

    fn rehearse_save(&mut self, began: Instant, limit: Duration) -> Result<Rehearsed, GuestError> {
        let hangs = self.is_stopping(limit / 2)?;
        if hangs || !self.disks.is_empty() && self.qmp.status()? == IO_ERROR {
            // Its disks do not answer: if they are to be cut off, it is saved and goes on.
            let began = Instant::now();
            if !hangs {
                self.begin_stop()?;
            }
            self.end_stop(Duration::ZERO, began + limit / 2)?;
            let stop = began.elapsed();
            let saved = self.save(began, limit)?;
            return Ok(Rehearsed { stop, saved });
        }
        let stop = began.elapsed();
        requests::rehearse(&mut self.qmp, &self.disks)?;
        let path = self.folder.join("record");
        self.record.open_slot(self.next).at(&path)?;
        let (_, state_bytes) = write_state(&mut self.qmp, &self.folder, self.next, limit)?;
        let took = began.elapsed();
        let saved = Saved { took, state_bytes };
        Ok(Rehearsed { stop, saved })
    }

    /// Saves a guest that is stopped: state, memory, then the commit. *began* is when PWR_OK
    /// dropped.
    ///
    /// # Errors
    /// As in [`GuestError`]; then nothing is committed.
    pub fn save(&mut self, began: Instant, limit: Duration) -> Result<Saved, GuestError> {
        let sequence = self.next;
        let mut parts = Saving {
            config: &self.config,
            folder: &self.folder,
            memory: &self.memory,
            ram_id: self.ram_id,
            version: &self.version,
            qmp: &mut self.qmp,
            limit,
            began,
            state: (0, 0),
        };
        image::save(&self.record, &mut parts, sequence)?;
        let state_bytes = parts.state.1;
        self.is_saved = true;
        Ok(Saved {
            took: began.elapsed(),
            state_bytes,
        })
    }

    /// Ends QEMU, which nobody needs after a save.
    pub fn quit(&mut self) {
        let _ = self.qmp.execute("quit", &Value::Null);
        let end = Instant::now() + Duration::from_secs(2);
        while self.runs() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.process.end();
    }
}
