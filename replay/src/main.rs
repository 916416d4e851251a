// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-replay`: writes pages that an fsync has acknowledged in memory to their files.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use remanence_replay::registry::{self, Found};
use remanence_replay::replay::{Report, replay};
use remanence_replay::{handle, mounts};

/// Write pages that an fsync has acknowledged in memory to their files.
///
/// To be run once at boot, when all file systems are mounted and before anything uses them. Without
/// such pages it does nothing. They are kept until all of them are written.
#[derive(Debug, Parser)]
#[command(name = "rem-replay")]
struct Words {
    /// Show what would be written.
    #[arg(long)]
    dry_run: bool,
    /// Give up what cannot be written.
    #[arg(long)]
    discard: bool,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// The kernel's folder.
    #[arg(long, default_value = "/sys/kernel/remanence/persist")]
    folder: PathBuf,
}

fn named<T>(path: &Path, done: io::Result<T>) -> Result<T, String> {
    done.map_err(|error| format!("{}: {error}", path.display()))
}

fn print(report: &Report) {
    println!(
        "{} pages of {} files written, {} of them changed after their fsync",
        report.pages, report.files, report.changed
    );
    for (count, what) in [
        (report.gone, "files do not exist any more"),
        (report.damaged, "pages are damaged, and were not written"),
        (report.orphans, "pages were never acknowledged"),
    ] {
        if count > 0 {
            println!("{count} {what}");
        }
    }
    for line in &report.failed {
        println!("not written: {line}");
    }
    for name in &report.uncertain {
        println!("{name}: its last changes may have been in CPU caches, and are lost then");
    }
}

const NOT_ALL: u8 = 3;
const CACHES_LOST: u8 = 4;

/// Returns the exit code.
fn execute(words: &Words) -> Result<u8, String> {
    let state = words.folder.join("found");
    let waits = named(&state, std::fs::read_to_string(&state))?.trim() == "1";
    let path = words.folder.join("registry");
    let bytes = if waits {
        named(&path, std::fs::read(&path))?
    } else {
        Vec::new()
    };
    let found = if waits {
        registry::read(&bytes).map_err(|error| format!("{}: {error}", path.display()))?
    } else {
        Found::default()
    };
    let mountinfo = Path::new("/proc/self/mountinfo");
    let roots = named(mountinfo, mounts::roots(mountinfo))?;
    let tell = |entry: usize| std::fs::write(&state, format!("written {entry}"));
    let report = replay(
        &found,
        &roots,
        &handle::open,
        (!words.dry_run).then_some(&tell as _),
    );
    if words.json {
        println!(
            "{}",
            serde_json::to_string(&report).map_err(|error| error.to_string())?
        );
    } else if waits {
        print(&report);
    }
    if waits && !words.dry_run && (report.complete() || words.discard) {
        named(&state, std::fs::write(&state, "clear"))?;
    }
    Ok(if !report.complete() {
        NOT_ALL
    } else if report.uncertain.is_empty() {
        0
    } else {
        CACHES_LOST
    })
}

fn main() -> ExitCode {
    match execute(&Words::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("rem-replay: {error}");
            ExitCode::FAILURE
        }
    }
}
