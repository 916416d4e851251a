// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges one cut again in full detail: the events around it, and the lines that are wrong.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use remanence_crash_states::Eviction;
use remanence_recording::{Event, LINE_BYTES, Timed};
use serde::Serialize;

use crate::CampaignError;
use crate::dirty::DirtyLines;
use crate::media::Media;
use crate::run::Recording;
use crate::survey::{self, Survey};
use crate::trial::{Outcome, Trial};

/// Most lines of a difference that are reported.
const DIFFERENCES_MAX: usize = 20;

/// A line in which media differs from the committed image.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Offset in NVRAM.
    pub offset: u64,
    /// On media, in hex.
    pub media: String,
    /// In the image, in hex.
    pub committed: String,
    /// The last store to it in a window: event and program counter.
    pub last_store: Option<(u64, u64)>,
}

/// The state after a cut.
#[derive(Debug, Serialize)]
pub struct Replayed {
    /// The verdict and its place.
    pub outcome: Outcome,
    /// Lines that were evicted before the cut, by offset in NVRAM.
    pub lines: Vec<u64>,
    /// The first lines that differ from the image.
    pub differs: Vec<Difference>,
    /// Size of each disk's log at the cut.
    pub disk_log: BTreeMap<u32, u64>,
    /// Writes that the disks' caches may lose: in flight, or acknowledged too early.
    pub forgettable: usize,
    /// Size of the console's log at the cut.
    pub console_bytes: u64,
    /// Events before and after the cut.
    pub trace: Vec<String>,
}

/// Replays `cut`, with `around` events on either side; media is written to `media_out`, if given.
///
/// # Errors
/// The recording or the place is invalid, or the file cannot be written.
pub fn replay(
    recording: &Recording,
    cut: u64,
    eviction: &Eviction,
    around: usize,
    media_out: Option<&Path>,
) -> Result<Replayed, CampaignError> {
    let survey = Survey::of(recording)?;
    let mut trial = Trial::begin(recording, &survey)?;
    trial.go_to(cut)?;
    let Some(outcome) = trial.judge_one(eviction) else {
        return Err(CampaignError::NoSuchPlace(cut));
    };
    let stores = DirtyLines::of(trial.run()).stores(eviction);
    trial.evict(&stores);
    let lines = stores.iter().map(|(line, _)| *line).collect();
    let run = trial.run();
    if let Some(path) = media_out {
        write_sparse(&run.media, path).map_err(|err| CampaignError::File(path.to_owned(), err))?;
    }
    let wrong: Vec<u64> = run
        .reference
        .iter()
        .flat_map(|reference| reference.differs().iter().copied())
        .take(DIFFERENCES_MAX)
        .collect();
    let stores = match wrong[..] {
        [] => HashMap::new(),
        _ => last_stores(recording, &survey, cut)?,
    };
    let last = |offset| stores.get(&offset).map(|last| (last.event, last.pc));
    let differs = wrong
        .iter()
        .map(|&offset| Difference {
            offset,
            media: hex(&run.media.line(offset)),
            committed: run
                .reference
                .as_ref()
                .and_then(|reference| reference.wanted(offset))
                .map_or_else(String::new, |line| hex(line)),
            last_store: last(offset),
        })
        .collect();
    Ok(Replayed {
        outcome,
        lines,
        differs,
        disk_log: run.disk_log.clone(),
        forgettable: run.forgettable(),
        console_bytes: run.console_bytes,
        trace: trace(recording, &survey, cut, around)?,
    })
}

/// The last store to a line.
pub(crate) struct LastStore {
    pub(crate) event: u64,
    pub(crate) pc: u64,
    pub(crate) time_ns: u64,
    pub(crate) vcpu: u8,
}

/// The last store in a window before the cut, of each line, by offset in NVRAM.
pub(crate) fn last_stores(
    recording: &Recording,
    survey: &Survey,
    cut: u64,
) -> Result<HashMap<u64, LastStore>, CampaignError> {
    let mut last = HashMap::new();
    let mut run = survey::begin(recording, &survey.judge)?;
    while run.event < cut {
        let Some(timed) = run.step(None)? else { break };
        if let Event::Store { address, pc, .. } = timed.event {
            let at = address - recording.header.nvram_phys;
            let store = LastStore {
                event: run.event,
                pc,
                time_ns: timed.time_ns,
                vcpu: timed.vcpu,
            };
            last.insert(at - at % LINE_BYTES as u64, store);
        }
    }
    Ok(last)
}

fn trace(
    recording: &Recording,
    survey: &Survey,
    cut: u64,
    around: usize,
) -> Result<Vec<String>, CampaignError> {
    let mut lines: VecDeque<String> = VecDeque::new();
    if around == 0 {
        return Ok(lines.into());
    }
    let mut run = survey::begin(recording, &survey.judge)?;
    let last = cut.saturating_add(around as u64);
    while run.event < last {
        let Some(timed) = run.step(Some(&survey.judge))? else {
            break;
        };
        if run.event == cut + 1 {
            lines.push_back(format!("{:>9} ---- the power goes here", ""));
        } else if run.event <= cut && lines.len() >= around {
            lines.pop_front();
        }
        lines.push_back(tell(run.event, &timed, recording.header.nvram_phys));
    }
    Ok(lines.into())
}

fn tell(event: u64, timed: &Timed<'_>, phys: u64) -> String {
    let what = match timed.event {
        Event::Store { address, bytes, pc } => {
            format!(
                "store      {:#x} = {} by {pc:#x}",
                address - phys,
                hex(bytes)
            )
        }
        Event::WriteBack { line, cause, .. } => {
            format!("write-back {:#x} cause {}", line - phys, cause.0)
        }
        Event::Accepted { line, cause, .. } => {
            format!("accepted   {:#x} cause {}", line - phys, cause.0)
        }
        Event::Flush { line, cause, pc } => {
            format!(
                "flush      {:#x} by instruction {} at {pc:#x}",
                line - phys,
                cause.0
            )
        }
        Event::Fence { fence, pc } => format!("fence      {} at {pc:#x}", fence.0),
        Event::CacheAll { cause, pc } => format!("all lines  instruction {} at {pc:#x}", cause.0),
        Event::Unseen { line, .. } => format!("unseen     {:#x}", line - phys),
        Event::Line { line, .. } => format!("line       {:#x}", line - phys),
        Event::Phase(phase) => format!("phase      {}", phase.0),
        Event::Power { ok } => format!("PWR_OK     {}", if ok { "present" } else { "gone" }),
        Event::DiskLog { disk, bytes } => format!("disk {disk}     {bytes} bytes logged"),
        Event::Window { begins } => {
            format!("window     {}", if begins { "begins" } else { "ends" })
        }
        Event::Cut { cause } => format!("cut        cause {cause}"),
        Event::End => "end".into(),
        Event::Console { bytes } => format!("console    {bytes} bytes"),
    };
    format!(
        "{event:>9} {:>14} ns  cpu {:>3}  {what}",
        timed.time_ns, timed.vcpu
    )
}

fn hex(bytes: &[u8]) -> String {
    let digits = |text: String, byte: &u8| text + &format!("{byte:02x}");
    bytes.iter().fold(String::new(), digits)
}

pub(crate) fn write_sparse(media: &Media, path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let bytes = media.bytes();
    for (n, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|&byte| byte != 0) {
            file.seek(SeekFrom::Start(n as u64 * 4096))?;
            file.write_all(page)?;
        }
    }
    file.set_len(bytes.len() as u64)
}
