// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the recording (`format/rem_recording.h`): each write-back, and in windows each store.

use crate::memories::Memories;
use remanence_cache::{Bytes, Cause, LINE_BYTES, Line, Memory};
use remanence_recording::{self as recording, Event, Header, Writer};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// An error of the file ends the recording, once and with a line.
#[derive(Debug)]
pub(crate) struct Recorder {
    writer: Option<Writer<BufWriter<File>>>,
    base: u64,
    /// Of the events that follow.
    pub(crate) vcpu: u8,
    pub(crate) time_ns: u64,
    pub(crate) window: bool,
}

impl Recorder {
    /// A recording in the folder `dir`, which the lab has put base.media into.
    pub(crate) fn create(dir: &str, header: &Header) -> Result<Self, String> {
        let path = Path::new(dir).join("recording.bin");
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::create(&path).map_err(told)?;
        let buffered = BufWriter::with_capacity(1 << 20, file);
        Ok(Self {
            writer: Some(Writer::new(buffered, header).map_err(told)?),
            base: header.nvram_phys,
            vcpu: recording::NO_VCPU,
            time_ns: 0,
            window: false,
        })
    }

    pub(crate) fn put(&mut self, event: &Event<'_>) {
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

    /// What is recorded so far is in the file.
    pub(crate) fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            if let Err(error) = writer.get_mut().flush() {
                eprintln!("remanence-plugin: the recording ends here: {error}");
                self.writer = None;
            }
        }
    }
}

/// Begins a window: tells every line that is not as media has it.
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
