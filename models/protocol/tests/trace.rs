// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of the right protocol are behaviours of the model; those of a wrong one are not.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "tests"
)]

use remanence_format::{self as format, RemBootNote};
use remanence_model::image;
use remanence_protocol::config::Change;
use remanence_protocol::lines::{Head, Rest, SLOTS};
use remanence_protocol::mutants::named;
use remanence_protocol::steps::Part;
use remanence_protocol::trace::{Step, TraceError, follow, of_part, visible};
use remanence_recording::{CLOCK_NONE, Cause, Event, Fence, Header, NO_VCPU, Phase, Writer};

const CPUS: u8 = 2;
/// Added to the sequences of the model, as machines that have run for long have them.
const BASE: u32 = 300;

fn rest() -> Rest {
    Rest {
        machine: 0,
        stamp: 0,
    }
}

/// A power cycle: an image is entered, the machine is armed and stops.
fn cycle(sequence: u8, change: Option<Change>) -> Vec<Step> {
    let next = sequence + 1;
    let parts = [
        Part::Resume(Head { sequence, image: 1 }),
        Part::Prepare(next, rest()),
        Part::Stop(next),
    ];
    let shown = parts.into_iter().flat_map(|part| of_part(part, change));
    [Step::Loader].into_iter().chain(shown).collect()
}

fn header(cpu_count: u8) -> Header {
    Header {
        clock: CLOCK_NONE,
        nvram_phys: image::PHYS,
        nvram_bytes: image::NVRAM_BYTES,
        cpu_count: u32::from(cpu_count),
        ..Header::default()
    }
}

/// Writes a recording.
struct Recorder {
    writer: Writer<Vec<u8>>,
    /// How lines are flushed.
    flush: Cause,
}

impl Recorder {
    fn put(&mut self, vcpu: u8, event: &Event<'_>) {
        self.writer.put(vcpu, 0, event).unwrap();
    }

    fn flushed(&mut self, at: u64) {
        let flush = Event::Flush {
            line: image::PHYS + at,
            pc: 0,
            cause: self.flush,
        };
        let fence = Fence::MFENCE;
        self.put(0, &flush);
        self.put(0, &Event::Fence { pc: 0, fence });
    }

    fn stored(&mut self, at: u64, bytes: &[u8]) {
        let store = Event::Store {
            address: image::PHYS + at,
            bytes,
            pc: 0,
        };
        self.put(0, &store);
    }

    /// A boot note with this reason.
    fn noted(&mut self, reason: u32) {
        let note = RemBootNote {
            reason,
            ..RemBootNote::default()
        };
        let bytes = note.to_bytes();
        self.stored(format::REM_NOTE_OFFSET, &bytes[..64]);
        self.stored(format::REM_NOTE_OFFSET + 64, &bytes[64..128]);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Loader => self.put(NO_VCPU, &Event::Phase(Phase::LOADER)),
            Step::Cold => self.noted(format::REM_COLD_NOT_COMMITTED),
            Step::Entered => self.noted(format::REM_BOOT_RESUME),
            Step::Stopped => self.put(NO_VCPU, &Event::Phase(Phase::STOPPED)),
            Step::Consumed(sequence) => {
                let word = image::consumed_word(number(sequence)).to_bytes();
                self.stored(format::REM_CONSUMED_OFFSET, &word);
            }
            Step::Commit(slot, sequence) => self.stored(commit(slot), &commit_word(sequence)),
            Step::Head(slot, sequence) => {
                self.stored(body(slot) + 16, &number(sequence).to_le_bytes());
            }
            Step::ConsumedFlushed => self.flushed(format::REM_CONSUMED_OFFSET),
            Step::CommitFlushed(slot) => self.flushed(commit(slot)),
            Step::HeadFlushed(slot) => self.flushed(body(slot)),
            Step::CachesFlushed => {
                let cause = Cause::WBINVD;
                for vcpu in 0..CPUS {
                    self.put(vcpu, &Event::CacheAll { pc: 0, cause });
                }
            }
        }
    }
}

fn number(sequence: u8) -> u32 {
    BASE + u32::from(sequence)
}

fn commit_word(sequence: u8) -> [u8; 8] {
    match sequence {
        0 => [0; 8],
        sequence => image::commit_word(number(sequence), b"body").to_bytes(),
    }
}

fn commit(slot: usize) -> u64 {
    image::commit_offset(u32::try_from(slot).unwrap())
}

fn body(slot: usize) -> u64 {
    image::body_offset(u32::try_from(slot).unwrap())
}

/// A recording with these steps.
fn recording(steps: &[Step], flush: Cause) -> Vec<u8> {
    let writer = Writer::new(Vec::new(), &header(CPUS)).unwrap();
    let mut recorder = Recorder { writer, flush };
    recorder.put(NO_VCPU, &Event::Window { begins: true });
    for step in steps {
        recorder.step(*step);
    }
    recorder.put(NO_VCPU, &Event::End);
    recorder.writer.finish().unwrap()
}

fn checked(steps: &[Step]) -> Result<(), TraceError> {
    let bytes = recording(steps, Cause::CLFLUSHOPT);
    follow(&visible(&bytes)?)
}

#[test]
fn recording_has_the_steps_that_were_put_into_it() {
    for cause in [Cause::CLFLUSH, Cause::CLFLUSHOPT, Cause::CLWB] {
        let steps = cycle(2, None);
        let seen = visible(&recording(&steps, cause)).unwrap();
        let seen: Vec<Step> = seen.into_iter().map(|(_, step)| step).collect();
        assert_eq!(seen, steps);
    }
}

#[test]
fn right_power_cycles_are_behaviours() {
    checked(&cycle(2, None)).unwrap();
    checked(&[cycle(3, None), cycle(4, None), cycle(5, None)].concat()).unwrap();
    // The window begins while programs run.
    checked(&of_part(Part::Stop(2), None)).unwrap();
    checked(&of_part(Part::Stop(3), None)).unwrap();
}

#[test]
fn every_part_may_end_at_every_step() {
    let whole = [cycle(2, None), cycle(3, None)].concat();
    let next = cycle(3, None);
    let first = whole.len() - next.len();
    for end in 1..first {
        checked(&whole[..end]).unwrap();
    }
    // Power fails in the Stop of the first cycle, before its commit word is stored: a cold boot.
    let cold = of_part(Part::Cold(0, [false; SLOTS]), None);
    let stop = of_part(Part::Stop(3), None).len();
    for end in first - stop..first - 3 {
        let steps = [&whole[..end], &[Step::Loader], &cold[..]].concat();
        checked(&steps).unwrap();
    }
}

/// As the recordings of machines are: they do not say when the loader begins.
fn without_loader(steps: &[Step]) -> Vec<Step> {
    let shown = steps.iter().filter(|step| **step != Step::Loader);
    shown.copied().collect()
}

#[test]
fn recording_that_begins_in_the_loader_is_followed() {
    checked(&without_loader(&cycle(2, None))).unwrap();
    for name in [
        "skip-flush",
        "not-consumed",
        "consume-not-flushed",
        "arm-clears-both",
    ] {
        let change = Some(named(name).unwrap().change);
        let refused = checked(&without_loader(&cycle(2, change)));
        assert!(
            matches!(refused, Err(TraceError::Refused { .. })),
            "{name}: {refused:?}"
        );
    }
}

#[test]
fn caches_may_be_written_back_once_more() {
    let steps = cycle(2, None);
    for at in 1..=steps.len() {
        let mut more = steps.clone();
        more.insert(at, Step::CachesFlushed);
        checked(&more).unwrap();
    }
}

#[test]
fn stop_that_turns_back_is_a_behaviour() {
    let stop = of_part(Part::Stop(3), None);
    let prepare = of_part(Part::Prepare(3, rest()), None);
    let go = &cycle(2, None)[..];
    let armed = &go[..go.len() - stop.len()];
    for end in 0..3 {
        let steps = [armed, &stop[..end], &prepare, &stop].concat();
        checked(&steps).unwrap();
    }
}

#[test]
fn cold_boot_that_lays_the_block_out_is_a_behaviour() {
    let parts = [
        Part::Cold(0, [false, true]),
        Part::Format(2),
        Part::Prepare(3, rest()),
        Part::Stop(3),
    ];
    let shown = parts.into_iter().flat_map(|part| of_part(part, None));
    let steps: Vec<Step> = [Step::Loader].into_iter().chain(shown).collect();
    checked(&steps).unwrap();
}

#[test]
fn wrong_protocols_are_refused() {
    let visible_bugs = [
        "skip-flush",
        "commit-before-flush",
        "body-after-commit",
        "commit-not-flushed",
        "skip-commit",
        "reported-early",
        "old-sequence",
        "commit-twice",
        "consume-ahead",
        "arm-keeps-commit",
        "arm-clears-both",
        "not-consumed",
        "consume-not-flushed",
        "consume-older",
        "consume-after-entry",
    ];
    for name in visible_bugs {
        let change = Some(named(name).unwrap().change);
        let mut steps = cycle(4, change);
        if name == "consume-after-entry" {
            let entered = steps
                .iter()
                .position(|step| *step == Step::Entered)
                .unwrap();
            let late = of_part(Part::Go(4), change);
            steps.splice(entered + 1..=entered, late);
        }
        // A cycle before, so that it is known which image is the newest.
        let all = [cycle(3, None), steps].concat();
        let refused = checked(&all);
        assert!(
            matches!(refused, Err(TraceError::Refused { .. })),
            "{name}: {refused:?}"
        );
    }
}

#[test]
fn flush_without_a_fence_is_refused() {
    let bytes = recording(&cycle(2, None), Cause::CLFLUSHOPT);
    let steps = visible(&bytes).unwrap();
    let mut late = steps.clone();
    let flush = late
        .iter()
        .rposition(|(_, step)| matches!(step, Step::CommitFlushed(_)))
        .unwrap();
    late.remove(flush);
    assert!(follow(&late).is_err());
    follow(&steps).unwrap();
}

#[test]
fn word_that_is_stored_in_parts_is_refused() {
    let mut writer = Writer::new(Vec::new(), &header(1)).unwrap();
    let store = Event::Store {
        address: image::PHYS + image::commit_offset(2),
        bytes: &[1; 4],
        pc: 0,
    };
    writer.put(0, 0, &store).unwrap();
    let bytes = writer.finish().unwrap();
    assert!(matches!(visible(&bytes), Err(TraceError::Torn { .. })));
}

#[test]
fn any_bytes_are_an_error_or_steps() {
    let right = recording(&cycle(2, None), Cause::CLFLUSH);
    for at in 0..right.len() {
        let mut wrong = right.clone();
        wrong[at] ^= 0x41;
        if let Ok(steps) = visible(&wrong) {
            let _ = follow(&steps);
        }
        let _ = visible(&right[..at]);
    }
}
