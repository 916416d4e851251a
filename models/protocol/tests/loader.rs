// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loader's own code decides like the model, on every media that the model leaves.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::collections::HashSet;
use std::mem::offset_of;

use remanence_campaign::judge::{Judge, reason_name};
use remanence_format::{self as format, RemBlock, RemBody, RemDesc, RemDescEntry, usize_of};
use remanence_model::image;
use remanence_protocol::config::machines;
use remanence_protocol::decide::{Found, Reason, decide};
use remanence_protocol::lines::{Covered, Damage, Head, LINES, Line, Memory, Rest, SLOTS, Value};
use remanence_protocol::machine::{Place, State};

const BOOTS: u8 = 3;
/// What damaged bytes read as.
const DAMAGED: u8 = 0xa5;

/// What the loader's rules read, of one state in which the machine is off.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Media {
    memory: Memory,
    machine: u8,
}

/// Every media that a machine of the model leaves.
fn left(name: &str) -> HashSet<Media> {
    let config = machines(BOOTS)
        .into_iter()
        .find(|config| config.name == name)
        .unwrap();
    let mut found = HashSet::new();
    let mut seen = HashSet::new();
    let mut next = vec![State::first(&config)];
    while let Some(state) = next.pop() {
        if state.place == Place::Off {
            let memory = state.memory.clone();
            let machine = state.machine;
            found.insert(Media { memory, machine });
        }
        for action in state.actions(&config) {
            let after = state.after(&config, &action);
            // Each state once; a cut gets a machine out of any of them.
            if seen.insert(hash(&after)) {
                next.push(after);
            }
        }
    }
    found
}

fn hash(state: &State) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state)
}

/// The machine's description, of this machine.
fn description(machine: u8) -> Vec<u8> {
    let mut bytes = image::description();
    let value = RemDesc::BYTES + offset_of!(RemDescEntry, value);
    bytes[value] += machine;
    let crc = crc32c::crc32c(&bytes[RemDesc::BYTES..]);
    bytes[offset_of!(RemDesc, crc)..][..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn head_bytes(value: Value) -> [u8; RemBody::BYTES] {
    match value {
        Value::Head(Head {
            sequence,
            image: id,
        }) => {
            let body = image::body(u32::from(sequence), u64::from(id));
            body[..RemBody::BYTES].try_into().unwrap()
        }
        Value::Prepared => {
            let mut body = image::body(0, 0);
            body[offset_of!(RemBody, header_crc)..][..4].fill(0);
            body[..RemBody::BYTES].try_into().unwrap()
        }
        _ => [0; RemBody::BYTES],
    }
}

fn rest_bytes(value: Value) -> Vec<u8> {
    match value {
        Value::Rest(Rest { machine, .. }) => description(machine)[RemDesc::BYTES..].to_vec(),
        _ => vec![0; image::description().len() - RemDesc::BYTES],
    }
}

/// The body that a commit word covers.
fn covered(head: Covered, rest: Covered) -> Vec<u8> {
    let head = match head {
        Covered::Head(head) => head_bytes(Value::Head(head)).to_vec(),
        _ => vec![DAMAGED; RemBody::BYTES],
    };
    let rest = match rest {
        Covered::Rest(rest) => rest_bytes(Value::Rest(rest)),
        _ => vec![DAMAGED],
    };
    [head, rest].concat()
}

fn word_bytes(value: Value) -> [u8; 8] {
    match value {
        Value::Consumed(sequence) => image::consumed_word(u32::from(sequence)).to_bytes(),
        Value::Commit(sequence, head, rest) => {
            image::commit_word(u32::from(sequence), &covered(head, rest)).to_bytes()
        }
        _ => [0; 8],
    }
}

fn header_bytes(value: Value) -> [u8; RemBlock::BYTES] {
    if value != Value::Header {
        return [0; RemBlock::BYTES];
    }
    image::first_media()[..RemBlock::BYTES].try_into().unwrap()
}

/// Writes what media has into a block.
fn write(block: &mut [u8], memory: &Memory) {
    let media: [Value; LINES] = memory.media();
    let mut put = |line: Line, at: u64, bytes: &[u8]| {
        let at = usize_of(at);
        block[at..at + bytes.len()].copy_from_slice(bytes);
        match memory.damage(line) {
            Some(Damage::Whole) => block[at..at + bytes.len()].fill(DAMAGED),
            Some(Damage::Check) => block[at + 4..at + 8].fill(DAMAGED),
            Some(Damage::Stuck) | None => {}
        }
    };
    let of = |line: Line| media[line.index()];
    put(Line::Header, 0, &header_bytes(of(Line::Header)));
    let consumed = word_bytes(of(Line::Consumed));
    put(Line::Consumed, format::REM_CONSUMED_OFFSET, &consumed);
    for slot in 0..SLOTS {
        let number = u32::try_from(slot).unwrap();
        let (commit, head, rest) = (Line::Commit(slot), Line::Head(slot), Line::Rest(slot));
        let body = image::body_offset(number);
        put(
            commit,
            image::commit_offset(number),
            &word_bytes(of(commit)),
        );
        put(head, body, &head_bytes(of(head)));
        put(rest, body + RemBody::BYTES as u64, &rest_bytes(of(rest)));
    }
}

/// The loader's number of a reason.
fn number(reason: Reason) -> &'static [u32] {
    match reason {
        Reason::Resume => &[format::REM_BOOT_RESUME],
        // The words are right, and what the header says is not known.
        Reason::NoBlock => &[format::REM_COLD_NO_BLOCK, format::REM_COLD_BLOCK_VERSION],
        Reason::ConsumedInvalid => &[format::REM_COLD_CONSUMED_INVALID],
        Reason::NotCommitted => &[format::REM_COLD_NOT_COMMITTED],
        Reason::AlreadyConsumed => &[format::REM_COLD_ALREADY_CONSUMED],
        Reason::CommitDamaged => &[format::REM_COLD_COMMIT_DAMAGED],
        Reason::BodyDamaged => &[
            format::REM_COLD_BODY_MAGIC,
            format::REM_COLD_BODY_VERSION,
            format::REM_COLD_BODY_SIZE,
            format::REM_COLD_BODY_CRC,
        ],
        Reason::MachineDiffers => &[format::REM_COLD_KERNEL_DIFFERS],
        _ => &[],
    }
}

/// With at least so many media and reasons.
fn check_machine(name: &str, media: usize, least: usize) {
    let all = left(name);
    let mut block = vec![0; usize_of(format::REM_BLOCK_BYTES)];
    let mut reasons = HashSet::new();
    for Media { memory, machine } in &all {
        write(&mut block, memory);
        let nvram = image::PHYS..image::PHYS + image::NVRAM_BYTES;
        let judge = Judge::new(&description(*machine), std::slice::from_ref(&nvram)).unwrap();
        let theirs = judge.decide(&block);
        let found = Found {
            machine: *machine,
            stamp: Some(0),
            cold_asked: false,
        };
        let mut ours = decide(memory, &found);
        if ours.reason == Reason::CpuLost {
            // The events are read by another function.
            ours.reason = without_events(memory, &found);
        }
        // What a word without any right byte looks like is left to chance: then its body is checked.
        let odd = memory_is_odd(memory) && ours.reason == Reason::CommitDamaged;
        let also = odd && number(Reason::BodyDamaged).contains(&theirs.reason);
        assert!(
            also || number(ours.reason).contains(&theirs.reason),
            "{memory:?}: {:?} here, {} there",
            ours.reason,
            reason_name(theirs.reason)
        );
        if !memory_is_odd(memory) {
            assert_eq!(u32::from(ours.sequence), theirs.sequence, "{memory:?}");
        }
        reasons.insert(theirs.reason);
    }
    eprintln!("{name}: {} media, {} reasons", all.len(), reasons.len());
    assert!(all.len() >= media, "{} media", all.len());
    assert!(reasons.len() >= least, "reasons {reasons:?}");
}

fn without_events(memory: &Memory, found: &Found) -> Reason {
    let mut plain = memory.clone();
    for line in [Line::Event(0), Line::Event(1)] {
        plain.set_media(line, Value::Zero);
    }
    decide(&plain, found).reason
}

/// A damaged word shows a number that the model does not know.
fn memory_is_odd(memory: &Memory) -> bool {
    (0..SLOTS).any(|slot| memory.damage(Line::Commit(slot)) == Some(Damage::Whole))
}

#[test]
fn loader_decides_like_the_model() {
    check_machine("plain", 30, 3);
}

#[test]
fn loader_decides_like_the_model_after_flaps() {
    check_machine("flaps", 30, 3);
}

#[test]
fn loader_decides_like_the_model_with_a_volatile_queue() {
    check_machine("volatile-queue", 30, 3);
}

#[test]
fn loader_decides_like_the_model_over_damaged_lines() {
    check_machine("damage", 500, 6);
}

#[test]
fn loader_decides_like_the_model_on_another_machine() {
    check_machine("hold", 50, 4);
}
