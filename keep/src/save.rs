// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A save of all programs, in the order that `remanence_vm::image` has.
//!
//! After a checkpoint programs run on. It shares their pages: the next store to one copies it, and
//! the image has what was (`share.c` of the module). The checkpoint before it stays valid until the
//! new one is, and gives its pages up then.

use std::mem;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use remanence_format::{REM_KEEP_CHECKPOINT, RemVmBody};
use remanence_vm::image::{self, Source};
use remanence_vm::record::{Record, Verdict, judge};
use serde::Serialize;

use crate::collect::Counts;
use crate::config::Config;
use crate::device::{Device, Range};
use crate::digest::{self, Fingerprint};
use crate::dump::{self, Common, Dumped};
use crate::engine::Engine;
use crate::fault::{Fault, at};
use crate::images;
use crate::layout::Layout;
use crate::processes;
use crate::sealed::Sealed;
use crate::shared::{self, Held};
use crate::state::{Registered, RunFolder, Saved};
use crate::table;

/// Who asks for a save.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The configuration.
    pub config: Config,
    /// Its file.
    pub path: PathBuf,
    /// Of this boot.
    pub state: RunFolder,
}

/// What follows a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Another kernel.
    #[default]
    Planned,
    /// The power goes.
    ByWire,
    /// Programs run on.
    Checkpoint,
}

/// What a save took, for people and for benchmarks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Whether there is an image now.
    pub committed: bool,
    /// Of the image.
    pub sequence: u32,
    /// Until the last program was frozen and CRIU was ready.
    pub criu_us: u64,
    /// From then until table and images were durable.
    pub table_us: u64,
    /// Writing back CPU caches.
    pub flush_us: u64,
    /// The record.
    pub commit_us: u64,
    /// All of it.
    pub total_us: u64,
    /// Pages that stay where they are.
    pub in_place_pages: u64,
    /// Pages that were copied to the range.
    pub copied_pages: u64,
    /// Names.
    pub programs: Vec<String>,
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Caller {
    /// By the configuration's file.
    ///
    /// # Errors
    /// If it is wrong.
    pub fn new(path: &Path) -> Result<Self, Fault> {
        let config = Config::load(path)?;
        // CRIU's scripts run elsewhere.
        let path = path.canonicalize().map_err(at(path.display()))?;
        let state = RunFolder::open()?;
        Ok(Self {
            config,
            path,
            state,
        })
    }

    /// What is saved and frozen now.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn saved(&self) -> Result<Option<Saved>, Fault> {
        self.state.read("saved.json")
    }

    /// Fails if programs are frozen.
    ///
    /// # Errors
    /// Then, and those of the file system.
    pub fn check_running(&self) -> Result<(), Fault> {
        match self.saved()? {
            None => Ok(()),
            Some(_) => Err(Fault::new(
                "programs are saved and frozen: `rem-keep abort` lets them go on",
            )),
        }
    }
}

/// A save that goes on.
pub struct Saver<'a> {
    caller: &'a Caller,
    device: &'a Device,
    range: Range,
    programs: &'a [Registered],
    images: PathBuf,
    kind: Kind,
    common: Common<'a>,
    dumped: Vec<Dumped>,
    begin: Instant,
    /// As it is on media.
    table: Sealed,
    /// Of the images.
    digest: Fingerprint,
    report: Report,
}

impl std::fmt::Debug for Saver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Saver of {:?}", self.programs)
    }
}

impl<'a> Saver<'a> {
    /// Of these programs, with images in this folder, by engines that are started already.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(
        caller: &'a Caller,
        device: &'a Device,
        programs: &'a [Registered],
        images: PathBuf,
        ready: Vec<Engine>,
    ) -> Result<Self, Fault> {
        let range = device.range()?;
        Ok(Self {
            caller,
            device,
            range,
            programs,
            images,
            kind: Kind::default(),
            common: Common::new(device, range.layout(), ready),
            dumped: Vec::new(),
            begin: Instant::now(),
            table: Sealed::default(),
            digest: Fingerprint::default(),
            report: Report::default(),
        })
    }

    /// What it took.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// All programs side by side; of those that were dumped, some are frozen also if this fails.
    fn dump_all(&mut self) -> Result<(), Fault> {
        images::make(&self.caller.config.folder)?;
        images::reset(&self.images)?;
        // A save that was killed may have left some.
        self.device.unpin()?;
        let common = &self.common;
        let (caller, images) = (self.caller, &self.images);
        let done: Vec<Result<Dumped, Fault>> = thread::scope(|scope| {
            let start = |program: &'a Registered| {
                let images = images.join(&program.name);
                scope.spawn(move || dump::dump(program, &images, &caller.state, common))
            };
            let threads: Vec<_> = self.programs.iter().map(start).collect();
            let joined = threads.into_iter().map(|thread| {
                let fault = |_| Err(Fault::new("a save has panicked"));
                thread.join().unwrap_or_else(fault)
            });
            joined.collect()
        });
        let mut first = Ok(());
        for one in done {
            match one {
                Ok(dumped) => self.dumped.push(dumped),
                Err(fault) if first.is_ok() => first = Err(fault),
                Err(_) => {}
            }
        }
        first
    }

    fn write_table(&mut self, sequence: u32) -> Result<(), Fault> {
        let images = &self.images;
        let (dumped, layout, device) = (&mut self.dumped, self.range.layout(), self.device);
        let (table, digest) = thread::scope(|scope| {
            let digest = scope.spawn(|| {
                images::sync(images)?;
                digest::of(images)
            });
            let table = whole_table(dumped, layout).and_then(|table| {
                let mut place = layout.table_offset(sequence);
                for part in table.parts() {
                    let written = device.write_at(place, part);
                    written.map_err(at("writing the table"))?;
                    place += part.len() as u64;
                }
                Ok(table)
            });
            let panicked = |_| Err(Fault::new("a save has panicked"));
            (table, digest.join().unwrap_or_else(panicked))
        });
        self.table = table?;
        self.digest = digest?;
        Ok(())
    }

    /// All programs go on; pages with copies are free again.
    ///
    /// # Errors
    /// If one does not.
    pub fn release(&mut self) -> Result<(), Fault> {
        let thawed = self.thaw();
        dump::give_back(self.device, &self.common.taken())?;
        self.device.unpin()?;
        thawed
    }

    fn thaw(&mut self) -> Result<(), Fault> {
        let dumped = std::mem::take(&mut self.dumped);
        let thawed = dumped.into_iter();
        let thawed = thawed.map(|one| dump::thaw(&one.name, one.criu, Ok(one.hold)));
        // Each is tried.
        let thawed: Vec<_> = thawed.collect();
        thawed.into_iter().collect()
    }

    /// The pages of programs that the image has are the checkpoint's, too.
    fn share(&self) -> Result<(), Fault> {
        let entries = table::decode(&self.table.to_bytes());
        for pid in shared::pids(&entries) {
            processes::make_read_only(pid)?;
        }
        shared::share(self.device, &entries, &self.common.taken())
    }

    /// From here on the end of this process lets no program go on: an image may become valid.
    fn keep_frozen(&mut self, sequence: u32) -> Result<(), Fault> {
        let one = |dumped: &Dumped| Registered {
            name: dumped.name.clone(),
            process: dumped.criu,
        };
        let saved = Saved {
            sequence,
            programs: self.dumped.iter().map(one).collect(),
            taken: self.common.taken(),
            by_wire: self.kind == Kind::ByWire,
        };
        self.caller.state.write("saved.json", &saved)?;
        for dumped in &mut self.dumped {
            let path = self.caller.state.path(&format!("{}.hold", dumped.name));
            let kept = dumped.hold.keep(&path);
            kept.map_err(at(format!("{}: it is not frozen any more", dumped.name)))?;
        }
        Ok(())
    }

    /// The image is not entered, and all programs go on.
    fn give_up(&mut self, record: &Record<&Device>, sequence: u32) -> Result<(), Fault> {
        // What cannot be closed may be entered: then no program may go on.
        image::give_up(record, sequence)
            .map_err(at("closing the image; programs that are frozen stay so"))?;
        self.release()?;
        self.caller.state.remove("saved.json")
    }
}

/// The table of all programs.
fn whole_table(dumped: &mut [Dumped], layout: Layout) -> Result<Sealed, Fault> {
    let tables = dumped.iter_mut().map(|one| mem::take(&mut one.table));
    let mut tables: Vec<Sealed> = tables.collect();
    if tables.len() == 1 {
        return Ok(tables.remove(0));
    }
    let parts = tables.into_iter().map(Sealed::into_bytes).collect();
    dump::sealed(table::merge(parts), layout)
}

impl Source for Saver<'_> {
    type Error = Fault;

    fn write_state(&mut self, sequence: u32) -> Result<(), Fault> {
        let begin = Instant::now();
        self.dump_all()?;
        let times = self.dumped.iter().map(|one| one.criu_time);
        let criu_time = times.max().unwrap_or_default();
        let counts = self.dumped.iter().map(|one| one.counts);
        let pages = counts.fold(Counts::default(), Counts::and);
        self.report.in_place_pages = pages.in_place;
        self.report.copied_pages = pages.copied;
        self.report.programs = self.dumped.iter().map(|one| one.name.clone()).collect();
        self.write_table(sequence)?;
        self.report.criu_us = us(criu_time);
        self.report.table_us = us(begin.elapsed().saturating_sub(criu_time));
        Ok(())
    }

    fn flush_memory(&mut self) -> Result<(), Fault> {
        let begin = Instant::now();
        self.device.flush()?;
        self.report.flush_us = us(begin.elapsed());
        Ok(())
    }

    fn body(&mut self, sequence: u32) -> Result<RemVmBody, Fault> {
        let is_checkpoint = self.kind == Kind::Checkpoint;
        if is_checkpoint {
            self.share()?;
        } else {
            self.keep_frozen(sequence)?;
        }
        let kind = if is_checkpoint {
            REM_KEEP_CHECKPOINT
        } else {
            0
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(RemVmBody {
            sequence,
            state_crc: self.table.crc(),
            state_bytes: self.table.len() as u64,
            ram_bytes: self.range.layout().range_bytes(),
            saved_s: since.unwrap_or_default().as_secs(),
            save_ns: u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            machine: self.digest,
            reserved: [kind, 0, 0, 0, 0],
            ..RemVmBody::default()
        })
    }
}

/// The sequence of the next image. An older one that may be entered stays so.
///
/// # Errors
/// Those of the record.
pub fn next(record: &Record<&Device>) -> Result<u32, Fault> {
    let bytes = record.read().map_err(at("the record"))?;
    match judge(&bytes) {
        Verdict::Enter(sequence) => Ok(sequence.saturating_add(1)),
        _ => Ok(record.close_all().map_err(at("the record"))?),
    }
}

/// Saves all programs, by engines that are started already and by new ones. They are frozen then,
/// but for a checkpoint.
///
/// # Errors
/// One line; then nothing is committed, and all programs go on.
pub fn save(caller: &Caller, kind: Kind, ready: Vec<Engine>) -> Result<Report, Fault> {
    let _lock = caller.state.lock("lock")?;
    caller.check_running()?;
    let programs = caller.state.programs()?;
    if programs.is_empty() {
        return Ok(Report::default());
    }
    let begin = Instant::now();
    let device = Device::open()?;
    let record = Record::on(&device);
    // Only a checkpoint can be there: whatever else was, is consumed.
    let sequence = next(&record)?;
    let images = images::slot(&caller.config.folder, sequence);
    let mut saver = Saver::new(caller, &device, &programs, images, ready)?;
    saver.kind = kind;
    let old = Held::read(caller, &device)?;
    if let Err(fault) = image::save(&record, &mut saver, sequence) {
        if kind == Kind::Checkpoint {
            // If it is valid in spite of the fault, then with pages that others get.
            image::give_up(&record, sequence).map_err(at("closing the image"))?;
            shared::give_up(
                &device,
                &table::decode(&saver.table.to_bytes()),
                &old.entries,
            )?;
            saver.release()?;
        } else {
            saver.give_up(&record, sequence)?;
        }
        return Err(fault);
    }
    let mut report = saver.report.clone();
    report.committed = true;
    report.sequence = sequence;
    report.total_us = us(begin.elapsed());
    let parts_us = report.criu_us + report.table_us + report.flush_us;
    report.commit_us = report.total_us.saturating_sub(parts_us);
    if kind == Kind::Checkpoint {
        let entries = table::decode(&saver.table.to_bytes());
        saver.thaw()?;
        device.unpin()?;
        old.release(&device, &entries)?;
        Held::write(caller, sequence, saver.common.taken())?;
    }
    Ok(report)
}
