// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: without a persistence domain the images of a cut are those that a memory controller may
//! leave that writes what it has accepted in its order, and no others; a store that comes before a
//! late write-back is neither lost nor taken for a change without a store.
//!
//! Method: recordings of the model on such a machine, and a second, plain reading of them, which keeps
//! every content of every line with the place of its store.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::path::Path;

use remanence_campaign::CampaignError;
use remanence_campaign::dirty::DirtyLines;
use remanence_campaign::plan::plan;
use remanence_campaign::run::{Recording, Run};
use remanence_campaign::survey::Survey;
use remanence_campaign::trial::Trial;
use remanence_campaign::verdict::Verdict;
use remanence_crash_states::{Eviction, Line};
use remanence_model::protocol::{Right, RightUncovered};
use remanence_model::write;
use remanence_recording::{
    Cause, DOMAIN_ADR, DOMAIN_NONE, Event, Header, LINE_BYTES, Reader, Writer,
};

const CUTS: u64 = 600;

/// The model's Stop and Go break no promise if they wait until words are written.
#[test]
fn protocol_that_waits_for_the_queue_breaks_nothing() {
    for seed in 1..=2 {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), seed, &RightUncovered).unwrap();
        for part in ["stop", "go"] {
            let recording = Recording::open(&dir.path().join(part)).unwrap();
            let survey = Survey::of(&recording).unwrap();
            let mut trial = Trial::begin(&recording, &survey).unwrap();
            let (mut images, mut drained) = (0, 0);
            trial
                .judge_all(&plan(&survey, seed, 0, CUTS), |outcome| {
                    images += 1;
                    drained += u64::from(outcome.eviction.starts_with("drained:"));
                    let wrong = matches!(outcome.verdict, Verdict::Violation(_));
                    assert!(!wrong, "seed {seed}, {part}: {outcome:#?}");
                    Ok(())
                })
                .unwrap();
            assert!(images > 300 && drained > 20, "{part}: {images}, {drained}");
        }
    }
}

/// All that happened to lines, as the recording has it.
#[derive(Default)]
struct Told {
    /// Of each line, what CPUs saw from an event on.
    seen: BTreeMap<u64, Vec<(u64, Line)>>,
    /// Event, line and content of each acceptance.
    accepted: Vec<(u64, u64, Line)>,
    written: usize,
}

impl Told {
    fn take(&mut self, base: &[u8], number: u64, event: &Event<'_>, phys: u64) {
        match event {
            Event::Line { line, data } | Event::Unseen { line, data } => {
                let seen = self.seen.entry(line - phys).or_default();
                seen.push((number, **data));
            }
            Event::Store { address, bytes, .. } => {
                let at = address - phys;
                let line = at - at % LINE_BYTES as u64;
                let seen = self.seen.entry(line).or_default();
                let mut data = seen.last().map_or_else(|| of(base, line), |last| last.1);
                data[usize::try_from(at - line).unwrap()..][..bytes.len()].copy_from_slice(bytes);
                seen.push((number, data));
            }
            Event::Accepted { line, data, .. } => {
                self.accepted.push((number, line - phys, **data));
            }
            Event::WriteBack { .. } => self.written += 1,
            _ => {}
        }
    }

    /// Whether media may have these contents now; words of a line may be of any of its contents.
    fn allows(&self, base: &[u8], image: &BTreeMap<u64, Line>) -> bool {
        let allowed = |drained: usize| {
            image.iter().all(|(line, content)| {
                let contents = self.contents(base, *line, drained);
                (0..LINE_BYTES).step_by(8).all(|at| {
                    let word = |line: &Line| line[at..at + 8] == content[at..at + 8];
                    contents.iter().any(word)
                })
            })
        };
        (self.written..=self.accepted.len()).any(allowed)
    }

    /// What media may have of a line when so many accepted lines are written, and not the next one.
    fn contents(&self, base: &[u8], line: u64, drained: usize) -> Vec<Line> {
        let (written, rest) = self.accepted.split_at(drained);
        let last = written.iter().rfind(|accepted| accepted.1 == line);
        let (from, certain) = last.map_or_else(|| (0, of(base, line)), |last| (last.0, last.2));
        let to = rest.first().map_or(u64::MAX, |next| next.0);
        let seen = self.seen.get(&line).into_iter().flatten();
        let later = seen.filter(|(event, _)| (from..to).contains(event));
        std::iter::once(certain)
            .chain(later.map(|(_, data)| *data))
            .collect()
    }
}

fn of(base: &[u8], line: u64) -> Line {
    let at = usize::try_from(line).unwrap();
    base[at..at + LINE_BYTES].try_into().unwrap()
}

fn evictions(seed: u64, waiting: u64) -> Vec<Eviction> {
    let plain = [
        Eviction::None,
        Eviction::All,
        Eviction::One(seed),
        Eviction::AllBut(seed),
        Eviction::Random(seed, 128),
        Eviction::Older(seed, 128),
        Eviction::Torn(seed, 128),
    ];
    let later = plain.clone().into_iter().enumerate().map(|(n, evict)| {
        let lines = 1 + (seed + n as u64) % waiting.max(1);
        Eviction::Drained(lines, Box::new(evict))
    });
    let later: Vec<Eviction> = later.collect();
    plain.into_iter().chain(later).collect()
}

#[test]
fn every_image_is_one_that_the_queue_may_leave() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 2, &RightUncovered).unwrap();
    let folder = dir.path().join("stop");
    let (bytes, base) = (
        std::fs::read(folder.join("recording.bin")).unwrap(),
        std::fs::read(folder.join("base.media")).unwrap(),
    );
    let reader = Reader::new(&bytes).unwrap();
    let recording = Recording::open(&folder).unwrap();
    let mut run = Run::begin(&recording).unwrap();
    let mut told = Told::default();
    let (mut images, mut parts) = (0, 0);
    for (number, timed) in (1..).zip(reader.events()) {
        let event = timed.unwrap().event;
        told.take(&base, number, &event, recording.header.nvram_phys);
        run.step(None).unwrap().unwrap();
        if number % if run.queue.is_empty() { 16 } else { 3 } > 0 {
            continue;
        }
        let waiting = run.queue.len() as u64;
        let places = || {
            run.dirty
                .keys()
                .copied()
                .chain(run.queue.waiting().map(|it| it.1))
        };
        for eviction in evictions(number, waiting) {
            let mut image: BTreeMap<u64, Line> =
                places().map(|line| (line, run.media.line(line))).collect();
            let before = image.clone();
            image.extend(DirtyLines::of(&run).stores(&eviction));
            assert!(told.allows(&base, &image), "event {number}: {eviction}");
            images += 1;
            parts += usize::from(waiting > 1 && image != before);
        }
    }
    assert!(images > 1_000 && parts > 300, "{images}, {parts}");
}

#[test]
fn each_number_of_written_lines_is_an_image() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 2, &RightUncovered).unwrap();
    let recording = Recording::open(&dir.path().join("stop")).unwrap();
    let mut run = Run::begin(&recording).unwrap();
    let mut most = 0;
    while run.step(None).unwrap().is_some() {
        let mut media = BTreeMap::new();
        for (number, line, data) in run.queue.waiting() {
            media.insert(line, *data);
            let lines = number - run.queue.on_media();
            let eviction = Eviction::Drained(lines, Box::new(Eviction::None));
            let stores = DirtyLines::of(&run).stores(&eviction);
            let wanted = media.iter().map(|(line, data)| (*line, *data));
            let wanted = wanted.filter(|(line, data)| run.media.line(*line) != *data);
            assert_eq!(stores, wanted.collect::<Vec<_>>());
            most = most.max(lines);
        }
    }
    assert!(most > 10, "{most}");
}

const PHYS: u64 = 1 << 32;

/// A recording of these events, on zeros.
fn recorded(dir: &Path, domain: u32, events: &[Event<'_>]) -> Recording {
    let header = Header {
        nvram_phys: PHYS,
        nvram_bytes: 4 << 20,
        domain,
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for event in events {
        writer.put(0, 0, event).unwrap();
    }
    std::fs::write(dir.join("recording.bin"), writer.finish().unwrap()).unwrap();
    std::fs::write(dir.join("base.media"), vec![0; 4 << 20]).unwrap();
    Recording::open(dir).unwrap()
}

const LINE: u64 = PHYS + 0x30_0000;

fn accepted(data: &Line) -> Event<'_> {
    Event::Accepted {
        line: LINE,
        data,
        cause: Cause::CLFLUSH,
    }
}

fn written(data: &Line) -> Event<'_> {
    Event::WriteBack {
        line: LINE,
        data,
        cause: Cause::CLFLUSH,
    }
}

fn store(bytes: &[u8; 64]) -> Event<'_> {
    Event::Store {
        address: LINE,
        bytes,
        pc: 0,
    }
}

#[test]
fn store_before_a_late_write_back_is_in_the_view() {
    let (old, new) = ([1; 64], [2; 64]);
    let dir = tempfile::tempdir().unwrap();
    let events = [
        Event::Window { begins: true },
        store(&old),
        accepted(&old),
        store(&new),
        written(&old),
    ];
    let recording = recorded(dir.path(), DOMAIN_NONE, &events);
    let mut run = Run::begin(&recording).unwrap();
    let offset = LINE - PHYS;
    while run.step(None).unwrap().is_some() {}
    assert_eq!((run.media.line(offset), run.coherent(offset)), (old, new));
    let lost = DirtyLines::of(&run).stores(&Eviction::All);
    assert_eq!(lost, [(offset, new)]);
}

#[test]
fn queue_that_no_controller_has_is_refused_by_name() {
    let (old, new) = ([1; 64], [2; 64]);
    let cases = [
        (DOMAIN_NONE, vec![written(&old)]),
        (DOMAIN_NONE, vec![accepted(&old), written(&new)]),
        (DOMAIN_ADR, vec![written(&old), accepted(&old)]),
    ];
    for (domain, events) in cases {
        let dir = tempfile::tempdir().unwrap();
        let recording = recorded(dir.path(), domain, &events);
        let mut run = Run::begin(&recording).unwrap();
        let refused = loop {
            match run.step(None) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{events:?} was taken"),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, CampaignError::Queue(_)), "{refused:?}");
        assert!(!refused.to_string().contains('\n'));
    }
}

/// The model on a machine with a domain has no queue.
#[test]
fn with_a_domain_nothing_waits() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &Right).unwrap();
    let recording = Recording::open(&dir.path().join("stop")).unwrap();
    assert_eq!(recording.header.domain, DOMAIN_ADR);
    let mut run = Run::begin(&recording).unwrap();
    while run.step(None).unwrap().is_some() {
        assert!(run.queue.is_empty());
    }
}
