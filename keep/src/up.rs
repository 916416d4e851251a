// SPDX-License-Identifier: Apache-2.0 OR MIT
//! At boot: the range becomes memory, the image is judged, and programs that it has are restored.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use remanence_format::{REM_KEEP_CHECKPOINT, RemKeepEntry};
use remanence_vm::record::{Record, Verdict, body, judge};
use serde::{Deserialize, Serialize};

use crate::criu;
use crate::device::{Device, Range};
use crate::digest;
use crate::fault::{Fault, at};
use crate::frames::{Frames, Span};
use crate::hook::is_consumed;
use crate::images::{self, Program};
use crate::permit;
use crate::range;
use crate::restore::{Context, Outcome, restore};
use crate::save::Caller;
use crate::state::{Entering, boot_id};
use crate::table;

/// What `up` has decided and done.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Which boot it was.
    pub boot_id: String,
    /// `resume`, or why not.
    pub verdict: String,
    /// Words about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The image is a checkpoint: what programs did after it is lost.
    pub checkpoint: bool,
    /// All of it.
    pub total_us: u64,
    /// Programs of the image.
    pub programs: Vec<Outcome>,
}

/// An image that is right in all its parts.
#[derive(Debug)]
struct Image {
    sequence: u32,
    slot: PathBuf,
    entries: Vec<RemKeepEntry>,
    programs: Vec<Program>,
    is_checkpoint: bool,
}

/// Why there is no image: the field's word, and more words.
#[derive(Debug)]
struct Refusal(&'static str, Option<String>);

/// Does it, once in a boot. Later calls report what the first one did.
///
/// # Errors
/// If the range cannot be had.
pub fn up(caller: &Caller) -> Result<Report, Fault> {
    let _lock = caller.state.lock("lock")?;
    let begin = Instant::now();
    let before: Option<Report> = caller.state.read("up.json")?;
    if let Some(report) = before.filter(|report| report.boot_id == boot_id()) {
        return Ok(report);
    }
    caller.state.clear()?;
    let device = range::open(&caller.config)?;
    let mut report = decide(caller, &device)?;
    criu::warm_up();
    report.boot_id = boot_id();
    report.total_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    caller.state.write("up.json", &report)?;
    Ok(report)
}

fn decide(caller: &Caller, device: &Device) -> Result<Report, Fault> {
    let range = device.range()?;
    let record = Record::on(device);
    match read_image(caller, device, range)? {
        Ok(image) => {
            let print = |line: &str| eprintln!("rem-keep: {line}");
            let asks = permit::serve(&caller.config, &caller.state, print)?;
            let used = Frames::none_of(range.pages);
            for entry in &image.entries {
                // Each is there once: the table was checked.
                let _ = used.insert(entry.frame);
            }
            free(device, &used.absent(range.layout().reserved()))?;
            let sequence = image.sequence;
            let entering = Entering { sequence, asks };
            caller.state.write("entering.json", &entering)?;
            let programs = restore_all(caller, &image, range.node);
            caller.state.remove("entering.json")?;
            if !is_consumed(&caller.state) {
                record.close_all().map_err(at("closing the image"))?;
            }
            free_rest(device, &image, &programs)?;
            // Logs say why a restore failed.
            if programs.iter().all(Outcome::is_resumed) {
                images::remove_all(&caller.config.folder)?;
            }
            Ok(Report {
                verdict: Verdict::Enter(sequence).name().to_owned(),
                programs,
                checkpoint: image.is_checkpoint,
                ..Report::default()
            })
        }
        Err(Refusal(verdict, why)) => {
            // Before anything that the image needs is overwritten.
            record.close_all().map_err(at("closing the record"))?;
            let none = Frames::none_of(range.pages);
            free(device, &none.absent(range.layout().reserved()))?;
            images::remove_all(&caller.config.folder)?;
            Ok(Report {
                verdict: verdict.to_owned(),
                why,
                ..Report::default()
            })
        }
    }
}

fn read_image(
    caller: &Caller,
    device: &Device,
    range: Range,
) -> Result<Result<Image, Refusal>, Fault> {
    let bytes = Record::on(device).read().map_err(at("the record"))?;
    let sequence = match judge(&bytes) {
        Verdict::Enter(sequence) => sequence,
        other => return Ok(Err(Refusal(other.name(), None))),
    };
    let (body, layout) = (body(&bytes, sequence), range.layout());
    let length = match table::length(&body, layout) {
        Ok(length) => length,
        Err(damage) => return Ok(Err(refusal(damage))),
    };
    let place = layout.table_offset(sequence);
    let bytes = device
        .read_at(place, length as u64)
        .map_err(at("the table"))?;
    let entries = match table::check(&bytes, &body, layout) {
        Ok(entries) => entries,
        Err(damage) => return Ok(Err(refusal(damage))),
    };
    let slot = images::slot(&caller.config.folder, sequence);
    let damaged = |why: String| Ok(Err(Refusal("images-damaged", Some(why))));
    match digest::of(&slot) {
        Ok(found) if found == body.machine => {}
        Ok(_) => return damaged(format!("{}: a file has changed", slot.display())),
        Err(fault) => return damaged(fault.to_string()),
    }
    let programs = match images::programs(&slot) {
        Ok(programs) => programs,
        Err(fault) => return damaged(fault.to_string()),
    };
    if !all_owned(&entries, &programs) {
        return damaged("a page's process is in no program".to_owned());
    }
    Ok(Ok(Image {
        sequence,
        slot,
        entries,
        programs,
        is_checkpoint: body.reserved[0] == REM_KEEP_CHECKPOINT,
    }))
}

fn refusal(damage: table::Damage) -> Refusal {
    match damage {
        table::Damage::Range => Refusal("range-differs", None),
        table::Damage::Table => Refusal("table-damaged", None),
    }
}

/// Whether each entry's process is one of one program.
fn all_owned(entries: &[RemKeepEntry], programs: &[Program]) -> bool {
    let mut pids: Vec<u32> = programs
        .iter()
        .flat_map(|program| program.pids.iter().copied())
        .collect();
    pids.sort_unstable();
    let each_once = pids.windows(2).all(|pair| pair[0] != pair[1]);
    let is_owned = |entry: &RemKeepEntry| pids.binary_search(&entry.pid).is_ok();
    each_once && entries.iter().all(is_owned)
}

fn free(device: &Device, spans: &[Span]) -> Result<(), Fault> {
    let mut spans = spans.iter();
    let freed = spans.try_for_each(|span| device.free_held(*span));
    freed.map_err(at("freeing pages of the range"))
}

fn restore_all(caller: &Caller, image: &Image, node: u32) -> Vec<Outcome> {
    thread::scope(|scope| {
        let context = Context {
            caller,
            slot: &image.slot,
            node,
            is_checkpoint: image.is_checkpoint,
        };
        let start = |program| scope.spawn(move || restore(context, program));
        let threads: Vec<_> = image.programs.iter().map(start).collect();
        let joined = threads.into_iter().zip(&image.programs);
        let joined = joined.map(|(thread, program)| {
            thread.join().unwrap_or_else(|_| Outcome {
                name: program.name.clone(),
                state: "restore-failed".to_owned(),
                why: Some("rem-keep has panicked".to_owned()),
                ..Outcome::default()
            })
        });
        joined.collect()
    })
}

/// Frees pages of programs that were not restored.
fn free_rest(device: &Device, image: &Image, outcomes: &[Outcome]) -> Result<(), Fault> {
    for (program, outcome) in image.programs.iter().zip(outcomes) {
        if outcome.is_resumed() {
            continue;
        }
        for &pid in &program.pids {
            let own = table::of_process(&image.entries, pid);
            let spans: Vec<Span> = own.iter().map(|entry| Span::one(entry.frame)).collect();
            free(device, &spans)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a page has one owner, which is in the image.
    #[test]
    fn pages_have_owners() {
        let program = |name: &str, pids: &[u32]| Program {
            name: name.to_owned(),
            pid: pids[0],
            pids: pids.to_vec(),
        };
        let entry = |pid| RemKeepEntry {
            pid,
            ..RemKeepEntry::default()
        };
        let programs = [program("a", &[7, 9]), program("b", &[8])];
        assert!(all_owned(&[entry(7), entry(8), entry(9)], &programs));
        assert!(!all_owned(&[entry(10)], &programs));
        let twice = [program("a", &[7, 9]), program("b", &[9])];
        assert!(!all_owned(&[], &twice));
    }
}
