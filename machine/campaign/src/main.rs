// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program behind `rem campaign` and `rem replay`: one job, its results as JSON lines on
//! stdout.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use remanence_campaign::plan::{Kind, more, plan};
use remanence_campaign::run::Recording;
use remanence_campaign::survey::Survey;
use remanence_campaign::trial::Trial;
use remanence_campaign::{CampaignError, lost, replay};
use remanence_crash_states::Eviction;
use serde_json::{Value, json};

/// Judges media after cuts at any place of a recorded run.
#[derive(Parser)]
#[command(name = "remanence-campaign")]
struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Summarises a recording.
    Survey {
        /// Its directory.
        recording: PathBuf,
    },
    /// Judges one slice of one round of planned cuts.
    Judge {
        /// Directory of the recording.
        recording: PathBuf,
        /// Seed of the plan.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Round of the plan: each has other cuts.
        #[arg(long, default_value_t = 0)]
        round: u64,
        /// Approximate number of cuts of a round.
        #[arg(long, default_value_t = 2000)]
        cuts: u64,
        /// Which slice, from 0.
        #[arg(long, default_value_t = 0)]
        slice: u64,
        /// Number of slices of the round.
        #[arg(long, default_value_t = 1)]
        slices: u64,
        /// Kinds that there are too few of: near, enterable, or a place. All cuts are of these, as
        /// many of each.
        #[arg(long, value_delimiter = ',')]
        only: Vec<Kind>,
    },
    /// Judges one cut and reports all details.
    Replay {
        /// Directory of the recording.
        recording: PathBuf,
        /// Number of events before the cut.
        #[arg(long)]
        cut: u64,
        /// Lines that were evicted before the cut.
        #[arg(long, default_value = "none")]
        evict: String,
        /// Number of events to report before and after.
        #[arg(long, default_value_t = 12)]
        trace: usize,
        /// Write the media that the cut left to this file.
        #[arg(long)]
        media: Option<PathBuf>,
    },
    /// Writes media, memory as CPUs saw it, and the last store to each line, of one cut.
    Lost {
        /// Directory of the recording.
        recording: PathBuf,
        /// Number of events before the cut.
        #[arg(long)]
        cut: u64,
        /// Lines that were evicted before the cut.
        #[arg(long, default_value = "none")]
        evict: String,
        /// Folder for the files.
        #[arg(long)]
        to: PathBuf,
    },
}

fn main() -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = run(Args::parse().job, &mut out);
    let flushed = out.flush();
    match (done, flushed) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (Err(err), _) => fail(&err),
        (Ok(()), Err(err)) => fail(&CampaignError::File("stdout".into(), err)),
    }
}

fn fail(err: &CampaignError) -> ExitCode {
    eprintln!("{err}");
    ExitCode::from(match err {
        CampaignError::NoSuchPlace(_)
        | CampaignError::OutsideWindow(_)
        | CampaignError::NoSuchEviction(_) => 2,
        _ => 4,
    })
}

/// CPU time of this process: the cost of judging does not depend on the host's load.
fn cpu_ns() -> u64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `used` is a local timespec, which the call fills in.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used) };
    assert!(failed == 0, "every Linux has this clock");
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(used.tv_sec) * 1_000_000_000 + part(used.tv_nsec)
}

fn tell_survey(recording: &Path) -> Result<Value, CampaignError> {
    let recording = Recording::open(recording)?;
    let survey = Survey::of(&recording)?;
    Ok(json!({
        "events": survey.events,
        "write_backs": survey.write_backs.len(),
        "words": survey.words,
        "kinds": survey.kinds,
        "segments": survey.segments,
        "nvram_bytes": recording.header.nvram_bytes,
    }))
}

fn eviction(text: &str) -> Result<Eviction, CampaignError> {
    text.parse().map_err(CampaignError::NoSuchEviction)
}

fn write_lost(
    recording: &Path,
    cut: u64,
    evict: &str,
    to: &Path,
) -> Result<lost::Lost, CampaignError> {
    let recording = Recording::open(recording)?;
    lost::lost(&recording, cut, &eviction(evict)?, to)
}

fn run(job: Job, out: &mut impl Write) -> Result<(), CampaignError> {
    let written = |err| CampaignError::File("stdout".into(), err);
    match job {
        Job::Survey { recording } => writeln!(out, "{}", tell_survey(&recording)?).map_err(written),
        Job::Judge {
            recording,
            seed,
            round,
            cuts,
            slice,
            slices,
            only,
        } => {
            let begun = Instant::now();
            let recording = Recording::open(&recording)?;
            let survey = Survey::of(&recording)?;
            let planned = match only.len() as u64 {
                0 => plan(&survey, seed, round, cuts),
                kinds => more(&survey, seed, round, cuts / kinds, &only),
            };
            let surveyed_ns = begun.elapsed().as_nanos();
            // Slices are interleaved: cuts of one place cost alike, and so workers share them
            // evenly.
            let step = usize::try_from(slices.max(1)).unwrap_or(1);
            let first = usize::try_from(slice).unwrap_or(usize::MAX);
            let mine: Vec<_> = planned.into_iter().skip(first).step_by(step).collect();
            let mut trial = Trial::begin(&recording, &survey)?;
            trial.judge_all(&mine, |outcome| {
                serde_json::to_writer(&mut *out, &outcome)
                    .map_err(io::Error::from)
                    .and_then(|()| writeln!(out))
                    .map_err(written)
            })?;
            let value = json!({
                "planned": mine.len(),
                "made": trial.made,
                "surveyed_ns": u64::try_from(surveyed_ns).unwrap_or(u64::MAX),
                "cpu_ns": cpu_ns(),
            });
            writeln!(out, "{value}").map_err(written)
        }
        Job::Replay {
            recording,
            cut,
            evict,
            trace,
            media,
        } => {
            let recording = Recording::open(&recording)?;
            let eviction = eviction(&evict)?;
            let result = replay::replay(&recording, cut, &eviction, trace, media.as_deref())?;
            serde_json::to_writer(&mut *out, &result)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out))
                .map_err(written)
        }
        Job::Lost {
            recording,
            cut,
            evict,
            to,
        } => {
            let result = write_lost(&recording, cut, &evict, &to)?;
            writeln!(out, "{}", json!(result)).map_err(written)
        }
    }
}
