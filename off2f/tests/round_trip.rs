// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: what is converted comes back byte for byte, whatever its layout; what is not is refused
//! with the reason; and ABC is such that binfmt_elf finds all that it looks for.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

mod common;

use common::{Load, R, RW, RX, elf, old_style, usual};
use off2f::{Failure, Refusal, check_xyz, convert, restore};
use proptest::prelude::*;

fn comes_back(elf: &[u8]) -> off2f::format::Header {
    let pair = convert(elf, "/nvm/x").unwrap();
    let xyz = pair.xyz_bytes();
    check_xyz(&xyz, &pair.header).unwrap();
    assert_eq!(restore(&pair.abc, &xyz).unwrap(), elf);
    pair.header
}

fn refusal(elf: &[u8]) -> Refusal {
    match convert(elf, "/nvm/x") {
        Err(Failure::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn usual_programs_come_back() {
    let header = comes_back(&usual());
    assert_eq!(header.texts[0].cut_bytes, 0x3000);
    assert_eq!(header.abc_bytes, 4096 + 0x5678 - 0x3000);
    let own = std::fs::read("/proc/self/exe").unwrap();
    assert!(comes_back(&own).texts[0].cut_bytes > 4096);
}

#[test]
fn program_headers_inside_the_text_stay_in_abc() {
    let elf = old_style();
    let pair = convert(&elf, "/nvm/x").unwrap();
    comes_back(&elf);
    // Page 0 has the headers, page 3 the data, too: both files have them.
    assert_eq!(pair.header.texts[0].cut_offset, 0x1000);
    assert_eq!(pair.header.texts[0].cut_bytes, 0x2000);
    let phoff = word(&pair.header.ehdr, 32);
    let table = usize::try_from(phoff).unwrap();
    let vaddr = word(&pair.abc, table + 16);
    // As binfmt_elf computes AT_PHDR.
    assert_eq!(phoff - pair.header.phdrs[0].offset + vaddr, 0x40_0000 + 64);
    // What is in memory is the ELF's.
    assert_eq!(&pair.abc[4096..8192], &elf[..4096]);
}

#[test]
fn offsets_in_abc_lead_to_the_same_bytes() {
    let elf = usual();
    let pair = convert(&elf, "/nvm/x").unwrap();
    let table = usize::try_from(word(&pair.header.ehdr, 32)).unwrap();
    for n in [0, 2, 3] {
        let count = usize::try_from(word(&pair.abc, table + 56 * n + 32)).unwrap();
        let ours = usize::try_from(pair.header.phdrs[n].offset).unwrap();
        let theirs = usize::try_from(word(&elf, 64 + 56 * n + 8)).unwrap();
        assert_eq!(ours % 4096, theirs % 4096);
        assert_eq!(pair.abc[ours..ours + count], elf[theirs..theirs + count]);
    }
    // Nothing of ABC could be taken for the text.
    assert!(pair.header.phdrs[1].offset >= pair.header.abc_bytes);
}

#[test]
fn large_text_lies_where_it_can_be_mapped_in_huge_pages() {
    let loads = [
        Load {
            flags: R,
            offset: 0,
            bytes: 0x800,
        },
        Load {
            flags: RX,
            offset: 0x1000,
            bytes: 0x40_0000,
        },
        Load {
            flags: RW,
            offset: 0x40_2000,
            bytes: 0x10,
        },
    ];
    let bytes = elf(3, &loads, 0x40_3000);
    let header = comes_back(&bytes);
    let text = header.texts[0];
    assert_eq!(text.xyz_offset % 0x20_0000, text.vaddr % 0x20_0000);
    assert_eq!(header.phdrs[1].align, 0x20_0000);
    assert_eq!(word(&bytes, 64 + 56 + 48), 4096);
}

#[test]
fn what_cannot_be_right_is_refused_with_its_reason() {
    assert_eq!(refusal(b"#!/bin/sh\n"), Refusal::NoElf);
    assert_eq!(refusal(b"\x7fELF"), Refusal::Damaged("ELF header cut off"));
    let with = |at: usize, bytes: &[u8]| {
        let mut elf = usual();
        elf[at..at + bytes.len()].copy_from_slice(bytes);
        elf
    };
    assert_eq!(refusal(&with(16, &[1, 0])), Refusal::Type(1));
    let arm = Refusal::Machine {
        machine: 183,
        bits: 64,
    };
    assert_eq!(refusal(&with(18, &[183, 0])), arm);
    let old = Refusal::Machine {
        machine: 62,
        bits: 32,
    };
    assert_eq!(refusal(&with(4, &[1])), old);
    assert_eq!(refusal(&with(24, &[0; 8])), Refusal::Library);
    let text = 64 + 56;
    assert_eq!(refusal(&with(text + 4, &[7])), Refusal::WritableText);
    assert_eq!(refusal(&with(text + 4, &[4])), Refusal::NoText);
    assert_eq!(refusal(&with(text + 41, &[0xff])), Refusal::TextWithBss);
    assert!(matches!(
        refusal(&with(text + 8, &[1])),
        Refusal::Damaged(_)
    ));
    assert!(matches!(
        refusal(&with(text + 12, &[1])),
        Refusal::Damaged(_)
    ));
    let shared = [
        Load {
            flags: RX,
            offset: 0,
            bytes: 0x1800,
        },
        Load {
            flags: RW,
            offset: 0x800,
            bytes: 0x1000,
        },
    ];
    assert_eq!(refusal(&elf(2, &shared, 0x3000)), Refusal::SharedPage);
}

proptest! {
    #[test]
    fn any_layout_comes_back_or_is_refused(
        parts in proptest::collection::vec((0..3_usize, 1..0x3000_u64, 0..0x1800_u64), 1..7),
        tail in 0..0x2000_usize,
        kind in 2..4_u16,
    ) {
        let mut at = 0;
        let mut loads = Vec::new();
        for (rights, bytes, gap) in parts {
            loads.push(Load { flags: [R, RX, RW][rights], offset: at, bytes });
            at += bytes + gap;
        }
        let size = (usize::try_from(at).unwrap() + tail).max(1024);
        let elf = elf(kind, &loads, size);
        if let Ok(pair) = convert(&elf, "/nvm/x") {
            prop_assert_eq!(restore(&pair.abc, &pair.xyz_bytes()).unwrap(), elf);
        }
    }
}
