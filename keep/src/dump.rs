// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The dump of one program: it is frozen, its images are written, its pages are found.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use remanence_format::REM_KEEP_PAGE_BYTES;

use crate::collect::{Counts, Found, Pages};
use crate::device::Device;
use crate::engine::Engine;
use crate::fault::{Fault, at};
use crate::frames::Span;
use crate::hold::Hold;
use crate::images::{self, Program};
use crate::layout::Layout;
use crate::mappings;
use crate::pagemap_image::Run;
use crate::parent;
use crate::present::{self, uncovered};
use crate::processes::{self, ProcessId};
use crate::sealed::Sealed;
use crate::state::{Registered, RunFolder};
use crate::sync;
use crate::table;

const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// CRIU gives up by itself, after ten seconds, where it could wait for ever.
const THAW_LIMIT: Duration = Duration::from_secs(60);

/// What all dumps of a save have in common.
#[derive(Debug)]
pub struct Common<'a> {
    device: &'a Device,
    layout: Layout,
    taken: Mutex<Vec<u32>>,
    ready: Mutex<Vec<Engine>>,
}

/// A program that is dumped and frozen.
#[derive(Debug)]
pub struct Dumped {
    /// Its name.
    pub name: String,
    /// The CRIU that keeps it frozen.
    pub criu: ProcessId,
    /// Who keeps it so.
    pub hold: Hold,
    /// Its pages.
    pub table: Sealed,
    /// How many they are.
    pub counts: Counts,
    /// Until it was frozen and CRIU was ready.
    pub criu_time: Duration,
}

impl<'a> Common<'a> {
    /// Of a save to this device, with engines that are started already.
    #[must_use]
    pub fn new(device: &'a Device, layout: Layout, ready: Vec<Engine>) -> Self {
        Self {
            device,
            layout,
            taken: Mutex::default(),
            ready: Mutex::new(ready),
        }
    }

    /// An engine that is started, or a new one.
    fn engine(&self) -> io::Result<Engine> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = ready.pop().filter(Engine::is_ready);
        engine.map_or_else(Engine::start, Ok)
    }

    /// Pages with copies, until now.
    #[must_use]
    pub fn taken(&self) -> Vec<u32> {
        self.taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Pages for Common<'_> {
    fn pin(&self, pid: u32, vaddr: u64, entries: &mut [u8]) -> Result<u32, Fault> {
        self.device.pin(pid, vaddr, entries)
    }

    fn take(&self, count: usize) -> Result<Vec<u32>, Fault> {
        let frames = self.device.take(count)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.extend(&frames);
        if frames.len() < count {
            return Err(Fault::new("the range has no free page for a copy"));
        }
        Ok(frames)
    }

    fn write(&self, frame: u32, content: &[u8]) -> io::Result<()> {
        let place = u64::from(frame) * REM_KEEP_PAGE_BYTES;
        self.device.write_at(place, content)
    }
}

/// Gives copies' pages back.
///
/// # Errors
/// Those of the kernel.
pub fn give_back(device: &Device, taken: &[u32]) -> Result<(), Fault> {
    let mut spans = taken.iter().map(|&frame| Span::one(frame));
    let given = spans.try_for_each(|span| device.free_held(span));
    given.map_err(at("giving pages of copies back"))
}

/// Dumps a program. If this fails, it goes on.
///
/// # Errors
/// What CRIU says, and what else fails; one line.
pub fn dump(
    program: &Registered,
    images: &Path,
    state: &RunFolder,
    common: &Common<'_>,
) -> Result<Dumped, Fault> {
    let begin = Instant::now();
    let older = state.path(&format!("{}.parent", program.name));
    let pid = program.process.pid;
    let (engine, prepared) = thread::scope(|scope| {
        let engine = scope.spawn(|| common.engine());
        let prepared = images::make(images).and_then(|()| parent::claim(&older, pid));
        (engine.join(), prepared)
    });
    let engine = engine.unwrap_or_else(|_| Err(io::Error::other("it was not started")));
    let mut engine = engine.map_err(at("criu"))?;
    let done = prepared.and_then(|()| dump_by(&mut engine, program, (images, &older), common));
    let criu = engine.criu();
    let hold = engine.into_hold().map_err(Fault::from);
    match done.and_then(|(found, ready)| Ok((found, ready, hold?))) {
        Ok((found, ready, hold)) => Ok(Dumped {
            name: program.name.clone(),
            criu,
            hold,
            table: found.table,
            counts: found.counts,
            criu_time: ready.saturating_duration_since(begin),
        }),
        Err(fault) => {
            // Its socket has ended.
            let _ = criu.wait_end(Some(THAW_LIMIT));
            Err(at(&program.name)(fault))
        }
    }
}

/// The pages of a program.
#[derive(Debug, Default)]
struct Early {
    /// What was looked at, by process.
    runs: Vec<(u32, Vec<Run>)>,
    table: Sealed,
    counts: Counts,
}

impl Early {
    /// What was looked at of a process.
    fn runs_of(&self, pid: u32) -> &[Run] {
        let own = self.runs.iter().find(|(other, _)| *other == pid);
        own.map_or(&[], |(_, runs)| runs)
    }

    /// CRIU has these.
    fn forget(&mut self, pid: u32, runs: &[Run]) {
        let gone = self.table.forget(pid, runs) as u64;
        self.counts.in_place = self.counts.in_place.saturating_sub(gone);
    }

    /// With others, which usually are none.
    fn and(mut self, other: Found, layout: Layout) -> Result<Self, Fault> {
        if !other.table.is_empty() {
            let all = table::join(&self.table.into_bytes(), &other.table);
            self.table = sealed(all, layout)?;
        }
        self.counts = self.counts.and(other.counts);
        Ok(self)
    }
}

/// A table of pages that were found.
///
/// # Errors
/// If it is wrong: one of us, or the kernel, is.
pub fn sealed(bytes: Vec<u8>, layout: Layout) -> Result<Sealed, Fault> {
    Sealed::new(bytes, layout).map_err(at("this save's own table"))
}

/// What was found, and when CRIU was ready.
fn dump_by(
    engine: &mut Engine,
    program: &Registered,
    (images, older): (&Path, &Path),
    common: &Common<'_>,
) -> Result<(Early, Instant), Fault> {
    let pid = program.process.pid;
    engine.dump(pid, images, older)?;
    engine.have_hold().map_err(at("criu"))?;
    // CRIU has other work, and does not change them.
    let early = look_early(pid, engine, common);
    engine.run_to("post-dump", images)?;
    let ready = Instant::now();
    parent::forget(images, older)?;
    let found = find_pages(program, images, common, early?)?;
    Ok((found, ready))
}

/// Finds the pages of a program as soon as CRIU has stopped it: all that its processes have. If it
/// never is, there are none.
fn look_early(root: u32, engine: &Engine, common: &Common<'_>) -> Result<Early, Fault> {
    let mut early = Early::default();
    let pids = loop {
        if let Some(pids) = processes::stopped_tree(root, engine.criu().pid) {
            break pids;
        }
        if engine.has_reported()? {
            return Ok(early);
        }
        thread::sleep(LOOK_AGAIN);
    };
    // They write to no file any more.
    sync::files_of(&pids)?;
    let mut found = Found::default();
    for pid in pids {
        let runs = present::clean_runs(pid, &mappings::own(pid))?;
        found.add(pid, &runs, common)?;
        early.runs.push((pid, runs));
    }
    early.table = sealed(found.table, common.layout)?;
    early.counts = found.counts;
    Ok(early)
}

fn find_pages(
    program: &Registered,
    images: &Path,
    common: &Common<'_>,
    mut early: Early,
) -> Result<Early, Fault> {
    let lists = images::take_left(images)?;
    let pids: Vec<u32> = lists.iter().map(|(pid, _)| *pid).collect();
    let seen: Vec<u32> = early.runs.iter().map(|(pid, _)| *pid).collect();
    let unseen: Vec<u32> = pids
        .iter()
        .copied()
        .filter(|pid| !seen.contains(pid))
        .collect();
    sync::files_of(&unseen)?;
    let mut late = Found::default();
    for (pid, runs) in &lists {
        let known = early.runs_of(*pid);
        let (new, written) = (uncovered(runs, known), uncovered(known, runs));
        late.add(*pid, &new, common)?;
        // What CRIU has written it restores.
        early.forget(*pid, &written);
    }
    for pid in seen.into_iter().filter(|pid| !pids.contains(pid)) {
        let all = early.runs_of(pid).to_vec();
        early.forget(pid, &all);
    }
    let pid = program.process.pid;
    let name = program.name.clone();
    images::note(images, &Program { name, pid, pids })?;
    early.and(late, common.layout)
}

/// A program that is frozen goes on.
///
/// # Errors
/// If it does not, within a minute.
pub fn thaw(name: &str, criu: ProcessId, hold: io::Result<Hold>) -> Result<(), Fault> {
    let released = hold.and_then(Hold::release);
    // If nothing holds it, CRIU goes on by itself; only its end counts.
    if criu.wait_end(Some(THAW_LIMIT)).map_err(at(name))? {
        return Ok(());
    }
    let why = released
        .err()
        .map_or_else(String::new, |error| format!(": {error}"));
    Err(Fault::new(format!(
        "{name} is frozen still: criu, process {}, does not end{why}",
        criu.pid
    )))
}
