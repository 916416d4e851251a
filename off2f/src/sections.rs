// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sections of XYZ: those of the program, each with its number, by which a separate file with
//! symbols speaks of it. Code is where the text lies in XYZ; symbols of code, notes and the name of
//! a separate file follow the texts; of all others there is the header only.

use std::borrow::Cow;

use object::LittleEndian as LE;
use object::elf::{
    FileHeader64, SHF_EXECINSTR, SHN_LORESERVE, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_NOTE,
    SHT_NULL, SHT_STRTAB, SHT_SYMTAB, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE,
    SectionHeader64, Sym64,
};
use object::endian::{U32, U64};
use object::pod::{bytes_of, slice_from_all_bytes};
use object::read::elf::{FileHeader, SectionHeader, Sym};

use crate::format::Text;

const SYM_BYTES: usize = 24;
const DEBUGLINK: &[u8] = b".gnu_debuglink\0";
const DYNSYM: &[u8] = b"\0.dynsym\0";

type Shdr = SectionHeader64<LE>;

/// A header, and the section's bytes if they follow the texts.
struct Section<'a> {
    header: Shdr,
    in_text: bool,
    bytes: Option<Cow<'a, [u8]>>,
}

/// What follows the texts.
#[derive(Default)]
pub(crate) struct Sections {
    /// All of it, a multiple of 8 bytes.
    pub bytes: Vec<u8>,
    /// Where in XYZ the headers are.
    pub at: u64,
    /// How many.
    pub count: usize,
    /// The number of the one with the names.
    pub names: u16,
}

impl Sections {
    /// Of an ELF with these texts; `start` is where in XYZ they end.
    pub fn of(elf: &[u8], texts: &[Text], start: u64) -> Option<Self> {
        let header = FileHeader64::<LE>::parse(elf).ok()?;
        let theirs = header.section_headers(LE, elf).ok()?;
        let names = u16::try_from(header.shstrndx(LE, elf).ok()?).ok()?;
        if theirs.is_empty() || theirs.len() >= usize::from(SHN_LORESERVE) {
            return None;
        }
        let of_names = theirs.get(usize::from(names))?;
        if of_names.sh_type(LE) != SHT_STRTAB {
            return None;
        }
        let strings = of_names.data(LE, elf).ok()?;
        let mut ours: Vec<Section<'_>> = theirs
            .iter()
            .map(|shdr| kept(shdr, theirs, texts, strings, elf))
            .collect();
        for shdr in theirs.iter().filter(|shdr| has_symbols(shdr)) {
            if let Some(linked) = ours.get_mut(shdr.sh_link(LE) as usize) {
                keep_strings(linked, theirs, shdr.sh_link(LE), elf);
            }
        }
        let linked = ours.get_mut(usize::from(names))?;
        keep_strings(linked, theirs, names.into(), elf);
        // Without this one perf takes a separate file's offsets for those of the text.
        if theirs.iter().all(|shdr| shdr.sh_type(LE) != SHT_DYNSYM) {
            let name = linked.bytes.as_mut()?.to_mut();
            let at = U32::new(LE, u32::try_from(name.len() + 1).ok()?);
            name.extend(DYNSYM);
            ours.push(no_symbols(at, names));
        }
        let laid_out = lay_out(ours, start, elf.len());
        Some(Self { names, ..laid_out })
    }
}

fn has_symbols(shdr: &Shdr) -> bool {
    matches!(shdr.sh_type(LE), SHT_SYMTAB | SHT_DYNSYM)
}

fn keep_strings<'a>(ours: &mut Section<'a>, theirs: &[Shdr], index: u32, elf: &'a [u8]) {
    let shdr = theirs.get(index as usize);
    if let Some(shdr) = shdr.filter(|shdr| shdr.sh_type(LE) == SHT_STRTAB) {
        ours.header = *shdr;
        ours.in_text = false;
        ours.bytes = shdr.data(LE, elf).ok().map(Cow::Borrowed);
    }
}

/// What XYZ has of a section; strings are decided later.
fn kept<'a>(
    shdr: &Shdr,
    theirs: &[Shdr],
    texts: &[Text],
    names: &[u8],
    elf: &'a [u8],
) -> Section<'a> {
    let mut header = *shdr;
    if let Some(offset) = place_in_text(shdr, texts) {
        header.sh_offset = U64::new(LE, offset);
        return Section {
            header,
            in_text: true,
            bytes: None,
        };
    }
    let name = names.get(shdr.sh_name(LE) as usize..).unwrap_or_default();
    let bytes = match shdr.sh_type(LE) {
        SHT_SYMTAB | SHT_DYNSYM => symbols(shdr, theirs, texts, elf).map(|(bytes, locals)| {
            header.sh_info = U32::new(LE, locals);
            Cow::Owned(bytes)
        }),
        SHT_NOTE => shdr.data(LE, elf).ok().map(Cow::Borrowed),
        _ if name.starts_with(DEBUGLINK) => shdr.data(LE, elf).ok().map(Cow::Borrowed),
        _ => None,
    };
    Section {
        header,
        in_text: false,
        bytes,
    }
}

fn place_in_text(shdr: &Shdr, texts: &[Text]) -> Option<u64> {
    let code = shdr.sh_flags(LE) & u64::from(SHF_EXECINSTR) != 0;
    let address = shdr.sh_addr(LE);
    let end = address.checked_add(shdr.sh_size(LE))?;
    let holds = |text: &&Text| address >= text.vaddr && end <= text.vaddr + text.bytes;
    let text = texts.iter().find(holds)?;
    let there = code && !matches!(shdr.sh_type(LE), SHT_NOBITS | SHT_NULL);
    there.then(|| text.xyz_offset + address - text.vaddr)
}

/// Symbols of code, and how many of them, with the first, are local.
fn symbols(shdr: &Shdr, theirs: &[Shdr], texts: &[Text], elf: &[u8]) -> Option<(Vec<u8>, u32)> {
    let all: &[Sym64<LE>] = slice_from_all_bytes(shdr.data(LE, elf).ok()?).ok()?;
    let names_bytes = theirs.get(shdr.sh_link(LE) as usize)?.sh_size(LE);
    let mut bytes = vec![0; SYM_BYTES];
    let mut locals = 1;
    for symbol in all.iter().filter(|s| of_code(s, texts, names_bytes)) {
        locals += u32::from(symbol.st_bind() == STB_LOCAL);
        bytes.extend(bytes_of(symbol));
    }
    Some((bytes, locals))
}

fn of_code(symbol: &Sym64<LE>, texts: &[Text], names_bytes: u64) -> bool {
    let name = u64::from(symbol.st_name(LE));
    let value = symbol.st_value(LE);
    let inside = |text: &Text| (text.vaddr..text.vaddr + text.bytes).contains(&value);
    matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC | STT_NOTYPE)
        && symbol.st_shndx(LE) != SHN_UNDEF
        && name != 0
        && name < names_bytes
        && texts.iter().any(inside)
}

fn no_symbols(name: U32<LE>, names: u16) -> Section<'static> {
    Section {
        header: SectionHeader64 {
            sh_name: name,
            sh_type: U32::new(LE, SHT_DYNSYM),
            sh_flags: U64::new(LE, 0),
            sh_addr: U64::new(LE, 0),
            sh_offset: U64::new(LE, 0),
            sh_size: U64::new(LE, 0),
            sh_link: U32::new(LE, names.into()),
            sh_info: U32::new(LE, 1),
            sh_addralign: U64::new(LE, 8),
            sh_entsize: U64::new(LE, SYM_BYTES as u64),
        },
        in_text: false,
        bytes: Some(Cow::Owned(vec![0; SYM_BYTES])),
    }
}

/// Gives bytes their places. All of them are no more than the ELF: headers of sections that
/// share bytes could claim many times that.
fn lay_out(sections: Vec<Section<'_>>, start: u64, most: usize) -> Sections {
    let mut made = Sections {
        count: sections.len(),
        ..Sections::default()
    };
    let mut headers = Vec::with_capacity(sections.len());
    for each in sections {
        let mut header = each.header;
        let room = |bytes: &Cow<'_, [u8]>| made.bytes.len() + bytes.len() <= most + DYNSYM.len();
        if let Some(bytes) = each.bytes.filter(room) {
            header.sh_offset = U64::new(LE, start + made.bytes.len() as u64);
            header.sh_size = U64::new(LE, bytes.len() as u64);
            made.bytes.extend_from_slice(&bytes);
            made.bytes.resize(made.bytes.len().next_multiple_of(8), 0);
        } else if !each.in_text && header.sh_type(LE) != SHT_NULL {
            header.sh_type = U32::new(LE, SHT_NOBITS);
            header.sh_offset = U64::new(LE, 0);
        }
        headers.push(header);
    }
    made.at = start + made.bytes.len() as u64;
    for header in &headers {
        made.bytes.extend(bytes_of(header));
    }
    made
}
