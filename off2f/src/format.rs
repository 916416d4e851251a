// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structs of `format/off2f.h`, read from bytes and written to them.

use crate::error::Failure;

/// 0x7f "OFF".
pub const MAGIC: u32 = 0x4646_4f7f;
/// 0x7f "XYZ".
pub const XYZ_MAGIC: u32 = 0x5a59_587f;
/// Of both files.
pub const VERSION: u32 = 2;
/// Of memory, and of ABC's header.
pub const PAGE_BYTES: u64 = 4096;
/// A text of this size may be mapped in pages of it.
pub const HUGE_BYTES: u64 = 0x20_0000;
/// Executable segments of one program.
pub const TEXTS_MAX: usize = 4;
/// Program headers of one program.
pub const PHDRS_MAX: usize = 40;
/// Of the path of XYZ, with its zero.
pub const PATH_MAX: usize = 2048;
/// Of the ELF, ABC and XYZ, each.
pub const FILE_MAX: u64 = 0x1_0000_0000;
/// Of the fixed part of the header.
pub const HEADER_BYTES: usize = 256;
/// Of one text's entry.
pub const TEXT_BYTES: usize = 64;
/// Of one program header's entry.
pub const PHDR_BYTES: usize = 16;
/// Of what XYZ ends with.
pub const XYZ_BYTES: usize = 128;

const CRC_AT: usize = 12;
const XYZ_CRC_AT: usize = 124;

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

/// Little-endian words out of bytes, each checked against the end.
struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (head, tail) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| Failure::bad("ABC", "its header ends too early"))?;
        self.0 = tail;
        Ok(*head)
    }

    fn slice(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let (head, tail) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| Failure::bad("ABC", "its header ends too early"))?;
        self.0 = tail;
        Ok(head)
    }

    fn u16(&mut self) -> Result<u16, Failure> {
        Ok(u16::from_le_bytes(self.bytes()?))
    }

    fn u32(&mut self) -> Result<u32, Failure> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, Failure> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn zeros(&mut self, count: usize) -> Result<(), Failure> {
        if self.slice(count)?.iter().any(|byte| *byte != 0) {
            return Err(Failure::bad("ABC", "a reserved word is not zero"));
        }
        Ok(())
    }
}

impl Text {
    fn read(from: &mut Take<'_>) -> Result<Self, Failure> {
        let text = Self {
            vaddr: from.u64()?,
            bytes: from.u64()?,
            xyz_offset: from.u64()?,
            source_offset: from.u64()?,
            cut_offset: from.u64()?,
            cut_bytes: from.u64()?,
            phdr: from.u32()?,
            flags: from.u32()?,
        };
        from.zeros(8)?;
        Ok(text)
    }

    fn write(&self, to: &mut Vec<u8>) {
        for word in [
            self.vaddr,
            self.bytes,
            self.xyz_offset,
            self.source_offset,
            self.cut_offset,
            self.cut_bytes,
        ] {
            to.extend(word.to_le_bytes());
        }
        to.extend(self.phdr.to_le_bytes());
        to.extend(self.flags.to_le_bytes());
        to.extend([0; 8]);
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
        let mut from = Take(file);
        if from.u32()? != MAGIC {
            return Err(Failure::bad("ABC", "it does not begin with 0x7f OFF"));
        }
        let version = from.u32()?;
        if version != VERSION {
            return Err(Failure::bad(
                "ABC",
                format!(
                    "it is of version {version} and this off2f knows version {VERSION}: \
                     the one that made it restores the ELF"
                ),
            ));
        }
        let header_bytes = from.u32()? as usize;
        let crc = from.u32()?;
        if !(HEADER_BYTES..=4096).contains(&header_bytes) || file.len() < header_bytes {
            return Err(Failure::bad("ABC", "the size of its header is impossible"));
        }
        let mut sum = crc32c::crc32c(&file[..CRC_AT]);
        sum = crc32c::crc32c_append(sum, &[0; 4]);
        if crc != crc32c::crc32c_append(sum, &file[CRC_AT + 4..header_bytes]) {
            return Err(Failure::bad("ABC", "its header is damaged (CRC32C)"));
        }
        Self::fields(Take(&file[CRC_AT + 4..header_bytes]))
    }

    fn fields(mut from: Take<'_>) -> Result<Self, Failure> {
        let (machine, kind) = (from.u16()?, from.u16()?);
        let (texts, phdrs) = (from.u32()? as usize, from.u32()? as usize);
        let path_bytes = from.u32()? as usize;
        if !(1..=TEXTS_MAX).contains(&texts)
            || !(1..=PHDRS_MAX).contains(&phdrs)
            || !(2..=PATH_MAX).contains(&path_bytes)
        {
            return Err(Failure::bad("ABC", "a count in its header is impossible"));
        }
        let mut header = Self {
            machine,
            kind,
            abc_bytes: from.u64()?,
            xyz_bytes: from.u64()?,
            source_bytes: from.u64()?,
            ehdr: from.bytes()?,
            text_sha256: from.bytes()?,
            rest_sha256: from.bytes()?,
            build_id: from.bytes()?,
            texts: Vec::new(),
            phdrs: Vec::new(),
            path: Vec::new(),
        };
        from.zeros(52)?;
        for _ in 0..texts {
            header.texts.push(Text::read(&mut from)?);
        }
        for _ in 0..phdrs {
            header.phdrs.push(AbcPhdr {
                offset: from.u64()?,
                align: from.u64()?,
            });
        }
        let (zero, path) = from
            .slice(path_bytes)?
            .split_last()
            .ok_or_else(|| Failure::bad("ABC", "the path of XYZ is empty"))?;
        if *zero != 0 || path.contains(&0) || path.first() != Some(&b'/') || !from.0.is_empty() {
            return Err(Failure::bad("ABC", "the path of XYZ is none"));
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
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let mut page = Vec::with_capacity(4096);
        page.extend(MAGIC.to_le_bytes());
        page.extend(VERSION.to_le_bytes());
        page.extend(count(size));
        page.extend([0; 4]);
        page.extend(self.machine.to_le_bytes());
        page.extend(self.kind.to_le_bytes());
        page.extend(count(self.texts.len()));
        page.extend(count(self.phdrs.len()));
        page.extend(count(self.path.len() + 1));
        for word in [self.abc_bytes, self.xyz_bytes, self.source_bytes] {
            page.extend(word.to_le_bytes());
        }
        page.extend(self.ehdr);
        page.extend(self.text_sha256);
        page.extend(self.rest_sha256);
        page.extend(self.build_id);
        page.resize(HEADER_BYTES, 0);
        for text in &self.texts {
            text.write(&mut page);
        }
        for phdr in &self.phdrs {
            page.extend(phdr.offset.to_le_bytes());
            page.extend(phdr.align.to_le_bytes());
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
        let mut from = Take(end);
        if from.u32()? != XYZ_MAGIC || from.u32()? != VERSION {
            return Err(bad("it does not end as one of this version does"));
        }
        if crc32c::crc32c(&end[..XYZ_CRC_AT]).to_le_bytes() != end[XYZ_CRC_AT..] {
            return Err(bad("its end is damaged (CRC32C)"));
        }
        let found = Self {
            xyz_bytes: from.u64()?,
            text_sha256: from.bytes()?,
            build_id: from.bytes()?,
            rest_sha256: from.bytes()?,
        };
        if from.zeros(24).is_err() || found.xyz_bytes != file.len() as u64 {
            return Err(bad("its size is not what its end says"));
        }
        Ok(found)
    }

    /// As it stands in the file.
    #[must_use]
    pub fn bytes(&self) -> [u8; XYZ_BYTES] {
        let mut out = Vec::with_capacity(XYZ_BYTES);
        out.extend(XYZ_MAGIC.to_le_bytes());
        out.extend(VERSION.to_le_bytes());
        out.extend(self.xyz_bytes.to_le_bytes());
        out.extend(self.text_sha256);
        out.extend(self.build_id);
        out.extend(self.rest_sha256);
        out.resize(XYZ_CRC_AT, 0);
        let crc = crc32c::crc32c(&out);
        out.extend(crc.to_le_bytes());
        let mut fixed = [0; XYZ_BYTES];
        fixed.copy_from_slice(&out);
        fixed
    }
}
