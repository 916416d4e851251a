// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mounted file systems, by their UUID.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// `struct fsuuid2` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct RawUuid {
    bytes: u8,
    uuid: [u8; 16],
}

/// `FS_IOC_GETFSUUID`: `_IOR(0x15, 0, struct fsuuid2)`, Linux 6.9.
const GET_FS_UUID: libc::Ioctl = 0x8011_1500_u32 as libc::Ioctl;

fn uuid_of(file: &File) -> io::Result<[u8; 16]> {
    let mut raw = RawUuid::default();
    let at: *mut RawUuid = &raw mut raw;
    // SAFETY: the call stores one struct fsuuid2, which `at` points to.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), GET_FS_UUID, at) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    if raw.bytes != 16 {
        return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
    }
    Ok(raw.uuid)
}

/// The mount points of `/proc/self/mountinfo`; its fifth word, with `\ooo` for some bytes.
fn points(text: &str) -> impl Iterator<Item = PathBuf> {
    text.lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|word| PathBuf::from(unescape(word)))
}

fn unescape(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(byte) => {
                out.push(byte.into());
                rest = &after[3..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The root of each mounted file system that has a UUID.
///
/// # Errors
/// If the list of mounts cannot be read.
pub fn roots(mountinfo: &Path) -> io::Result<HashMap<[u8; 16], File>> {
    let mut found = HashMap::new();
    for point in points(&std::fs::read_to_string(mountinfo)?) {
        // A mount that cannot be opened, or that is no file system of a disk, has no files of ours.
        let Ok(root) = File::open(point) else {
            continue;
        };
        if let Ok(uuid) = uuid_of(&root) {
            found.entry(uuid).or_insert(root);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read() {
        let text = "24 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    30 24 254:16 / /srv/a\\040b rw,nosuid shared:1 - xfs /dev/vdb rw\n\
                    31 24 0:5 / /tmp/c\\d rw - tmpfs x rw\n";
        let found: Vec<PathBuf> = points(text).collect();
        assert_eq!(found, ["/", "/srv/a b", "/tmp/c\\d"].map(PathBuf::from));
    }
}
