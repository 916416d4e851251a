// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of a model of the protocol: a memory behind a cache that evicts by chance, a Stop and a
//! Go that do what `kernel/stop/` and `loader/` do, and planted bugs that replace one of its steps.
//!
//! They show that the campaign finds what it is for, in milliseconds and without a machine. What real
//! kernels do is shown by recordings of these.
//!
//! | module | subject |
//! |---|---|
//! | [`machine`] | memory, cache, and the recording of both |
//! | [`image`] | the record block and what else is in NVRAM |
//! | [`protocol`] | Stop, Go and arming, as named steps |
//! | [`mutants`] | protocols with one wrong step, and the violation that each must cause |

pub mod image;
pub mod machine;
pub mod mutants;
pub mod protocol;

use std::path::Path;
use std::{fs, io};

use machine::Machine;
use protocol::Protocol;
use remanence_recording::{DOMAIN_NONE, Event, Phase};

/// Writes two recordings below `dir`: `stop`, of running and a Stop, and `go`, from the media it left.
///
/// # Errors
/// The directory's.
pub fn write(dir: &Path, seed: u64, protocol: &dyn Protocol) -> io::Result<()> {
    // Two cycles come before, so that every slot has held an image.
    let early = dir.join("early");
    let domain = protocol.domain();
    let right: &dyn Protocol = match domain {
        DOMAIN_NONE => &protocol::RightUncovered,
        _ => &protocol::Right,
    };
    let mut media = image::first_media();
    for sequence in 2..4 {
        media = Machine::record(&early, domain, media, seed, |machine| {
            protocol::arm(right, machine, sequence)?;
            protocol::stop(right, machine, sequence)
        })?;
        media = Machine::record(&early, domain, media, seed, |machine| {
            protocol::go(right, machine, sequence)
        })?;
    }
    fs::remove_dir_all(&early)?;
    let media = Machine::record(&dir.join("stop"), domain, media, seed, |machine| {
        machine.put(0, &Event::Phase(Phase::RUNNING))?;
        protocol::arm(protocol, machine, 4)?;
        machine.run_programs(600)?;
        protocol::stop(protocol, machine, 4)
    })?;
    Machine::record(&dir.join("go"), domain, media, seed + 1, |machine| {
        protocol::go(protocol, machine, 4)
    })?;
    Ok(())
}
