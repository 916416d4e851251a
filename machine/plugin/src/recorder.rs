// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the recording (`format/rem_recording.h`): each write-back, in windows each store, and the
//! sizes of the files that QEMU writes beside it (disks' logs, the console's).
//!
//! QEMU writes a disk's log before it answers the guest. So every write that the guest knows to be
//! complete when an event happens is in the log by then, and the log's size orders the two.
//!
//! What changes memory without a callback (devices, page walks, interrupt frames) is found by
//! comparing memory with what has been recorded of it: before each write-back of a whole cache, when
//! the machine reports that it has stopped, and at the cut.

use crate::memories::Memories;
use remanence_cache::{Bytes, Cause, LINE_BYTES, Line, Memory};
use remanence_recording::{self as recording, Event, Header, Writer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Stores per check of the files' sizes; before write-backs and rare events they are always checked.
const STORES_PER_LOOK: u32 = 64;

/// A file that QEMU appends to.
#[derive(Debug)]
struct Watched {
    /// `None`: the console's log.
    disk: Option<u32>,
    path: PathBuf,
    /// Opened once it exists; QEMU may create it after the plugin starts.
    file: Option<File>,
    recorded: u64,
}

impl Watched {
    fn new(disk: Option<u32>, path: &str) -> Self {
        Self {
            disk,
            path: path.into(),
            file: None,
            recorded: 0,
        }
    }

    /// An event, if the file has grown.
    fn look(&mut self) -> Option<Event<'static>> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let bytes = self.file.as_ref()?.metadata().ok()?.len();
        if bytes == self.recorded {
            return None;
        }
        self.recorded = bytes;
        Some(match self.disk {
            Some(disk) => Event::DiskLog { disk, bytes },
            None => Event::Console { bytes },
        })
    }
}

/// An error of the file ends the recording, and is reported once.
#[derive(Debug)]
pub(crate) struct Recorder {
    writer: Option<Writer<BufWriter<File>>>,
    base: u64,
    /// vCPU of the events that follow.
    pub(crate) vcpu: u8,
    pub(crate) time_ns: u64,
    pub(crate) window: bool,
    /// Lines are accepted before they are written.
    queued: bool,
    watched: Vec<Watched>,
    stores: u32,
    view: View,
}

/// What a reader of the recording knows of a window's coherent view: the lines that it takes for
/// dirty, by the rules of `format/rem_recording.h`.
#[derive(Debug, Default)]
struct View {
    dirty: BTreeMap<Line, Bytes>,
    /// Lines whose flush awaits a fence, and whether they were stored to since.
    in_flight: BTreeMap<Line, bool>,
}

impl View {
    /// A line has left the caches with these bytes: what differs, no store has changed.
    fn left(&mut self, line: Line, media: &Bytes, bytes: &Bytes) {
        let stored_since = self.in_flight.remove(&line).unwrap_or(false);
        if !stored_since {
            self.set(line, media, *bytes);
        }
    }

    /// Media has changed, and the view has not.
    fn written(&mut self, line: Line, before: &Bytes, media: &Bytes) {
        let seen = self.dirty.get(&line).copied().unwrap_or(*before);
        self.set(line, media, seen);
    }

    fn set(&mut self, line: Line, media: &Bytes, seen: Bytes) {
        if seen == *media {
            self.dirty.remove(&line);
        } else {
            self.dirty.insert(line, seen);
        }
    }
}

impl Recorder {
    /// Creates a recording in the folder `dir`, which has the lab's base.media.
    pub(crate) fn create(dir: &str, header: &Header) -> Result<Self, String> {
        let path = Path::new(dir).join("recording.bin");
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::create(&path).map_err(named)?;
        let buffered = BufWriter::with_capacity(1 << 20, file);
        Ok(Self {
            writer: Some(Writer::new(buffered, header).map_err(named)?),
            base: header.nvram_phys,
            vcpu: recording::NO_VCPU,
            time_ns: 0,
            window: false,
            queued: header.domain == recording::DOMAIN_NONE,
            watched: Vec::new(),
            stores: 0,
            view: View::default(),
        })
    }

    /// Records the sizes of these files from here on.
    pub(crate) fn watch(&mut self, disk_logs: &[String], console: Option<&str>) {
        for (disk, path) in (0..).zip(disk_logs) {
            self.watched.push(Watched::new(Some(disk), path));
        }
        self.watched
            .extend(console.map(|path| Watched::new(None, path)));
    }

    pub(crate) fn put(&mut self, event: &Event<'_>) {
        if self.is_time_to_look(event) {
            for n in 0..self.watched.len() {
                if let Some(grown) = self.watched[n].look() {
                    self.append(&grown);
                }
            }
        }
        self.append(event);
    }

    fn is_time_to_look(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Store { .. } => {
                self.stores = (self.stores + 1) % STORES_PER_LOOK;
                self.stores == 0
            }
            Event::Line { .. } | Event::Flush { .. } | Event::Fence { .. } => false,
            _ => true,
        }
    }

    fn append(&mut self, event: &Event<'_>) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        if let Err(error) = writer.put(self.vcpu, self.time_ns, event) {
            eprintln!("remanence-plugin: the recording ends here: {error}");
            self.writer = None;
        }
    }

    fn unseen(&mut self, line: Line, data: &Bytes) {
        let line = self.address(line);
        self.put(&Event::Unseen { line, data });
    }

    pub(crate) fn address(&self, line: Line) -> u64 {
        self.base + u64::from(line.0) * LINE_BYTES
    }

    /// The memory controller has taken a line of which media is *media*.
    pub(crate) fn accepted(&mut self, line: Line, media: &Bytes, bytes: &Bytes, cause: Cause) {
        self.view.left(line, media, bytes);
        let line = self.address(line);
        let cause = recording::Cause(cause as u32);
        self.put(&Event::Accepted {
            line,
            data: bytes,
            cause,
        });
    }

    /// A line of media is *bytes*, and was *before*.
    pub(crate) fn write_back(&mut self, line: Line, before: &Bytes, bytes: &Bytes, cause: Cause) {
        if !self.queued {
            self.view.left(line, before, bytes);
        }
        self.view.written(line, before, bytes);
        let line = self.address(line);
        let cause = recording::Cause(cause as u32);
        self.put(&Event::WriteBack {
            line,
            data: bytes,
            cause,
        });
    }

    /// A store, in a window: *bytes* at *offset* of the line, which media has as *media*.
    pub(crate) fn stored(
        &mut self,
        line: Line,
        media: &Bytes,
        offset: usize,
        bytes: &[u8],
        pc: u64,
    ) {
        let known = self.view.dirty.entry(line).or_insert(*media);
        known[offset..offset + bytes.len()].copy_from_slice(bytes);
        if known == media {
            self.view.dirty.remove(&line);
        }
        if let Some(stored_since) = self.view.in_flight.get_mut(&line) {
            *stored_since = true;
        }
        let address = self.address(line) + offset as u64;
        self.put(&Event::Store { address, bytes, pc });
    }

    /// A flush of a line, in a window.
    pub(crate) fn flushes(&mut self, line: Line, pc: u64, cause: recording::Cause) {
        if matches!(cause, recording::Cause::CLWB | recording::Cause::CLFLUSHOPT) {
            self.view.in_flight.insert(line, false);
        }
        let line = self.address(line);
        self.put(&Event::Flush { line, pc, cause });
    }

    /// All lines in caches are dropped: what is not on media is lost.
    pub(crate) fn dropped(&mut self) {
        self.view = View::default();
    }

    /// Writes everything recorded so far to the file.
    pub(crate) fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            if let Err(error) = writer.get_mut().flush() {
                eprintln!("remanence-plugin: the recording ends here: {error}");
                self.writer = None;
            }
        }
    }
}

/// Begins a window: records every line that differs from media.
pub(crate) fn begin_window(memories: &mut Memories, lines: u32) {
    let Some(mut recorder) = memories.recorder.take() else {
        return;
    };
    recorder.window = true;
    recorder.view = View::default();
    recorder.put(&Event::Window { begins: true });
    for line in differing(memories, lines) {
        let data = memories.coherent(line);
        recorder.view.dirty.insert(line, data);
        recorder.put(&Event::Line {
            line: recorder.address(line),
            data: &data,
        });
    }
    recorder.flush();
    memories.recorder = Some(recorder);
}

fn differing(memories: &Memories, lines: u32) -> impl Iterator<Item = Line> {
    let mut from = Line(0);
    std::iter::from_fn(move || {
        let line = memories.next_difference(from, Line(lines))?;
        from = Line(line.0 + 1);
        Some(line)
    })
}

/// In a window: records every line that is not as the recording has it.
pub(crate) fn find_unseen(memories: &mut Memories, lines: u32) {
    let Some(mut recorder) = memories.recorder.take() else {
        return;
    };
    if recorder.window {
        let vcpu = std::mem::replace(&mut recorder.vcpu, recording::NO_VCPU);
        let mut known = std::mem::take(&mut recorder.view.dirty);
        let mut now = BTreeMap::new();
        for line in differing(memories, lines) {
            let data = memories.coherent(line);
            if known.remove(&line) != Some(data) {
                recorder.unseen(line, &data);
            }
            now.insert(line, data);
        }
        // What is left was taken for dirty, and is as on media.
        for line in known.into_keys() {
            recorder.unseen(line, &memories.coherent(line));
        }
        recorder.view.dirty = now;
        recorder.vcpu = vcpu;
    }
    memories.recorder = Some(recorder);
}

pub(crate) fn end_window(memories: &mut Memories) {
    if let Some(recorder) = &mut memories.recorder {
        recorder.window = false;
        recorder.put(&Event::Window { begins: false });
        recorder.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line(7);
    const ZERO: Bytes = [0; 64];

    /// The controller writes a line that has been stored to since it was accepted: no change without
    /// a store.
    #[test]
    fn late_write_back_leaves_the_view_as_it_is() {
        let (old, new) = ([1; 64], [2; 64]);
        let mut view = View::default();
        view.dirty.insert(LINE, old);
        view.left(LINE, &ZERO, &old);
        assert_eq!(view.dirty.get(&LINE), Some(&old), "accepted, not written");
        view.dirty.insert(LINE, new);
        view.written(LINE, &ZERO, &old);
        assert_eq!(view.dirty.get(&LINE), Some(&new));
        // Stored to once more, it is as on media again, while that other content waits.
        view.left(LINE, &old, &new);
        view.dirty.remove(&LINE);
        view.written(LINE, &old, &new);
        assert_eq!(view.dirty.get(&LINE), Some(&old));
    }

    #[test]
    fn bytes_that_no_store_made_are_the_view_unless_a_flush_is_late() {
        let (stored, changed) = ([1; 64], [2; 64]);
        for late in [false, true] {
            let mut view = View::default();
            view.dirty.insert(LINE, stored);
            view.in_flight.extend(late.then_some((LINE, true)));
            view.left(LINE, &ZERO, &changed);
            view.written(LINE, &ZERO, &changed);
            let seen = late.then_some(&stored);
            assert_eq!(view.dirty.get(&LINE), seen);
        }
    }
}
