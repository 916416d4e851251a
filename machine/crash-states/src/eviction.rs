// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Images by name: which open lines had been evicted when the power went, as words of a command
//! line. Lines are those of a moment, in the order of their numbers.
//!
//! `words:` and `torn:` are for lines of which each word may be old or new ([`OpenLine::torn`]).
//!
//! [`OpenLine::torn`]: crate::OpenLine::torn

use std::fmt::{Display, Formatter, Result as Written};
use std::str::FromStr;

use crate::line::LINE_BYTES;
use crate::open::OpenLines;
use crate::pick::Pick;
use crate::rng::mix;

const PAGE_LINES: u64 = 4096 / LINE_BYTES as u64;

/// Which open lines had been evicted. A line that was has its newest content, unless it is torn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Eviction {
    /// None.
    None,
    /// All.
    All,
    /// The n-th line, modulo their number.
    One(u64),
    /// All but that.
    AllBut(u64),
    /// Two.
    Pair(u64, u64),
    /// All lines in the page of the n-th.
    Page(u64),
    /// Each by chance: seed, and how many of 256.
    Random(u64, u8),
    /// Each word of 8 bytes by chance: seed, and how many of 256.
    Torn(u64, u8),
    /// Each line by chance, with any of the contents that it has had: seed, and how many of 256.
    Older(u64, u8),
    /// The words of 8 bytes whose bit is set, counted over the words that differ.
    Words(u64),
    /// The lines whose bit is set; the first 64.
    Mask(u64),
    /// These, by offset in memory.
    Lines(Vec<u64>),
    /// One of the others, when a memory controller that no domain covers has written so many of the
    /// lines in its queue.
    Drained(u64, Box<Self>),
}

/// A text that names no eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnEviction(pub String);

impl Display for NotAnEviction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        write!(
            f,
            "not an eviction: {}; give none, all, one:N, allbut:N, pair:N:M, page:N, mask:BITS, \
             random:SEED:OF_256, torn:SEED:OF_256, older:SEED:OF_256, words:BITS, offsets of lines \
             in hex, or drained:LINES: before any of them",
            self.0
        )
    }
}

impl std::error::Error for NotAnEviction {}

impl FromStr for Eviction {
    type Err = NotAnEviction;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, NotAnEviction> {
        let fail = || NotAnEviction(text.to_owned());
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let numbers = || -> Result<Vec<u64>, NotAnEviction> {
            let words = rest.split(':').filter(|_| !rest.is_empty());
            words.map(|word| word.parse().map_err(|_| fail())).collect()
        };
        let share = |of_256: u64| u8::try_from(of_256).map_err(|_| fail());
        if kind == "drained" {
            let (lines, evicted) = rest.split_once(':').ok_or_else(fail)?;
            let lines = lines.parse().map_err(|_| fail())?;
            let evicted = match evicted.starts_with("drained") {
                true => return Err(fail()),
                false => evicted.parse()?,
            };
            return Ok(Self::Drained(lines, Box::new(evicted)));
        }
        if !rest.is_empty() || matches!(kind, "none" | "all") {
            return Ok(match (kind, &numbers()?[..]) {
                ("none", []) => Self::None,
                ("all", []) => Self::All,
                ("one", [n]) => Self::One(*n),
                ("allbut", [n]) => Self::AllBut(*n),
                ("pair", [n, m]) => Self::Pair(*n, *m),
                ("page", [n]) => Self::Page(*n),
                ("mask", [bits]) => Self::Mask(*bits),
                ("words", [bits]) => Self::Words(*bits),
                ("random", [seed, of_256]) => Self::Random(*seed, share(*of_256)?),
                ("torn", [seed, of_256]) => Self::Torn(*seed, share(*of_256)?),
                ("older", [seed, of_256]) => Self::Older(*seed, share(*of_256)?),
                _ => return Err(fail()),
            });
        }
        let offset = |word: &str| {
            u64::from_str_radix(word.trim_start_matches("0x"), 16)
                .ok()
                .filter(|offset| offset % LINE_BYTES as u64 == 0)
                .ok_or_else(fail)
        };
        let lines = text.split(',').map(offset).collect::<Result<_, _>>()?;
        Ok(Self::Lines(lines))
    }
}

impl Display for Eviction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        match self {
            Self::None => write!(f, "none"),
            Self::All => write!(f, "all"),
            Self::One(n) => write!(f, "one:{n}"),
            Self::AllBut(n) => write!(f, "allbut:{n}"),
            Self::Pair(n, m) => write!(f, "pair:{n}:{m}"),
            Self::Page(n) => write!(f, "page:{n}"),
            Self::Mask(bits) => write!(f, "mask:{bits}"),
            Self::Words(bits) => write!(f, "words:{bits}"),
            Self::Random(seed, of_256) => write!(f, "random:{seed}:{of_256}"),
            Self::Torn(seed, of_256) => write!(f, "torn:{seed}:{of_256}"),
            Self::Older(seed, of_256) => write!(f, "older:{seed}:{of_256}"),
            Self::Drained(lines, evicted) => write!(f, "drained:{lines}:{evicted}"),
            Self::Lines(lines) => {
                let hex: Vec<String> = lines.iter().map(|line| format!("{line:#x}")).collect();
                write!(f, "{}", hex.join(","))
            }
        }
    }
}

impl Eviction {
    /// The image that it names.
    #[must_use]
    pub fn pick(&self, open: &(impl OpenLines + ?Sized)) -> Pick {
        let count = open.count();
        let Some(modulo) = u64::try_from(count).ok().filter(|count| *count > 0) else {
            return Pick::default();
        };
        let nth = |n: &u64| usize::try_from(n % modulo).unwrap_or(0);
        let page = |index| open.line(index) / PAGE_LINES;
        let offset = |index| open.line(index) * LINE_BYTES as u64;
        let newest = |wanted: &dyn Fn(usize) -> bool| {
            let chosen = (0..count).filter(|index| wanted(*index));
            Pick::new(chosen.map(|index| (index, open.choices(index) - 1)))
        };
        match self {
            Self::None => Pick::default(),
            Self::All => Pick::newest(open),
            Self::One(n) => newest(&|index| index == nth(n)),
            Self::AllBut(n) => newest(&|index| index != nth(n)),
            Self::Pair(n, m) => newest(&|index| index == nth(n) || index == nth(m)),
            Self::Page(n) => newest(&|index| page(index) == page(nth(n))),
            Self::Mask(bits) => newest(&|index| index < 64 && (bits >> index) & 1 == 1),
            Self::Random(seed, of_256) => newest(&|index| by_chance(*seed, offset(index), *of_256)),
            Self::Lines(lines) => newest(&|index| lines.contains(&offset(index))),
            Self::Words(bits) => words(open, *bits),
            Self::Torn(seed, of_256) => torn(open, *seed, *of_256),
            Self::Older(seed, of_256) => older(open, *seed, *of_256),
            Self::Drained(_, evicted) => evicted.pick(open),
        }
    }
}

fn by_chance(seed: u64, place: u64, of_256: u8) -> bool {
    mix(seed ^ mix(place)) & 0xff < u64::from(of_256)
}

fn words(open: &(impl OpenLines + ?Sized), bits: u64) -> Pick {
    let mut rest = bits;
    Pick::new((0..open.count()).map(|index| {
        let choice = rest & (open.choices(index) - 1);
        rest = rest.checked_shr(open.choices(index).ilog2()).unwrap_or(0);
        (index, choice)
    }))
}

fn torn(open: &(impl OpenLines + ?Sized), seed: u64, of_256: u8) -> Pick {
    Pick::new((0..open.count()).map(|index| {
        let place = open.line(index) * LINE_BYTES as u64;
        let words = 0..u64::from(open.choices(index).ilog2());
        let chosen = words.filter(|word| by_chance(seed, place + word, of_256));
        (index, chosen.fold(0, |bits, word| bits | (1 << word)))
    }))
}

fn older(open: &(impl OpenLines + ?Sized), seed: u64, of_256: u8) -> Pick {
    Pick::new((0..open.count()).map(|index| {
        let place = open.line(index) * LINE_BYTES as u64;
        let newer = open.choices(index) - 1;
        let evicted = by_chance(seed, place, of_256) && newer > 0;
        // Of the contents but the oldest, which is on media anyway.
        let choice = if evicted {
            1 + (mix(seed ^ mix(place)) >> 8) % newer
        } else {
            0
        };
        (index, choice)
    }))
}

/// How many words of 8 bytes differ between the oldest and the newest content of all lines.
#[must_use]
pub fn words_differ(open: &(impl OpenLines + ?Sized)) -> u32 {
    (0..open.count())
        .map(|index| open.choices(index).ilog2())
        .sum()
}

/// Every subset of the lines, if they are at most `most`.
#[must_use]
pub fn subsets_of_lines(open: &(impl OpenLines + ?Sized), most: usize) -> Option<Vec<Eviction>> {
    let count = open.count();
    (count <= most.min(63)).then(|| (0..1 << count).map(Eviction::Mask).collect())
}

/// Every subset of the words that differ, if they are at most `most`.
#[must_use]
pub fn subsets_of_words(open: &(impl OpenLines + ?Sized), most: u32) -> Option<Vec<Eviction>> {
    let count = words_differ(open);
    (count <= most.min(63)).then(|| (0..1 << count).map(Eviction::Words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::OpenLine;

    fn lines() -> Vec<(u64, OpenLine)> {
        let line = |words: &[usize]| {
            let mut new = [0; LINE_BYTES];
            for word in words {
                new[word * 8] = 1;
            }
            OpenLine::torn([0; LINE_BYTES], new)
        };
        vec![(2, line(&[0, 7])), (3, line(&[4])), (64, line(&[1]))]
    }

    fn pick(text: &str) -> String {
        text.parse::<Eviction>()
            .unwrap()
            .pick(&lines()[..])
            .to_string()
    }

    #[test]
    fn text_is_read_as_it_is_written() {
        for text in [
            "none",
            "all",
            "one:7",
            "allbut:3",
            "pair:1:2",
            "page:9",
            "random:77:64",
            "torn:3:128",
            "older:3:128",
            "words:6",
            "mask:5",
            "0x40,0x1000",
            "drained:3:older:3:128",
            "drained:1:0x40,0x1000",
        ] {
            assert_eq!(text.parse::<Eviction>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "one",
            "one:",
            "one:x",
            "all:1",
            "random:1:300",
            "0x41",
            "pair:1",
            "drained:1",
            "drained:x:none",
            "drained:1:drained:1:none",
        ] {
            assert!(text.parse::<Eviction>().is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn older_contents_are_drawn_too() {
        let content = |byte: u8| [byte; LINE_BYTES];
        let line = OpenLine::changed(content(0), [content(1), content(2), content(3)]);
        let lines = [(2, line.clone()), (3, line)];
        let drawn: Vec<Pick> = (0..64)
            .map(|seed| Eviction::Older(seed, 192).pick(&lines[..]))
            .collect();
        for choice in 0..4 {
            let has = |pick: &&Pick| match pick.chosen() {
                [(0, first), (1, 3)] => *first == choice,
                [(1, 3)] => choice == 0,
                _ => false,
            };
            assert!(drawn.iter().any(|pick| has(&pick)), "{choice} beside 3");
        }
    }

    #[test]
    fn names_choose_lines_and_words() {
        assert_eq!(pick("none"), "oldest");
        assert_eq!(pick("all"), "0=3,1=1,2=1");
        assert_eq!(pick("one:4"), "1=1");
        assert_eq!(pick("allbut:1"), "0=3,2=1");
        assert_eq!(pick("pair:0:2"), "0=3,2=1");
        assert_eq!(pick("page:1"), "0=3,1=1");
        assert_eq!(pick("mask:5"), "0=3,2=1");
        assert_eq!(pick("0x80,0x1000"), "0=3,2=1");
        assert_eq!(pick("words:6"), "0=2,1=1");
        assert_eq!(pick("random:1:0"), "oldest");
        assert_eq!(Eviction::All.pick(&lines()[..0]).to_string(), "oldest");
    }

    #[test]
    fn words_arrive_by_chance_and_alone() {
        let open = lines();
        let mut seen = std::collections::HashSet::new();
        for seed in 0..200 {
            seen.insert(Eviction::Torn(seed, 128).pick(&open[..]));
        }
        assert_eq!(seen.len(), 1 << 4, "every subset of four words");
    }

    #[test]
    fn subsets_are_all_or_not_listed() {
        let open = lines();
        assert_eq!(words_differ(&open[..]), 4);
        assert_eq!(
            subsets_of_words(&open[..], 4).map(|all| all.len()),
            Some(16)
        );
        assert!(subsets_of_words(&open[..], 3).is_none());
        assert_eq!(subsets_of_lines(&open[..], 3).map(|all| all.len()), Some(8));
        assert!(subsets_of_lines(&open[..], 2).is_none());
    }
}
