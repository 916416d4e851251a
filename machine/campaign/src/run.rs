// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a run at one event: media, the coherent view over it, and the progress of Stop or
//! Go.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use remanence_format::{
    REM_COMMIT_OFFSET, REM_COMMIT_STRIDE_BYTES, REM_CONSUMED_OFFSET, REM_EVENT_GO_BEGIN,
    REM_EVENT_GO_DONE, REM_EVENT_GO_SYSCORE, REM_EVENT_STOP_BEGIN, REM_EVENT_STOP_DEVICES,
    REM_EVENT_STOP_FAILED, REM_EVENT_STOP_SYSCORE, REM_NOTE_OFFSET, REM_SLOTS, REM_TIMELINE_OFFSET,
    REM_TIMELINE_STRIDE_BYTES, RemEvent, RemWord,
};
use remanence_recording::{
    Cause, DOMAIN_NONE, Event, Events, Header, LINE_BYTES, Phase, Reader, Timed,
};
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::judge::{Decision, Judge};
use crate::media::Media;
use crate::queue::Queue;
use crate::reference::Reference;
use crate::{CampaignError, record, verdict};
use remanence_crash_states::Line;

/// The machine's place in a power cycle; by the timeline, finer than the recording's phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Programs run.
    Running,
    /// From the power interrupt until devices are off the bus.
    StopPark,
    /// Contexts and controllers are saved; CPUs other than the boot CPU write back their caches.
    StopSave,
    /// Clocks and controllers are saved: the boot CPU's flush, body, commit, and everything after.
    StopCommit,
    /// The loader.
    Loader,
    /// The resumed kernel, until clocks and interrupt controllers run.
    GoCpus,
    /// Devices and the rest of Go.
    GoDevices,
    /// A kernel that was not resumed, until it is armed.
    Cold,
}

/// All places, of which each campaign must have its share.
pub const PLACES: [Place; 7] = [
    Place::Running,
    Place::StopPark,
    Place::StopSave,
    Place::StopCommit,
    Place::Loader,
    Place::GoCpus,
    Place::GoDevices,
];

/// A recording's directory, mapped.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    map: Mmap,
    /// Its header.
    pub header: Header,
}

impl Recording {
    /// Opens `DIR/recording.bin`.
    ///
    /// # Errors
    /// The file cannot be mapped, or its header is invalid.
    pub fn open(dir: &Path) -> Result<Self, CampaignError> {
        let path = dir.join("recording.bin");
        let fail = |err| CampaignError::File(path.clone(), err);
        let file = File::open(&path).map_err(fail)?;
        // SAFETY: recordings are written once; see Media::open() for one that is changed meanwhile.
        let map = unsafe { Mmap::map(&file) }.map_err(fail)?;
        let reader =
            Reader::new(&map).map_err(|err| CampaignError::Recording(path.clone(), err))?;
        let header = reader.header().clone();
        Ok(Self {
            path: dir.to_owned(),
            map,
            header,
        })
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.path
    }

    fn events(&self) -> Result<Events<'_>, CampaignError> {
        Ok(Reader::new(&self.map)
            .map_err(|err| self.damaged(err))?
            .events())
    }

    fn damaged(&self, err: remanence_recording::RecordingError) -> CampaignError {
        CampaignError::Recording(self.path.join("recording.bin"), err)
    }
}

/// The address of memory that an event is about.
const fn touched(event: &Event<'_>) -> Option<u64> {
    match *event {
        Event::Store { address, .. } => Some(address),
        Event::Accepted { line, .. }
        | Event::WriteBack { line, .. }
        | Event::Flush { line, .. }
        | Event::Unseen { line, .. }
        | Event::Line { line, .. } => Some(line),
        _ => None,
    }
}

/// What has happened to one image so far.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Highest sequence in a consumed word that was stored, on media or not.
    pub consumed_stored: u32,
    /// Highest sequence of an image that has been entered.
    pub entered: u32,
    /// Highest sequence of an image that the loader enters after a cut without eviction.
    pub durable: u32,
    /// Highest sequence of a commit word that media has had so far, in an image without eviction;
    /// 0 = no image was ever committed.
    pub committed: u32,
    /// Whether the newest image had a sequence that counted as consumed before it was committed.
    pub born_consumed: bool,
    /// Whether media has had a valid record block so far.
    pub block_was_valid: bool,
    /// Whether the machine has reported that it stopped.
    pub told_stopped: bool,
}

/// State of a run; see the module.
#[derive(Debug)]
pub struct Run<'a> {
    recording: &'a Recording,
    events: Events<'a>,
    /// Media after the write-backs so far.
    pub media: Media,
    /// Lines in which the coherent view differs from media, by offset in NVRAM: in caches, or in the
    /// memory controller's queue.
    pub dirty: BTreeMap<u64, Line>,
    /// Whether the coherent view is known.
    pub window: bool,
    /// The place in the power cycle.
    pub place: Place,
    /// Events so far: the number of a cut here.
    pub event: u64,
    /// Write-backs so far.
    pub write_backs: u64,
    /// Time of the last event.
    pub time_ns: u64,
    /// Size of each disk's log.
    pub disk_log: BTreeMap<u32, u64>,
    /// Disks with volatile caches, at the last cut.
    pub disks: BTreeMap<u32, Disk>,
    /// Size of the console's log.
    pub console_bytes: u64,
    /// See [`Progress`].
    pub progress: Progress,
    /// Expected content of the newest committed image.
    pub reference: Option<Reference>,
    commits_stored: [RemWord; 2],
    /// What a kernel may use, by offset in NVRAM: the rest is firmware's, and of no image.
    ranges: Vec<Range<u64>>,
    /// Lines whose flush awaits a fence, and whether they were stored to since.
    in_flight: BTreeMap<u64, bool>,
    /// Of each dirty line what it has held since media was the same, but its newest content.
    versions: BTreeMap<u64, Vec<Version>>,
    /// Of each dirty line, how many lines had been accepted when its newest content came into being.
    newest_after: BTreeMap<u64, u64>,
    /// Accepted and not yet written.
    pub queue: Queue,
}

/// A content that a dirty line has had.
#[derive(Debug, Clone, Copy)]
pub struct Version {
    /// How many lines the memory controller had accepted when it came into being: media has it only
    /// if it has these.
    pub after: u64,
    /// The content.
    pub data: Line,
}

/// Of one line so many versions are kept: the first ones, of which others are most likely to differ.
const VERSIONS_MAX: usize = 8;

impl<'a> Run<'a> {
    /// A run before its first event.
    ///
    /// # Errors
    /// The recording's files are invalid.
    pub fn begin(recording: &'a Recording) -> Result<Self, CampaignError> {
        let header = &recording.header;
        let base = recording.path.join("base.media");
        let media = Media::open(&base, header.nvram_bytes, header.base_digest)?;
        let mut run = Self {
            recording,
            events: recording.events()?,
            media,
            dirty: BTreeMap::new(),
            window: false,
            place: Place::Running,
            event: 0,
            write_backs: 0,
            time_ns: 0,
            disk_log: BTreeMap::new(),
            disks: BTreeMap::new(),
            console_bytes: 0,
            progress: Progress::default(),
            reference: None,
            commits_stored: [RemWord::default(); 2],
            ranges: std::iter::once(0..header.nvram_bytes).collect(),
            in_flight: BTreeMap::new(),
            versions: BTreeMap::new(),
            newest_after: BTreeMap::new(),
            queue: Queue::default(),
        };
        run.commits_stored = [run.commit_word(0), run.commit_word(1)];
        run.progress.consumed_stored = run.consumed_word();
        run.progress.committed = run.newest_commit_on_media();
        Ok(run)
    }

    /// A line as CPUs see it.
    #[must_use]
    pub fn coherent(&self, offset: u64) -> Line {
        self.dirty
            .get(&offset)
            .copied()
            .unwrap_or_else(|| self.media.line(offset))
    }

    /// `bytes` of the coherent view, for a reader of structures; `None` beyond NVRAM.
    #[must_use]
    pub fn coherent_bytes(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let end = offset.checked_add(bytes as u64)?;
        if end > self.recording.header.nvram_bytes {
            return None;
        }
        let line_bytes = LINE_BYTES as u64;
        let first = offset - offset % line_bytes;
        let mut out = Vec::with_capacity(bytes + 2 * LINE_BYTES);
        for at in (first..end).step_by(LINE_BYTES) {
            out.extend(self.coherent(at));
        }
        let skip = usize::try_from(offset - first).ok()?;
        Some(out[skip..skip + bytes].to_vec())
    }

    /// Whether memory changed behind the newest image.
    #[must_use]
    pub fn has_unseen(&self) -> bool {
        let reference = self.reference.as_ref();
        reference.is_some_and(|reference| !reference.unseen().is_empty())
    }

    /// The recording's header.
    #[must_use]
    pub fn header(&self) -> &'a Header {
        &self.recording.header
    }

    /// Begins the reference of an image that the base would resume: a recording of a Go.
    /// `ranges` = what a kernel may use.
    pub fn adopt(&mut self, decision: &Decision, ranges: &[Range<u64>]) {
        self.ranges = ranges.to_vec();
        self.notice_decision(decision);
        if decision.resumes() {
            self.reference = Some(Reference::of_media(decision.sequence));
            self.place = Place::Loader;
        }
    }

    fn is_of_image(&self, offset: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&offset))
    }

    fn notice_decision(&mut self, decision: &Decision) {
        let progress = &mut self.progress;
        progress.block_was_valid |= !verdict::is_no_block(decision.reason);
        if decision.resumes() {
            progress.durable = progress.durable.max(decision.sequence);
        }
    }

    /// Takes the next event; `None` at the end.
    ///
    /// # Errors
    /// A damaged recording, or a commit outside every window.
    pub fn step(&mut self, judge: Option<&Judge>) -> Result<Option<Timed<'a>>, CampaignError> {
        let Some(next) = self.events.next() else {
            return Ok(None);
        };
        let timed = next.map_err(|err| self.recording.damaged(err))?;
        self.event += 1;
        self.time_ns = timed.time_ns;
        let offset = |address: u64| address - self.recording.header.nvram_phys;
        let is_written_back = matches!(timed.event, Event::WriteBack { .. });
        self.write_backs += u64::from(is_written_back);
        if touched(&timed.event).is_some_and(|address| !self.is_of_image(offset(address))) {
            return Ok(Some(timed));
        }
        match timed.event {
            Event::Accepted { line, data, .. } => self.accept(offset(line), data)?,
            Event::WriteBack { line, data, .. } => {
                self.write_back(offset(line), data)?;
                if let Some(judge) = judge.filter(|_| record::decisive(offset(line))) {
                    self.notice_decision(&judge.decide(self.media.bytes()));
                }
            }
            Event::Store { address, bytes, .. } => {
                let at = offset(address);
                let line = at - at % LINE_BYTES as u64;
                let mut data = self.coherent(line);
                let from = usize::try_from(at - line).unwrap_or(0);
                data[from..from + bytes.len()].copy_from_slice(bytes);
                self.change_view(line, data);
                if let Some(stored_since) = self.in_flight.get_mut(&line) {
                    *stored_since = true;
                }
                self.notice_store(at, bytes.len());
            }
            Event::Unseen { line, data } => {
                let old = self.coherent(offset(line));
                if let (Place::StopCommit, Some(reference)) = (self.place, &mut self.reference) {
                    reference.changed_unseen(offset(line), &old, data);
                }
                self.change_view(offset(line), *data);
            }
            Event::Line { line, data } => self.change_view(offset(line), *data),
            Event::Flush {
                line,
                cause: Cause::CLWB | Cause::CLFLUSHOPT,
                ..
            } => {
                self.in_flight.insert(offset(line), false);
            }
            Event::CacheAll {
                cause: Cause::INVD, ..
            } => self.forget_view(),
            Event::Window { begins } => {
                self.window = begins;
                self.forget_view();
            }
            Event::Phase(phase) => self.notice_phase(phase),
            Event::DiskLog { disk, bytes } => {
                self.disk_log.insert(disk, bytes);
            }
            Event::Console { bytes } => self.console_bytes = bytes,
            _ => {}
        }
        Ok(Some(timed))
    }

    /// Advances the disks to this place. It hashes them, so it is done only for a cut.
    ///
    /// # Errors
    /// A log is invalid.
    pub(crate) fn follow_disks(&mut self) -> Result<(), CampaignError> {
        for (&number, &bytes) in &self.disk_log {
            if let Entry::Vacant(vacant) = self.disks.entry(number) {
                if let Some(disk) = Disk::open(&self.recording.path, number)? {
                    vacant.insert(disk);
                }
            }
            // A recording may lack the disk's log.
            if let Some(disk) = self.disks.get_mut(&number) {
                disk.go_to(bytes)?;
            }
        }
        Ok(())
    }

    /// Writes that the disks have not flushed, which a cut here may lose.
    #[must_use]
    pub fn forgettable(&self) -> usize {
        self.disks.values().map(Disk::forgettable).sum()
    }

    fn is_queued(&self) -> bool {
        self.recording.header.domain == DOMAIN_NONE
    }

    /// A line has left the caches.
    fn accept(&mut self, offset: u64, data: &Line) -> Result<(), CampaignError> {
        if !self.is_queued() {
            return Err(CampaignError::Queue(self.event));
        }
        self.leaves(offset, data);
        self.queue.accept(offset, data);
        Ok(())
    }

    /// If the bytes of a line that leaves the caches differ from the view's, something changed them
    /// without a store (DMA, an interrupt's frame), unless the line was stored to after the flush
    /// began.
    fn leaves(&mut self, offset: u64, data: &Line) {
        let stored_since = self.in_flight.remove(&offset).unwrap_or(false);
        if self.window && !stored_since {
            self.change_view(offset, *data);
        }
    }

    fn write_back(&mut self, offset: u64, data: &Line) -> Result<(), CampaignError> {
        let queued = self.is_queued();
        if !queued {
            self.leaves(offset, data);
        } else if !self.queue.written(offset, data) {
            return Err(CampaignError::Queue(self.event));
        }
        let view = self.coherent(offset);
        let old = self.media.store(offset, data);
        // From here on a cut finds these bytes or newer ones.
        let number = self.queue.on_media();
        if let Some(versions) = self.versions.get_mut(&offset) {
            versions.retain(|version| queued && version.after >= number);
        }
        if let Some(reference) = &mut self.reference {
            reference.changed(offset, &old, data);
        }
        if self.window {
            self.media_changed(offset, view);
        }
        let sequence = self.newest_commit_on_media();
        self.progress.committed = self.progress.committed.max(sequence);
        let known = self
            .reference
            .as_ref()
            .map_or(0, |reference| reference.sequence);
        let is_word = record::outside_image(offset) && offset < REM_NOTE_OFFSET;
        if is_word && old != *data && !self.window && sequence > known.max(self.consumed_on_media())
        {
            return Err(CampaignError::CommitOutsideWindow(sequence));
        }
        Ok(())
    }

    fn forget_view(&mut self) {
        self.dirty.clear();
        self.versions.clear();
        self.newest_after.clear();
    }

    fn is_clean(&mut self, offset: u64, view: &Line) -> bool {
        let same = self.media.line(offset) == *view;
        if same {
            self.dirty.remove(&offset);
            self.versions.remove(&offset);
            self.newest_after.remove(&offset);
        }
        same
    }

    /// Media has a new content of a line, and the view is as it was.
    fn media_changed(&mut self, offset: u64, view: Line) {
        if !self.is_clean(offset, &view) && self.dirty.insert(offset, view).is_none() {
            self.newest_after.insert(offset, self.queue.accepted());
        }
    }

    fn change_view(&mut self, offset: u64, data: Line) {
        if self.is_clean(offset, &data) {
            return;
        }
        let old = self.dirty.insert(offset, data);
        if old == Some(data) {
            return;
        }
        let after = self.newest_after.insert(offset, self.queue.accepted());
        if let (Some(data), Some(after)) = (old, after) {
            let versions = self.versions.entry(offset).or_default();
            if versions.len() < VERSIONS_MAX {
                versions.push(Version { after, data });
            }
        }
    }

    /// Older contents of a dirty line, in their order.
    #[must_use]
    pub fn versions(&self, offset: u64) -> &[Version] {
        self.versions.get(&offset).map_or(&[], Vec::as_slice)
    }

    /// The newest content of a dirty line.
    #[must_use]
    pub fn newest(&self, offset: u64) -> Version {
        Version {
            after: self.newest_after.get(&offset).copied().unwrap_or(0),
            data: self.coherent(offset),
        }
    }

    fn notice_phase(&mut self, phase: Phase) {
        match phase {
            Phase::RUNNING => self.place = Place::Running,
            Phase::STOP if self.place != Place::StopSave && self.place != Place::StopCommit => {
                self.place = Place::StopPark;
            }
            Phase::STOPPED => {
                self.place = Place::StopCommit;
                self.progress.told_stopped = true;
            }
            Phase::LOADER => self.place = Place::Loader,
            Phase::GO => self.enter(),
            Phase::COLD => self.place = Place::Cold,
            _ => {}
        }
    }

    /// From here on the image is in use, and must not be enterable any more.
    fn enter(&mut self) {
        if !matches!(self.place, Place::GoCpus | Place::GoDevices) {
            self.place = Place::GoCpus;
        }
        if let Some(reference) = &self.reference {
            self.progress.entered = self.progress.entered.max(reference.sequence);
        }
    }

    /// Handles stores to a word or to the timeline.
    fn notice_store(&mut self, at: u64, bytes: usize) {
        let end = at + bytes as u64;
        let touches = |from: u64, bytes: u64| at < from + bytes && end > from;
        if at >= record::BLOCK_BYTES as u64 {
            return;
        }
        if touches(REM_CONSUMED_OFFSET, 8) {
            self.progress.consumed_stored = self.progress.consumed_stored.max(self.consumed_word());
        }
        for slot in 0..REM_SLOTS {
            let word_at = REM_COMMIT_OFFSET + slot * REM_COMMIT_STRIDE_BYTES;
            let index = usize::from(slot != 0);
            if !touches(word_at, 8) || self.commit_word(slot) == self.commits_stored[index] {
                continue;
            }
            let word = self.commit_word(slot);
            self.commits_stored[index] = word;
            if word != RemWord::default() && self.window {
                self.place = Place::StopCommit;
                self.progress.born_consumed = word.sequence <= self.progress.consumed_stored;
                self.reference = Some(Reference::at_commit(self, word.sequence));
            }
        }
        if touches(REM_TIMELINE_OFFSET, REM_SLOTS * REM_TIMELINE_STRIDE_BYTES) {
            self.notice_event(at);
        }
    }

    fn notice_event(&mut self, at: u64) {
        let begins = at - at % RemEvent::BYTES as u64;
        let Some(raw) = self.coherent_bytes(begins, RemEvent::BYTES) else {
            return;
        };
        let Some(event) = raw.first_chunk().and_then(record::event_type) else {
            return;
        };
        match event {
            REM_EVENT_STOP_BEGIN => self.place = Place::StopPark,
            REM_EVENT_STOP_DEVICES => self.place = Place::StopSave,
            REM_EVENT_STOP_SYSCORE => self.place = Place::StopCommit,
            REM_EVENT_GO_BEGIN => self.enter(),
            REM_EVENT_GO_SYSCORE => self.place = Place::GoDevices,
            REM_EVENT_GO_DONE | REM_EVENT_STOP_FAILED => self.place = Place::Running,
            _ => {}
        }
    }

    fn commit_word(&self, slot: u64) -> RemWord {
        record::word_of(&self.coherent(REM_COMMIT_OFFSET + slot * REM_COMMIT_STRIDE_BYTES))
    }

    fn consumed_word(&self) -> u32 {
        record::consumed_sequence(&self.coherent(REM_CONSUMED_OFFSET))
    }

    fn consumed_on_media(&self) -> u32 {
        record::consumed_sequence(&self.media.line(REM_CONSUMED_OFFSET))
    }

    fn newest_commit_on_media(&self) -> u32 {
        let word = |slot: u64| {
            let at = REM_COMMIT_OFFSET + slot * REM_COMMIT_STRIDE_BYTES;
            record::word_of(&self.media.line(at)).sequence
        };
        word(0).max(word(1))
    }
}
