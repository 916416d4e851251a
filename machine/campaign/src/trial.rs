// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judging planned cuts, in the order of the run: media is changed in place and put back.

use std::collections::{BTreeSet, HashMap, HashSet};

use remanence_crash_states::Eviction;
use remanence_crash_states::eviction::{subsets_of_lines, subsets_of_words};
use remanence_crash_states::rng::mix;
use remanence_recording::DOMAIN_EADR;
use serde::Serialize;

use crate::CampaignError;
use crate::dirty::DirtyLines;
use crate::judge::{Decision, Judge, reason_name};
use crate::media;
use crate::plan::{Cut, EXHAUSTIVE_LINES, EXHAUSTIVE_WORDS, Planned, SUBSET_WORDS};
use crate::run::{Place, Recording, Run};
use crate::survey::{self, Survey};
use crate::verdict::{self, Verdict};
use remanence_crash_states::Line;

/// One image and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The cut: events before it.
    pub event: u64,
    /// Write-backs before it.
    pub write_backs: u64,
    /// Time of the cut.
    pub time_ns: u64,
    /// Place in the power cycle.
    pub place: Place,
    /// Lines evicted early, in the form that `replay` accepts.
    pub eviction: String,
    /// Number of lines evicted early.
    pub evicted: usize,
    /// Digest of media, in hex.
    pub digest: String,
    /// The loader's decision, by name.
    pub reason: String,
    /// Sequence of the image decided on.
    pub sequence: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// Images of one class boot alike.
    pub class: String,
    /// Within 64 write-backs of a word.
    pub near: bool,
}

/// Units of eviction: if there are few of them, all subsets are judged, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Parts {
    Lines,
    SomeWords,
    EachWord,
    /// Never exhaustive.
    Contents,
}

impl Parts {
    fn of(evict: &Planned) -> Self {
        match evict {
            Planned::Named(Eviction::Torn(..)) => Self::SomeWords,
            Planned::Named(Eviction::Older(..)) => Self::Contents,
            Planned::Named(_) => Self::Lines,
            Planned::EachWord => Self::EachWord,
        }
    }
}

/// If more lines wait in the memory controller's queue, not every number of them is judged.
const DRAINED_MAX: u64 = 16;

/// Judges the cuts of a recording; see the module.
#[derive(Debug)]
pub struct Trial<'a> {
    run: Run<'a>,
    survey: &'a Survey,
    decided: HashMap<u64, Decision>,
    seen: HashSet<u64>,
    changes: HashMap<u64, (Line, Line, u64)>,
    /// Images judged, including those seen before.
    pub made: u64,
}

impl<'a> Trial<'a> {
    /// Begins at the start of a recording.
    ///
    /// # Errors
    /// The recording is invalid.
    pub fn begin(recording: &'a Recording, survey: &'a Survey) -> Result<Self, CampaignError> {
        let run = survey::begin(recording, &survey.judge)?;
        Ok(Self {
            run,
            survey,
            decided: HashMap::new(),
            seen: HashSet::new(),
            changes: HashMap::new(),
            made: 0,
        })
    }

    /// The run at the last cut.
    #[must_use]
    pub fn run(&self) -> &Run<'a> {
        &self.run
    }

    /// Advances to a cut; cuts come in order.
    ///
    /// # Errors
    /// A damaged recording, or one that ends before the cut.
    pub fn go_to(&mut self, event: u64) -> Result<(), CampaignError> {
        while self.run.event < event {
            if self.run.step(Some(&self.survey.judge))?.is_none() {
                return Err(CampaignError::NoSuchPlace(event));
            }
        }
        self.run.follow_disks()
    }

    /// Judges the planned images, and passes every new one to `each`.
    ///
    /// # Errors
    /// The recording is invalid.
    pub fn judge_all(
        &mut self,
        cuts: &[Cut],
        mut each: impl FnMut(Outcome) -> Result<(), CampaignError>,
    ) -> Result<(), CampaignError> {
        let mut exhausted = BTreeSet::new();
        let eadr = self.run.header().domain == DOMAIN_EADR;
        for cut in cuts {
            self.go_to(cut.event)?;
            if eadr {
                // The caches are written out at the cut: one image, if a window records their
                // content.
                if self.run.window {
                    if let Some(outcome) = self.judge_one(&Eviction::All) {
                        each(outcome)?;
                    }
                }
                continue;
            }
            let parts = Parts::of(&cut.evict);
            let evictions = match (self.exhaustive(parts), &cut.evict) {
                (Some(_), _) if !exhausted.insert((cut.event, parts)) => continue,
                (Some(all), _) => all,
                (None, Planned::Named(eviction)) => vec![eviction.clone()],
                (None, Planned::EachWord) => vec![Eviction::All],
            };
            for eviction in &self.drained(parts, evictions) {
                if let Some(outcome) = self.judge_one(eviction) {
                    each(outcome)?;
                }
            }
        }
        Ok(())
    }

    /// The same when the memory controller has written more of what it has accepted: of whole lines
    /// each number, else one for each eviction.
    fn drained(&self, parts: Parts, evictions: Vec<Eviction>) -> Vec<Eviction> {
        let waiting = self.run.queue.len() as u64;
        if waiting == 0 {
            return evictions;
        }
        let every = parts == Parts::Lines && waiting <= DRAINED_MAX;
        let drawn = |n: usize| 1 + mix(self.run.event ^ mix(n as u64)) % waiting;
        let more = evictions.iter().enumerate().flat_map(|(n, eviction)| {
            let lines = if every {
                1..=waiting
            } else {
                drawn(n)..=drawn(n)
            };
            lines.map(move |lines| Eviction::Drained(lines, Box::new(eviction.clone())))
        });
        let more: Vec<Eviction> = more.collect();
        evictions.into_iter().chain(more).collect()
    }

    /// Every subset of what may be evicted here, if there are few parts.
    fn exhaustive(&self, parts: Parts) -> Option<Vec<Eviction>> {
        if !self.run.window || self.run.dirty.is_empty() {
            return None;
        }
        let words = |most: u32| {
            // A dirty line has a word that differs, so words are counted only if lines are few.
            let few = self.run.dirty.len() <= most as usize;
            few.then(|| subsets_of_words(&DirtyLines::of(&self.run), most))?
        };
        match parts {
            Parts::Lines => subsets_of_lines(&DirtyLines::of(&self.run), EXHAUSTIVE_LINES),
            Parts::SomeWords => words(EXHAUSTIVE_WORDS),
            Parts::EachWord => words(SUBSET_WORDS),
            Parts::Contents => None,
        }
    }

    /// Judges the image after a cut here with these lines evicted; `None` if such an image
    /// has been judged before under the same rules.
    pub fn judge_one(&mut self, eviction: &Eviction) -> Option<Outcome> {
        let stores = DirtyLines::of(&self.run).stores(eviction);
        self.made += 1;
        let old = self.evict(&stores);
        let progress = &self.run.progress;
        // The same media may be legal before a word was stored and illegal after: both are judged.
        let stage = (u64::from(progress.consumed_stored) << 34)
            ^ (u64::from(progress.entered) << 2)
            ^ (u64::from(progress.committed != 0) << 33)
            ^ (u64::from(self.run.has_unseen()) << 32)
            ^ (u64::from(progress.told_stopped) << 1)
            ^ u64::from(progress.born_consumed);
        let new = self
            .seen
            .insert(self.run.media.digest() ^ stage.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let outcome = new.then(|| self.outcome(eviction, stores.len()));
        self.put_back(&old);
        outcome
    }

    /// Writes lines early; returns media's old content and each line's change of the digest.
    pub fn evict(&mut self, stores: &[(u64, Line)]) -> Vec<(u64, Line, u64)> {
        let mut old = Vec::with_capacity(stores.len());
        for (line, data) in stores {
            let held = self.run.media.line(*line);
            let change = self.change(*line, &held, data);
            self.store(*line, data, change);
            old.push((*line, held, change));
        }
        old
    }

    fn put_back(&mut self, old: &[(u64, Line, u64)]) {
        for (line, data, change) in old.iter().rev() {
            self.store(*line, data, change.wrapping_neg());
        }
    }

    /// Neighbouring cuts evict the same lines: their digests are cached.
    fn change(&mut self, line: u64, old: &Line, new: &Line) -> u64 {
        let known = self.changes.entry(line).or_insert_with(|| (*old, *old, 0));
        if known.0 != *old || known.1 != *new {
            *known = (*old, *new, media::change(line, old, new));
        }
        known.2
    }

    fn store(&mut self, line: u64, data: &Line, change: u64) {
        let old = self.run.media.line(line);
        self.run.media.replace(line, data, change);
        if let Some(reference) = &mut self.run.reference {
            reference.changed(line, &old, data);
        }
    }

    fn outcome(&mut self, eviction: &Eviction, evicted: usize) -> Outcome {
        let judge: &Judge = &self.survey.judge;
        let media = &self.run.media;
        let decision = self
            .decided
            .entry(media.decisive())
            .or_insert_with(|| judge.decide(media.bytes()))
            .clone();
        let run = &self.run;
        Outcome {
            event: run.event,
            write_backs: run.write_backs,
            time_ns: run.time_ns,
            place: run.place,
            eviction: eviction.to_string(),
            evicted,
            digest: format!("{:016x}", run.media.digest()),
            reason: reason_name(decision.reason),
            sequence: decision.sequence,
            verdict: verdict::judge(run, &decision),
            class: verdict::class(run, &decision),
            near: self.survey.near(run.write_backs),
        }
    }
}
