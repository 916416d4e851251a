// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a cut would lose, as files for `rem inspect`: media, memory as CPUs saw it, and the last
//! store to each line (`format/rem_writers.h`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use remanence_crash_states::Eviction;
use remanence_format::{REM_WRITER_PROGRAM, RemWriter};
use remanence_recording::LINE_BYTES;
use serde::Serialize;

use crate::CampaignError;
use crate::dirty::DirtyLines;
use crate::replay::{last_stores, write_sparse};
use crate::run::Recording;
use crate::survey::Survey;
use crate::trial::Trial;

const WRITER_BYTES: u64 = RemWriter::BYTES as u64;

/// How much was lost.
#[derive(Debug, Serialize)]
pub struct Lost {
    /// Events before the cut.
    pub event: u64,
    /// Lines in which media differs from memory.
    pub lines: usize,
}

/// Writes `media`, `seen` and `writers` into the folder `to`, for a cut at `cut`.
///
/// # Errors
/// The recording is invalid, the place is outside every window, or a file cannot be written.
pub fn lost(
    recording: &Recording,
    cut: u64,
    eviction: &Eviction,
    to: &Path,
) -> Result<Lost, CampaignError> {
    let survey = Survey::of(recording)?;
    let mut trial = Trial::begin(recording, &survey)?;
    trial.go_to(cut)?;
    if !trial.run().window {
        return Err(CampaignError::OutsideWindow(cut));
    }
    let dirty = trial.run().dirty.clone();
    let stores = DirtyLines::of(trial.run()).stores(eviction);
    trial.evict(&stores);
    let media = &trial.run().media;
    write(&to.join("media"), |path| write_sparse(media, path))?;
    write(&to.join("seen"), |path| {
        write_sparse(media, path)?;
        let file = File::options().write(true).open(path)?;
        dirty
            .iter()
            .try_for_each(|(offset, data)| file.write_all_at(data, *offset))
    })?;
    let writers = last_stores(recording, &survey, cut)?;
    write(&to.join("writers"), |path| {
        let file = File::create(path)?;
        file.set_len(recording.header.nvram_bytes / LINE_BYTES as u64 * WRITER_BYTES)?;
        writers.iter().try_for_each(|(offset, last)| {
            // A recording has no program counter of evicted lines.
            let pc = if last.pc == 0 {
                REM_WRITER_PROGRAM
            } else {
                last.pc
            };
            let when = (last.time_ns << 8) | u64::from(last.vcpu);
            let entry = RemWriter { pc, when };
            file.write_all_at(&entry.to_bytes(), offset / LINE_BYTES as u64 * WRITER_BYTES)
        })
    })?;
    let lines = dirty
        .iter()
        .filter(|(offset, data)| media.line(**offset) != **data)
        .count();
    Ok(Lost { event: cut, lines })
}

fn write(path: &Path, how: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), CampaignError> {
    how(path).map_err(|err| CampaignError::File(path.to_owned(), err))
}
