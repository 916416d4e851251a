// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs and answers as JSON.

use crate::error::PeerError;
use crate::seen::Seen;
use crate::theirs::{self, Run};
use crate::timing::{EPOCH, Gates, Timing};
use crate::traffic::Traffic;
use crate::{ours, planted, speed};
use ocpmem::parts::one_line;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What to do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Do {
    /// Times and counts of both.
    Compare,
    /// The host's time that both take, in turn.
    Speed,
}

/// The job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    r#do: Do,
    /// A built-in part of kind `dram`.
    pub part: String,
    /// Numbers of it that are different.
    #[serde(default)]
    pub change: BTreeMap<String, f64>,
    /// Of the peer.
    pub gates: Gates,
    /// Lines of memory.
    pub lines: u64,
    /// The requests.
    pub traffic: Traffic,
    /// Rounds of `speed`.
    #[serde(default = "rounds")]
    pub rounds: usize,
    /// A planted bug of our side.
    #[serde(default)]
    pub mutant: String,
    /// Where the peer may write.
    pub folder: PathBuf,
}

fn rounds() -> usize {
    1
}

/// Does a job.
///
/// # Errors
/// When it cannot be meant.
pub fn run_text(text: &str) -> Result<Value, PeerError> {
    let job: Job =
        serde_json::from_str(text).map_err(|error| PeerError::Job(one_line(&error.to_string())))?;
    if job.lines == 0 || job.lines > 1 << 26 || !(1..=100).contains(&job.rounds) {
        let why = "lines is 1 to 2^26, rounds 1 to 100";
        return Err(PeerError::Job(why.to_owned()));
    }
    if !job.folder.is_dir() {
        let why = format!("folder: {} is none", job.folder.display());
        return Err(PeerError::Job(why));
    }
    match job.r#do {
        Do::Compare => compare(&job),
        Do::Speed => speed::run(&job),
    }
}

fn compare(job: &Job) -> Result<Value, PeerError> {
    let timing = Timing::new(&job.part, &job.change)?;
    let requests = job.traffic.requests(job.lines, timing.stride())?;
    let run = Run {
        requests: &requests,
        in_flight: job.traffic.in_flight,
        counts: true,
    };
    let theirs = theirs::drive(&timing.configuration(job.gates, EPOCH), &job.folder, run)?;
    let ours = planted::with(&job.mutant, || -> Result<Seen, PeerError> {
        let mut memory = ours::memory(&timing, job.lines)?;
        let mut seen = ours::drive(&mut memory, &requests, job.traffic.in_flight);
        ours::count(&timing, &memory, theirs.counted, &mut seen);
        Ok(seen)
    })??;
    Ok(json!({"ours": ours.json(), "theirs": theirs.json()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whatever is wrong with a job is one line that names it.
    #[test]
    fn bad_jobs_are_refused_in_one_line() {
        let job = |change: &str, traffic: &str| {
            format!(
                r#"{{"do":"compare","part":"ddr4-2933","change":{{{change}}},"gates":"own",
                "lines":1024,"folder":"/","traffic":{{{traffic}}}}}"#
            )
        };
        let random = r#""pattern":"random","requests":1,"in_flight":1"#;
        for (text, word) in [
            ("{".to_owned(), "EOF"),
            (job("\"channels\":3", random), "channels"),
            (job("\"trcd_nss\":3", random), "did you mean trcd_ns"),
            (job("\"tburst_ns\":5", random), "burst"),
            (job("", r#""requests":1,"in_flight":1"#), "either"),
            (
                job("", r#""pattern":"random","requests":0,"in_flight":1"#),
                "requests",
            ),
            (
                job("", r#""trace":"/nowhere/x","requests":1,"in_flight":1"#),
                "/nowhere/x",
            ),
            (
                job("", random).replace("ddr4-2933", "lpc-table1"),
                "not dram",
            ),
            (job("", random).replace("\"/\"", "\"/nowhere\""), "/nowhere"),
        ] {
            let error = run_text(&text).expect_err(&text).to_string();
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    /// With our gates alone, the peer's further ones leave reads and writes a burst apart.
    #[test]
    fn further_gates_do_not_bind() {
        let timing = Timing::new("ddr4-2933", &BTreeMap::new()).expect("a part");
        let text = timing.configuration(Gates::Own, EPOCH);
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.strip_prefix(" = "));
            value
                .and_then(|value| value.parse::<i64>().ok())
                .expect(name)
        };
        let burst = 4;
        let write_to_read = number("CWL") + burst + number("tWTR_S");
        let read_to_write = number("CL") + burst - number("CWL") + number("tRTRS");
        assert_eq!((write_to_read, read_to_write), (burst, burst));
        assert_eq!(
            (number("tRCD"), number("tREFI"), number("tRFC")),
            (21, 11439, 514)
        );
    }
}
