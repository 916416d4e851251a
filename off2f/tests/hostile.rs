// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: no bytes upset the readers, and what they give out is right. `OFF2F_FUZZ_RUNS` asks for
//! more runs.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

mod common;

use common::{old_style, random, usual};
use off2f::format::{Header, XyzEnd};
use off2f::{convert, restore};

fn runs() -> u64 {
    std::env::var("OFF2F_FUZZ_RUNS").map_or(20_000, |text| text.parse().unwrap())
}

/// Some bytes changed, most of them in the headers; sometimes cut off or longer.
fn spoil(bytes: &mut Vec<u8>, headers: usize, state: &mut u64) {
    let pick = |state: &mut u64, below: usize| {
        usize::try_from(random(state) % u64::try_from(below).unwrap()).unwrap()
    };
    for _ in 0..1 + random(state) % 6 {
        if bytes.is_empty() {
            return;
        }
        let reach = if random(state) % 8 == 0 {
            bytes.len()
        } else {
            headers.min(bytes.len())
        };
        let at = pick(state, reach);
        let value = [0, 0xff, 1, 0x80, random(state).to_le_bytes()[0]][pick(state, 5)];
        bytes[at] = value;
    }
    match random(state) % 16 {
        0 => bytes.truncate(pick(state, bytes.len())),
        1 => bytes.resize(bytes.len() + pick(state, 5000), 0x55),
        _ => {}
    }
}

#[test]
fn any_elf_comes_back_or_is_refused() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut converted = 0_u64;
    for run in 0..runs() {
        let mut elf = if run % 2 == 0 { usual() } else { old_style() };
        spoil(&mut elf, 64 + 4 * 56, &mut state);
        if let Ok(pair) = convert(&elf, "/nvm/x") {
            converted += 1;
            assert_eq!(
                restore(&pair.abc, &pair.xyz_bytes()).unwrap(),
                elf,
                "run {run}"
            );
        }
    }
    // Neither all nor none: the runs reach behind the first check.
    assert!(
        converted > runs() / 50 && converted < runs() * 49 / 50,
        "{converted}"
    );
}

#[test]
fn spoilt_pair_gives_the_elf_or_an_error() {
    let mut state = 0x1357_9bdf_0246_8ace;
    let elf = usual();
    let pair = convert(&elf, "/nvm/x").unwrap();
    let whole = pair.xyz_bytes();
    for run in 0..runs() {
        let (mut abc, mut xyz) = (pair.abc.clone(), whole.clone());
        if run % 3 == 0 {
            let length = xyz.len();
            spoil(&mut xyz, length, &mut state);
        } else {
            spoil(&mut abc, 500, &mut state);
            if run % 3 == 2 {
                mend_crc(&mut abc);
            }
        }
        if let Ok(given) = restore(&abc, &xyz) {
            // Only fields of no consequence (path, build-id, saved offsets) were changed.
            assert_eq!(given.len(), elf.len(), "run {run}");
        }
        let _ = Header::parse(&abc);
        let _ = XyzEnd::parse(&xyz);
    }
}

/// A header that somebody made on purpose has a right CRC.
fn mend_crc(abc: &mut [u8]) {
    let Some(bytes) = abc
        .get(8..12)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
    else {
        return;
    };
    let bytes = bytes as usize;
    if bytes < 16 || abc.len() < bytes {
        return;
    }
    abc[12..16].fill(0);
    let crc = crc32c::crc32c(&abc[..bytes]);
    abc[12..16].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn each_flipped_bit_of_a_text_is_found() {
    let elf = old_style();
    let pair = convert(&elf, "/nvm/x").unwrap();
    let whole = pair.xyz_bytes();
    for bit in (0..whole.len() * 8).step_by(7) {
        let mut xyz = whole.clone();
        xyz[bit / 8] ^= 1 << (bit % 8);
        assert!(restore(&pair.abc, &xyz).is_err(), "bit {bit}");
    }
}
