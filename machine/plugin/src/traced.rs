// SPDX-License-Identifier: GPL-2.0-or-later
//! The timing of memory, flat or by a controller, and the trace of its requests
//! (`format/rem_trace.h`): misses, write-backs, and waits until written data is durable, with the
//! instructions between them.
//!
//! A trace is held in memory, bounded, and written when it is complete: the file appears at once.
//! Only accesses by instructions are in it, not those of devices nor the time of halted vCPUs.

use crate::controlled::Controlled;
use ocpmem::trace::{Kind, Request, Trace};
use ocpmem::units::LineAddr;
use remanence_cache::{Access, Core, FlatTiming, Line, Profile, Timing};
use std::fs::File;

/// How many instructions a vCPU has begun.
pub(crate) type Instructions = fn(Core) -> u64;

/// Times, and a trace while one is requested.
#[derive(Debug)]
pub(crate) struct Traced {
    flat: FlatTiming,
    pub(crate) controller: Option<Controlled>,
    path: Option<String>,
    lines: u64,
    cpus: u32,
    instructions: Instructions,
    pub(crate) instruction_ps: u64,
    trace: Option<Trace>,
    records_max: usize,
    /// Instructions that each vCPU had begun at its last record.
    begun: Vec<u64>,
}

impl Traced {
    pub(crate) fn new(
        profile: &Profile,
        path: Option<String>,
        cpus: usize,
        lines: u32,
        instructions: Instructions,
    ) -> Self {
        Self {
            flat: FlatTiming::of(profile),
            controller: None,
            path,
            lines: lines.into(),
            cpus: u32::try_from(cpus).unwrap_or(1),
            instructions,
            instruction_ps: profile.cycle_ps(),
            trace: None,
            records_max: 0,
            begun: vec![0; cpus],
        }
    }

    pub(crate) fn has_file(&self) -> bool {
        self.path.is_some()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.trace.is_some()
    }

    /// Writes the current trace, and begins one of up to `records_max` records; 0: none.
    pub(crate) fn begin(&mut self, records_max: u64) {
        self.finish();
        self.records_max = usize::try_from(records_max).unwrap_or(0);
        if records_max > 0 {
            self.trace = Some(Trace::new(self.lines, self.cpus));
            self.begun = (0..self.begun.len())
                .map(|cpu| (self.instructions)(Core(cpu)))
                .collect();
        }
    }

    /// Ends the trace and writes it.
    pub(crate) fn finish(&mut self) {
        let (Some(trace), Some(path)) = (self.trace.take(), &self.path) else {
            return;
        };
        let part = format!("{path}.part");
        let written = File::create(&part)
            .and_then(|mut file| trace.write(&mut file))
            .and_then(|()| std::fs::rename(&part, path));
        if let Err(error) = written {
            eprintln!("remanence-plugin: the trace is lost: {path}: {error}");
        }
    }

    #[inline]
    fn note(&mut self, core: Core, kind: Kind, line: Line) {
        // A trace is of NVRAM.
        if self.trace.is_some() && u64::from(line.0) < self.lines {
            self.note_always(core, kind, line);
        }
    }

    fn note_always(&mut self, core: Core, kind: Kind, line: Line) {
        let begun = (self.instructions)(core);
        let Some(trace) = &mut self.trace else { return };
        trace.push(Request {
            kind,
            cpu: u32::try_from(core.0).unwrap_or(0),
            line: LineAddr(line.0.into()),
            gap: begun.saturating_sub(self.begun[core.0]),
        });
        self.begun[core.0] = begun;
        if trace.len() >= self.records_max {
            self.finish();
        }
    }
}

impl Timing for Traced {
    fn read_ps(&mut self, core: Core, line: Line) -> u64 {
        self.note(core, Kind::Read, line);
        match &mut self.controller {
            Some(controller) => controller.read_ps(core, line),
            None => self.flat.read_ps(core, line),
        }
    }

    fn access_ps(&mut self, core: Core, access: Access) -> u64 {
        let waits = self.controller.as_ref().is_none_or(Controlled::is_in_order);
        match (waits, access.level_ps) {
            (true, Some(level_ps)) => return level_ps,
            (true, None) => return self.read_ps(core, access.line),
            (false, Some(_)) => {}
            (false, None) => self.note(core, Kind::Read, access.line),
        }
        let controller = self.controller.as_mut();
        controller.map_or(0, |controller| controller.access_ps(core, access))
    }

    fn drain_ps(&mut self, core: Core) -> u64 {
        let controller = self.controller.as_mut();
        controller.map_or(0, |controller| controller.drain_ps(core))
    }

    fn write_ps(&mut self, core: Core, line: Line) -> u64 {
        self.note(core, Kind::Write, line);
        match &mut self.controller {
            Some(controller) => controller.write_ps(core, line),
            None => self.flat.write_ps(core, line),
        }
    }

    fn stall_ps(&mut self, core: Core) -> u64 {
        let controller = self.controller.as_mut();
        controller.map_or(0, |controller| controller.stall_ps(core))
    }

    fn flush_ps(&mut self, core: Core) -> u64 {
        self.note(core, Kind::Flush, Line(0));
        match &mut self.controller {
            Some(controller) => controller.flush_ps(core),
            None => self.flat.flush_ps(core),
        }
    }

    fn executed_ps(&self, core: Core) -> u64 {
        (self.instructions)(core) * self.instruction_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::path::Path;

    thread_local! {
        static BEGUN: Cell<u64> = const { Cell::new(0) };
    }

    /// Ten instructions more at each call.
    fn ten_more(_core: Core) -> u64 {
        BEGUN.set(BEGUN.get() + 10);
        BEGUN.get()
    }

    /// Goal: a trace has every request in order, with its gaps, and ends at its limit.
    #[test]
    fn trace_ends_at_its_limit_and_is_complete() {
        let path = std::env::temp_dir().join(format!("rem-traced-{}.trace", std::process::id()));
        let profile = Profile::named("lightpc").unwrap();
        let mut it = Traced::new(&profile, Some(path.display().to_string()), 2, 64, ten_more);
        it.read_ps(Core(0), Line(1)); // before a trace begins: not in it
        it.begin(4); // vCPU 0 has begun 10, vCPU 1 20
        assert!(it.is_on() && !path.exists());
        it.read_ps(Core(0), Line(7)); // 30
        it.write_ps(Core(1), Line(63)); // 40
        it.flush_ps(Core(0)); // 50
        assert!(it.is_on() && !path.exists());
        it.write_ps(Core(1), Line(9)); // 60
        it.read_ps(Core(0), Line(8)); // after its end
        assert!(!it.is_on());
        let trace = Trace::load(Path::new(&path)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let seen: Vec<_> = trace
            .iter()
            .map(|it| (it.kind, it.cpu, it.line.0, it.gap))
            .collect();
        let expected = [
            (Kind::Read, 0, 7, 20),
            (Kind::Write, 1, 63, 20),
            (Kind::Flush, 0, 0, 20),
            (Kind::Write, 1, 9, 20),
        ];
        assert_eq!(seen, expected);
        assert_eq!((trace.lines, trace.cpu_count), (64, 2));
    }

    #[test]
    fn tracing_changes_no_times() {
        let profile = Profile::named("lightpc").unwrap();
        let mut flat = FlatTiming::of(&profile);
        let mut it = Traced::new(&profile, None, 1, 64, ten_more);
        let (core, line) = (Core(0), Line(3));
        for records in [0, 8] {
            it.begin(records);
            assert_eq!(it.read_ps(core, line), flat.read_ps(core, line));
            assert_eq!(it.write_ps(core, line), flat.write_ps(core, line));
            assert_eq!(it.flush_ps(core), flat.flush_ps(core));
        }
        assert!(!it.has_file() && it.is_on());
    }
}
