// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's time for the same requests, in turn: the peer, our DRAM, our OC-PMEM. Only ratios
//! of a round mean anything; the host's clock is read here alone.

use crate::error::PeerError;
use crate::job::Job;
use crate::ours;
use crate::theirs::{self, Run};
use crate::timing::{NO_EPOCH, Timing};
use ocpmem::build::MemoryJob;
use serde_json::{Value, json};

/// Time that this thread had a CPU of the host: what others take of it does not enter.
fn cpu_s() -> Result<f64, PeerError> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec of this function's own, and the call writes nothing else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    if failed != 0 {
        return Err(PeerError::Io {
            path: "the clock of a thread's time".to_owned(),
            cause: std::io::Error::last_os_error(),
        });
    }
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
    Ok(now.tv_sec as f64 + now.tv_nsec as f64 / 1e9)
}

fn timed<R>(work: impl FnOnce() -> Result<R, PeerError>) -> Result<f64, PeerError> {
    let begin = cpu_s()?;
    work()?;
    Ok(cpu_s()? - begin)
}

/// Seconds of each side in each round. A side begins each round with an empty memory, whose making
/// does not count.
///
/// # Errors
/// When the job cannot be meant.
pub fn run(job: &Job) -> Result<Value, PeerError> {
    let timing = Timing::new(&job.part, &job.change)?;
    let requests = job.traffic.requests(job.lines, timing.stride())?;
    let in_flight = job.traffic.in_flight;
    let configuration = timing.configuration(job.gates, NO_EPOCH);
    let run = Run {
        requests: &requests,
        in_flight,
        counts: false,
    };
    let mut rounds = Vec::new();
    for _ in 0..job.rounds {
        let mut dram = ours::memory(&timing, job.lines)?;
        let mut psm = MemoryJob::named("lightpc").psm(job.lines.next_power_of_two())?;
        rounds.push(json!({
            "peer_s": timed(|| theirs::drive(&configuration, &job.folder, run))?,
            "dram_s": timed(|| Ok(ours::drive(&mut dram, &requests, in_flight)))?,
            "ocpmem_s": timed(|| Ok(ours::drive(&mut psm, &requests, in_flight)))?,
        }));
    }
    Ok(json!({"requests": requests.len(), "rounds": rounds}))
}
