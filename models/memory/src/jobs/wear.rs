// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a memory lives: writes of the host until the first line has had all
//! that it endures, against what all lines together endure: those that the host sees
//! (`lifetime`), or those that media has, gaps included (`lifetime_of_media`).
//!
//! Writes are taken `threshold_writes` at a time to one line, so that lives of
//! billions of writes are counted in seconds. For an attack that is exact (it is what
//! an attacker does who keeps the row buffer from putting writes together by
//! alternating lines of other groups); for a benign trace it is the worse case.

use crate::cores::CoresPart;
use crate::error::MediaError;
use crate::parts::Part;
use crate::startgap::{Leveler, WearConfig};
use crate::trace::{Kind, Trace};
use crate::units::{LineAddr, random};
use crate::workloads;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearJob {
    /// Wear levelling.
    pub wear: WearConfig,
    /// Lines of memory.
    pub lines: u64,
    /// Writes that a line endures.
    pub endurance_writes: u64,
    /// A workload whose writes are repeated, or none: an attack.
    pub workload: Option<String>,
    /// A trace whose writes are repeated.
    pub trace: Option<String>,
    /// Lines that an attack writes in turn.
    #[serde(default = "one")]
    pub attack_lines: u64,
    /// End the life here if nothing has worn out, in writes for each line.
    pub writes_per_line_max: Option<u64>,
}

fn one() -> u64 {
    1
}

impl WearJob {
    pub(super) fn run(&self) -> Result<Value, MediaError> {
        let mut leveler = Leveler::new(self.wear, self.lines)?;
        if self.endurance_writes == 0 || self.attack_lines == 0 || self.attack_lines > self.lines {
            let why = "wear: endurance_writes from 1, attack_lines from 1 to lines";
            return Err(MediaError::Job(why.to_owned()));
        }
        let targets = self.targets()?;
        let benign = self.workload.is_some() || self.trace.is_some();
        let mut worn = vec![0_u64; usize::try_from(leveler.phys_lines()).unwrap_or(0)];
        let burst = u64::from(self.wear.threshold_writes);
        let limit = self.writes_per_line_max.unwrap_or(u64::MAX / self.lines) * self.lines;
        let (mut writes, mut extra, mut most, mut state) = (0_u64, 0_u64, 0_u64, self.wear.seed);
        let mut turn = targets.iter().cycle();
        while most < self.endurance_writes && writes < limit {
            let line = if benign {
                let pick = random(&mut state) % targets.len() as u64;
                LineAddr(targets[usize::try_from(pick).unwrap_or(0)])
            } else {
                LineAddr(*turn.next().expect("there are targets"))
            };
            let mut add = |phys: u64, count: u64| {
                let slot = &mut worn[usize::try_from(phys).unwrap_or(0)];
                *slot += count;
                most = most.max(*slot);
            };
            add(leveler.locate(line).0, burst);
            writes += burst;
            let (gap, swaps) = leveler.count_burst(line);
            if let Some(gap) = gap {
                leveler.commit_move(gap.region, gap.after);
                add(gap.to.0, 1);
                extra += 1;
            }
            for _ in 0..swaps {
                let swap = leveler.next_swap();
                leveler.commit_swap(swap.after);
                add(swap.first.0, 1);
                add(swap.second.0, 1);
                extra += 2;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio that is shown")]
        let ratio = |a: u64, b: u64| a as f64 / b as f64;
        Ok(json!({
            "lifetime": ratio(writes, self.lines) / ratio(self.endurance_writes, 1),
            "lifetime_of_media": ratio(writes, leveler.phys_lines()) / ratio(self.endurance_writes, 1),
            "worn_out": most >= self.endurance_writes,
            "writes": writes,
            "extra_write_share": ratio(extra, writes.max(1)),
            "reseedings": leveler.epoch().number,
            "register_bytes": leveler.register_bytes(),
        }))
    }

    /// Lines that are written: an attacker's few, or those of a workload, as often.
    fn targets(&self) -> Result<Vec<u64>, MediaError> {
        let (name, trace) = match (&self.workload, &self.trace) {
            (None, None) => {
                let apart = self.lines / self.attack_lines;
                return Ok((0..self.attack_lines).map(|n| n * apart).collect());
            }
            (Some(name), None) => {
                let part = CoresPart::from_part(&Part::built_in("lpc-core")?)?;
                let traced = workloads::run(name, &part, 1_000_000, self.wear.seed)?;
                (name, traced.trace)
            }
            (None, Some(file)) => (file, Trace::load(Path::new(file))?),
            (Some(_), Some(_)) => {
                let why = "wear: give a workload, a trace or neither";
                return Err(MediaError::Job(why.to_owned()));
            }
        };
        let written = trace.iter().filter(|it| it.kind == Kind::Write);
        let lines: Vec<u64> = written.map(|it| it.line.0 % self.lines).collect();
        if lines.is_empty() {
            return Err(MediaError::Job(format!("wear: {name} writes nothing back")));
        }
        Ok(lines)
    }
}
