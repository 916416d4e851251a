// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's file: what the loader asks of it (`loader/core/linux.c`), and its version.

use crate::bytes::{index, u16_at, u32_at};
use crate::fault::Fault;

/// The version is in so many bytes at the start.
pub const HEAD_BYTES: usize = 0x1_0000;

const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
const VERSION: usize = 0x20e;
const FLAGS: usize = 0x236;
const CMDLINE_BYTES: usize = 0x238;
const PROTOCOL_MIN: u16 = 0x20c;
const ENTRY_64: u16 = 1;
const ABOVE_4_GIB: u16 = 2;
const VERSION_BYTES_MAX: usize = 256;
/// The loader's own limit, without the NUL.
const LOADER_CMDLINE_BYTES: u32 = 4096;

/// What the header of a kernel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its version with all details, as in /proc/version.
    pub text: String,
    /// Bytes of a command line that loader and kernel take.
    pub cmdline_bytes_max: u32,
}

impl Kernel {
    /// Reads the beginning of a kernel's file.
    ///
    /// # Errors
    /// One line, if the loader would refuse it.
    pub fn read(head: &[u8]) -> Result<Self, Fault> {
        let none = || Fault::new("no kernel that the loader can boot (bzImage, protocol 2.12)");
        Self::parse(head).ok_or_else(none)
    }

    fn parse(head: &[u8]) -> Option<Self> {
        let flags = u16_at(head, FLAGS)?;
        if head.get(MAGIC..MAGIC + 4)? != b"HdrS"
            || u16_at(head, PROTOCOL)? < PROTOCOL_MIN
            || flags & ENTRY_64 == 0
            || flags & ABOVE_4_GIB == 0
        {
            return None;
        }
        let sectors = usize::from(*head.get(SETUP_SECTORS)?);
        let setup = head.get(..(if sectors == 0 { 4 } else { sectors } + 1) * 512)?;
        let text = setup.get(usize::from(u16_at(head, VERSION)?) + 0x200..)?;
        let text = text
            .iter()
            .take(VERSION_BYTES_MAX)
            .take_while(|&&byte| byte != 0);
        let text: Vec<u8> = text.copied().collect();
        Some(Self {
            text: String::from_utf8(text).ok()?,
            cmdline_bytes_max: u32_at(head, CMDLINE_BYTES)?.min(LOADER_CMDLINE_BYTES),
        })
    }

    /// Its release, as `uname -r` prints it.
    #[must_use]
    pub fn release(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// Whether it is the kernel of a release and a build, as `uname -r` and `uname -v` print them.
    #[must_use]
    pub fn is(&self, release: &str, build: &str) -> bool {
        self.release() == release && self.text.ends_with(&format!(" {build}"))
    }

    /// Refuses a command line that the loader could not hand over.
    ///
    /// # Errors
    /// One line.
    pub fn check_cmdline(&self, cmdline: &str) -> Result<(), Fault> {
        if cmdline.len() > index(self.cmdline_bytes_max) {
            return Err(Fault::new(format!(
                "the command line has {} bytes, more than the {} of the kernel",
                cmdline.len(),
                self.cmdline_bytes_max
            )));
        }
        if cmdline.chars().any(char::is_control) {
            return Err(Fault::new("the command line has control characters"));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The beginning of a kernel, with a byte to tell it from others.
    pub(crate) fn kernel(text: &str, last: u8) -> Vec<u8> {
        let mut kernel = vec![0; 4096];
        kernel[SETUP_SECTORS] = 3;
        kernel[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        kernel[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x20f_u16.to_le_bytes());
        kernel[VERSION..VERSION + 2].copy_from_slice(&0x200_u16.to_le_bytes());
        kernel[FLAGS] = 3;
        kernel[CMDLINE_BYTES..CMDLINE_BYTES + 4].copy_from_slice(&2047_u32.to_le_bytes());
        kernel[0x400..0x400 + text.len()].copy_from_slice(text.as_bytes());
        *kernel.last_mut().unwrap() = last;
        kernel
    }

    #[test]
    fn version_is_read_and_compared() {
        let found = Kernel::read(&kernel("6.12.57-remanence (a@b) #1 SMP Fri", 0)).unwrap();
        assert_eq!(found.release(), "6.12.57-remanence");
        assert!(found.is("6.12.57-remanence", "#1 SMP Fri"));
        assert!(!found.is("6.12.57-remanence", "#11 SMP Fri"));
        assert!(!found.is("6.12.57", "#1 SMP Fri"));
    }

    #[test]
    fn other_files_are_refused() {
        let good = kernel("6.12", 0);
        for short in [0, 0x1ff, 0x239, 2047] {
            Kernel::read(&good[..short]).unwrap_err();
        }
        for (at, value) in [
            (MAGIC, 0),
            (PROTOCOL, 1),
            (FLAGS, 1),
            (FLAGS, 2),
            (VERSION + 1, 0xff),
            (0x400, 0xff),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            if at == PROTOCOL {
                bad[PROTOCOL + 1] = 2;
            }
            let why = Kernel::read(&bad).unwrap_err().to_string();
            assert_eq!(
                why,
                "no kernel that the loader can boot (bzImage, protocol 2.12)"
            );
        }
    }

    #[test]
    fn command_lines_are_bounded() {
        let found = Kernel::read(&kernel("6.12", 0)).unwrap();
        found.check_cmdline(&"x".repeat(2047)).unwrap();
        let long = found.check_cmdline(&"x".repeat(2048)).unwrap_err();
        assert_eq!(
            long.to_string(),
            "the command line has 2048 bytes, more than the 2047 of the kernel"
        );
        let odd = found.check_cmdline("a\0b").unwrap_err();
        assert_eq!(odd.to_string(), "the command line has control characters");
    }
}
