// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open files of a process that a restore on a fresh system could not open again.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::{major, minor};

const MEMORY_DEVICES: u32 = 1;
/// null, zero, full, random, urandom: they have no state.
const WITHOUT_STATE: [u32; 5] = [3, 5, 7, 8, 9];
/// Terminals are reported by themselves.
const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
const TTY: u32 = 5;

fn has_state(is_char: bool, major: u32, minor: u32) -> bool {
    let is_memory = is_char && major == MEMORY_DEVICES && WITHOUT_STATE.contains(&minor);
    let is_terminal = is_char && (major == TTY || TERMINALS.contains(&major));
    !is_memory && !is_terminal
}

fn reason(link: &str, device: Option<(bool, u32, u32)>) -> Option<String> {
    if link == "anon_inode:[io_uring]" {
        return Some("io_uring: CRIU cannot save its queues".to_owned());
    }
    let (is_char, major, minor) = device?;
    has_state(is_char, major, minor).then(|| format!("device: {link} is open"))
}

/// Reasons, one for each such file.
#[must_use]
pub fn reasons(pid: u32) -> Vec<String> {
    let mut found = Vec::new();
    let folder = format!("/proc/{pid}/fd");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let link = fs::read_link(&path).unwrap_or_default();
        let device = fs::metadata(&path).ok().and_then(|file| {
            let kind = file.file_type();
            let is_device = kind.is_char_device() || kind.is_block_device();
            is_device.then(|| {
                (
                    kind.is_char_device(),
                    major(file.rdev()),
                    minor(file.rdev()),
                )
            })
        });
        found.extend(reason(&link.to_string_lossy(), device));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: devices with a state of their own are reasons, and others are none.
    #[test]
    fn devices_with_state_are_reasons() {
        let char = |major, minor| Some((true, major, minor));
        assert_eq!(reason("/dev/null", char(1, 3)), None);
        assert_eq!(reason("/dev/pts/0", char(136, 0)), None);
        assert_eq!(reason("/some/file", None), None);
        let kvm = reason("/dev/kvm", char(10, 232)).unwrap();
        assert!(kvm.contains("/dev/kvm"));
        assert!(reason("/dev/mem", char(1, 1)).is_some());
        assert!(reason("/dev/ram3", Some((false, 1, 3))).is_some());
        assert!(
            reason("anon_inode:[io_uring]", None)
                .unwrap()
                .contains("io_uring")
        );
    }

    /// Goal: open files of a process are looked at. Method: this one's.
    #[test]
    fn open_files_are_looked_at() {
        let null = fs::File::open("/dev/null").unwrap();
        assert_eq!(reasons(std::process::id()), Vec::<String>::new());
        let kmsg = fs::File::open("/dev/kmsg");
        if kmsg.is_ok() {
            assert!(reasons(std::process::id())[0].contains("kmsg"));
        }
        drop(null);
    }
}
