// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges a recorded guest in which `work.rs` was at work: in each window of the recording, before
//! each fence behind a change of the heap, and where a transaction has returned, images that a cut
//! may leave there (`remanence-crash-states`) are recovered and looked at. Each must hold all
//! transactions that had returned, and at most one more, with no object too many.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nvheap::layout::{Layout, MAGIC, PAGE_BYTES};
use nvheap::testing::{Broken, Event, History, Plain, Replica, Trial, Visit, verdict};
use nvheap::{Heap, Mapping, Options, Policy, with_policy};
use remanence_crash_states::WORD_BYTES;
use remanence_crash_states::recorded::{Window, Windows};
use remanence_recording::Reader;

use crate::work::{REPORT_MAGIC, look};

const PAGE: usize = PAGE_BYTES as usize;

struct Verdict {
    policy: String,
    operations: u64,
    images: u64,
    sampled: u64,
    broken: Option<Broken>,
}

/// Judges each window; a line of JSON for each.
pub fn judge(folder: &Path, phys: u64, bytes: u64, limit: u64) -> Result<(), String> {
    let recording = std::fs::read(folder.join("recording.bin")).map_err(text)?;
    let nvram_phys = Reader::new(&recording).map_err(text)?.header().nvram_phys;
    let mut media = vec![0; bytes as usize];
    File::open(folder.join("base.media"))
        .and_then(|base| base.read_exact_at(&mut media, phys.saturating_sub(nvram_phys)))
        .map_err(text)?;
    let mut windows = 0;
    for window in Windows::new(&recording, media, phys).map_err(text)? {
        print(&judge_window(&window.map_err(text)?, limit)?);
        windows += 1;
    }
    if windows == 0 {
        return Err("the recording has no window".to_owned());
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The page that begins so; where several do, something is wrong with the guest.
fn page_of(memory: &[u8], word: usize, magic: u64) -> Result<usize, String> {
    let found: Vec<usize> = (0..memory.len())
        .step_by(PAGE)
        .filter(|page| memory[page + word * WORD_BYTES..][..WORD_BYTES] == magic.to_le_bytes())
        .collect();
    match found[..] {
        [page] => Ok(page),
        _ => Err(format!("{} pages have the mark {magic:#x}", found.len())),
    }
}

fn judge_window(window: &Window, limit: u64) -> Result<Verdict, String> {
    let view = &window.view;
    let (heap, report) = (page_of(view, 0, MAGIC)?, page_of(view, 1, REPORT_MAGIC)?);
    let layout = Layout::decode(&view[heap..heap + PAGE]).map_err(text)?;
    let heap = heap..heap + layout.size_bytes as usize;
    let events = window.history(heap.clone(), report);
    with_policy!(layout.policy, P => look_at::<P>(window, heap, &events, limit))
}

fn options() -> Options {
    Options::assume_all()
}

fn copy_of(image: &[u8]) -> Result<Mapping, String> {
    let map = Mapping::anonymous(image.len() as u64).map_err(text)?;
    // SAFETY: the mapping is new and as long as the image.
    unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), map.base(), image.len()) };
    Ok(map)
}

fn look_at<P: Policy>(
    window: &Window,
    heap: Range<usize>,
    events: &[Event],
    limit: u64,
) -> Result<Verdict, String> {
    let open = |map: Mapping| {
        let heap = Heap::<P, Plain>::attach(Plain, map, &options());
        heap.map_err(Broken::does_not_open)
            .and_then(|heap| look(&heap))
    };
    let (start, objects) = open(copy_of(&window.view[heap.clone()])?).map_err(text)?;
    let mut replica = Replica::new(heap.len() as u64).map_err(text)?;
    let mut check = |visit: &mut Visit<'_, '_>| {
        let returned = visit.marks.last().copied().unwrap_or(start);
        let (count, found) = replica.show(visit.image, open)?;
        if !(returned..=returned + 1).contains(&count) {
            let what = format!("{returned} transactions returned, {count} are there");
            return Err(Broken::new(verdict::NOT_ATOMIC, what));
        }
        if found != objects {
            let what = format!("{found} objects instead of {objects}");
            return Err(Broken::new(verdict::WRONG_OBJECTS, what));
        }
        Ok(())
    };
    let limits = Trial::limits(limit, limit / 8);
    let mut history = History::in_domain(window.domain, window.media[heap].to_vec(), limits, 1);
    let broken = history.follow(events, &mut check).err();
    let marks = events
        .iter()
        .filter(|event| matches!(event, Event::Mark(_)))
        .count();
    Ok(Verdict {
        policy: P::KIND.to_string(),
        operations: marks as u64,
        images: history.images(),
        sampled: history.sampled(),
        broken: broken.map(Broken::from),
    })
}

fn print(verdict: &Verdict) {
    let broken = verdict.broken.as_ref();
    let fields: BTreeMap<&str, String> = BTreeMap::from([
        ("policy", quoted(&verdict.policy)),
        ("operations", verdict.operations.to_string()),
        ("images", verdict.images.to_string()),
        ("sampled", verdict.sampled.to_string()),
        (
            "verdict",
            quoted(broken.map_or("", |broken| broken.verdict)),
        ),
        ("broken", quoted(broken.map_or("", |broken| &broken.what))),
    ]);
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    println!("{{{}}}", fields.join(","));
}

/// A JSON string; the texts here are ASCII.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}
