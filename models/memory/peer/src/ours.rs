// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our model, driven by a list of requests.

use crate::error::PeerError;
use crate::seen::Seen;
use crate::timing::Timing;
use crate::traffic::Request;
use ocpmem::dram::{Dram, DramPart};
use ocpmem::memory::Memory;
use ocpmem::units::Ps;

/// A memory that has served nothing.
///
/// # Errors
/// When the part is none.
pub fn memory(timing: &Timing, lines: u64) -> Result<Dram, PeerError> {
    Ok(Dram::new(DramPart::from_part(&timing.part)?, lines)?)
}

/// Serve all requests. The oldest read of `in_flight` has to be back before the next one begins, and
/// so with writes.
pub fn drive(memory: &mut impl Memory, requests: &[Request], in_flight: usize) -> Seen {
    let mut seen = Seen::default();
    let mut ends = [vec![Ps::ZERO; in_flight], vec![Ps::ZERO; in_flight]];
    let mut asked = [0_usize; 2];
    let mut now = Ps::ZERO;
    for request in requests {
        let kind = usize::from(request.read);
        let slot = asked[kind] % in_flight;
        asked[kind] += 1;
        now = now.max(request.at).max(ends[kind][slot]);
        let end = if request.read {
            memory.read(now, request.line)
        } else {
            memory.write(now, request.line)
        };
        ends[kind][slot] = end;
        if request.read {
            seen.reads.add(end - now);
        } else {
            seen.writes += 1;
        }
        seen.time = seen.time.max(end);
    }
    seen
}

/// Counts, by the energy that they take: rows opened, and refreshes until `until`.
pub fn count(timing: &Timing, memory: &Dram, until: Ps, seen: &mut Seen) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the model has read it as a whole number"
    )]
    let price = |key: &str| (timing.part.values[key].value as u64).max(1);
    let energy = memory.energy(until);
    seen.activations = energy.activate_pj / price("activate_pj");
    seen.refreshes = energy.refresh_pj / price("refresh_pj");
    seen.counted = until;
}
