// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first pass over a recording: the possible cuts, and the machine's description.

use std::collections::BTreeMap;

use remanence_format::{REM_DESC_BYTES, REM_DESC_OFFSET, REM_NOTE_OFFSET};
use remanence_recording::Event;
use serde::Serialize;

use crate::CampaignError;
use crate::description;
use crate::judge::Judge;
use crate::run::{Place, Recording, Run};

/// Cuts this many write-backs before or after a word changed on media are near it.
pub const NEAR_WRITE_BACKS: u64 = 64;

/// A range of cuts with equal properties for a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// First cut.
    pub from: u64,
    /// One after the last.
    pub to: u64,
    /// Their place in the power cycle.
    pub place: Place,
    /// Whether lines can be evicted early there.
    pub window: bool,
    /// Whether a cut without eviction is resumed.
    pub enterable: bool,
}

/// Result of a survey; see the module.
#[derive(Debug)]
pub struct Survey {
    /// Number of complete events.
    pub events: u64,
    /// The event number after each write-back: the cut that has it and no later one.
    pub write_backs: Vec<u64>,
    /// In order, without gaps.
    pub segments: Vec<Segment>,
    /// Number of write-backs when a word changed on media.
    pub words: Vec<u64>,
    /// Cuts at which an image can be entered and lines are dirty: there are few of them.
    pub open: Vec<u64>,
    /// Cuts at which the rules change: a word was stored or became durable, an image was entered.
    pub turns: Vec<u64>,
    /// Number of events of each kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The loader of this machine.
    pub judge: Judge,
}

impl Survey {
    /// Reads the whole recording once, or twice if its base has no description.
    ///
    /// # Errors
    /// The recording is invalid.
    pub fn of(recording: &Recording) -> Result<Self, CampaignError> {
        let judge = find_judge(recording)?;
        let mut run = begin(recording, &judge)?;
        let mut survey = Self {
            events: 0,
            write_backs: Vec::new(),
            segments: Vec::new(),
            words: Vec::new(),
            open: Vec::new(),
            turns: Vec::new(),
            kinds: BTreeMap::new(),
            judge: judge.clone(),
        };
        survey.notice_segment(&run);
        let mut rules = rules(&run);
        while let Some(timed) = run.step(Some(&judge))? {
            *survey.kinds.entry(kind_name(&timed.event)).or_default() += 1;
            if let Event::WriteBack { line, .. } = timed.event {
                survey.write_backs.push(run.event);
                if line - recording.header.nvram_phys < REM_NOTE_OFFSET {
                    survey.words.push(run.write_backs);
                }
            }
            survey.notice_segment(&run);
            if run.progress.durable > run.progress.consumed_stored && !run.dirty.is_empty() {
                survey.open.push(run.event);
            }
            let now = self::rules(&run);
            if now != rules {
                survey.turns.push(run.event);
                rules = now;
            }
        }
        survey.events = run.event;
        if let Some(last) = survey.segments.last_mut() {
            last.to = run.event + 1;
        }
        Ok(survey)
    }

    fn notice_segment(&mut self, run: &Run<'_>) {
        let enterable = run.progress.durable > run.progress.consumed_stored;
        let here = (run.place, run.window, enterable);
        if let Some(last) = self.segments.last_mut() {
            last.to = run.event;
            if (last.place, last.window, last.enterable) == here {
                return;
            }
        }
        let (place, window, enterable) = here;
        self.segments.push(Segment {
            from: run.event,
            to: run.event,
            place,
            window,
            enterable,
        });
    }

    /// Whether a cut after `write_backs` write-backs is near a word.
    #[must_use]
    pub fn near(&self, write_backs: u64) -> bool {
        let next = self.words.partition_point(|&word| word < write_backs);
        let close = |word: &u64| word.abs_diff(write_backs) <= NEAR_WRITE_BACKS;
        self.words.get(next).is_some_and(close)
            || next
                .checked_sub(1)
                .and_then(|n| self.words.get(n))
                .is_some_and(close)
    }
}

/// Everything besides the image that its verdict depends on.
fn rules(run: &Run<'_>) -> (u32, u32, u32, u32, [bool; 4]) {
    let progress = &run.progress;
    let reference = run
        .reference
        .as_ref()
        .map_or(0, |reference| reference.sequence);
    (
        reference,
        progress.durable,
        progress.consumed_stored,
        progress.entered,
        [
            progress.told_stopped,
            progress.committed != 0,
            progress.born_consumed,
            run.has_unseen(),
        ],
    )
}

/// A run at its beginning, with the image that its base holds, if any.
///
/// # Errors
/// The recording is invalid.
pub fn begin<'a>(recording: &'a Recording, judge: &Judge) -> Result<Run<'a>, CampaignError> {
    let mut run = Run::begin(recording)?;
    let decision = judge.decide(run.media.bytes());
    run.adopt(&decision, judge.ranges());
    Ok(run)
}

fn read_judge(run: &Run<'_>) -> Option<Judge> {
    let bytes = usize::try_from(REM_DESC_BYTES).ok()?;
    let described = run.coherent_bytes(REM_DESC_OFFSET, bytes)?;
    Judge::new(&described, &description::ranges(run))
}

/// The description is the same at each boot of a machine, so any complete one will do: that of
/// the base, of a window's beginning, or of the end.
fn find_judge(recording: &Recording) -> Result<Judge, CampaignError> {
    let mut run = Run::begin(recording)?;
    if let Some(judge) = read_judge(&run) {
        return Ok(judge);
    }
    let mut in_lines = false;
    loop {
        let Some(timed) = run.step(None)? else {
            return read_judge(&run)
                .ok_or_else(|| CampaignError::NoDescription(recording.dir().to_owned()));
        };
        let line = matches!(timed.event, Event::Line { .. });
        if in_lines && !line {
            if let Some(judge) = read_judge(&run) {
                return Ok(judge);
            }
        }
        in_lines = line;
    }
}

fn kind_name(event: &Event<'_>) -> &'static str {
    match event {
        Event::Store { .. } => "store",
        Event::WriteBack { .. } => "write-back",
        Event::Flush { .. } => "flush",
        Event::Fence { .. } => "fence",
        Event::CacheAll { .. } => "cache-all",
        Event::Unseen { .. } => "unseen",
        Event::Phase(_) => "phase",
        Event::Power { .. } => "power",
        Event::DiskLog { .. } => "disk-log",
        Event::Window { .. } => "window",
        Event::Line { .. } => "line",
        Event::Cut { .. } => "cut",
        Event::End => "end",
        Event::Console { .. } => "console",
        Event::Accepted { .. } => "accepted",
    }
}
