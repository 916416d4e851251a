// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-media-peer JOB` (or `-` to read it): gives the same requests to our model of DRAM and to
//! DRAMsim3, prints JSON. Exit: 0 done, 2 the job cannot be meant.
//!
//! `traffic` makes the requests, `timing` gives both the same numbers, `ours` and `theirs` drive one
//! each, `speed` takes the host's time of both in turn. What the answers mean is not decided here
//! (`lab/bench/media_peer.py`).

#[cfg(feature = "mutants")]
extern crate ocpmem_mutants as ocpmem;

mod error;
mod job;
mod ours;
mod planted;
mod seen;
mod speed;
mod theirs;
mod timing;
mod traffic;

use std::process::ExitCode;

fn main() -> ExitCode {
    let text = ocpmem::jobs::given();
    match text.and_then(|text| job::run_text(&text).map_err(|error| error.to_string())) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("rem-media-peer: {error}");
            ExitCode::from(2)
        }
    }
}
