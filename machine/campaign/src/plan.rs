// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cuts to judge. The same seed and round give the same plan on every worker.
//!
//! The strategy: of each round's cuts NEAR_PERCENT are within 64 write-backs of a change of a word
//! (the first round has every write-back there, and none and all of the dirty lines evicted where the
//! rules change: whatever is on media by then, or could be, is in one of the two), each place of Stop, Go and running has its share, and
//! so have cuts at which an image can be entered. Where the coherent view is known, most cuts evict
//! lines early: none, each single line, all but one, the dirty lines of a page, pairs, random
//! subsets, random words (torn lines), all of them; where at most
//! EXHAUSTIVE_LINES are dirty or EXHAUSTIVE_WORDS differ, every subset; the second round has every subset
//! of up to SUBSET_WORDS words wherever an image can be entered.

use std::collections::BTreeSet;

use crate::CampaignError;
use crate::media::Line;
use crate::run::{PLACES, Place, Run};
use crate::survey::{Segment, Survey};

/// Share of cuts that are near a word.
pub const NEAR_PERCENT: u64 = 15;
const ENTERABLE_PERCENT: u64 = 28;
/// Of cuts in each place. Where little is written they leave the same image more often; cuts near a
/// word come on top in the loader and at the commit.
const fn place_percent(place: Place) -> u64 {
    match place {
        Place::GoCpus => 72,
        Place::Running | Place::StopPark => 34,
        Place::StopSave | Place::StopCommit => 30,
        Place::GoDevices => 26,
        Place::Loader | Place::Cold => 12,
    }
}
/// Where an image can be entered few lines are dirty, so that whole lines make few images.
const TORN_ENTERABLE_PERCENT: u64 = 70;
const TORN_ELSEWHERE_PERCENT: u64 = 10;
/// All subsets of so few lines are judged.
pub const EXHAUSTIVE_LINES: usize = 5;
/// All subsets of so few words are judged where a cut tears lines.
pub const EXHAUSTIVE_WORDS: usize = 9;
/// As many in the second round, where an image can be entered: the loader's events before the consume
/// are 12 words.
pub const SUBSET_WORDS: usize = 13;

/// Which dirty lines had been evicted when the power went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Eviction {
    /// None: media as the write-backs left it.
    None,
    /// All.
    All,
    /// The n-th dirty line, modulo their number.
    One(u64),
    /// All but that.
    AllBut(u64),
    /// Two.
    Pair(u64, u64),
    /// All dirty lines in the page of the n-th.
    Page(u64),
    /// Each by chance: seed, and how many of 256.
    Random(u64, u8),
    /// Each aligned word of 8 bytes of dirty lines by chance, as where a line may be torn: seed, and
    /// how many of 256.
    Torn(u64, u8),
    /// Of a plan only: every subset of the words that differ, where they are at most SUBSET_WORDS.
    EachWord,
    /// The words of 8 bytes whose bit is set; the number of the first words that differ.
    Words(u64),
    /// The lines whose bit is set; the number of the first lines.
    Mask(u64),
    /// These, by offset in NVRAM.
    Lines(Vec<u64>),
}

impl Eviction {
    /// Reads what `Display` writes.
    ///
    /// # Errors
    /// A text that is none of its forms.
    pub fn parse(text: &str) -> Result<Self, CampaignError> {
        let fail = || CampaignError::NoSuchEviction(text.to_owned());
        let number = |word: Option<&str>| word.and_then(|w| w.parse().ok()).ok_or_else(fail);
        let mut words = text.split(':');
        let kind = words.next().unwrap_or_default();
        let parsed = match kind {
            "none" => Self::None,
            "all" => Self::All,
            "one" => Self::One(number(words.next())?),
            "allbut" => Self::AllBut(number(words.next())?),
            "pair" => Self::Pair(number(words.next())?, number(words.next())?),
            "page" => Self::Page(number(words.next())?),
            "mask" => Self::Mask(number(words.next())?),
            "words" => Self::Words(number(words.next())?),
            "random" | "torn" => {
                let seed = number(words.next())?;
                let of_256 = u8::try_from(number(words.next())?).map_err(|_| fail())?;
                match kind {
                    "torn" => Self::Torn(seed, of_256),
                    _ => Self::Random(seed, of_256),
                }
            }
            lines => {
                let offset = |word: &str| {
                    u64::from_str_radix(word.trim_start_matches("0x"), 16)
                        .ok()
                        .filter(|offset| offset % 64 == 0)
                        .ok_or_else(fail)
                };
                Self::Lines(lines.split(',').map(offset).collect::<Result<_, _>>()?)
            }
        };
        if words.next().is_some() {
            Err(fail())
        } else {
            Ok(parsed)
        }
    }

    /// What it stores on media at this moment of a run: offset and content of each line.
    #[must_use]
    pub fn stores(&self, run: &Run<'_>) -> Vec<(u64, Line)> {
        if let Self::Words(bits) = self {
            return words(run, *bits);
        }
        let lines = self.lines(run).into_iter();
        let content = |line| run.dirty.get(&line).map(|data| (line, data));
        lines
            .filter_map(content)
            .map(|(line, data)| match self {
                Self::Torn(seed, of_256) => (
                    line,
                    torn(*seed, *of_256, line, &run.media.line(line), data),
                ),
                _ => (line, *data),
            })
            .collect()
    }

    /// The lines it means at this moment of a run, in order.
    #[must_use]
    pub fn lines(&self, run: &Run<'_>) -> Vec<u64> {
        let dirty: Vec<u64> = run.dirty.keys().copied().collect();
        let Some(count) = u64::try_from(dirty.len()).ok().filter(|&count| count > 0) else {
            return Vec::new();
        };
        let nth = |n: u64| dirty[usize::try_from(n % count).unwrap_or(0)];
        let keep = |wanted: &dyn Fn(usize, u64) -> bool| {
            let chosen = dirty
                .iter()
                .enumerate()
                .filter(|&(n, &line)| wanted(n, line));
            chosen.map(|(_, &line)| line).collect()
        };
        match self {
            Self::None => Vec::new(),
            Self::All | Self::EachWord | Self::Torn(..) | Self::Words(_) => dirty,
            Self::One(n) => vec![nth(*n)],
            Self::AllBut(n) => keep(&|_, line| line != nth(*n)),
            Self::Pair(n, m) => keep(&|_, line| line == nth(*n) || line == nth(*m)),
            Self::Page(n) => keep(&|_, line| line >> 12 == nth(*n) >> 12),
            Self::Mask(bits) => keep(&|n, _| n < 64 && bits >> n & 1 == 1),
            Self::Random(seed, of_256) => {
                keep(&|_, line| mix(seed ^ mix(line)) & 0xff < u64::from(*of_256))
            }
            Self::Lines(lines) => keep(&|_, line| lines.contains(&line)),
        }
    }
}

/// How many words of 8 bytes are on media other than in the coherent view.
#[must_use]
pub fn words_differ(run: &Run<'_>) -> usize {
    let differ = |(&line, new): (&u64, &Line)| {
        let old = run.media.line(line);
        new.chunks(8)
            .zip(old.chunks(8))
            .filter(|(new, old)| new != old)
            .count()
    };
    run.dirty.iter().map(differ).sum()
}

fn words(run: &Run<'_>, bits: u64) -> Vec<(u64, Line)> {
    let mut bit = 0;
    let mut stores = Vec::new();
    for (&line, new) in &run.dirty {
        let mut mixed = run.media.line(line);
        for (to, from) in mixed.chunks_mut(8).zip(new.chunks(8)) {
            if to != from {
                if bit < 64 && bits >> bit & 1 == 1 {
                    to.copy_from_slice(from);
                }
                bit += 1;
            }
        }
        stores.push((line, mixed));
    }
    stores
}

/// `new` laid over `old`, each word of 8 bytes by chance.
fn torn(seed: u64, of_256: u8, line: u64, old: &Line, new: &Line) -> Line {
    let mut mixed = *old;
    for (n, (to, from)) in mixed.chunks_mut(8).zip(new.chunks(8)).enumerate() {
        if mix(seed ^ mix(line + n as u64 * 8)) & 0xff < u64::from(of_256) {
            to.copy_from_slice(from);
        }
    }
    mixed
}

impl std::fmt::Display for Eviction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::All => write!(f, "all"),
            Self::EachWord => write!(f, "each-word"),
            Self::One(n) => write!(f, "one:{n}"),
            Self::AllBut(n) => write!(f, "allbut:{n}"),
            Self::Pair(n, m) => write!(f, "pair:{n}:{m}"),
            Self::Page(n) => write!(f, "page:{n}"),
            Self::Mask(bits) => write!(f, "mask:{bits}"),
            Self::Words(bits) => write!(f, "words:{bits}"),
            Self::Random(seed, of_256) => write!(f, "random:{seed}:{of_256}"),
            Self::Torn(seed, of_256) => write!(f, "torn:{seed}:{of_256}"),
            Self::Lines(lines) => {
                let hex: Vec<String> = lines.iter().map(|line| format!("{line:#x}")).collect();
                write!(f, "{}", hex.join(","))
            }
        }
    }
}

/// One image to judge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// How many events come before it.
    pub event: u64,
    /// What had left the caches by itself.
    pub eviction: Eviction,
}

/// A round of about `count` cuts, in the order of the run.
#[must_use]
pub fn plan(survey: &Survey, seed: u64, round: u64, count: u64) -> Vec<Cut> {
    let near = near_ranges(survey);
    let of = |wanted: &dyn Fn(&Segment) -> bool| -> Vec<(u64, u64)> {
        let segments = survey.segments.iter().filter(|segment| wanted(segment));
        segments.map(|segment| (segment.from, segment.to)).collect()
    };
    let mut draw = Draw {
        survey,
        rng: Rng(mix(seed) ^ mix(round.wrapping_add(0x9e37))),
        cuts: BTreeSet::new(),
    };
    if round == 0 {
        draw.always(&near);
    }
    if round == 1 {
        draw.each_word();
    }
    draw.from(&near, count * NEAR_PERCENT / 100, TORN_ELSEWHERE_PERCENT);
    let enterable: Vec<_> = survey
        .open
        .iter()
        .map(|&event| (event, event + 1))
        .collect();
    draw.from(
        &enterable,
        count * ENTERABLE_PERCENT / 100,
        TORN_ENTERABLE_PERCENT,
    );
    for place in PLACES {
        let here = of(&|segment| segment.place == place);
        draw.from(
            &here,
            count * place_percent(place) / 100,
            TORN_ELSEWHERE_PERCENT,
        );
    }
    draw.from(&of(&|_| true), count / 20, TORN_ELSEWHERE_PERCENT);
    draw.cuts.into_iter().collect()
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

impl Draw<'_> {
    /// What every campaign judges.
    fn always(&mut self, near: &[(u64, u64)]) {
        let events = &self.survey.write_backs;
        for &(from, to) in near {
            let first = events.partition_point(|&event| event < from);
            for &event in events[first..].iter().take_while(|&&event| event < to) {
                self.cuts.insert(Cut {
                    event,
                    eviction: Eviction::None,
                });
            }
        }
        for &turn in &self.survey.turns {
            for event in turn.saturating_sub(1)..=(turn + 1).min(self.survey.events) {
                for eviction in [Eviction::None, Eviction::All] {
                    self.cuts.insert(Cut { event, eviction });
                }
            }
        }
    }

    /// Every word that may be torn where an image can be entered.
    fn each_word(&mut self) {
        for &event in &self.survey.open {
            let eviction = Eviction::EachWord;
            self.cuts.insert(Cut { event, eviction });
        }
    }

    /// `count` cuts in these ranges, so many of them with torn lines.
    fn from(&mut self, ranges: &[(u64, u64)], count: u64, torn_percent: u64) {
        let total: u64 = ranges.iter().map(|(from, to)| to - from).sum();
        for _ in 0..if total == 0 { 0 } else { count } {
            let event = self.place(ranges, total);
            let segments = &self.survey.segments;
            let segment = segments.partition_point(|segment| segment.to <= event);
            let window = segments.get(segment).is_some_and(|segment| segment.window);
            let eviction = match window {
                true if self.rng.below(100) < torn_percent => {
                    Eviction::Torn(self.rng.next() >> 16, [64, 128, 192][self.rng.index(3)])
                }
                true => self.evict(),
                false => Eviction::None,
            };
            self.cuts.insert(Cut { event, eviction });
        }
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
        // Half of the cuts stand right behind a write-back: media is new there.
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
        match self.rng.below(18) {
            0..=3 => Eviction::None,
            4..=7 => Eviction::One(n >> 32),
            8..=9 => Eviction::AllBut(n >> 32),
            10..=11 => Eviction::Pair(n >> 32, n & 0xffff_ffff),
            12..=13 => Eviction::Page(n >> 32),
            14 => Eviction::All,
            _ => Eviction::Random(n >> 16, [16, 64, 128, 192, 240][self.rng.index(5)]),
        }
    }
}

/// splitmix64: small, and the same everywhere.
#[derive(Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn index(&mut self, limit: u64) -> usize {
        usize::try_from(self.below(limit)).unwrap_or(0)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
