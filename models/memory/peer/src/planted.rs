// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our side with a planted bug, where this is the build that has them.

use crate::error::PeerError;

/// `work`, with a bug switched on; none if its name is empty.
///
/// # Errors
/// When this build has no such bug.
#[cfg(not(feature = "mutants"))]
pub fn with<R>(mutant: &str, work: impl FnOnce() -> R) -> Result<R, PeerError> {
    if mutant.is_empty() {
        return Ok(work());
    }
    let why = "this build has no planted bugs: build it with the feature `mutants`";
    Err(PeerError::Job(why.to_owned()))
}

/// `work`, with a bug switched on; none if its name is empty.
///
/// # Errors
/// When this build has no such bug.
#[cfg(feature = "mutants")]
pub fn with<R>(mutant: &str, work: impl FnOnce() -> R) -> Result<R, PeerError> {
    if mutant.is_empty() {
        return Ok(work());
    }
    let known = ocpmem::MUTANTS.iter().find(|known| known.name == mutant);
    let known = known.ok_or_else(|| PeerError::Job(format!("no planted bug {mutant}")))?;
    Ok(remanence_planted::plant(known.name, work))
}
