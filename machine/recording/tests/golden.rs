// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: this crate reads the bytes that the C compiler wrote, and accepts any bytes without a
//! panic.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use proptest::prelude::*;
use remanence_recording::{Cause, Event, Header, Reader, RecordingError, Timed, Writer};

const GOLDEN: &[u8] = include_bytes!("../../../format/golden/recording.bin");
const HEADER_BYTES: usize = 128;

fn golden() -> Vec<Timed<'static>> {
    Reader::new(GOLDEN)
        .unwrap()
        .events()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn golden_bytes_are_read_and_written_back() {
    let reader = Reader::new(GOLDEN).unwrap();
    assert_eq!(reader.header().profile, Header::profile_field("golden"));
    let events = golden();
    assert_eq!(events.len(), 15);
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
fn sign_extended_program_counters_are_kept() {
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
fn events_that_a_reader_would_refuse_are_not_written() {
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
    fn arbitrary_bytes_after_the_header_do_not_panic(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = GOLDEN[..HEADER_BYTES].to_vec();
        bytes.extend(tail);
        let count = Reader::new(&bytes).unwrap().events().count();
        prop_assert!(count <= bytes.len() / 16);
    }

    #[test]
    fn flipped_bit_never_panics(bit in HEADER_BYTES * 8..GOLDEN.len() * 8) {
        let mut bytes = GOLDEN.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let seen = Reader::new(&bytes).unwrap().events().take_while(Result::is_ok).count();
        prop_assert!(seen <= 16);
    }
}
