// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pm-judge DIR REGION BYTES [LIMIT [SEED]]`: one line of JSON for each window of the recording. Exit
//! status 4: the recording cannot be judged, for example as it ends inside a window.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::ValueExt;
use pm_judge::judge::{JudgeError, Judged, judge};
use remanence_crash_states::recorded::Windows;
use remanence_recording::Reader;
use serde_json::json;

const LIMIT: u64 = 48;
const USAGE: &str = "usage: pm-judge DIR REGION BYTES [LIMIT [SEED]]";
const EXIT_USAGE: u8 = 2;
const EXIT_INFRASTRUCTURE: u8 = 4;

struct Arguments {
    folder: PathBuf,
    region: u64,
    bytes: usize,
    limit: u64,
    seed: u64,
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse() -> Option<Arguments> {
    let mut parser = lexopt::Parser::from_env();
    let mut words = Vec::new();
    while let Some(lexopt::Arg::Value(word)) = parser.next().ok()? {
        words.push(word.string().ok()?);
    }
    let at = |n: usize| words.get(n).and_then(|word| number(word));
    (3..=5).contains(&words.len()).then_some(())?;
    Some(Arguments {
        folder: words[0].clone().into(),
        region: at(1)?,
        bytes: usize::try_from(at(2)?).ok()?,
        limit: at(3).unwrap_or(LIMIT),
        seed: at(4).unwrap_or(1),
    })
}

fn print(judged: &Judged) {
    let broken = judged.broken.as_ref();
    let line = json!({
        "operations": judged.operations,
        "places": judged.moments,
        "images": judged.images,
        "violations": u8::from(broken.is_some()),
        "broken": judged.guest_line,
        "verdict": broken.map_or("", |broken| broken.verdict),
        "first": broken.map_or("", |broken| broken.what.as_str()),
    });
    println!("{line}");
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let folder: &Path = &arguments.folder;
    let text = |what: &dyn std::fmt::Display| format!("{}: {what}", folder.display());
    let recording = std::fs::read(folder.join("recording.bin")).map_err(|err| text(&err))?;
    let reader = Reader::new(&recording).map_err(|err| text(&err))?;
    let mut media = vec![0; arguments.bytes];
    let offset = arguments.region.saturating_sub(reader.header().nvram_phys);
    File::open(folder.join("base.media"))
        .and_then(|base| base.read_exact_at(&mut media, offset))
        .map_err(|err| text(&err))?;
    let windows = Windows::new(&recording, media, arguments.region).map_err(|err| text(&err))?;
    let mut count = 0;
    for window in windows {
        let judged = window
            .map_err(JudgeError::from)
            .and_then(|window| judge(&window, arguments.limit, arguments.seed))
            .map_err(|err| text(&err))?;
        print(&judged);
        count += 1;
    }
    if count == 0 {
        return Err(text(&JudgeError::NoWindow));
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(arguments) = parse() else {
        eprintln!("{USAGE}");
        return ExitCode::from(EXIT_USAGE);
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("pm-judge: {what}");
            ExitCode::from(EXIT_INFRASTRUCTURE)
        }
    }
}
