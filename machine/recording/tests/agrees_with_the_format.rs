// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: this crate's numbers are the header's, it reads what the C compiler wrote, and it takes
//! any bytes without a panic.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use proptest::prelude::*;
use remanence_recording::{
    Cause, Event, Fence, Header, Phase, Reader, RecordingError, Timed, Writer,
};

const FORMAT: &str = include_str!("../../../format/rem_recording.h");
const GOLDEN: &[u8] = include_bytes!("../../../format/golden/recording.bin");
const HEADER_BYTES: usize = 128;

/// The number behind a name of the format.
fn number(name: &str) -> u64 {
    let line = FORMAT
        .lines()
        .find(|line| {
            let mut words = line
                .trim_start()
                .trim_start_matches("#define")
                .split_whitespace();
            words.next() == Some(name)
        })
        .unwrap_or_else(|| panic!("{name} is not in the format"));
    let word = line
        .split_whitespace()
        .skip_while(|word| *word != name)
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap()
        .trim_end_matches(',');
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => word.parse().unwrap(),
    }
}

fn golden() -> Vec<Timed<'static>> {
    Reader::new(GOLDEN)
        .unwrap()
        .events()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn numbers_are_the_headers() {
    let causes = [
        (Cause::EVICTION, "REM_REC_BY_EVICTION"),
        (Cause::CLFLUSH, "REM_REC_BY_CLFLUSH"),
        (Cause::CLFLUSHOPT, "REM_REC_BY_CLFLUSHOPT"),
        (Cause::CLWB, "REM_REC_BY_CLWB"),
        (Cause::WBINVD, "REM_REC_BY_WBINVD"),
        (Cause::WBNOINVD, "REM_REC_BY_WBNOINVD"),
        (Cause::INVD, "REM_REC_BY_INVD"),
        (Cause::NT_STORE, "REM_REC_BY_NT_STORE"),
        (Cause::SWEEP, "REM_REC_BY_SWEEP"),
        (Cause::DOMAIN, "REM_REC_BY_DOMAIN"),
        (Cause::UNCACHED, "REM_REC_BY_UNCACHED"),
    ];
    for (cause, name) in causes {
        assert_eq!(u64::from(cause.0), number(name), "{name}");
    }
    let fences = [
        (Fence::SFENCE, "SFENCE"),
        (Fence::MFENCE, "MFENCE"),
        (Fence::LOCKED, "LOCKED"),
        (Fence::SERIAL, "SERIAL"),
    ];
    for (fence, name) in fences {
        assert_eq!(
            u64::from(fence.0),
            number(&format!("REM_REC_{name}")),
            "{name}"
        );
    }
    let phases = [
        (Phase::RUNNING, "RUNNING"),
        (Phase::STOP, "STOP"),
        (Phase::STOPPED, "STOPPED"),
        (Phase::LOADER, "LOADER"),
        (Phase::GO, "GO"),
        (Phase::COLD, "COLD"),
    ];
    for (phase, name) in phases {
        assert_eq!(
            u64::from(phase.0),
            number(&format!("REM_REC_{name}")),
            "{name}"
        );
    }
    assert_eq!(
        number("REM_REC_NO_VCPU"),
        u64::from(remanence_recording::NO_VCPU)
    );
    assert_eq!(number("REM_REC_PAYLOAD_MAX"), 80);
    assert_eq!(number("REM_REC_MAGIC").to_le_bytes(), GOLDEN[..8]);
}

#[test]
fn golden_bytes_are_read_and_written_back() {
    let reader = Reader::new(GOLDEN).unwrap();
    assert_eq!(reader.header().profile, Header::profile_field("golden"));
    let events = golden();
    assert_eq!(events.len(), 14);
    let mut writer = Writer::new(Vec::new(), reader.header()).unwrap();
    for timed in &events {
        writer.put(timed.vcpu, timed.time_ns, &timed.event).unwrap();
    }
    // The golden file ends with the first byte of an event that its writer did not finish.
    assert_eq!(writer.finish().unwrap(), GOLDEN[..GOLDEN.len() - 1]);
    assert_eq!(events[0].time_ns, 0x0102_0304_0506_0701);
    assert!(matches!(
        events[1].event,
        Event::WriteBack {
            line: 0x1_0000_0080,
            ..
        }
    ));
}

#[test]
fn every_torn_tail_is_a_shorter_recording() {
    let whole = golden();
    for end in HEADER_BYTES..GOLDEN.len() {
        let got: Vec<_> = Reader::new(&GOLDEN[..end])
            .unwrap()
            .events()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(got, whole[..got.len()]);
    }
    for end in 0..HEADER_BYTES {
        assert!(matches!(
            Reader::new(&GOLDEN[..end]),
            Err(RecordingError::NotARecording)
        ));
    }
}

#[test]
fn every_flipped_bit_of_the_header_is_refused() {
    for bit in 0..HEADER_BYTES * 8 {
        let mut bytes = GOLDEN.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Reader::new(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn a_program_counter_survives_where_its_sign_tells_it() {
    let header = Header {
        nvram_phys: 1 << 32,
        nvram_bytes: 4096,
        ..Header::default()
    };
    for (pc, kept) in [
        (0xffff_ffff_8123_4567, true),
        (0x10_0000, true),
        (0x7fff_1234_5678, false),
    ] {
        let mut writer = Writer::new(Vec::new(), &header).unwrap();
        writer
            .put(
                0,
                0,
                &Event::Store {
                    address: 1 << 32,
                    bytes: &[1],
                    pc,
                },
            )
            .unwrap();
        let bytes = writer.finish().unwrap();
        let got = Reader::new(&bytes)
            .unwrap()
            .events()
            .next()
            .unwrap()
            .unwrap()
            .event;
        assert_eq!(
            got,
            Event::Store {
                address: 1 << 32,
                bytes: &[1],
                pc: if kept { pc } else { 0 }
            }
        );
    }
}

#[test]
fn what_a_reader_would_refuse_is_not_written() {
    let header = Header {
        nvram_phys: 1 << 32,
        nvram_bytes: 4096,
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let over = Event::Store {
        address: (1 << 32) + 60,
        bytes: &[0; 5],
        pc: 0,
    };
    let outside = Event::WriteBack {
        line: (1 << 32) + 4096,
        data: &[0; 64],
        cause: Cause::CLWB,
    };
    assert!(writer.put(0, 0, &over).is_err());
    assert!(writer.put(0, 0, &outside).is_err());
    assert_eq!(writer.finish().unwrap().len(), HEADER_BYTES);
    Writer::new(Vec::new(), &Header::default()).unwrap_err();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_after_the_header_are_read_without_a_panic(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = GOLDEN[..HEADER_BYTES].to_vec();
        bytes.extend(tail);
        let count = Reader::new(&bytes).unwrap().events().count();
        prop_assert!(count <= bytes.len() / 16);
    }

    #[test]
    fn a_flipped_bit_never_panics(bit in HEADER_BYTES * 8..GOLDEN.len() * 8) {
        let mut bytes = GOLDEN.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let seen = Reader::new(&bytes).unwrap().events().take_while(Result::is_ok).count();
        prop_assert!(seen <= 15);
    }
}
