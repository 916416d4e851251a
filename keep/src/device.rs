// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/dev/rem_keep`: the pages of the range (`include/rem_keep_uapi.h`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use remanence_format::{REM_VM_BYTES, RemKeepEntry, usize_of};
use remanence_vm::record::{Bytes, Media};
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, Updater, opcode};

use crate::fault::{Fault, at};
use crate::frames::Span;
use crate::layout::Layout;

/// The device.
pub const PATH: &str = "/dev/rem_keep";
const GROUP: u8 = b'K';

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    start: u64,
    pages: u32,
    held: u32,
    node: i32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Take {
    frames: u64,
    count: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Put {
    entries: u64,
    count: u32,
    pid: u32,
    placed: u32,
    copied: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct List {
    entries: u64,
    count: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Pin {
    entries: u64,
    vaddr: u64,
    count: u32,
    pid: u32,
    elsewhere: u32,
    reserved: u32,
}

/// The frame of an entry that is no page of the range, or another entry's.
pub const ELSEWHERE: u32 = u32::MAX;

const INFO: Opcode = opcode::read::<Info>(GROUP, 0x60);
const FREE: Opcode = opcode::write::<Span>(GROUP, 0x61);
const TAKE: Opcode = opcode::read_write::<Take>(GROUP, 0x62);
const PUT: Opcode = opcode::read_write::<Put>(GROUP, 0x63);
const FLUSH: Opcode = opcode::none(GROUP, 0x64);
const SHARE: Opcode = opcode::write::<List>(GROUP, 0x65);
const UNSHARE: Opcode = opcode::write::<List>(GROUP, 0x66);
const PIN: Opcode = opcode::read_write::<Pin>(GROUP, 0x67);
const UNPIN: Opcode = opcode::none(GROUP, 0x68);

/// The range, as the module reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Physical address.
    pub start: u64,
    /// How many pages it has.
    pub pages: u32,
    /// How many of them are held.
    pub held: u32,
    /// NUMA node of its pages.
    pub node: u32,
}

impl Range {
    /// Where its parts are.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::of(self.pages)
    }
}

/// The open device.
#[derive(Debug)]
pub struct Device {
    file: File,
}

impl Device {
    /// Opens it.
    ///
    /// # Errors
    /// If the module is not loaded, or without rights.
    pub fn open() -> Result<Self, Fault> {
        let file = OpenOptions::new().read(true).write(true).open(PATH);
        let file = file.map_err(at(format!("{PATH} (run `rem-keep up` first)")))?;
        Ok(Self { file })
    }

    /// Whether the module is loaded.
    #[must_use]
    pub fn is_there() -> bool {
        Path::new(PATH).exists()
    }

    /// The range.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn range(&self) -> Result<Range, Fault> {
        // SAFETY: the kernel fills a struct of the size that the number names.
        let found = unsafe { rustix::ioctl::ioctl(&self.file, Getter::<INFO, Info>::new()) };
        let found = found.map_err(at(PATH))?;
        Ok(Range {
            start: found.start,
            pages: found.pages,
            held: found.held,
            node: u32::try_from(found.node).unwrap_or_default(),
        })
    }

    /// Hands held pages to the page allocator.
    ///
    /// # Errors
    /// `EBUSY` if one is not held.
    pub fn free(&self, span: Span) -> io::Result<()> {
        // SAFETY: the kernel reads a struct of the size that the number names.
        unsafe { rustix::ioctl::ioctl(&self.file, Setter::<FREE, Span>::new(span)) }
            .map_err(Into::into)
    }

    /// The same, for pages of which some may be free or in a process already.
    ///
    /// # Errors
    /// Those of the kernel, but not `EBUSY`.
    pub fn free_held(&self, span: Span) -> io::Result<()> {
        match self.free(span) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => match span.halves() {
                Some(halves) => halves.into_iter().try_for_each(|half| self.free_held(half)),
                None => Ok(()),
            },
            other => other,
        }
    }

    /// Takes pages from the page allocator; they are held then. It may be fewer.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn take(&self, count: usize) -> Result<Vec<u32>, Fault> {
        let mut frames = vec![0u32; count];
        let mut take = Take {
            frames: frames.as_mut_ptr() as u64,
            count: u32::try_from(count).map_err(at("pages to copy"))?,
            reserved: 0,
        };
        // SAFETY: the kernel writes `count` numbers to `frames`, which has as many.
        unsafe { rustix::ioctl::ioctl(&self.file, Updater::<TAKE, Take>::new(&mut take)) }
            .map_err(at("taking pages of the range"))?;
        frames.truncate(usize_of(u64::from(take.count)));
        Ok(frames)
    }

    /// Gives held pages to a process that does not run: how many were placed, how many copied.
    ///
    /// # Errors
    /// Those of the kernel; some pages may have been given then.
    pub fn put(&self, pid: u32, entries: &[u8]) -> Result<(u32, u32), Fault> {
        let mut put = Put {
            entries: entries.as_ptr() as u64,
            count: count_of(entries)?,
            pid,
            placed: 0,
            copied: 0,
        };
        // SAFETY: the kernel reads `count` entries from the slice, which has as many.
        unsafe { rustix::ioctl::ioctl(&self.file, Updater::<PUT, Put>::new(&mut put)) }
            .map_err(at(format!("giving process {pid} its pages")))?;
        Ok((put.placed, put.copied))
    }

    /// Finds successive pages of a process that does not run, as entries of a table. They stay
    /// where they are. Returns how many are [`ELSEWHERE`].
    ///
    /// # Errors
    /// Those of the kernel; some may be pinned then.
    pub fn pin(&self, pid: u32, vaddr: u64, entries: &mut [u8]) -> Result<u32, Fault> {
        let mut pin = Pin {
            entries: entries.as_mut_ptr() as u64,
            vaddr,
            count: count_of(entries)?,
            pid,
            elsewhere: 0,
            reserved: 0,
        };
        // SAFETY: the kernel writes `count` entries to the slice, which has as many.
        unsafe { rustix::ioctl::ioctl(&self.file, Updater::<PIN, Pin>::new(&mut pin)) }
            .map_err(at(format!("finding pages of process {pid}")))?;
        Ok(pin.elsewhere)
    }

    /// All pages that were pinned may be moved again.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn unpin(&self) -> Result<(), Fault> {
        // SAFETY: it has no argument.
        unsafe { rustix::ioctl::ioctl(&self.file, NoArg::<UNPIN>::new()) }
            .map_err(at("letting pages of programs go"))
    }

    /// A checkpoint shares these pages with their processes, which are frozen.
    ///
    /// # Errors
    /// Those of the kernel; some may be shared then.
    pub fn share(&self, entries: &[u8]) -> Result<(), Fault> {
        self.list::<SHARE>(entries)
            .map_err(at("sharing pages with a checkpoint"))
    }

    /// A checkpoint gives its pages up.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn unshare(&self, entries: &[u8]) -> Result<(), Fault> {
        self.list::<UNSHARE>(entries)
            .map_err(at("giving up pages of a checkpoint"))
    }

    fn list<const OPCODE: Opcode>(&self, entries: &[u8]) -> Result<(), Fault> {
        let list = List {
            entries: entries.as_ptr() as u64,
            count: count_of(entries)?,
            reserved: 0,
        };
        // SAFETY: the kernel reads `count` entries from the slice, which has as many.
        unsafe { rustix::ioctl::ioctl(&self.file, Setter::<OPCODE, List>::new(list)) }
            .map_err(|error| Fault::new(error.to_string()))
    }

    /// Writes back the caches of all CPUs.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn flush(&self) -> Result<(), Fault> {
        // SAFETY: it has no argument.
        unsafe { rustix::ioctl::ioctl(&self.file, NoArg::<FLUSH>::new()) }
            .map_err(at("writing back CPU caches"))
    }

    /// Reads from held pages.
    ///
    /// # Errors
    /// `EBUSY` if one is not held.
    pub fn read_at(&self, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let mut found = vec![0; usize_of(bytes)];
        self.file.read_exact_at(&mut found, offset)?;
        Ok(found)
    }

    /// Writes to held pages; it is durable when this returns.
    ///
    /// # Errors
    /// `EBUSY` if one is not held.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
}

fn count_of(entries: &[u8]) -> Result<u32, Fault> {
    u32::try_from(entries.len() / RemKeepEntry::BYTES).map_err(at("entries"))
}

impl Media for &Device {
    fn read(&self) -> io::Result<Box<Bytes>> {
        let mut bytes = Box::new([0; usize_of(REM_VM_BYTES)]);
        self.file.read_exact_at(bytes.as_mut_slice(), 0)?;
        Ok(bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: structs and numbers are those of the module's header. Method: its text.
    #[test]
    fn numbers_are_those_of_the_header() {
        let header = include_str!("../include/rem_keep_uapi.h");
        for (name, number) in [
            ("INFO _IOR('K', 0x60, struct rem_keep_info)", 0x60),
            ("FREE _IOW('K', 0x61, struct rem_keep_span)", 0x61),
            ("TAKE _IOWR('K', 0x62, struct rem_keep_take)", 0x62),
            ("PUT _IOWR('K', 0x63, struct rem_keep_put)", 0x63),
            ("FLUSH _IO('K', 0x64)", 0x64),
            ("SHARE _IOW('K', 0x65, struct rem_keep_list)", 0x65),
            ("UNSHARE _IOW('K', 0x66, struct rem_keep_list)", 0x66),
            ("PIN _IOWR('K', 0x67, struct rem_keep_pin)", 0x67),
            ("UNPIN _IO('K', 0x68)", 0x68),
            ("ELSEWHERE 0xffffffff", 0x67),
        ] {
            assert!(
                header.contains(&format!("#define REM_KEEP_{name}")),
                "{name}"
            );
            let known = [INFO, FREE, TAKE, PUT, FLUSH, SHARE, UNSHARE, PIN, UNPIN];
            assert!(known.iter().any(|code| code & 0xff == number));
        }
        assert_eq!(size_of::<Info>(), 24);
        assert_eq!((size_of::<Put>(), size_of::<Pin>()), (24, 32));
        assert_eq!(
            (size_of::<Take>(), size_of::<List>(), size_of::<Span>()),
            (16, 16, 8)
        );
    }
}
