// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `rem-media` does: one job, read as JSON, answered as JSON. A name that no
//! job knows is refused, so that a misspelt parameter is never taken for its default.

mod bench;
mod ecc;
mod flush;
mod requests;
mod traffic;
mod uber;
mod wear;

use crate::build::MemoryJob;
use crate::cores::{CoresPart, replay};
use crate::error::MediaError;
use crate::parts::{Part, names, one_line};
use crate::trace::{Kind, Trace};
use crate::workloads;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub use bench::BenchJob;
pub use ecc::EccJob;
pub use flush::FlushJob;
pub use requests::RequestsJob;
pub use traffic::{Pattern, TrafficJob};
pub use uber::UberJob;
pub use wear::WearJob;

/// A job.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Job {
    /// All numbers of all parts.
    Parts,
    /// Requests of one kind, a number of them in flight.
    Traffic(TrafficJob),
    /// A workload or a trace on the cores.
    Replay(ReplayJob),
    /// The longest flush.
    Flush(FlushJob),
    /// Requests per second of the host.
    Bench(BenchJob),
    /// A life of writes.
    Wear(WearJob),
    /// Faults in what devices hold.
    Ecc(EccJob),
    /// Errors of single bits in what devices hold.
    Uber(UberJob),
    /// What a trace is.
    Trace(TraceJob),
    /// Answers to the requests of a trace, one by one.
    Requests(RequestsJob),
}

/// Which trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceJob {
    /// The file.
    pub file: String,
}

/// A replay.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayJob {
    /// On what.
    pub memory: MemoryJob,
    /// A kernel's name, or `trace`.
    pub workload: Option<String>,
    /// A file.
    pub trace: Option<String>,
    /// Loads and stores of the kernel, about.
    #[serde(default = "accesses")]
    pub accesses: u64,
    /// Numbers of the cores that are different.
    #[serde(default)]
    pub cores: BTreeMap<String, f64>,
    /// Of the kernel.
    #[serde(default = "seed")]
    pub seed: u64,
}

fn accesses() -> u64 {
    1_000_000
}

fn seed() -> u64 {
    1
}

/// The job that a program is given: its only word, or `-` for its input.
///
/// # Errors
/// One line, if there are other words, or the input cannot be read.
pub fn given() -> Result<String, String> {
    let mut words = std::env::args().skip(1);
    let (Some(word), None) = (words.next(), words.next()) else {
        return Err("give one job as JSON, or - to read it from standard input".to_owned());
    };
    if word != "-" {
        return Ok(word);
    }
    std::io::read_to_string(std::io::stdin()).map_err(|error| format!("standard input: {error}"))
}

/// Read a job and do it.
///
/// # Errors
/// When it is none, or cannot be done.
pub fn run_text(text: &str) -> Result<Value, MediaError> {
    let job: Job = serde_json::from_str(text)
        .map_err(|error| MediaError::Job(one_line(&error.to_string())))?;
    run(&job)
}

/// Do a job.
///
/// # Errors
/// When it cannot be done.
pub fn run(job: &Job) -> Result<Value, MediaError> {
    match job {
        Job::Parts => parts(),
        Job::Traffic(job) => job.run(),
        Job::Replay(job) => job.run(),
        Job::Flush(job) => job.run(),
        Job::Bench(job) => job.run(),
        Job::Wear(job) => job.run(),
        Job::Ecc(job) => job.run(),
        Job::Uber(job) => job.run(),
        Job::Requests(job) => job.run(),
        Job::Trace(job) => {
            let trace = Trace::load(Path::new(&job.file))?;
            let reads = trace.iter().filter(|it| it.kind == Kind::Read).count();
            let writes = trace.requests().count() - reads;
            Ok(json!({
                "records": trace.len(),
                "reads": reads,
                "writes": writes,
                "instructions": trace.iter().map(|it| it.gap).sum::<u64>(),
                "lines": trace.lines,
                "cpus": trace.cpu_count,
                "check": trace.check(),
            }))
        }
    }
}

fn parts() -> Result<Value, MediaError> {
    let mut rows = Vec::new();
    for name in names() {
        for (key, value) in Part::built_in(name)?.values {
            rows.push(json!({
                "part": name,
                "parameter": key,
                "value": value.value,
                "source": value.source,
                "assumed": value.assumed(),
            }));
        }
    }
    Ok(json!({ "parts": rows }))
}

/// The figures of a memory as an object of name: value.
pub(crate) fn figures(
    memory: &dyn crate::memory::Memory,
    until: crate::units::Ps,
) -> Map<String, Value> {
    let mut all = memory.counts().figures();
    all.extend(memory.own_figures());
    let mut map: Map<String, Value> = all
        .into_iter()
        .map(|it| {
            (
                it.name.to_owned(),
                json!({"value": it.value, "unit": it.unit, "about": it.about}),
            )
        })
        .collect();
    let energy = memory.energy(until);
    for (name, value) in [
        ("energy_background_pj", energy.background_pj),
        ("energy_refresh_pj", energy.refresh_pj),
        ("energy_activate_pj", energy.activate_pj),
        ("energy_read_pj", energy.read_pj),
        ("energy_write_pj", energy.write_pj),
        ("energy_pj", energy.total_pj()),
    ] {
        map.insert(
            name.to_owned(),
            json!({"value": value, "unit": "pJ", "about": "Energy of the memory."}),
        );
    }
    map
}

impl ReplayJob {
    fn run(&self) -> Result<Value, MediaError> {
        let mut part = Part::built_in("lpc-core")?;
        for (key, value) in &self.cores {
            part = part.with(key, *value)?;
        }
        let part = CoresPart::from_part(&part)?;
        let mut rates = Map::new();
        let trace = match (&self.workload, &self.trace) {
            (Some(name), None) => {
                let traced = workloads::run(name, &part, self.accesses, self.seed)?;
                rates.insert("load_hit_share".into(), traced.loads.share().into());
                rates.insert("store_hit_share".into(), traced.stores.share().into());
                rates.insert("loads".into(), traced.loads.count.into());
                rates.insert("stores".into(), traced.stores.count.into());
                traced.trace
            }
            (None, Some(file)) => Trace::load(Path::new(file))?,
            _ => {
                return Err(MediaError::Job(
                    "replay: give either workload or trace".to_owned(),
                ));
            }
        };
        let mut memory = self
            .memory
            .build(trace.lines.max(workloads::LINES).next_power_of_two())?;
        let done = replay(&trace, &part, memory.as_mut())?;
        let run = memory.energy(done.time);
        let until = memory.flush(done.time);
        let flush = memory.energy(until).since(&run);
        Ok(json!({
            "time_ns": done.time.ns(),
            "energy_run_mj": run.total_mj(),
            "energy_flush_mj": flush.total_mj(),
            "energy_cores_mj": done.energy(&part).total_mj(),
            "flush_ns": (until - done.time).ns(),
            "active_ns": done.active.ns(),
            "stalled_ns": done.stalled.ns(),
            "instructions": done.instructions,
            "requests": done.requests,
            "cache": rates,
            "memory": figures(memory.as_ref(), until),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whatever is wrong with a job is one line that names it.
    #[test]
    fn bad_jobs_are_refused_in_one_line() {
        for (job, word) in [
            ("{", "EOF"),
            (r#"{"do":"dance"}"#, "dance"),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc"},"reed_percent":1}"#,
                "reed_percent",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"litepc"}}"#,
                "litepc",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc","xxc":true}}"#,
                "xxc",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc","change":{"read_nss":1}}}"#,
                "did you mean read_ns",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc","change":{"dimms":1}}}"#,
                "DIMMs",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc","part":"ddr4"}}"#,
                "kind",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc","layout":"rank"}}"#,
                "rank",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"dram","change":{"trfc_ns":9000}}}"#,
                "refresh",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc"},"lines":1000}"#,
                "power of two",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc"},"block_bytes":100}"#,
                "block_bytes",
            ),
            (
                r#"{"do":"traffic","memory":{"controller":"lightpc"},"in_flight":0}"#,
                "in_flight",
            ),
            (
                r#"{"do":"flush","memory":{"controller":"lightpc"},"lines":64,"dirty_lines":65}"#,
                "dirty_lines",
            ),
            (
                r#"{"do":"replay","memory":{"controller":"lightpc"}}"#,
                "either",
            ),
            (
                r#"{"do":"replay","memory":{"controller":"lightpc"},"workload":"doom"}"#,
                "doom",
            ),
            (
                r#"{"do":"replay","memory":{"controller":"dram"},"workload":"AES","cores":{"cores":0}}"#,
                "cores",
            ),
            (r#"{"do":"trace","file":"/nowhere/x"}"#, "/nowhere/x"),
        ] {
            let error = run_text(job).unwrap_err().to_string();
            assert!(error.contains(word), "{job}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
