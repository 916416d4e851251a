// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the library with the oracle over random small histories. What is wrong is reported by
//! name, so that a planted bug must be found by the difference that it makes.

mod controller;
mod oracle;

use std::collections::HashSet;

use controller::Controller;
use oracle::Oracle;
use remanence_crash_states::{
    Cuts, Domain, Event, Eviction, History, LINE_BYTES, Limits, Line, OpenLine, Rng, eviction,
};

const LINES: u64 = 5;
/// Lines from here on are streamed, those before are stored to.
const STREAMED: u64 = 3;
const THREADS: u64 = 2;
const MEMORY_BYTES: usize = LINES as usize * LINE_BYTES;
const EVENTS: usize = 14;
/// Of the oracle that follows every state of a machine.
const UNCOVERED_LINES: u64 = 3;
const UNCOVERED_BYTES: usize = UNCOVERED_LINES as usize * LINE_BYTES;
const UNCOVERED_EVENTS: usize = 9;

const ALL: Limits = Limits {
    all_max: u64::MAX,
    drawn: 0,
    alone_max: 0,
};
const SOME: Limits = Limits {
    all_max: 3,
    drawn: 5,
    alone_max: 2,
};

/// A difference between library and oracle, by name.
pub type Difference = &'static str;

/// A history in which each streamed line is awaited before it is touched again.
pub fn history(rng: &mut Rng) -> Vec<Event> {
    let mut oracle = Oracle::new(vec![0; MEMORY_BYTES]);
    let mut events = Vec::new();
    while events.len() < EVENTS {
        let event = event(rng, events.len() as u64);
        if let Event::Stream(_, line, _) = event {
            if oracle.awaits(line) || oracle.is_open(line) {
                continue;
            }
        }
        oracle.apply(&event);
        events.push(event);
    }
    events
}

fn event(rng: &mut Rng, number: u64) -> Event {
    let thread = rng.index(THREADS as usize);
    let line = rng.below(STREAMED);
    let at = line * LINE_BYTES as u64 + rng.below(2) * 8;
    match rng.below(10) {
        0..=3 => Event::word(at, number + 1),
        4 => Event::byte(at + 3, 7),
        5 => {
            let mut content = [0; LINE_BYTES];
            for word in [1, 2, 6] {
                content[word * 8] = rng.below(3) as u8;
            }
            Event::Stream(thread, STREAMED + rng.below(LINES - STREAMED), content)
        }
        6..=7 => Event::Flush(thread, line),
        8 => Event::Fence(thread),
        _ => Event::Mark(number),
    }
}

/// All images that the library shows now, and whether a copy that follows the lines that change is
/// the same.
fn shown(
    cuts: &mut Cuts,
    context: u64,
    copy: &mut [u8],
) -> (HashSet<Vec<u8>>, Result<(), Difference>) {
    let mut images = HashSet::new();
    let mut followed = Ok(());
    let done = cuts.show(context, &mut |image| {
        images.insert(image.bytes().to_vec());
        let all: Vec<u64> = (0..LINES).collect();
        for line in image.changed().unwrap_or(&all) {
            let at = *line as usize * LINE_BYTES;
            copy[at..at + LINE_BYTES].copy_from_slice(&image.bytes()[at..at + LINE_BYTES]);
        }
        if copy != image.bytes() {
            followed = Err("change-not-reported");
        }
        // `look` may write, if it calls touch().
        image.touch(70, 60);
        image.bytes_mut()[70..130].fill(0xee);
        Ok::<_, ()>(())
    });
    done.unwrap();
    (images, followed)
}

fn same(found: &HashSet<Vec<u8>>, expected: &HashSet<Vec<u8>>) -> Result<(), Difference> {
    if !found.is_subset(expected) {
        return Err("impossible-image");
    }
    if !expected.is_subset(found) {
        return Err("missing-image");
    }
    Ok(())
}

/// At each moment of a history: all images, some images, and whether an image is possible.
pub fn at_each_moment(events: &[Event]) -> Result<(), Difference> {
    let mut oracle = Oracle::new(vec![0; MEMORY_BYTES]);
    let mut all = Cuts::new(vec![0; MEMORY_BYTES], ALL, 1);
    let mut some = Cuts::new(vec![0; MEMORY_BYTES], SOME, 1);
    let mut history = History::new(vec![0; MEMORY_BYTES], ALL, 1);
    let mut before = HashSet::new();
    let mut copies = [vec![0xff; MEMORY_BYTES], vec![0xff; MEMORY_BYTES]];
    for (number, event) in (0..).zip(events) {
        oracle.apply(event);
        history.apply(event);
        apply(&mut all, event);
        apply(&mut some, event);
        let expected = oracle.images();
        let (images, followed) = shown(&mut all, number, &mut copies[0]);
        same(&images, &expected)?;
        followed?;
        let (sampled, followed) = shown(&mut some, number, &mut copies[1]);
        followed?;
        if !sampled.is_subset(&expected) {
            return Err("impossible-image");
        }
        if !sampled.contains(&newest(&some)) {
            return Err("missing-image");
        }
        let wrong = |image: &Vec<u8>| history.allows(image).is_ok() != expected.contains(image);
        if expected.iter().any(wrong) || before.iter().any(wrong) {
            return Err("wrong-answer");
        }
        before = expected;
    }
    Ok(())
}

fn apply(cuts: &mut Cuts, event: &Event) {
    let memory = &mut cuts.memory;
    match event {
        Event::Store(offset, count, data) => {
            memory.store(*offset as usize, &data[..usize::from(*count)]);
        }
        Event::Stream(thread, line, content) => memory.stream(*thread, *line, *content),
        Event::Flush(thread, line) => memory.flush(*thread, *line),
        Event::Fence(thread) => memory.fence(*thread),
        Event::Written(fences) => memory.written(*fences),
        Event::Mark(_) => {}
    }
}

fn newest(cuts: &Cuts) -> Vec<u8> {
    let lines = (0..LINES).map(|line| cuts.memory.newest(line));
    lines.collect::<Vec<Line>>().concat()
}

/// Looking before fences and marks and at the end shows the images of every moment.
pub fn by_fences_and_marks(events: &[Event]) -> Result<(), Difference> {
    let mut oracle = Oracle::new(vec![0; MEMORY_BYTES]);
    let mut marks = 0;
    let mut expected: HashSet<(usize, Vec<u8>)> = HashSet::new();
    expected.insert((0, vec![0; MEMORY_BYTES]));
    for event in events {
        oracle.apply(event);
        marks += usize::from(matches!(event, Event::Mark(_)));
        expected.extend(oracle.images().into_iter().map(|image| (marks, image)));
    }
    let mut found = HashSet::new();
    let mut history = History::new(vec![0; MEMORY_BYTES], ALL, 1);
    let done = history.follow(events, &mut |visit| {
        found.insert((visit.marks.len(), visit.image.bytes().to_vec()));
        Ok::<_, ()>(())
    });
    done.unwrap();
    if found == expected {
        Ok(())
    } else {
        Err("missing-image")
    }
}

/// A short history of a machine without a persistence domain, whose last line is streamed to.
fn uncovered_history(rng: &mut Rng) -> Vec<Event> {
    let mut controller = Controller::new(UNCOVERED_LINES as usize);
    let mut events = Vec::new();
    while events.len() < UNCOVERED_EVENTS {
        let thread = rng.index(THREADS as usize);
        let streamed = UNCOVERED_LINES - 1;
        let line = rng.below(streamed);
        let value = events.len() as u64 + 1;
        let event = match rng.below(12) {
            0..=3 => Event::word(line * LINE_BYTES as u64 + rng.below(2) * 8, value),
            4 if controller.awaits(streamed) => continue,
            4 => {
                let mut content = [0; LINE_BYTES];
                (content[0], content[8]) = (rng.below(3) as u8, value as u8);
                Event::Stream(thread, streamed, content)
            }
            5..=7 => Event::Flush(thread, line),
            8..=9 => Event::Fence(thread),
            10 => Event::Written(1 + rng.below(2)),
            _ => Event::Mark(value),
        };
        controller.apply(&event);
        events.push(event);
    }
    events
}

/// Where the controller's queue is lost: at each moment all images, some images, whether an image is
/// possible; and looking where a history does shows the images of every moment.
pub fn uncovered(rng: &mut Rng) -> Result<(), Difference> {
    let events = uncovered_history(rng);
    let media = || vec![0; UNCOVERED_BYTES];
    let cuts = |limits| Cuts::in_domain(Domain::None, media(), limits, 1);
    let mut controller = Controller::new(UNCOVERED_LINES as usize);
    let (mut all, mut some) = (cuts(ALL), cuts(SOME));
    let mut history = History::in_domain(Domain::None, media(), ALL, 1);
    let mut before = HashSet::new();
    let (mut marks, mut every) = (0, HashSet::from([(0, media())]));
    for (number, event) in (0..).zip(&events) {
        controller.apply(event);
        history.apply(event);
        apply(&mut all, event);
        apply(&mut some, event);
        let expected = controller.images();
        same(&images_of(&mut all, number), &expected)?;
        if !images_of(&mut some, number).is_subset(&expected) {
            return Err("impossible-image");
        }
        let wrong = |image: &Vec<u8>| history.allows(image).is_ok() != expected.contains(image);
        if expected.iter().any(wrong) || before.iter().any(wrong) {
            return Err("wrong-answer");
        }
        marks += usize::from(matches!(event, Event::Mark(_)));
        every.extend(expected.iter().map(|image| (marks, image.clone())));
        before = expected;
    }
    let mut found = HashSet::new();
    let done = History::in_domain(Domain::None, media(), ALL, 1).follow(&events, &mut |visit| {
        found.insert((visit.marks.len(), visit.image.bytes().to_vec()));
        Ok::<_, ()>(())
    });
    done.unwrap();
    if found == every {
        Ok(())
    } else {
        Err("missing-image")
    }
}

fn images_of(cuts: &mut Cuts, context: u64) -> HashSet<Vec<u8>> {
    let mut images = HashSet::new();
    let done = cuts.show(context, &mut |image| {
        images.insert(image.bytes().to_vec());
        Ok::<_, ()>(())
    });
    done.unwrap();
    images
}

/// Where caches survive there is one image after each store.
pub fn surviving(events: &[Event]) -> Result<(), Difference> {
    let mut memory = vec![0; MEMORY_BYTES];
    let mut expected = HashSet::from([memory.clone()]);
    let mut put = |offset: usize, bytes: &[u8]| {
        memory[offset..offset + bytes.len()].copy_from_slice(bytes);
        expected.insert(memory.clone());
    };
    for event in events {
        match event {
            Event::Store(at, count, data) => put(*at as usize, &data[..usize::from(*count)]),
            Event::Stream(_, line, content) => {
                for (word, bytes) in content.chunks(8).enumerate() {
                    put(*line as usize * LINE_BYTES + word * 8, bytes);
                }
            }
            _ => {}
        }
    }
    let mut found = HashSet::new();
    let mut history = History::in_domain(Domain::Eadr, vec![0; MEMORY_BYTES], ALL, 1);
    let done = history.follow(events, &mut |visit| {
        found.insert(visit.image.bytes().to_vec());
        Ok::<_, ()>(())
    });
    done.unwrap();
    same(&found, &expected)
}

/// Lines of which only old and new content are known: evictions by name are what words and lines
/// can make, and all subsets are all of it.
pub fn evictions(rng: &mut Rng) -> Result<(), Difference> {
    let mut oracle = Oracle::new(vec![0; MEMORY_BYTES]);
    let mut open = Vec::new();
    for line in 0..2 {
        let mut new = [0; LINE_BYTES];
        for _ in 0..2 {
            new[rng.index(8) * 8] = 1;
        }
        oracle.apply(&Event::Stream(0, line, new));
        open.push((line, OpenLine::torn([0; LINE_BYTES], new)));
    }
    let expected = oracle.images();
    let image_of = |eviction: &Eviction| {
        let mut image = vec![0; MEMORY_BYTES];
        for (index, choice) in eviction.pick(&open[..]).chosen() {
            let start = index * LINE_BYTES;
            image[start..start + LINE_BYTES].copy_from_slice(&open[*index].1.content(*choice));
        }
        image
    };
    let words = eviction::subsets_of_words(&open[..], 16).unwrap();
    same(&words.iter().map(image_of).collect(), &expected)?;
    let torn = (0..10).map(|_| Eviction::Torn(rng.next(), 128));
    let lines = eviction::subsets_of_lines(&open[..], 2).unwrap();
    if torn
        .chain(lines)
        .any(|it| !expected.contains(&image_of(&it)))
    {
        return Err("impossible-image");
    }
    Ok(())
}

/// All comparisons over this many random histories; the first difference.
pub fn compare(histories: u64) -> Result<(), Difference> {
    for seed in 0..histories {
        let mut rng = Rng(seed);
        let events = history(&mut rng);
        at_each_moment(&events)?;
        by_fences_and_marks(&events)?;
        surviving(&events)?;
        evictions(&mut rng)?;
        uncovered(&mut rng)?;
    }
    Ok(())
}
