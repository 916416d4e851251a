// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structs of `format/off2f.h`, read from bytes and written to them.

use std::mem::offset_of;

use remanence_format as format;
use remanence_format::{Off2fHeader, Off2fPhdr, Off2fText, Off2fXyz, u32_of, usize_of};

use crate::error::Failure;

/// 0x7f "OFF".
pub const MAGIC: u32 = u32_of(format::OFF2F_MAGIC);
/// 0x7f "XYZ".
pub const XYZ_MAGIC: u32 = u32_of(format::OFF2F_XYZ_MAGIC);
/// Of both files.
pub const VERSION: u32 = u32_of(format::OFF2F_VERSION);
/// Of memory, and of ABC's header.
pub const PAGE_BYTES: u64 = format::OFF2F_PAGE_BYTES;
/// A text of this size may be mapped in pages of it.
pub const HUGE_BYTES: u64 = format::OFF2F_HUGE_BYTES;
/// Executable segments of one program.
pub const TEXTS_MAX: usize = usize_of(format::OFF2F_TEXTS_MAX);
/// Program headers of one program.
pub const PHDRS_MAX: usize = usize_of(format::OFF2F_PHDRS_MAX);
/// Of the path of XYZ, with its zero.
pub const PATH_MAX: usize = usize_of(format::OFF2F_PATH_MAX);
/// Of the ELF, ABC and XYZ, each.
pub const FILE_MAX: u64 = format::OFF2F_FILE_MAX;
/// Of the fixed part of the header.
pub const HEADER_BYTES: usize = Off2fHeader::BYTES;
/// Of one text's entry.
pub const TEXT_BYTES: usize = Off2fText::BYTES;
/// Of one program header's entry.
pub const PHDR_BYTES: usize = Off2fPhdr::BYTES;
/// Of what XYZ ends with.
pub const XYZ_BYTES: usize = Off2fXyz::BYTES;

const CRC_AT: usize = offset_of!(Off2fHeader, crc);
const XYZ_CRC_AT: usize = offset_of!(Off2fXyz, crc);

/// An executable segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Text {
    /// Of its first page, before the load address.
    pub vaddr: u64,
    /// Whole pages.
    pub bytes: u64,
    /// Where it is in XYZ.
    pub xyz_offset: u64,
    /// Where its first page is in the ELF.
    pub source_offset: u64,
    /// What ABC lacks begins here in the ELF.
    pub cut_offset: u64,
    /// How much of it.
    pub cut_bytes: u64,
    /// Which program header.
    pub phdr: u32,
    /// Its rights.
    pub flags: u32,
}

/// What a program header says in ABC; the one in memory is the ELF's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AbcPhdr {
    /// `p_offset`
    pub offset: u64,
    /// `p_align`
    pub align: u64,
}

/// The header page of ABC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// `e_machine`
    pub machine: u16,
    /// `e_type`
    pub kind: u16,
    /// Size of ABC.
    pub abc_bytes: u64,
    /// Size of XYZ.
    pub xyz_bytes: u64,
    /// Size of the ELF.
    pub source_bytes: u64,
    /// The ELF header, with the place of the program headers in ABC.
    pub ehdr: [u8; 64],
    /// Of all texts' pages, in order.
    pub text_sha256: [u8; 32],
    /// Of ABC behind the header page.
    pub rest_sha256: [u8; 32],
    /// Zeros if there is none.
    pub build_id: [u8; 20],
    /// In the order of the program headers.
    pub texts: Vec<Text>,
    /// All program headers.
    pub phdrs: Vec<AbcPhdr>,
    /// Where XYZ is.
    pub path: Vec<u8>,
}

/// What XYZ ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XyzEnd {
    /// Size of XYZ.
    pub xyz_bytes: u64,
    /// As in ABC.
    pub text_sha256: [u8; 32],
    /// As in ABC.
    pub build_id: [u8; 20],
    /// Of its first page and of what is behind the texts.
    pub rest_sha256: [u8; 32],
}

/// Structs out of bytes, each checked against the end.
struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    fn bytes<const N: usize>(&mut self) -> Result<&'a [u8; N], Failure> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or_else(too_short)?;
        self.0 = tail;
        Ok(head)
    }

    fn slice(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (head, tail) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = tail;
        Ok(head)
    }
}

fn too_short() -> Failure {
    Failure::bad("ABC", "its header ends too early")
}

fn zero(words: &[u64]) -> Result<(), Failure> {
    if words.iter().any(|word| *word != 0) {
        return Err(Failure::bad("ABC", "a reserved word is not zero"));
    }
    Ok(())
}

impl Text {
    fn of(raw: &Off2fText) -> Result<Self, Failure> {
        zero(&[raw.reserved])?;
        Ok(Self {
            vaddr: raw.vaddr,
            bytes: raw.bytes,
            xyz_offset: raw.xyz_offset,
            source_offset: raw.source_offset,
            cut_offset: raw.cut_offset,
            cut_bytes: raw.cut_bytes,
            phdr: raw.phdr,
            flags: raw.flags,
        })
    }

    fn to_bytes(self) -> [u8; TEXT_BYTES] {
        let raw = Off2fText {
            vaddr: self.vaddr,
            bytes: self.bytes,
            xyz_offset: self.xyz_offset,
            source_offset: self.source_offset,
            cut_offset: self.cut_offset,
            cut_bytes: self.cut_bytes,
            phdr: self.phdr,
            flags: self.flags,
            ..Off2fText::default()
        };
        raw.to_bytes()
    }
}

impl Header {
    /// Reads the header that a file begins with. Only the form is judged here; see
    /// [`crate::check_abc`] for the sense.
    ///
    /// # Errors
    ///
    /// [`Failure::Bad`].
    pub fn parse(file: &[u8]) -> Result<Self, Failure> {
        // A file that is not ours is named before one that is cut short.
        let magic = Take(file).bytes().map(|raw| u32::from_le_bytes(*raw))?;
        if magic != MAGIC {
            return Err(Failure::bad("ABC", "it does not begin with 0x7f OFF"));
        }
        let mut from = Take(file);
        let raw = Off2fHeader::from_bytes(from.bytes()?);
        if raw.version != VERSION {
            return Err(Failure::bad(
                "ABC",
                format!(
                    "it is of version {} and this off2f knows version {VERSION}: \
                     the one that made it restores the ELF",
                    raw.version
                ),
            ));
        }
        let header_bytes = raw.header_bytes as usize;
        if !(HEADER_BYTES..=4096).contains(&header_bytes) || file.len() < header_bytes {
            return Err(Failure::bad("ABC", "the size of its header is impossible"));
        }
        let mut sum = crc32c::crc32c(&file[..CRC_AT]);
        sum = crc32c::crc32c_append(sum, &[0; 4]);
        if raw.crc != crc32c::crc32c_append(sum, &file[CRC_AT + 4..header_bytes]) {
            return Err(Failure::bad("ABC", "its header is damaged (CRC32C)"));
        }
        Self::fields(&raw, Take(&file[HEADER_BYTES..header_bytes]))
    }

    fn fields(raw: &Off2fHeader, mut from: Take<'_>) -> Result<Self, Failure> {
        let (texts, phdrs) = (raw.texts as usize, raw.phdrs as usize);
        let path_bytes = raw.path_bytes as usize;
        if !(1..=TEXTS_MAX).contains(&texts)
            || !(1..=PHDRS_MAX).contains(&phdrs)
            || !(2..=PATH_MAX).contains(&path_bytes)
        {
            return Err(Failure::bad("ABC", "a count in its header is impossible"));
        }
        zero(&raw.reserved.map(u64::from))?;
        let mut header = Self {
            machine: raw.machine,
            kind: raw.kind,
            abc_bytes: raw.abc_bytes,
            xyz_bytes: raw.xyz_bytes,
            source_bytes: raw.source_bytes,
            ehdr: raw.ehdr,
            text_sha256: raw.text_sha256,
            rest_sha256: raw.rest_sha256,
            build_id: raw.build_id,
            texts: Vec::new(),
            phdrs: Vec::new(),
            path: Vec::new(),
        };
        for _ in 0..texts {
            let text = Off2fText::from_bytes(from.bytes()?);
            header.texts.push(Text::of(&text)?);
        }
        for _ in 0..phdrs {
            let Off2fPhdr { offset, align } = Off2fPhdr::from_bytes(from.bytes()?);
            header.phdrs.push(AbcPhdr { offset, align });
        }
        let (zero, path) = from
            .slice(path_bytes)?
            .split_last()
            .ok_or_else(|| Failure::bad("ABC", "the path of XYZ is empty"))?;
        if *zero != 0 || path.contains(&0) || path.first() != Some(&b'/') || !from.0.is_empty() {
            return Err(Failure::bad("ABC", "the path of XYZ is not a path"));
        }
        header.path = path.to_vec();
        Ok(header)
    }

    /// The whole page.
    ///
    /// # Errors
    ///
    /// Where it does not fit into one.
    pub fn page(&self) -> Result<Vec<u8>, Failure> {
        let size = HEADER_BYTES
            + TEXT_BYTES * self.texts.len()
            + PHDR_BYTES * self.phdrs.len()
            + self.path.len()
            + 1;
        if size > 4096 || self.path.len() + 1 > PATH_MAX || self.path.first() != Some(&b'/') {
            return Err(Failure::Usage(format!(
                "the path of XYZ has to be absolute and shorter than {PATH_MAX} bytes: {}",
                String::from_utf8_lossy(&self.path)
            )));
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let raw = Off2fHeader {
            magic: MAGIC,
            version: VERSION,
            header_bytes: count(size),
            machine: self.machine,
            kind: self.kind,
            texts: count(self.texts.len()),
            phdrs: count(self.phdrs.len()),
            path_bytes: count(self.path.len() + 1),
            abc_bytes: self.abc_bytes,
            xyz_bytes: self.xyz_bytes,
            source_bytes: self.source_bytes,
            ehdr: self.ehdr,
            text_sha256: self.text_sha256,
            rest_sha256: self.rest_sha256,
            build_id: self.build_id,
            ..Off2fHeader::default()
        };
        let mut page = Vec::with_capacity(4096);
        page.extend(raw.to_bytes());
        for text in &self.texts {
            page.extend(text.to_bytes());
        }
        for AbcPhdr { offset, align } in self.phdrs.iter().copied() {
            page.extend(Off2fPhdr { offset, align }.to_bytes());
        }
        page.extend(&self.path);
        page.push(0);
        let crc = crc32c::crc32c(&page);
        page[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        page.resize(4096, 0);
        Ok(page)
    }
}

impl XyzEnd {
    /// Reads what an XYZ ends with.
    ///
    /// # Errors
    ///
    /// [`Failure::Bad`].
    pub fn parse(file: &[u8]) -> Result<Self, Failure> {
        let bad = |why: &str| Failure::bad("XYZ", why);
        let Some(end) = file.last_chunk::<XYZ_BYTES>() else {
            return Err(bad("it is too short"));
        };
        let raw = Off2fXyz::from_bytes(end);
        if raw.magic != XYZ_MAGIC || raw.version != VERSION {
            return Err(bad("it does not end as one of this version does"));
        }
        if crc32c::crc32c(&end[..XYZ_CRC_AT]) != raw.crc {
            return Err(bad("its end is damaged (CRC32C)"));
        }
        if raw.reserved.iter().any(|byte| *byte != 0) || raw.xyz_bytes != file.len() as u64 {
            return Err(bad("its size is not what its end says"));
        }
        Ok(Self {
            xyz_bytes: raw.xyz_bytes,
            text_sha256: raw.text_sha256,
            build_id: raw.build_id,
            rest_sha256: raw.rest_sha256,
        })
    }

    /// As it stands in the file.
    #[must_use]
    pub fn bytes(&self) -> [u8; XYZ_BYTES] {
        let mut raw = Off2fXyz {
            magic: XYZ_MAGIC,
            version: VERSION,
            xyz_bytes: self.xyz_bytes,
            text_sha256: self.text_sha256,
            build_id: self.build_id,
            rest_sha256: self.rest_sha256,
            ..Off2fXyz::default()
        };
        raw.crc = crc32c::crc32c(&raw.to_bytes()[..XYZ_CRC_AT]);
        raw.to_bytes()
    }
}
