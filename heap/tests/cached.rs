// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The heap over the cache model of `machine/cache`, the one that virtual machines run with: what its
//! media hold after each operation is what a cut leaves there.
//!
//! It is, after recovery, what all transactions that returned have made, and perhaps the one under
//! way; and it is among the states that the crash tests look at (`testing/states.rs`), so that those
//! are never fewer than a machine's.

#![allow(
    clippy::tests_outside_test_module, // an integration test is one as a whole
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

use nvheap::structures::{AvlHead, AvlMap};
use nvheap::testing::{Event, Limits, Plain, Recorder, States, Trial};
use nvheap::{
    FocRedo, FocStm, FocUndo, Heap, Mapping, Mutant, Options, PPtr, Pmem, Policy, Session,
};
use remanence_cache::{Caches, Core, FlatTiming, Geometry, Honoured, Image, Line, Profile};

const REGION_BYTES: u64 = 1 << 19;
const LINE_BYTES: usize = 64;
const STEPS: u64 = 40;
/// Keys that are there at the end; those before are removed again.
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

/// What a power cut leaves in these media, given that so many steps had returned.
fn judge<P: Policy>(media: &[[u8; LINE_BYTES]], returned: u64) -> Result<(), String> {
    let map = Mapping::anonymous(REGION_BYTES).unwrap();
    // SAFETY: the mapping is as long as the media.
    unsafe { std::ptr::copy_nonoverlapping(media.as_ptr().cast(), map.base(), map.bytes()) };
    let plain = Plain::default();
    let heap: Heap<P, _> = Heap::attach(plain, map, &Options::assume_all())
        .map_err(|error| format!("after {returned}: {error}"))?;
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
        .map_err(|error| format!("after {returned}: {error}"))?;
    let after = |steps: u64| -> Vec<(u64, u64)> {
        (steps.saturating_sub(KEPT)..steps)
            .map(|key| (key, key + 100))
            .collect()
    };
    let objects = heap.usage().objects;
    if found != after(returned) && found != after(returned + 1) {
        Err(format!("after {returned}: {found:?}"))
    } else if objects != 1 + found.len() as u64 {
        Err(format!("after {returned}: {objects} objects allocated"))
    } else {
        Ok(())
    }
}

fn profiles() -> Vec<Profile> {
    let real = Profile::named("wsp-c5528").unwrap();
    // So small that lines are evicted all the time.
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

/// Follow a record; how often the media changed.
fn follow<P: Policy>(
    profile: Profile,
    mutant: Option<Mutant>,
    honoured: Honoured,
) -> Result<u64, String> {
    let trial = Trial {
        bytes: REGION_BYTES,
        mutant,
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
    let mut states = States::new(
        image,
        Limits {
            all_max: 0,
            drawn: 0,
            seed: 1,
        },
    );
    let (mut returned, mut seen, mut looks) = (0, usize::MAX, 0);
    for event in &events {
        apply(&mut caches, event);
        states.apply(event);
        let is_mark = matches!(event, Event::Mark(_));
        returned += u64::from(is_mark);
        // Media change by write-backs, what is expected of them by marks.
        if caches.memory.log.len() != seen || is_mark {
            seen = caches.memory.log.len();
            looks += 1;
            states.allows(caches.memory.media.as_flattened())?;
            judge::<P>(&caches.memory.media, returned)?;
        }
    }
    Ok(looks)
}

fn apply(caches: &mut Caches<Image, FlatTiming>, event: &Event) {
    let core = Core(0);
    let line_of = |offset: &u64| (Line((*offset / 64) as u32), (*offset % 64) as usize);
    match event {
        Event::Store(offset, value) => {
            let (line, at) = line_of(offset);
            caches.memory.coherent[line.index()][at..at + 8].copy_from_slice(&value.to_le_bytes());
            caches.store(core, line);
        }
        Event::StoreByte(offset, value) => {
            let (line, at) = line_of(offset);
            caches.memory.coherent[line.index()][at] = *value;
            caches.store(core, line);
        }
        Event::Stream(_, number, words) => {
            let line = Line(*number as u32);
            for (to, word) in caches.memory.coherent[line.index()]
                .chunks_exact_mut(8)
                .zip(words)
            {
                to.copy_from_slice(&word.to_le_bytes());
            }
            caches.nt_store(core, line);
        }
        Event::Flush(_, number) => caches.clwb(core, Line(*number as u32)),
        Event::Fence(_) => caches.fence(core),
        Event::Mark(_) => {}
    }
}

fn holds<P: Policy>() {
    for profile in profiles() {
        let looks = follow::<P>(profile, None, Honoured::All).unwrap();
        assert!(looks > STEPS, "only {looks} states");
    }
}

#[test]
fn a_redo_log_holds_over_the_machines_caches() {
    holds::<FocRedo>();
}

#[test]
fn an_undo_log_holds_over_the_machines_caches() {
    holds::<FocUndo>();
}

#[test]
fn transactional_memory_holds_over_the_machines_caches() {
    holds::<FocStm>();
}

/// Whether some profile shows it.
fn found(mutant: Option<Mutant>, honoured: &Honoured) -> bool {
    profiles()
        .into_iter()
        .any(|profile| follow::<FocRedo>(profile, mutant, honoured.clone()).is_err())
}

#[test]
fn finds_a_commit_that_is_not_awaited() {
    assert!(found(Some(Mutant::SkipCommitFence), &Honoured::All));
}

#[test]
fn finds_a_checkpoint_without_write_back() {
    assert!(found(Some(Mutant::SkipCheckpointFlush), &Honoured::All));
}

#[test]
fn finds_flushes_without_effect() {
    assert!(found(None, &Honoured::Nothing));
}
