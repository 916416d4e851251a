// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mappings of a process that a restore on a fresh system could not make again.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Shared memory, by its file system and its number there.
pub type Shared = HashSet<(String, String)>;

/// A line of /proc/PID/maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'a> {
    span: &'a str,
    rights: &'a str,
    device: &'a str,
    inode: &'a str,
    path: &'a str,
}

fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.splitn(6, ' ');
    let (span, rights) = (words.next()?, words.next()?);
    let _offset = words.next()?;
    let (device, inode) = (words.next()?, words.next()?);
    let path = words.next().unwrap_or_default().trim_start();
    Some(Line {
        span,
        rights,
        device,
        inode,
        path,
    })
}

/// Memory that the kernel keeps for processes that share it, and nobody else.
fn is_shared_memory(line: &Line<'_>) -> bool {
    let names = ["/dev/zero", "/SYSV", "/memfd:"];
    line.rights.contains('s') && names.iter().any(|name| line.path.starts_with(name))
}

fn text(pid: u32, file: &str) -> String {
    // A process that has just ended has no mappings.
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

fn shared_in(maps: &str) -> Shared {
    let lines = maps.lines().filter_map(parse).filter(is_shared_memory);
    lines
        .map(|line| (line.device.to_owned(), line.inode.to_owned()))
        .collect()
}

/// The shared memory of a process.
#[must_use]
pub fn shared(pid: u32) -> Shared {
    shared_in(&text(pid, "maps"))
}

fn devices_in(maps: &str) -> HashSet<String> {
    let lines = maps.lines().filter_map(parse);
    let paths = lines.map(|line| line.path);
    paths
        .filter(|path| path.starts_with("/dev/") && !path.starts_with("/dev/zero"))
        .map(str::to_owned)
        .collect()
}

/// The devices that a process has mapped.
#[must_use]
pub fn devices(pid: u32) -> Vec<String> {
    let is_device = |path: &String| {
        fs::metadata(Path::new(path)).is_ok_and(|found| {
            let kind = found.file_type();
            kind.is_char_device() || kind.is_block_device()
        })
    };
    let mut found: Vec<String> = devices_in(&text(pid, "maps"))
        .into_iter()
        .filter(is_device)
        .collect();
    found.sort_unstable();
    found
}

/// Memory whose pages are the process's own, also those that it has changed of a file. What the
/// kernel puts there has a name in brackets (`[vdso]`).
fn is_own(line: &Line<'_>) -> bool {
    let named = ["[heap]", "[stack]"].contains(&line.path) || line.path.starts_with("[anon:");
    line.rights.contains('p') && (named || !line.path.starts_with('['))
}

fn span(line: &Line<'_>) -> Option<Range<u64>> {
    let (begin, end) = line.span.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(begin)?..number(end)?)
}

fn own_in(maps: &str) -> Vec<Range<u64>> {
    let lines = maps.lines().filter_map(parse).filter(is_own);
    lines.filter_map(|line| span(&line)).collect()
}

/// Where a process's own memory is, by address.
#[must_use]
pub fn own(pid: u32) -> Vec<Range<u64>> {
    own_in(&text(pid, "maps"))
}

fn has_huge_in(smaps: &str) -> bool {
    let flags = smaps
        .lines()
        .filter_map(|line| line.strip_prefix("VmFlags:"));
    flags
        .flat_map(str::split_whitespace)
        .any(|flag| flag == "ht")
}

/// Whether a process has pages of hugetlbfs.
#[must_use]
pub fn has_huge(pid: u32) -> bool {
    has_huge_in(&text(pid, "smaps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7f0000000000-7f0000001000 rw-s 00000000 00:01 17                         /dev/zero (deleted)
7f0000001000-7f0000002000 rw-s 00000000 00:01 3                          /SYSV00000000 (deleted)
7f0000002000-7f0000003000 rw-p 00000000 00:01 4                          /memfd:x (deleted)
7f0000003000-7f0000004000 rw-s 00000000 00:05 5                          /dev/null
7f0000004000-7f0000005000 rw-p 00000000 00:00 0
7f0000005000-7f0000006000 r-xp 00000000 fe:00 6                          /usr/bin/a b
";

    /// Goal: what is shared with others, and what is a device's, is known by the kernel's text.
    #[test]
    fn mappings_are_told_apart() {
        let shared = shared_in(MAPS);
        let inodes = |inode: &str| shared.contains(&("00:01".to_owned(), inode.to_owned()));
        assert_eq!(shared.len(), 2);
        assert!(inodes("17") && inodes("3"));
        assert_eq!(devices_in(MAPS), HashSet::from(["/dev/null".to_owned()]));
        let last = MAPS.lines().last().and_then(parse).unwrap();
        assert_eq!(last.path, "/usr/bin/a b");
    }

    /// Goal: what is shared, and what the kernel puts there, is not a process's own.
    #[test]
    fn own_memory_is_known() {
        let more = "\
00400000-00500000 rw-p 00000000 00:00 0                                  [heap]
7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0                          [anon:a name]
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0                          [stack]
7ffd00002000-7ffd00004000 r-xp 00000000 00:00 0                          [vdso]
";
        let begins =
            |maps: &str| -> Vec<u64> { own_in(maps).iter().map(|span| span.start).collect() };
        assert_eq!(
            begins(MAPS),
            [2, 4, 5].map(|page| 0x7f00_0000_0000 + page * 0x1000)
        );
        assert_eq!(
            begins(more),
            [0x40_0000, 0x7ffc_0000_0000, 0x7ffd_0000_0000]
        );
    }

    /// Goal: pages of hugetlbfs are known, and transparent ones are none.
    #[test]
    fn huge_pages_are_known() {
        assert!(has_huge_in("Size: 4 kB\nVmFlags: rd wr de ht sd\n"));
        assert!(!has_huge_in(
            "VmFlags: rd wr mr hg sd\nShared_Hugetlb: 0 kB\n"
        ));
        assert!(!has_huge(std::process::id()));
    }
}
