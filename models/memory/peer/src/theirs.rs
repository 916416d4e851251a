// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DRAMsim3, driven by the same list: one call for each cycle of its clock.

use crate::error::PeerError;
use crate::seen::Seen;
use crate::traffic::Request;
use std::path::Path;

/// What is asked of the peer.
#[cfg_attr(
    not(feature = "dramsim3"),
    expect(dead_code, reason = "only the peer reads it")
)]
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The requests.
    pub requests: &'a [Request],
    /// As of our side.
    pub in_flight: usize,
    /// Whether to go on to the end of an epoch, and to read the counts that it then prints.
    pub counts: bool,
}

/// Serve all requests by the peer, which writes into `folder`.
///
/// # Errors
/// Always: this build has no peer.
#[cfg(not(feature = "dramsim3"))]
pub fn drive(_configuration: &str, _folder: &Path, _run: Run<'_>) -> Result<Seen, PeerError> {
    let why = "this build has no peer: build it with the feature `dramsim3`";
    Err(PeerError::Job(why.to_owned()))
}

#[cfg(feature = "dramsim3")]
pub use linked::drive;

#[cfg(feature = "dramsim3")]
mod linked {
    use super::{Path, PeerError, Request, Run, Seen};
    use crate::timing::{CYCLE_PS, EPOCH};
    use dramsim3::MemorySystem;
    use ocpmem::units::{LINE_BYTES, Ps};
    use serde_json::Value;
    use std::collections::VecDeque;
    use std::fs;

    /// What the peer prints at the end of an epoch, in the folder that it is given.
    const PRINTED: &str = "dramsim3epoch.json";

    /// The host of the peer.
    struct Host<'a> {
        run: Run<'a>,
        next: usize,
        cycle: u64,
        /// Reads under way: line, when it was wanted, whether it is back.
        reads: VecDeque<(u64, u64, bool)>,
        seen: Seen,
    }

    /// Serve all requests by the peer, which writes into `folder`.
    ///
    /// # Errors
    /// When its files cannot be written or read.
    pub fn drive(configuration: &str, folder: &Path, run: Run<'_>) -> Result<Seen, PeerError> {
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |cause| PeerError::Io { path, cause }
        };
        let file = folder.join("peer.ini");
        fs::write(&file, configuration).map_err(io(&file))?;
        let mut peer = MemorySystem::new(&file, folder)
            .map_err(|_| PeerError::Peer("a folder's name with a zero byte".to_owned()))?;
        let mut host = Host {
            run,
            next: 0,
            cycle: 0,
            reads: VecDeque::new(),
            seen: Seen::default(),
        };
        while host.next < run.requests.len() || !host.reads.is_empty() {
            host.ask(&mut peer);
            host.tick(&mut peer);
        }
        host.seen.time = moment(host.cycle - 1);
        if run.counts {
            while host.cycle % EPOCH != 0 {
                host.tick(&mut peer);
            }
            let printed = folder.join(PRINTED);
            let text = fs::read_to_string(&printed).map_err(io(&printed))?;
            counts(&text, &mut host.seen)?;
            host.seen.counted = moment(host.cycle);
        }
        Ok(host.seen)
    }

    fn moment(cycle: u64) -> Ps {
        Ps(cycle * CYCLE_PS)
    }

    impl Host<'_> {
        /// Everything that the host wants by now and the peer takes.
        fn ask(&mut self, peer: &mut MemorySystem) {
            while let Some(Request { read, line, at }) = self.run.requests.get(self.next).copied() {
                let address = line.0 * LINE_BYTES;
                if at > moment(self.cycle) || (read && self.reads.len() >= self.run.in_flight) {
                    return;
                }
                if !peer.can_add(address, !read) {
                    return;
                }
                peer.add(address, !read);
                if read {
                    self.reads.push_back((address, self.cycle, false));
                } else {
                    self.seen.writes += 1;
                }
                self.next += 1;
            }
        }

        fn tick(&mut self, peer: &mut MemorySystem) {
            let (reads, seen, cycle) = (&mut self.reads, &mut self.seen, self.cycle);
            peer.tick(|address, is_write| {
                if is_write {
                    return;
                }
                let found = reads
                    .iter_mut()
                    .find(|(of, _, back)| *of == address && !*back);
                if let Some((_, since, back)) = found {
                    *back = true;
                    seen.reads.add(moment(cycle - *since));
                }
            });
            while reads.front().is_some_and(|(_, _, back)| *back) {
                reads.pop_front();
            }
            self.cycle += 1;
        }
    }

    /// The sums over channels and epochs. The file is a list that is not closed yet.
    fn counts(text: &str, seen: &mut Seen) -> Result<(), PeerError> {
        let whole = format!("{text}null]");
        let printed: Vec<Value> = serde_json::from_str(&whole)
            .map_err(|error| PeerError::Peer(format!("{PRINTED}: {error}")))?;
        let sum = |name: &str| {
            let found = printed.iter().filter_map(|epoch| epoch.get(name));
            found.filter_map(Value::as_u64).sum::<u64>()
        };
        seen.activations = sum("num_act_cmds");
        seen.refreshes = sum("num_ref_cmds");
        Ok(())
    }
}
