// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oracle: the one other implementation of the rules of this crate, which must stay independent
//! of it. It was the persistent heap's own, before there was a library, and the plainest of three:
//! each line keeps a list of versions, a flush notes the newest version, and all images are built
//! one by one. It knows no sampling and no digests, and takes no care of speed.
//!
//! A streamed line must not be stored to, or streamed again, before it was awaited.

use std::collections::{BTreeMap, HashSet};

use remanence_crash_states::{Event, LINE_BYTES, Line};

#[derive(Clone)]
enum Open {
    /// Versions by stores, each with a number; the first is durable.
    Stored(Vec<(u64, Line)>),
    /// Thread, before, after.
    Streamed(usize, Line, Line),
}

pub struct Oracle {
    image: Vec<u8>,
    open: BTreeMap<u64, Open>,
    /// Flushes under way: thread, line, number of the newest version then.
    flushes: Vec<(usize, u64, u64)>,
    version: u64,
}

impl Oracle {
    pub fn new(image: Vec<u8>) -> Self {
        Self {
            image,
            open: BTreeMap::new(),
            flushes: Vec::new(),
            version: 0,
        }
    }

    fn durable(&self, line: u64) -> Line {
        let start = line as usize * LINE_BYTES;
        self.image[start..start + LINE_BYTES].try_into().unwrap()
    }

    fn newest(&self, line: u64) -> Line {
        match self.open.get(&line) {
            Some(Open::Stored(versions)) => versions[versions.len() - 1].1,
            Some(Open::Streamed(_, _, after)) => *after,
            None => self.durable(line),
        }
    }

    /// Whether a line may be stored to or streamed.
    pub fn awaits(&self, line: u64) -> bool {
        matches!(self.open.get(&line), Some(Open::Streamed(..)))
    }

    pub fn is_open(&self, line: u64) -> bool {
        self.open.contains_key(&line)
    }

    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Store(offset, count, data) => {
                let line = offset / LINE_BYTES as u64;
                let mut new = self.newest(line);
                let at = (offset % LINE_BYTES as u64) as usize;
                let count = usize::from(*count);
                new[at..at + count].copy_from_slice(&data[..count]);
                let durable = (self.version, self.durable(line));
                self.version += 1;
                let new = (self.version, new);
                let stored = || Open::Stored(vec![durable]);
                match self.open.entry(line).or_insert_with(stored) {
                    Open::Stored(versions) => versions.push(new),
                    Open::Streamed(..) => panic!("line {line} is not awaited"),
                }
            }
            Event::Stream(thread, line, after) => {
                assert!(!self.is_open(*line), "line {line} is not awaited");
                let streamed = Open::Streamed(*thread, self.durable(*line), *after);
                self.open.insert(*line, streamed);
            }
            Event::Flush(thread, line) => self.flushes.push((*thread, *line, self.version)),
            Event::Fence(thread) => self.fence(*thread),
            // A fence says it.
            Event::Written(_) | Event::Mark(_) => {}
        }
    }

    fn fence(&mut self, thread: usize) {
        for (by, line, then) in std::mem::take(&mut self.flushes) {
            if by != thread {
                self.flushes.push((by, line, then));
                continue;
            }
            if let Some(Open::Stored(versions)) = self.open.get_mut(&line) {
                if let Some(place) = versions.iter().rposition(|(number, _)| *number <= then) {
                    versions.drain(..place);
                }
            }
        }
        let mut durable = Vec::new();
        for (line, open) in &self.open {
            match open {
                Open::Stored(versions) => durable.push((*line, versions[0].1, versions.len() == 1)),
                Open::Streamed(by, _, after) if *by == thread => {
                    durable.push((*line, *after, true))
                }
                Open::Streamed(..) => {}
            }
        }
        for (line, content, closed) in durable {
            let start = line as usize * LINE_BYTES;
            self.image[start..start + LINE_BYTES].copy_from_slice(&content);
            if closed {
                self.open.remove(&line);
            }
        }
    }

    /// Every image that a cut now may leave.
    pub fn images(&self) -> HashSet<Vec<u8>> {
        let mut images = vec![self.image.clone()];
        for (line, open) in &self.open {
            let contents: Vec<Line> = match open {
                Open::Stored(versions) => versions.iter().map(|(_, content)| *content).collect(),
                Open::Streamed(_, before, after) => (0..256_u32)
                    .map(|words| {
                        std::array::from_fn(|at| match (words >> (at / 8)) & 1 {
                            1 => after[at],
                            _ => before[at],
                        })
                    })
                    .collect::<HashSet<Line>>()
                    .into_iter()
                    .collect(),
            };
            let start = *line as usize * LINE_BYTES;
            let with = |image: &Vec<u8>, content: &Line| {
                let mut image = image.clone();
                image[start..start + LINE_BYTES].copy_from_slice(content);
                image
            };
            images = images
                .iter()
                .flat_map(|image| contents.iter().map(move |content| with(image, content)))
                .collect();
        }
        images.into_iter().collect()
    }
}
