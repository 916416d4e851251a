// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The dump of one program: it is frozen, its images are written, its pages are found.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use remanence_format::REM_KEEP_PAGE_BYTES;

use crate::collect::{Found, Pages};
use crate::criu::{self, HookWords};
use crate::device::Device;
use crate::fault::{Fault, at};
use crate::frames::Span;
use crate::hold::Hold;
use crate::images::{self, Program};
use crate::mappings;
use crate::pagemap_image::Run;
use crate::parent;
use crate::present::{self, uncovered};
use crate::processes::{self, ProcessId};
use crate::state::{Registered, RunFolder};
use crate::sync;

const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// CRIU gives up by itself, after ten seconds, where it could wait for ever.
const THAW_LIMIT: Duration = Duration::from_secs(60);

/// What all dumps of a save have in common.
#[derive(Debug)]
pub struct Common<'a> {
    device: &'a Device,
    taken: Mutex<Vec<u32>>,
}

/// A program that is dumped and frozen.
#[derive(Debug)]
pub struct Dumped {
    /// Its name.
    pub name: String,
    /// The CRIU that keeps it frozen.
    pub criu: ProcessId,
    /// The socket of the hook.
    pub hold: Hold,
    /// Its pages, as a table has them.
    pub table: Vec<u8>,
    /// How many of them stay where they are.
    pub in_place: u64,
    /// How many are copied.
    pub copied: u64,
    /// Until it was frozen and CRIU was ready.
    pub criu_time: Duration,
}

impl<'a> Common<'a> {
    /// Of a save to this device.
    #[must_use]
    pub fn new(device: &'a Device) -> Self {
        Self {
            device,
            taken: Mutex::default(),
        }
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
    words: &HookWords,
    state: &RunFolder,
    common: &Common<'_>,
) -> Result<Dumped, Fault> {
    let begin = Instant::now();
    let pid = program.process.pid;
    let older = parent_of(state, &program.name);
    images::make(&words.images)?;
    parent::claim(&older, pid).map_err(at(&program.name))?;
    let spawned = criu::dump(pid, words, &older).and_then(|mut dump| dump.spawn());
    let mut child = spawned.map_err(at("criu"))?;
    let hold = state.path(&format!("{}.hold", program.name));
    // CRIU has other work, and does not change them.
    let early = look_early(pid, &mut child, &hold, common);
    let waited = wait_frozen(&mut child, &hold, &words.images);
    let criu_time = begin.elapsed();
    let done = waited.and_then(|hold| {
        parent::forget(&words.images, &older)?;
        let found = find_pages(program, words, common, early?)?;
        let criu = ProcessId::of(child.id()).ok_or_else(|| Fault::new("criu has ended"))?;
        Ok(Dumped {
            name: program.name.clone(),
            criu,
            hold,
            table: found.table,
            in_place: found.in_place,
            copied: found.copied,
            criu_time,
        })
    });
    if done.is_err() {
        // The hook's connection is closed: CRIU ends.
        let _ = child.wait();
    }
    done.map_err(at(&program.name))
}

fn parent_of(state: &RunFolder, name: &str) -> PathBuf {
    state.path(&format!("{name}.parent"))
}

/// Waits until all images are written.
fn wait_frozen(child: &mut Child, hold: &Path, images: &Path) -> Result<Hold, Fault> {
    loop {
        if let Ok(hold) = Hold::connect(hold) {
            return Ok(hold);
        }
        if child.try_wait()?.is_some() {
            return Err(Fault::new(criu::why_no_dump(images)));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Pages that were found while CRIU was at work, with the runs that were looked at.
#[derive(Debug, Default)]
struct Early {
    runs: Vec<(u32, Vec<Run>)>,
    found: Found,
}

impl Early {
    /// Those of a process.
    fn runs_of(&self, pid: u32) -> &[Run] {
        let own = self.runs.iter().find(|(other, _)| *other == pid);
        own.map_or(&[], |(_, runs)| runs)
    }
}

/// Finds the pages of a program as soon as CRIU has stopped it: all that its processes have. If it
/// never is, there are none.
fn look_early(
    root: u32,
    child: &mut Child,
    hold: &Path,
    common: &Common<'_>,
) -> Result<Early, Fault> {
    let mut early = Early::default();
    let pids = loop {
        if let Some(pids) = processes::stopped_tree(root, child.id()) {
            break pids;
        }
        if hold.exists() || child.try_wait()?.is_some() {
            return Ok(early);
        }
        thread::sleep(LOOK_AGAIN);
    };
    for pid in pids {
        let runs = present::runs(pid, &mappings::own(pid))?;
        early.found.add(pid, &runs, common)?;
        early.runs.push((pid, runs));
    }
    Ok(early)
}

fn find_pages(
    program: &Registered,
    words: &HookWords,
    common: &Common<'_>,
    mut early: Early,
) -> Result<Found, Fault> {
    let lists = images::take_left(&words.images)?;
    let pids: Vec<u32> = lists.iter().map(|(pid, _)| *pid).collect();
    sync::files_of(&pids)?;
    let mut late = Found::default();
    for (pid, runs) in &lists {
        let known = early.runs_of(*pid);
        let (new, written) = (uncovered(runs, known), uncovered(known, runs));
        late.add(*pid, &new, common)?;
        // What CRIU has written it restores.
        early.found.forget(*pid, &written);
    }
    for (pid, runs) in &early.runs {
        if !pids.contains(pid) {
            early.found.forget(*pid, runs);
        }
    }
    let pid = program.process.pid;
    let name = program.name.clone();
    images::note(&words.images, &Program { name, pid, pids })?;
    Ok(early.found.and(late))
}

/// A program that is frozen goes on.
///
/// # Errors
/// If it does not, within a minute.
pub fn thaw(name: &str, criu: ProcessId, hold: io::Result<Hold>) -> Result<(), Fault> {
    let released = hold.and_then(Hold::release);
    // Without a hook CRIU goes on by itself; only its end counts.
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
