// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: this crate's numbers are the header's, and it reads and writes what the C compiler wrote.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use off2f::format::{self, Header, XyzEnd};

const FORMAT: &str = include_str!("../../format/off2f.h");
const LAYOUT: &str = include_str!("../../format/golden/layout.txt");
const HEADER: &[u8] = include_bytes!("../../format/golden/off2f_header.bin");
const XYZ: &[u8] = include_bytes!("../../format/golden/off2f_xyz.bin");

fn number(name: &str) -> u64 {
    let line = FORMAT
        .lines()
        .find(|line| line.starts_with(&format!("#define {name} ")))
        .unwrap_or_else(|| panic!("{name} is not in the format"));
    let word = line.split_whitespace().nth(2).unwrap();
    word.strip_prefix("0x").map_or_else(
        || word.parse().unwrap(),
        |hex| u64::from_str_radix(hex, 16).unwrap(),
    )
}

#[test]
fn numbers_are_the_headers() {
    for (ours, name) in [
        (u64::from(format::MAGIC), "OFF2F_MAGIC"),
        (u64::from(format::XYZ_MAGIC), "OFF2F_XYZ_MAGIC"),
        (u64::from(format::VERSION), "OFF2F_VERSION"),
        (format::PAGE_BYTES, "OFF2F_PAGE_BYTES"),
        (format::HUGE_BYTES, "OFF2F_HUGE_BYTES"),
        (format::TEXTS_MAX as u64, "OFF2F_TEXTS_MAX"),
        (format::PHDRS_MAX as u64, "OFF2F_PHDRS_MAX"),
        (format::PATH_MAX as u64, "OFF2F_PATH_MAX"),
        (format::FILE_MAX, "OFF2F_FILE_MAX"),
    ] {
        assert_eq!(ours, number(name), "{name}");
    }
    for (ours, name) in [
        (format::HEADER_BYTES, "off2f_header"),
        (format::TEXT_BYTES, "off2f_text"),
        (format::PHDR_BYTES, "off2f_phdr"),
        (format::XYZ_BYTES, "off2f_xyz"),
    ] {
        assert!(LAYOUT.contains(&format!("{name} - 0 {ours}\n")), "{name}");
    }
}

#[test]
fn the_compilers_header_is_read_and_written_again() {
    let header = Header::parse(HEADER).unwrap();
    assert_eq!((header.machine, header.kind), (62, 3));
    assert_eq!(header.abc_bytes, 0x2345);
    assert_eq!(header.source_bytes, 0x4345);
    assert_eq!(header.texts[0].cut_bytes, 0x3000);
    assert_eq!((header.texts[0].phdr, header.texts[0].flags), (1, 5));
    assert_eq!(header.phdrs.len(), 2);
    assert_eq!(header.path, b"/nvm/golden");
    assert_eq!(header.build_id[19], 0xa0 + 19);
    let page = header.page().unwrap();
    assert_eq!(&page[..HEADER.len()], HEADER);
    assert!(page[HEADER.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_compilers_end_of_xyz_is_written_the_same() {
    let header = Header::parse(HEADER).unwrap();
    let end = XyzEnd {
        xyz_bytes: header.xyz_bytes,
        text_sha256: header.text_sha256,
        build_id: header.build_id,
        rest_sha256: std::array::from_fn(|n| 0x91 + u8::try_from(n).unwrap()),
    };
    assert_eq!(end.bytes(), XYZ);
    // Alone it is no whole XYZ: its size is another.
    XyzEnd::parse(XYZ).unwrap_err();
}

#[test]
fn another_version_is_refused_and_named() {
    let mut old = HEADER.to_vec();
    old[4] = 1;
    let said = Header::parse(&old).unwrap_err().to_string();
    assert!(
        said.contains("of version 1 and this off2f knows version 2"),
        "{said}"
    );
    let mut end = XYZ.to_vec();
    end[4] = 1;
    XyzEnd::parse(&end).unwrap_err();
}

#[test]
fn each_flipped_bit_of_a_header_is_found() {
    for bit in 0..HEADER.len() * 8 {
        let mut bytes = HEADER.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::parse(&bytes).is_err(), "bit {bit}");
    }
}
