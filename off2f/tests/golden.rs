// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: this crate reads and writes the bytes that the C compiler wrote.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use off2f::format::{Header, XyzEnd};

const HEADER: &[u8] = include_bytes!("../../format/golden/off2f_header.bin");
const XYZ: &[u8] = include_bytes!("../../format/golden/off2f_xyz.bin");

#[test]
fn header_of_the_compiler_is_read_and_written_back() {
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
fn end_of_xyz_is_written_as_the_compiler_does() {
    let header = Header::parse(HEADER).unwrap();
    let end = XyzEnd {
        xyz_bytes: header.xyz_bytes,
        text_sha256: header.text_sha256,
        build_id: header.build_id,
        rest_sha256: std::array::from_fn(|n| 0x91 + u8::try_from(n).unwrap()),
    };
    assert_eq!(end.bytes(), XYZ);
    // Alone it is not a whole XYZ: the size does not fit.
    XyzEnd::parse(XYZ).unwrap_err();
}

#[test]
fn another_version_is_refused_by_its_number() {
    let mut old = HEADER.to_vec();
    old[4] = 1;
    let message = Header::parse(&old).unwrap_err().to_string();
    assert!(
        message.contains("of version 1 and this off2f knows version 2"),
        "{message}"
    );
    let mut end = XYZ.to_vec();
    end[4] = 1;
    XyzEnd::parse(&end).unwrap_err();
}

#[test]
fn every_flipped_bit_of_a_header_is_refused() {
    for bit in 0..HEADER.len() * 8 {
        let mut bytes = HEADER.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::parse(&bytes).is_err(), "bit {bit}");
    }
}
