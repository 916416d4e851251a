// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of memory that go online (`/sys/devices/system/memory`).

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::fault::{Fault, at};

const PATH: &str = "/sys/devices/system/memory";

fn covering(start: u64, bytes: u64, block_bytes: u64) -> Option<Range<u64>> {
    let end = start.checked_add(bytes)?;
    (block_bytes > 0).then(|| start / block_bytes..end.div_ceil(block_bytes))
}

/// All blocks of a range are online when it returns, for memory that can be taken back.
///
/// # Errors
/// Those of the kernel.
pub fn online(start: u64, bytes: u64) -> Result<(), Fault> {
    online_below(Path::new(PATH), start, bytes)
}

fn online_below(folder: &Path, start: u64, bytes: u64) -> Result<(), Fault> {
    let size = folder.join("block_size_bytes");
    let text = fs::read_to_string(&size).map_err(at(size.display()))?;
    let block_bytes = u64::from_str_radix(text.trim(), 16).map_err(at(size.display()))?;
    let blocks = covering(start, bytes, block_bytes)
        .ok_or_else(|| Fault::new(format!("{}: {}", size.display(), text.trim())))?;
    for block in blocks {
        let state = folder.join(format!("memory{block}/state"));
        let now = fs::read_to_string(&state).map_err(at(state.display()))?;
        if now.trim() == "offline" {
            fs::write(&state, "online_movable").map_err(at(state.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: blocks of the range that are offline go online, and no other. Method: a folder.
    #[test]
    fn blocks_of_the_range_go_online() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("block_size_bytes"), "8000000\n").unwrap();
        let state = |block: u32| folder.path().join(format!("memory{block}/state"));
        for block in 31..=36 {
            fs::create_dir(folder.path().join(format!("memory{block}"))).unwrap();
            let now = if block == 33 { "online" } else { "offline" };
            fs::write(state(block), now).unwrap();
        }
        online_below(folder.path(), 1 << 32, 4 << 27).unwrap();
        let found = [31, 32, 33, 34, 35, 36].map(|block| fs::read_to_string(state(block)).unwrap());
        let on = "online_movable";
        assert_eq!(found, ["offline", on, "online", on, on, "offline"]);
        assert_eq!(covering(u64::MAX, 2, 4096), None);
        assert_eq!(covering(0, 2, 0), None);
    }
}
