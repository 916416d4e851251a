// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: this crate reads the record that the C compiler wrote, and would enter its image.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use remanence_vm::record::{Bytes, Verdict, body, judge};

const RECORD: &Bytes = include_bytes!("../../format/golden/vm_record.bin");
const SEQUENCE: u32 = 0x0102_0305;

#[test]
fn record_of_the_compiler_is_read() {
    assert_eq!(judge(RECORD), Verdict::Enter(SEQUENCE));
    let body = body(RECORD, SEQUENCE);
    assert_eq!(body.state_crc, 0x0405_0607);
    assert_eq!(body.ram_id[15], 0x40);
    assert_eq!(body.machine[31], 0x70);
}
