// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heap over the cache model of `machine/cache`, which virtual machines use, too: the content
//! of media after each operation is the state after a cut there.

use nvheap::structures::{AvlHead, AvlMap};
use nvheap::testing::{Broken, Event, History, Plain, Recorder, Trial, verdict};
use nvheap::{Heap, Mapping, Options, PPtr, Pmem, Policy, Session};
use remanence_cache::{Caches, Core, FlatTiming, Geometry, Honoured, Image, Line, Profile};

const REGION_BYTES: u64 = 1 << 19;
const LINE_BYTES: usize = 64;
pub const STEPS: u64 = 40;
/// Keys that remain at the end; earlier ones are removed again.
const KEPT: u64 = 5;

fn root<P: Policy, B: Pmem>(session: &mut Session<P, B>) -> AvlMap<u64, u64> {
    let head: PPtr<AvlHead<u64, u64>> = session.root_or("map", AvlMap::create).unwrap();
    AvlMap::at(head)
}

/// Each step inserts a key and removes an older one; after each there is a mark.
fn record<P: Policy>(trial: &Trial) -> (Vec<u8>, Vec<Event>) {
    let setup = |session: &mut Session<P, Recorder>| {
        root(session);
    };
    let (heap, image) = trial.prepare::<P>(setup).unwrap();
    let mut session = heap.session().unwrap();
    let map = root(&mut session);
    for key in 0..STEPS {
        session
            .run(|tx| {
                map.insert(tx, key, key + 100)?;
                if key >= KEPT {
                    map.remove(tx, &(key - KEPT))?;
                }
                Ok(())
            })
            .unwrap();
        heap.pmem().mark(key);
    }
    (image, heap.pmem().take())
}

/// Checks these media after a power cut, when `returned` steps had returned.
fn judge<P: Policy>(media: &[[u8; LINE_BYTES]], returned: u64) -> Result<(), Broken> {
    let map = Mapping::anonymous(REGION_BYTES).unwrap();
    // SAFETY: the mapping is as long as the media.
    unsafe { std::ptr::copy_nonoverlapping(media.as_ptr().cast(), map.base(), map.bytes()) };
    let heap: Heap<P, _> =
        Heap::attach(Plain, map, &Options::assume_all()).map_err(Broken::does_not_open)?;
    let mut session = heap.session().unwrap();
    let map = root(&mut session);
    let found = session
        .view(|tx| {
            let mut found = Vec::new();
            let mut cursor = map.range(tx, None)?;
            while let Some(entry) = cursor.next(tx)? {
                found.push(entry);
            }
            Ok(found)
        })
        .map_err(Broken::does_not_open)?;
    let after = |steps: u64| -> Vec<(u64, u64)> {
        (steps.saturating_sub(KEPT)..steps)
            .map(|key| (key, key + 100))
            .collect()
    };
    let objects = heap.usage().objects;
    if found != after(returned) && found != after(returned + 1) {
        let what = format!("after {returned}: {found:?}");
        Err(Broken::new(verdict::NOT_ATOMIC, what))
    } else if objects != 1 + found.len() as u64 {
        let what = format!("after {returned}: {objects} objects allocated");
        Err(Broken::new(verdict::WRONG_OBJECTS, what))
    } else {
        Ok(())
    }
}

pub fn profiles() -> Vec<Profile> {
    let real = Profile::named("wsp-c5528").unwrap();
    // So small that lines are evicted continuously.
    let tiny = |kib, ways| Geometry {
        kib,
        ways,
        latency_ns: 1.0,
    };
    let evicting = Profile {
        l1: tiny(1, 2),
        l2: None,
        llc: Some(tiny(2, 4)),
        inclusive: false,
        ..real.clone()
    };
    vec![real, evicting]
}

/// Follows a record; returns how often the media changed.
pub fn follow<P: Policy>(profile: Profile, honoured: Honoured) -> Result<u64, Broken> {
    let trial = Trial {
        bytes: REGION_BYTES,
        ..Trial::default()
    };
    let (image, events) = record::<P>(&trial);
    let lines = image.len() / LINE_BYTES;
    let mut memory = Image::new(lines);
    for (line, bytes) in image.chunks_exact(LINE_BYTES).enumerate() {
        memory.coherent[line].copy_from_slice(bytes);
    }
    memory.media.clone_from(&memory.coherent);
    let timing = FlatTiming::of(&profile);
    let mut caches = Caches::new(profile, 1, lines as u32, memory, timing);
    caches.honoured = honoured;
    let mut history = History::new(image, Trial::limits(0, 0), 1);
    let (mut returned, mut seen, mut looks) = (0, usize::MAX, 0);
    for event in &events {
        apply(&mut caches, event);
        history.apply(event);
        let is_mark = matches!(event, Event::Mark(_));
        returned += u64::from(is_mark);
        // Media change with write-backs, the expected content with marks.
        if caches.memory.log.len() != seen || is_mark {
            seen = caches.memory.log.len();
            looks += 1;
            let media = caches.memory.media.as_flattened();
            history.allows(media).map_err(|line| {
                let what = format!("after event {event:?}: line {line} cannot have this content");
                Broken::new(verdict::IMPOSSIBLE_STATE, what)
            })?;
            judge::<P>(&caches.memory.media, returned)?;
        }
    }
    Ok(looks)
}

fn apply(caches: &mut Caches<Image, FlatTiming>, event: &Event) {
    let core = Core(0);
    match event {
        Event::Store(offset, count, data) => {
            let (line, at) = (Line((*offset / 64) as u32), (*offset % 64) as usize);
            let count = usize::from(*count);
            caches.memory.coherent[line.index()][at..at + count].copy_from_slice(&data[..count]);
            caches.store(core, line);
        }
        Event::Stream(_, number, content) => {
            let line = Line(*number as u32);
            caches.memory.coherent[line.index()] = *content;
            caches.nt_store(core, line);
        }
        Event::Flush(_, number) => caches.clwb(core, Line(*number as u32)),
        Event::Fence(_) => caches.fence(core),
        Event::Written(_) | Event::Mark(_) => {}
    }
}
