// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cuts to judge. The same seed and round give the same plan on every worker.
//!
//! Strategy: of each round's cuts NEAR_PERCENT are within 64 write-backs of a change of a word. The
//! first round has every write-back there, with none and with all of the dirty lines evicted where
//! the rules change: everything that is or could be on media then is in one of the two. Each place
//! of Stop, Go and running has its share, and so have cuts at which an image can be entered. Where
//! the coherent view is known, most cuts evict lines early: none, each single line, all but one,
//! the dirty lines of a page, pairs, random subsets, random subsets with older contents of their lines,
//! random words (torn lines), all of them; if at most
//! EXHAUSTIVE_LINES are dirty or EXHAUSTIVE_WORDS differ, every subset. The second round has every
//! subset of up to SUBSET_WORDS words at all cuts in the loader at which an image can be entered.
//!
//! Distinct images of some kinds are few, and how many depends on the recorded run. So what a
//! campaign lacks in the end is planned by itself ([`more`]): whole rounds would bring more of the
//! others.

use std::collections::BTreeSet;
use std::str::FromStr;

use remanence_crash_states::rng::mix;
use remanence_crash_states::{Eviction, Rng};
use serde::Deserialize;
use serde::de::IntoDeserializer;

use crate::run::{PLACES, Place};
use crate::survey::{Segment, Survey};

/// Share of cuts that are near a word.
pub const NEAR_PERCENT: u64 = 10;
const ENTERABLE_PERCENT: u64 = 28;
/// Share of cuts in each place. Where little is written, more cuts leave the same image; cuts near a
/// word are additional in the loader and at the commit.
const fn place_percent(place: Place) -> u64 {
    match place {
        Place::GoCpus => 100,
        Place::GoDevices => 44,
        Place::Running | Place::StopPark | Place::StopSave => 46,
        Place::StopCommit => 30,
        Place::Loader | Place::Cold => 12,
    }
}
/// Where an image can be entered few lines are dirty, so whole lines give few images.
const TORN_ENTERABLE_PERCENT: u64 = 70;
const TORN_ELSEWHERE_PERCENT: u64 = 10;
/// All subsets of up to this many lines are judged.
pub const EXHAUSTIVE_LINES: usize = 5;
/// All subsets of up to this many words are judged where a cut tears lines.
pub const EXHAUSTIVE_WORDS: u32 = 9;
/// The same in the second round, in the loader where an image can be entered: its events before the
/// consume are 12 words.
pub const SUBSET_WORDS: u32 = 13;

/// The eviction of a planned cut.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planned {
    /// This eviction.
    Named(Eviction),
    /// Every subset of the words that differ, if they are at most `SUBSET_WORDS`.
    EachWord,
}

/// A kind of cuts of which a campaign may have too few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Near a word that decides.
    Near,
    /// An image can be entered there.
    Enterable,
    /// In a place.
    In(Place),
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "near" => Ok(Self::Near),
            "enterable" => Ok(Self::Enterable),
            _ => Place::deserialize(name.into_deserializer())
                .map(Self::In)
                .map_err(|error: serde::de::value::Error| format!("no kind of cuts: {error}")),
        }
    }
}

/// One image to judge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// Number of events before it.
    pub event: u64,
    /// Lines that had left the caches by themselves.
    pub evict: Planned,
}

/// A round of about `count` cuts, in the order of the run.
#[must_use]
pub fn plan(survey: &Survey, seed: u64, round: u64, count: u64) -> Vec<Cut> {
    let mut draw = Draw::begin(survey, seed, round);
    if round == 0 {
        draw.always(&near_ranges(survey));
    }
    if round == 1 {
        draw.each_word();
    }
    draw.of(Kind::Near, count * NEAR_PERCENT / 100);
    draw.of(Kind::Enterable, count * ENTERABLE_PERCENT / 100);
    for place in PLACES {
        draw.of(Kind::In(place), count * place_percent(place) / 100);
    }
    draw.from(
        &segments(survey, |_| true),
        count / 20,
        TORN_ELSEWHERE_PERCENT,
    );
    draw.cuts.into_iter().collect()
}

/// A round of cuts of these kinds only, about `count` of each, in the order of the run.
#[must_use]
pub fn more(survey: &Survey, seed: u64, round: u64, count: u64, kinds: &[Kind]) -> Vec<Cut> {
    let mut draw = Draw::begin(survey, seed, round);
    for &kind in kinds {
        if kind == Kind::Enterable {
            draw.each_word();
        }
        draw.of(kind, count);
    }
    draw.cuts.into_iter().collect()
}

fn segments(survey: &Survey, wanted: impl Fn(&Segment) -> bool) -> Vec<(u64, u64)> {
    let wanted = survey.segments.iter().filter(|segment| wanted(segment));
    wanted.map(|segment| (segment.from, segment.to)).collect()
}

/// Ranges of cuts near a word, which do not overlap.
fn near_ranges(survey: &Survey) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let cut_of = |write_backs: u64| match write_backs.checked_sub(1) {
        None => 0,
        Some(n) => {
            let index = usize::try_from(n).unwrap_or(usize::MAX);
            survey
                .write_backs
                .get(index)
                .copied()
                .unwrap_or(survey.events)
        }
    };
    for &word in &survey.words {
        let from = cut_of(word.saturating_sub(crate::survey::NEAR_WRITE_BACKS));
        let to = cut_of(word + crate::survey::NEAR_WRITE_BACKS) + 1;
        match ranges.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(to),
            _ => ranges.push((from, to)),
        }
    }
    ranges
}

/// The cuts that have been chosen.
struct Draw<'a> {
    survey: &'a Survey,
    rng: Rng,
    cuts: BTreeSet<Cut>,
}

impl<'a> Draw<'a> {
    fn begin(survey: &'a Survey, seed: u64, round: u64) -> Self {
        Self {
            survey,
            rng: Rng(mix(seed) ^ mix(round.wrapping_add(0x9e37))),
            cuts: BTreeSet::new(),
        }
    }

    /// `count` cuts of a kind.
    fn of(&mut self, kind: Kind, count: u64) {
        let (ranges, torn_percent) = match kind {
            Kind::Near => (near_ranges(self.survey), TORN_ELSEWHERE_PERCENT),
            Kind::Enterable => {
                let open = self.survey.open.iter();
                let events = open.map(|&event| (event, event + 1)).collect();
                (events, TORN_ENTERABLE_PERCENT)
            }
            Kind::In(place) => {
                let here = segments(self.survey, |segment| segment.place == place);
                (here, TORN_ELSEWHERE_PERCENT)
            }
        };
        self.from(&ranges, count, torn_percent);
    }

    /// The cuts that every campaign judges.
    fn always(&mut self, near: &[(u64, u64)]) {
        let events = &self.survey.write_backs;
        for &(from, to) in near {
            let first = events.partition_point(|&event| event < from);
            for &event in events[first..].iter().take_while(|&&event| event < to) {
                self.insert(event, Eviction::None);
            }
        }
        for &turn in &self.survey.turns {
            for event in turn.saturating_sub(1)..=(turn + 1).min(self.survey.events) {
                for eviction in [Eviction::None, Eviction::All] {
                    self.insert(event, eviction);
                }
            }
        }
    }

    /// Every word that may be torn in the loader, which decides there. Between commit and power-off
    /// the stack of Stop is dirty, too: how many words that is depends on the compiler, and all
    /// their subsets would crowd out the other places.
    fn each_word(&mut self) {
        for &event in &self.survey.open {
            if self.place_of(event) == Some(Place::Loader) {
                let evict = Planned::EachWord;
                self.cuts.insert(Cut { event, evict });
            }
        }
    }

    /// `count` cuts in these ranges, `torn_percent` of them with torn lines.
    fn from(&mut self, ranges: &[(u64, u64)], count: u64, torn_percent: u64) {
        let total: u64 = ranges.iter().map(|(from, to)| to - from).sum();
        for _ in 0..if total == 0 { 0 } else { count } {
            let event = self.place(ranges, total);
            let window = self.segment(event).is_some_and(|segment| segment.window);
            let eviction = match window {
                true if self.rng.below(100) < torn_percent => {
                    Eviction::Torn(self.rng.next() >> 16, [64, 128, 192][self.rng.index(3)])
                }
                true => self.evict(),
                false => Eviction::None,
            };
            self.insert(event, eviction);
        }
    }

    fn segment(&self, event: u64) -> Option<&Segment> {
        let segments = &self.survey.segments;
        segments.get(segments.partition_point(|segment| segment.to <= event))
    }

    fn place_of(&self, event: u64) -> Option<Place> {
        self.segment(event).map(|segment| segment.place)
    }

    fn insert(&mut self, event: u64, eviction: Eviction) {
        let evict = Planned::Named(eviction);
        self.cuts.insert(Cut { event, evict });
    }

    fn place(&mut self, ranges: &[(u64, u64)], total: u64) -> u64 {
        let mut at = self.rng.below(total);
        let mut event = 0;
        for (from, to) in ranges {
            if at < to - from {
                event = from + at;
                break;
            }
            at -= to - from;
        }
        // Half of the cuts are right after a write-back: media has just changed there.
        if self.rng.below(2) == 0 {
            let events = &self.survey.write_backs;
            let next = events.partition_point(|&behind| behind < event);
            let behind = events.get(next).copied().unwrap_or(event);
            if ranges
                .iter()
                .any(|(from, to)| (*from..*to).contains(&behind))
            {
                return behind;
            }
        }
        event
    }

    fn evict(&mut self) -> Eviction {
        let n = self.rng.next();
        match self.rng.below(20) {
            0..=3 => Eviction::None,
            4..=7 => Eviction::One(n >> 32),
            8..=9 => Eviction::AllBut(n >> 32),
            10..=11 => Eviction::Pair(n >> 32, n & 0xffff_ffff),
            12..=13 => Eviction::Page(n >> 32),
            14 => Eviction::All,
            15..=16 => Eviction::Older(n >> 16, [64, 128, 192, 240][self.rng.index(4)]),
            _ => Eviction::Random(n >> 16, [16, 64, 128, 192, 240][self.rng.index(5)]),
        }
    }
}
