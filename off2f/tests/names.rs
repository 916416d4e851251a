// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: an XYZ is an ELF in which an offset of the file leads to the name that the address has in
//! the program's own ELF, whatever that is; and it is not one that could be executed.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

mod common;

use std::collections::BTreeMap;

use common::{old_style, random, usual, with_symbols};
use object::LittleEndian as LE;
use object::elf::{FileHeader64, PT_INTERP, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use off2f::{check_xyz, convert, restore};

/// As perf does it: symbols to offsets of the file, by the program headers.
fn by_offset(file: &[u8], kind: u32) -> BTreeMap<u64, Vec<u8>> {
    let header = FileHeader64::<LE>::parse(file).unwrap();
    let phdrs = header.program_headers(LE, file).unwrap();
    let sections = header.sections(LE, file).unwrap();
    let symbols = sections.symbols(LE, file, kind).unwrap();
    let mut found = BTreeMap::new();
    for symbol in symbols.iter().skip(1) {
        let value = symbol.st_value(LE);
        let holds = |p: &&object::elf::ProgramHeader64<LE>| {
            let start = p.p_vaddr(LE);
            p.p_type(LE) == PT_LOAD && (start..start + p.p_memsz(LE)).contains(&value)
        };
        let Some(load) = phdrs.iter().find(holds) else {
            continue;
        };
        let name = symbol.name(LE, symbols.strings()).unwrap().to_vec();
        found.insert(value - load.p_vaddr(LE) + load.p_offset(LE), name);
    }
    found
}

#[test]
fn offset_in_xyz_has_the_name_of_the_text_there() {
    for elf in [with_symbols(usual()), with_symbols(old_style())] {
        let pair = convert(&elf, "/nvm/x").unwrap();
        let text = pair.header.texts[0];
        let xyz = pair.xyz_bytes();
        let ours = by_offset(&xyz, SHT_SYMTAB);
        assert_eq!(ours.len(), 3);
        for (offset, name) in &ours {
            let moved = offset - text.xyz_offset + text.source_offset;
            assert_eq!(by_offset(&elf, SHT_SYMTAB)[&moved], *name);
        }
        assert_eq!(ours[&text.xyz_offset], b"first");
        assert!(!ours.values().any(|name| name == b"a_variable"));
        assert_eq!(restore(&pair.abc, &xyz).unwrap(), elf);
    }
}

#[test]
fn it_is_an_elf_of_texts_only_and_none_that_the_kernel_starts() {
    let elf = std::fs::read("/proc/self/exe").unwrap();
    let pair = convert(&elf, "/nvm/x").unwrap();
    let xyz = pair.xyz_bytes();
    let header = FileHeader64::<LE>::parse(&*xyz).unwrap();
    let phdrs = header.program_headers(LE, &*xyz).unwrap();
    let loads: Vec<_> = phdrs.iter().filter(|p| p.p_type(LE) == PT_LOAD).collect();
    assert_eq!(loads.len(), pair.header.texts.len());
    for (load, (text, bytes)) in loads.iter().zip(&pair.texts) {
        assert_eq!(load.p_vaddr(LE), text.vaddr);
        let start = usize::try_from(load.p_offset(LE)).unwrap();
        assert_eq!(&xyz[start..start + bytes.len()], *bytes);
    }
    // binfmt_elf refuses a name of an interpreter that has no zero at its end.
    let interpreter = phdrs.iter().find(|p| p.p_type(LE) == PT_INTERP).unwrap();
    assert!(
        interpreter
            .data(LE, &*xyz)
            .unwrap()
            .ends_with(b"its ABC is")
    );
    let sections = header.sections(LE, &*xyz).unwrap();
    let (_, table) = sections.section_by_name(LE, b".dynsym").unwrap();
    assert_eq!(table.sh_type(LE), SHT_DYNSYM);
    let main = by_offset(&xyz, SHT_SYMTAB);
    assert!(main.values().any(|name| name == b"main"));
}

#[test]
fn flipped_bit_of_names_is_found() {
    let elf = with_symbols(usual());
    let pair = convert(&elf, "/nvm/x").unwrap();
    let whole = pair.xyz_bytes();
    check_xyz(&whole, &pair.header).unwrap();
    let behind = whole.len() - 128 - pair.names.behind.len();
    for bit in (0..4096 * 8).chain(behind * 8..whole.len() * 8).step_by(3) {
        let mut xyz = whole.clone();
        xyz[bit / 8] ^= 1 << (bit % 8);
        assert!(check_xyz(&xyz, &pair.header).is_err(), "bit {bit}");
    }
}

#[test]
fn damaged_symbols_keep_no_program_from_being_converted() {
    let mut state = 0x2468_ace0_1357_9bdf;
    let whole = with_symbols(usual());
    let tables = usual().len();
    let runs = std::env::var("OFF2F_FUZZ_RUNS").map_or(5_000, |text| text.parse().unwrap());
    let mut named = 0;
    for run in 0..runs {
        let mut elf = whole.clone();
        for _ in 0..1 + random(&mut state) % 4 {
            let count = u64::try_from(elf.len() - tables + 24).unwrap();
            let n = usize::try_from(random(&mut state) % count).unwrap();
            // 24: e_shoff, e_shnum and what is between them.
            let at = if n < 24 { 40 + n } else { tables + n - 24 };
            elf[at] = [0, 0xff, 1, random(&mut state).to_le_bytes()[0]][run % 4];
        }
        let Ok(pair) = convert(&elf, "/nvm/x") else {
            // Of the ELF header, behind e_shoff, there is what decides about a program.
            assert_ne!(elf[48..64], whole[48..64], "run {run}");
            continue;
        };
        let xyz = pair.xyz_bytes();
        check_xyz(&xyz, &pair.header).unwrap();
        assert_eq!(restore(&pair.abc, &xyz).unwrap(), elf, "run {run}");
        let header = FileHeader64::<LE>::parse(&*xyz).unwrap();
        let sections = header.sections(LE, &*xyz).unwrap();
        let table = sections.symbols(LE, &*xyz, SHT_SYMTAB);
        named += usize::from(table.is_ok_and(|table| !table.is_empty()));
    }
    assert!(named > runs / 10 && named < runs, "{named}");
}
