// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which bytes of an ELF go where: decided from its headers alone.

use object::LittleEndian as LE;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_W, PF_X, PT_GNU_PROPERTY, PT_INTERP, PT_LOAD,
    ProgramHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::error::Refusal;
use crate::format::{AbcPhdr, FILE_MAX, HUGE_BYTES, PAGE_BYTES, PHDRS_MAX, TEXTS_MAX, Text};
use crate::names;

pub(crate) const EHDR_BYTES: u64 = 64;
pub(crate) const PHDR_BYTES: u64 = 56;
/// User space ends here (four levels of page tables).
const ADDRESS_END: u64 = 1 << 47;

/// What is cut out of an ELF, and where its rest is in ABC.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In the order of the program headers.
    pub texts: Vec<Text>,
    /// What the program headers say in ABC.
    pub phdrs: Vec<AbcPhdr>,
    /// Where they are in the ELF.
    pub phoff: u64,
    /// `e_type`
    pub kind: u16,
    /// Size of the ELF.
    pub source_bytes: u64,
    /// Size of ABC.
    pub abc_bytes: u64,
    /// Where the last text ends in XYZ.
    pub texts_end: u64,
    /// Whether the kernel starts ld.so.
    pub dynamic: bool,
    /// Zeros if there is none.
    pub build_id: [u8; 20],
}

/// Rounds down to a page.
pub(crate) fn page_down(at: u64) -> u64 {
    at & !(PAGE_BYTES - 1)
}

/// Rounds up to a page; sizes are far below the end of u64.
pub(crate) fn page_up(at: u64) -> u64 {
    page_down(at + PAGE_BYTES - 1)
}

type Phdr = ProgramHeader64<LE>;

/// A range of the file.
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
}

impl Range {
    fn of(phdr: &Phdr) -> Self {
        let start = phdr.p_offset(LE);
        Self {
            start,
            end: start.saturating_add(phdr.p_filesz(LE)),
        }
    }

    fn meets(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl Plan {
    /// Decides, or says why not.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn of(elf: &[u8]) -> Result<Self, Refusal> {
        let header = header(elf)?;
        let phdrs = header
            .program_headers(LE, elf)
            .map_err(|_| Refusal::Damaged("program headers outside the file"))?;
        if phdrs.len() > PHDRS_MAX {
            return Err(Refusal::TooMuch("program headers"));
        }
        let dynamic = phdrs.iter().any(|p| p.p_type(LE) == PT_INTERP);
        let kind = header.e_type(LE);
        if kind == ET_DYN && !dynamic && header.e_entry(LE) == 0 {
            return Err(Refusal::Library);
        }
        let size = elf.len() as u64;
        let phoff = header.e_phoff(LE);
        let needed = needed(phdrs, phoff);
        let mut texts = Vec::new();
        for (index, phdr) in phdrs.iter().enumerate() {
            if is_text(phdr) {
                texts.push(text(index, phdrs, &needed, size)?);
            }
        }
        if texts.is_empty() {
            return Err(Refusal::NoText);
        }
        if texts.len() > TEXTS_MAX {
            return Err(Refusal::TooMuch("executable segments"));
        }
        let texts_end = place(&mut texts);
        let cut: u64 = texts.iter().map(|t| t.cut_bytes).sum();
        let mut plan = Self {
            texts,
            phdrs: Vec::new(),
            phoff,
            kind,
            source_bytes: size,
            abc_bytes: PAGE_BYTES + size - cut,
            texts_end,
            dynamic,
            build_id: build_id(elf),
        };
        if plan.texts_end >= FILE_MAX {
            return Err(Refusal::TooMuch("text"));
        }
        for (index, phdr) in phdrs.iter().enumerate() {
            let changed = plan.change(index, phdr)?;
            plan.phdrs.push(changed);
        }
        Ok(plan)
    }

    /// Where a byte of the ELF is in ABC, if it is.
    #[must_use]
    pub fn abc_offset(&self, source: u64) -> Option<u64> {
        abc_offset(&self.texts, source, self.source_bytes)
    }

    fn change(&self, index: usize, phdr: &Phdr) -> Result<AbcPhdr, Refusal> {
        let (offset, align) = (phdr.p_offset(LE), phdr.p_align(LE));
        let behind_the_end = page_up(self.abc_bytes) + offset % PAGE_BYTES;
        let Some(text) = self.texts.iter().find(|t| t.phdr as usize == index) else {
            return Ok(AbcPhdr {
                offset: self.abc_offset(offset).unwrap_or(behind_the_end),
                align,
            });
        };
        let huge = text.bytes >= HUGE_BYTES && self.kind == ET_DYN && align < HUGE_BYTES;
        let align = if huge { HUGE_BYTES } else { align };
        let offset = if Range::of(phdr).meets(Range {
            start: self.phoff,
            end: self.phoff + 1,
        }) {
            // The kernel finds the program headers' address by this offset.
            self.abc_offset(self.phoff)
                .and_then(|at| at.checked_sub(self.phoff - offset))
                .ok_or(Refusal::Damaged("program headers far inside the text"))?
        } else {
            behind_the_end
        };
        Ok(AbcPhdr { offset, align })
    }
}

/// Where a byte of the ELF is in an ABC without these texts' cuts.
pub(crate) fn abc_offset(texts: &[Text], source: u64, source_bytes: u64) -> Option<u64> {
    if source > source_bytes {
        return None;
    }
    let mut before = 0;
    for text in texts {
        let end = text.cut_offset + text.cut_bytes;
        if text.cut_bytes != 0 && source >= end {
            before += text.cut_bytes;
        } else if source >= text.cut_offset && source < end {
            return None;
        }
    }
    Some(PAGE_BYTES + source - before)
}

fn header(elf: &[u8]) -> Result<&FileHeader64<LE>, Refusal> {
    if elf.len() as u64 >= FILE_MAX {
        return Err(Refusal::TooMuch("size"));
    }
    if elf.get(..4) != Some(b"\x7fELF") {
        return Err(Refusal::NoElf);
    }
    let (Some(class), Some(order)) = (elf.get(4), elf.get(5)) else {
        return Err(Refusal::Damaged("ELF header cut off"));
    };
    let header = FileHeader64::<LE>::parse(elf);
    let machine = elf
        .get(18..20)
        .map_or(0, |m| u16::from_le_bytes([m[0], m[1]]));
    if *class != 2 || *order != 1 || machine != EM_X86_64 {
        return Err(Refusal::Machine {
            machine,
            bits: if *class == 2 { 64 } else { 32 },
        });
    }
    let header = header.map_err(|_| Refusal::Damaged("ELF header"))?;
    match header.e_type(LE) {
        ET_EXEC | ET_DYN => {}
        other => return Err(Refusal::Type(other)),
    }
    let count = u64::from(header.e_phnum(LE));
    if u64::from(header.e_phentsize(LE)) != PHDR_BYTES || count == 0 || count == 0xffff {
        return Err(Refusal::Damaged("size or number of program headers"));
    }
    Ok(header)
}

fn is_text(phdr: &Phdr) -> bool {
    phdr.p_type(LE) == PT_LOAD && phdr.p_flags(LE) & PF_X != 0 && phdr.p_memsz(LE) != 0
}

/// What the kernel reads out of ABC, or maps from there; by segment, text included.
fn needed(phdrs: &[Phdr], phoff: u64) -> Vec<(Option<usize>, Range)> {
    let table = PHDR_BYTES * phdrs.len() as u64;
    let fixed = [
        Range {
            start: 0,
            end: EHDR_BYTES,
        },
        Range {
            start: phoff,
            end: phoff.saturating_add(table),
        },
    ];
    let mapped = phdrs.iter().enumerate().filter(|(_, phdr)| {
        let kind = phdr.p_type(LE);
        (kind == PT_LOAD || kind == PT_INTERP || kind == PT_GNU_PROPERTY) && phdr.p_filesz(LE) != 0
    });
    fixed
        .into_iter()
        .map(|range| (None, range))
        .chain(mapped.map(|(index, phdr)| (Some(index), Range::of(phdr))))
        .collect()
}

fn text(
    index: usize,
    phdrs: &[Phdr],
    needed: &[(Option<usize>, Range)],
    size: u64,
) -> Result<Text, Refusal> {
    let phdr = &phdrs[index];
    let (offset, bytes) = (phdr.p_offset(LE), phdr.p_filesz(LE));
    let vaddr = phdr.p_vaddr(LE);
    if phdr.p_flags(LE) & PF_W != 0 {
        return Err(Refusal::WritableText);
    }
    if bytes != phdr.p_memsz(LE) {
        return Err(Refusal::TextWithBss);
    }
    if offset.checked_add(bytes).is_none_or(|end| end > size) {
        return Err(Refusal::Damaged("text outside the file"));
    }
    if vaddr % PAGE_BYTES != offset % PAGE_BYTES {
        return Err(Refusal::Damaged("text in another place of its page"));
    }
    if vaddr.checked_add(bytes).is_none_or(|end| end > ADDRESS_END) {
        return Err(Refusal::Damaged("text outside user space"));
    }
    let memory = Range {
        start: page_down(vaddr),
        end: page_up(vaddr + bytes),
    };
    for (other, phdr) in phdrs.iter().enumerate() {
        let start = phdr.p_vaddr(LE);
        let end = start.saturating_add(phdr.p_memsz(LE)).min(ADDRESS_END);
        let loaded = phdr.p_type(LE) == PT_LOAD && phdr.p_memsz(LE) != 0 && other != index;
        if loaded
            && memory.meets(Range {
                start: page_down(start),
                end: page_up(end),
            })
        {
            return Err(Refusal::SharedPage);
        }
    }
    let first = page_down(offset);
    let mut text = Text {
        vaddr: memory.start,
        bytes: memory.end - memory.start,
        source_offset: first,
        phdr: u32::try_from(index).unwrap_or(u32::MAX),
        flags: phdr.p_flags(LE),
        ..Text::default()
    };
    let others: Vec<Range> = needed
        .iter()
        .filter(|(of, _)| *of != Some(index))
        .map(|(_, range)| *range)
        .collect();
    (text.cut_offset, text.cut_bytes) = longest_run(&text, &others, size);
    Ok(text)
}

/// The longest run of the text's pages that nothing else needs.
fn longest_run(text: &Text, others: &[Range], size: u64) -> (u64, u64) {
    let end = text.source_offset + text.bytes;
    let mut taken: Vec<Range> = others
        .iter()
        .map(|range| Range {
            start: page_down(range.start).clamp(text.source_offset, end),
            end: page_up(range.end.min(end)).clamp(text.source_offset, end),
        })
        .filter(|range| range.start < range.end)
        .collect();
    taken.sort_by_key(|range| range.start);
    taken.push(Range { start: end, end });
    let (mut best, mut at) = ((text.source_offset, 0), text.source_offset);
    for range in taken {
        let run = range.start.saturating_sub(at);
        if run > best.1 {
            best = (at, run);
        }
        at = at.max(range.end);
    }
    (best.0, best.1.min(size.saturating_sub(best.0)))
}

/// Gives each text its place in XYZ; returns where they end.
fn place(texts: &mut [Text]) -> u64 {
    let mut at = PAGE_BYTES;
    for text in texts {
        if text.bytes >= HUGE_BYTES {
            at += (text.vaddr % HUGE_BYTES + HUGE_BYTES - at % HUGE_BYTES) % HUGE_BYTES;
        }
        text.xyz_offset = at;
        at += text.bytes;
    }
    at
}

/// Its first 20 bytes: of the usual kind, all.
fn build_id(elf: &[u8]) -> [u8; 20] {
    let mut found = [0; 20];
    for (to, from) in found
        .iter_mut()
        .zip(names::build_id(elf).unwrap_or_default())
    {
        *to = *from;
    }
    found
}
