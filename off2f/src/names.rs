// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes XYZ an ELF to those who look for the name of an address: its first page, and behind
//! the texts what is left of its sections. Nothing here keeps a program from being converted: where
//! its sections are damaged, XYZ has none.

use object::LittleEndian as LE;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64, EV_CURRENT, FileHeader64, Ident, NT_GNU_BUILD_ID,
    PF_R, PF_X, PT_INTERP, PT_LOAD, PT_NOTE, ProgramHeader64,
};
use object::endian::{U16, U32, U64};
use object::pod::bytes_of;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::convert::usize_of;
use crate::format::{PAGE_BYTES, Text};
use crate::plan::{EHDR_BYTES, PHDR_BYTES};
use crate::sections::Sections;

const SHDR_BYTES: u16 = 64;
/// Instead of an interpreter's name, without the zero that the kernel wants at its end.
const NOT_EXECUTED: &[u8] = b"none: XYZ is no program, its ABC is";
const BUILD_ID_MAX: usize = 64;

/// What XYZ has besides its texts.
#[derive(Debug, Default)]
pub struct Names {
    /// Its first page.
    pub head: Vec<u8>,
    /// What is behind its texts, a multiple of 8 bytes.
    pub behind: Vec<u8>,
}

impl Names {
    /// Of an ELF with these texts, which end at `texts_end` in XYZ.
    #[must_use]
    pub fn of(elf: &[u8], texts: &[Text], texts_end: u64) -> Self {
        let note = build_id(elf).map(note).unwrap_or_default();
        let sections = Sections::of(elf, texts, texts_end).unwrap_or_default();
        let mut head = Vec::with_capacity(usize_of(PAGE_BYTES));
        head.extend(bytes_of(&file_header(elf, texts.len(), &sections)));
        for phdr in program_headers(texts, note.len() as u64) {
            head.extend(bytes_of(&phdr));
        }
        head.extend(note);
        head.extend(NOT_EXECUTED);
        head.resize(usize_of(PAGE_BYTES), 0);
        Self {
            head,
            behind: sections.bytes,
        }
    }
}

fn file_header(elf: &[u8], texts: usize, sections: &Sections) -> FileHeader64<LE> {
    let kind = elf.get(16..18).map_or([0; 2], |kind| [kind[0], kind[1]]);
    let count = |n: usize| U16::new(LE, u16::try_from(n).unwrap_or(u16::MAX));
    FileHeader64 {
        e_ident: Ident {
            magic: ELFMAG,
            class: ELFCLASS64,
            data: ELFDATA2LSB,
            version: EV_CURRENT,
            os_abi: 0,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::from_bytes(kind),
        e_machine: U16::new(LE, EM_X86_64),
        e_version: U32::new(LE, EV_CURRENT.into()),
        e_entry: U64::new(LE, 0),
        e_phoff: U64::new(LE, EHDR_BYTES),
        e_shoff: U64::new(LE, sections.at),
        e_flags: U32::new(LE, 0),
        e_ehsize: count(usize_of(EHDR_BYTES)),
        e_phentsize: count(usize_of(PHDR_BYTES)),
        e_phnum: count(texts + 2),
        e_shentsize: U16::new(LE, SHDR_BYTES),
        e_shnum: count(sections.count),
        e_shstrndx: U16::new(LE, sections.names),
    }
}

/// One that is no program's, the texts, the note, which is behind them.
fn program_headers(texts: &[Text], note_bytes: u64) -> Vec<ProgramHeader64<LE>> {
    let phdr = |kind, flags, offset, vaddr, bytes, align| ProgramHeader64 {
        p_type: U32::new(LE, kind),
        p_flags: U32::new(LE, flags),
        p_offset: U64::new(LE, offset),
        p_vaddr: U64::new(LE, vaddr),
        p_paddr: U64::new(LE, vaddr),
        p_filesz: U64::new(LE, bytes),
        p_memsz: U64::new(LE, bytes),
        p_align: U64::new(LE, align),
    };
    let note_at = EHDR_BYTES + PHDR_BYTES * (texts.len() as u64 + 2);
    let name_at = note_at + note_bytes;
    let name_bytes = NOT_EXECUTED.len() as u64;
    let mut all = vec![phdr(PT_INTERP, PF_R, name_at, 0, name_bytes, 1)];
    for text in texts {
        let (at, vaddr) = (text.xyz_offset, text.vaddr);
        all.push(phdr(
            PT_LOAD,
            PF_R | PF_X,
            at,
            vaddr,
            text.bytes,
            PAGE_BYTES,
        ));
    }
    all.push(phdr(PT_NOTE, PF_R, note_at, 0, note_bytes, 4));
    all
}

/// As ld writes it.
fn note(id: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [4, u32::try_from(id.len()).unwrap_or(0), NT_GNU_BUILD_ID] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"GNU\0");
    note.extend(id);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// Of an ELF, if it has one of a usual length.
pub(crate) fn build_id(elf: &[u8]) -> Option<&[u8]> {
    let header = FileHeader64::<LE>::parse(elf).ok()?;
    let phdrs = header.program_headers(LE, elf).ok()?;
    for phdr in phdrs.iter().filter(|p| p.p_type(LE) == PT_NOTE) {
        let Ok(Some(mut notes)) = phdr.notes(LE, elf) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            let id = note.desc();
            let usual = (1..=BUILD_ID_MAX).contains(&id.len());
            if note.n_type(LE) == NT_GNU_BUILD_ID && note.name() == b"GNU" && usual {
                return Some(id);
            }
        }
    }
    None
}
