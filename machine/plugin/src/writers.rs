// SPDX-License-Identifier: GPL-2.0-or-later
//! The last store to each line (`format/rem_writers.h`), in a file, so that it survives the process.

use crate::mapped::map_shared;
use remanence_cache::Line;
use remanence_format::RemWriter as Writer;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// The table, and the time of each vCPU's last miss, which is recorded as the time of a store.
#[derive(Debug)]
pub(crate) struct Writers {
    table: &'static mut [Writer],
    now: Vec<u64>,
}

impl Writers {
    /// Creates an empty table for `lines` lines, behind so many that are left out.
    pub(crate) fn create(path: &str, before: u32, lines: u32, cpus: usize) -> Result<Self, String> {
        let refused = |error: std::io::Error| format!("writers={path}: {error}");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .map_err(refused)?;
        let len = lines as usize * size_of::<Writer>();
        let from = before as usize * size_of::<Writer>();
        file.set_len((from + len) as u64).map_err(refused)?;
        let start = map_shared(&file, from as u64, len).map_err(refused)?;
        // SAFETY: the mapping is `lines` entries long, aligned to a page and never removed; any bytes
        // make an entry, and only this process writes it: others read it after its end.
        let table = unsafe { std::slice::from_raw_parts_mut(start.cast(), lines as usize) };
        let now = (0..cpus).map(|cpu| cpu as u64 & 0xff).collect();
        Ok(Self { table, now })
    }

    /// Sets the time of the stores that follow.
    pub(crate) fn set_time(&mut self, cpu: usize, time_ns: u64) {
        self.now[cpu] = (time_ns << 8) | (cpu as u64 & 0xff);
    }

    #[inline]
    pub(crate) fn stored(&mut self, cpu: usize, line: Line, pc: u64) {
        let when = self.now[cpu];
        self.table[line.index()] = Writer { pc, when };
    }
}
