// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the recording (`format/rem_recording.h`): each write-back, in windows each store, and the
//! sizes of the files that QEMU writes beside it (disks' logs, the console's).
//!
//! QEMU writes a disk's log before it answers the guest. So every write that the guest knows to be
//! complete when an event happens is in the log by then, and the log's size orders the two.

use crate::memories::Memories;
use remanence_cache::{Bytes, Cause, LINE_BYTES, Line, Memory};
use remanence_recording::{self as recording, Event, Header, Writer};
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
            None => Event::Said { bytes },
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
    watched: Vec<Watched>,
    stores: u32,
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
            watched: Vec::new(),
            stores: 0,
        })
    }

    /// Records the sizes of these files from here on.
    pub(crate) fn watch(&mut self, disk_logs: &[String], said: Option<&str>) {
        for (disk, path) in (0..).zip(disk_logs) {
            self.watched.push(Watched::new(Some(disk), path));
        }
        self.watched
            .extend(said.map(|path| Watched::new(None, path)));
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

    pub(crate) fn address(&self, line: Line) -> u64 {
        self.base + u64::from(line.0) * LINE_BYTES
    }

    pub(crate) fn write_back(&mut self, line: Line, bytes: &Bytes, cause: Cause) {
        let line = self.address(line);
        let cause = recording::Cause(cause as u32);
        self.put(&Event::WriteBack {
            line,
            data: bytes,
            cause,
        });
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
    recorder.put(&Event::Window { begins: true });
    let mut from = Line(0);
    while let Some(line) = memories.next_difference(from, Line(lines)) {
        from = Line(line.0 + 1);
        let data = memories.coherent(line);
        recorder.put(&Event::Line {
            line: recorder.address(line),
            data: &data,
        });
    }
    recorder.flush();
    memories.recorder = Some(recorder);
}

pub(crate) fn end_window(memories: &mut Memories) {
    if let Some(recorder) = &mut memories.recorder {
        recorder.window = false;
        recorder.put(&Event::Window { begins: false });
        recorder.flush();
    }
}
