// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PE32+ images: the loader, and what [`crate::unified`] makes of it. What is read here has been
//! checked against the length of its file; nothing of it is believed before.

use std::ops::Range;

use crate::bytes::{index, u16_at, u32_at};
use crate::fault::Fault;

/// All headers are in so many bytes (`loader/core/pe.h`).
pub const HEAD_BYTES: usize = 4096;

// Places in the headers (Microsoft's PE format).
const PE_AT: usize = 0x3c;
pub(crate) const SECTION_COUNT: usize = 6;
const OPTIONAL_BYTES: usize = 20;
const COFF_BYTES: usize = 24; // with the magic
pub(crate) const IMAGE_BYTES: usize = COFF_BYTES + 56;
const HEADER_BYTES: usize = COFF_BYTES + 60;
const CHECKSUM: usize = COFF_BYTES + 64;
const DIRECTORIES: usize = COFF_BYTES + 108;
const OPTIONAL_BYTES_MIN: usize = 112;
const CERTIFICATE: usize = COFF_BYTES + OPTIONAL_BYTES_MIN + 4 * 8;
const CERTIFICATE_INDEX: u32 = 4;
pub(crate) const SECTION_BYTES: usize = 40;
const X86_64: u16 = 0x8664;
const PE32_PLUS: u16 = 0x20b;

/// One section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name, with zeros behind it.
    pub name: [u8; 8],
    /// Its bytes, without those that align the file.
    pub bytes: u32,
    /// Where firmware loads it.
    pub address: u32,
    /// Its bytes in the file.
    pub raw_bytes: u32,
    /// Its place in the file.
    pub raw_at: u32,
}

/// Headers that fit their file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Where the PE header is.
    pub pe: usize,
    /// Where the table of sections is.
    pub table: usize,
    /// Bytes that firmware loads as headers.
    pub header_bytes: u32,
    /// Bytes of the image in memory.
    pub image_bytes: u32,
    /// All sections.
    pub sections: Vec<Section>,
    /// Where the file has its signature.
    pub signature: Option<Range<u64>>,
}

impl Headers {
    /// Reads the headers of a file of *file_bytes* that begins with *head*.
    ///
    /// # Errors
    /// What is wrong with them, for a line that names the file.
    pub fn read(head: &[u8], file_bytes: u64) -> Result<Self, Fault> {
        Self::parse(head).map_or_else(
            || Err(Fault::new("no UEFI application for x86-64")),
            |headers| headers.checked(file_bytes),
        )
    }

    fn parse(head: &[u8]) -> Option<Self> {
        let head = &head[..head.len().min(HEAD_BYTES)];
        let pe = index(u32_at(head, PE_AT)?);
        if head.get(..2)? != b"MZ" || pe > HEAD_BYTES || head.get(pe..pe + 4)? != b"PE\0\0" {
            return None;
        }
        let optional_bytes = usize::from(u16_at(head, pe + OPTIONAL_BYTES)?);
        if u16_at(head, pe + 4)? != X86_64
            || u16_at(head, pe + COFF_BYTES)? != PE32_PLUS
            || optional_bytes < OPTIONAL_BYTES_MIN
        {
            return None;
        }
        let table = pe + COFF_BYTES + optional_bytes;
        let count = usize::from(u16_at(head, pe + SECTION_COUNT)?);
        let sections = (0..count).map(|n| section(head, table + n * SECTION_BYTES));
        let has_signature = u32_at(head, pe + DIRECTORIES)? > CERTIFICATE_INDEX
            && optional_bytes >= CERTIFICATE + 8 - COFF_BYTES;
        let signature = if has_signature {
            let at = u64::from(u32_at(head, pe + CERTIFICATE)?);
            let bytes = u64::from(u32_at(head, pe + CERTIFICATE + 4)?);
            (bytes > 0).then_some(at..at + bytes)
        } else {
            None
        };
        Some(Self {
            pe,
            table,
            header_bytes: u32_at(head, pe + HEADER_BYTES)?,
            image_bytes: u32_at(head, pe + IMAGE_BYTES)?,
            sections: sections.collect::<Option<_>>()?,
            signature,
        })
    }

    fn checked(self, file_bytes: u64) -> Result<Self, Fault> {
        let table_end = self.table + self.sections.len() * SECTION_BYTES;
        if table_end > index(self.header_bytes) || u64::from(self.header_bytes) > file_bytes {
            return Err(Fault::new("its headers have an impossible size"));
        }
        for section in &self.sections {
            let name = section.name.escape_ascii();
            let raw_end = u64::from(section.raw_at) + u64::from(section.raw_bytes);
            let is_below = section.raw_bytes > 0 && section.raw_at < self.header_bytes;
            if raw_end > file_bytes || is_below {
                return Err(Fault::new(format!("section {name} is not in the file")));
            }
            let end = u64::from(section.address) + u64::from(section.bytes);
            if end > u64::from(self.image_bytes) || section.address < self.header_bytes {
                return Err(Fault::new(format!("section {name} is not in the image")));
            }
        }
        let ends_in_file = |range: &Range<u64>| range.end <= file_bytes;
        if !self.signature.as_ref().is_none_or(ends_in_file) {
            return Err(Fault::new("its signature is not in the file"));
        }
        Ok(self)
    }

    /// The section of a name of at most eight letters.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Section> {
        let wanted = padded(name);
        self.sections.iter().find(|section| section.name == wanted)
    }
}

fn section(head: &[u8], at: usize) -> Option<Section> {
    Some(Section {
        name: head.get(at..at + 8)?.try_into().ok()?,
        bytes: u32_at(head, at + 8)?,
        address: u32_at(head, at + 12)?,
        raw_bytes: u32_at(head, at + 16)?,
        raw_at: u32_at(head, at + 20)?,
    })
}

/// A section's name as the table has it.
#[must_use]
pub fn padded(name: &str) -> [u8; 8] {
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    padded
}

/// An image without its signature: what two images have in common that differ in it only.
///
/// # Errors
/// As [`Headers::read`].
pub fn payload(image: &[u8]) -> Result<Vec<u8>, Fault> {
    let headers = Headers::read(image, image.len() as u64)?;
    let signed_at = headers.signature.as_ref().map(|range| range.start);
    let end = signed_at.and_then(|at| usize::try_from(at).ok());
    let mut payload = image[..end.unwrap_or(image.len())].to_vec();
    let fields = [(CHECKSUM, 4), (CERTIFICATE, 8)];
    let known = &fields[..if signed_at.is_some() { 2 } else { 1 }];
    for &(at, bytes) in known {
        if let Some(field) = payload.get_mut(headers.pe + at..headers.pe + at + bytes) {
            field.fill(0);
        }
    }
    Ok(payload)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const HEAD: &[u8] = include_bytes!("../../loader/host/corpus/pe/loader");

    /// The headers of a loader, with as many zeros as its sections say.
    pub(crate) fn loader() -> Vec<u8> {
        let mut loader = HEAD.to_vec();
        let ends = [0x148, 0x170]
            .map(|at| u32_at(HEAD, at + 16).unwrap() + u32_at(HEAD, at + 20).unwrap());
        loader.resize(index(ends[0].max(ends[1])), 0);
        loader
    }

    /// A loader with another word at a place.
    pub(crate) fn with_u32(at: usize, word: u32) -> Vec<u8> {
        let mut image = loader();
        image[at..at + 4].copy_from_slice(&word.to_le_bytes());
        image
    }

    fn refusal(image: &[u8]) -> String {
        Headers::read(image, image.len() as u64)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_loader_is_read() {
        let image = loader();
        let headers = Headers::read(&image, image.len() as u64).unwrap();
        let text = headers.find(".text").unwrap();
        assert_eq!(
            (text.bytes, text.address, text.raw_at),
            (0x9000, 0x1000, 0x1000)
        );
        assert_eq!(
            (headers.sections.len(), headers.signature.clone()),
            (2, None)
        );
        assert_eq!(headers.find(".linux"), None);
        assert_eq!(payload(&image).unwrap(), image);
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let none = "no UEFI application for x86-64";
        let image = loader();
        for short in [0, 1, 0x3f, 0x40, 0x44, 0x100, 0x187] {
            assert_eq!(refusal(&image[..short]), none, "{short}");
        }
        let i386 = 0x014c_0000 >> 16;
        for (at, word) in [
            (0, 0),
            (0x3c, 5000),
            (0x3c, u32::MAX),
            (0x40, 0),
            (0x44, i386),
        ] {
            assert_eq!(refusal(&with_u32(at, word)), none, "{at:#x}");
        }
        // PE32, no optional header, more sections than the first page has room for.
        for (at, word) in [(0x58, 0x10b), (0x54, 0x022e_0000), (0x44, 0x0064_8664)] {
            assert_eq!(refusal(&with_u32(at, word)), none, "{at:#x}");
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let headers = "its headers have an impossible size";
        for bytes in [0, 0x197, 0x0100_0000] {
            assert_eq!(refusal(&with_u32(0x94, bytes)), headers);
        }
        let cases = [
            (
                0x148 + 16,
                u32::MAX,
                "section .text\\x00\\x00\\x00 is not in the file",
            ),
            (
                0x148 + 20,
                0x800,
                "section .text\\x00\\x00\\x00 is not in the file",
            ),
            (
                0x170 + 8,
                u32::MAX,
                "section .data\\x00\\x00\\x00 is not in the image",
            ),
            (
                0x170 + 12,
                0,
                "section .data\\x00\\x00\\x00 is not in the image",
            ),
            (0x90, 0, "section .text\\x00\\x00\\x00 is not in the image"),
            (0xec, 8, ""),
        ];
        for (at, word, why) in &cases[..5] {
            assert_eq!(refusal(&with_u32(*at, *word)), *why);
        }
        let beyond = with_u32(0xec, u32::MAX);
        assert_eq!(refusal(&beyond), "its signature is not in the file");
    }
}
