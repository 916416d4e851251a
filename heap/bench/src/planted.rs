// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work in the guest, with a planted bug where this is the build that has them.

use std::path::Path;

use crate::work;

/// See [`work::row`].
#[cfg(not(feature = "mutants"))]
pub fn row(mutant: &str, folder: &Path, policy: &str, operations: u64) -> Result<(), String> {
    if mutant.is_empty() {
        work::row(folder, policy, operations)
    } else {
        Err("this build has no planted bugs: build it with the feature `mutants`".to_owned())
    }
}

/// See [`work::row`]; the bug is planted when the region is open.
#[cfg(feature = "mutants")]
pub fn row(mutant: &str, folder: &Path, policy: &str, operations: u64) -> Result<(), String> {
    let work = || work::row(folder, policy, operations);
    if mutant.is_empty() {
        return work();
    }
    let known = nvheap::MUTANTS.iter().find(|known| known.name == mutant);
    let known = known.ok_or_else(|| format!("no planted bug {mutant}"))?;
    remanence_planted::plant(known.name, work)
}
