// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-protocol`: checks the protocol, and whether recordings are behaviours of it. It prints one line
//! of JSON for each machine, planted bug or recording.

use std::fs;
use std::process::ExitCode;

use lexopt::prelude::{Long, Value, ValueExt};
use remanence_protocol::config::machines;
use remanence_protocol::disk::{BUGS, Bug, Logged};
use remanence_protocol::model::{Checked, Report, check};
use remanence_protocol::mutants::{MUTANTS, Mutant};
use remanence_protocol::promises::Broken;
use remanence_protocol::trace::{follow, visible};
use serde::Serialize;

const USAGE: &str = "usage: rem-protocol check [--boots N] [--threads N] [--machine NAME]
       rem-protocol mutants [--boots N] [--threads N] [--name NAME]
       rem-protocol trace RECORDING...
       rem-protocol steps RECORDING";
const EXIT_USAGE: u8 = 2;
const EXIT_INFRASTRUCTURE: u8 = 4;
/// The model of a disk's log among the machines.
const DISK: &str = "disk-log";
const DISK_WRITES: u8 = 3;

struct Arguments {
    words: Vec<String>,
    boots: u8,
    threads: usize,
    only: Option<String>,
}

#[derive(Serialize)]
struct Planted {
    mutant: &'static str,
    breaks: &'static str,
    found: bool,
    #[serde(flatten)]
    report: Report,
}

#[derive(Serialize)]
struct Followed {
    recording: String,
    steps: usize,
    refused: Option<String>,
}

fn parse() -> Result<Arguments, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut arguments = Arguments {
        words: Vec::new(),
        boots: 4,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        only: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("boots") => arguments.boots = parser.value()?.parse()?,
            Long("threads") => arguments.threads = parser.value()?.parse()?,
            Long("machine" | "name") => arguments.only = Some(parser.value()?.string()?),
            Value(word) => arguments.words.push(word.string()?),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(arguments)
}

impl Arguments {
    fn chosen(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }
}

fn print(line: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(line).map_err(|error| error.to_string())?;
    println!("{text}");
    Ok(())
}

fn logged(boots: u8, bug: Option<Bug>) -> Logged {
    Logged {
        writes: DISK_WRITES,
        lives: boots,
        bug,
    }
}

fn check_all(arguments: &Arguments) -> Result<(), String> {
    let mut chosen = 0;
    for config in machines(arguments.boots) {
        let name = config.name;
        if arguments.chosen(name) {
            chosen += 1;
            print(&check(Checked(config), name, &[], arguments.threads))?;
        }
    }
    if arguments.chosen(DISK) {
        chosen += 1;
        let model = logged(arguments.boots, None);
        print(&check(model, DISK, &[], arguments.threads))?;
    }
    some_chosen(chosen, "machine")
}

fn some_chosen(chosen: usize, what: &str) -> Result<(), String> {
    match chosen {
        0 => Err(format!("there is no such {what}")),
        _ => Ok(()),
    }
}

fn planted(name: &'static str, breaks: Broken, report: Report) -> Planted {
    Planted {
        mutant: name,
        breaks: breaks.name(),
        found: report.broken.contains_key(breaks.name()),
        report,
    }
}

fn mutant(it: &Mutant, arguments: &Arguments) -> Result<Planted, String> {
    let mut config = machines(arguments.boots)
        .into_iter()
        .find(|config| config.name == it.machine)
        .ok_or_else(|| format!("{}: there is no machine {}", it.name, it.machine))?;
    config.change = Some(it.change);
    let wanted = [it.breaks.name()];
    let report = check(Checked(config), it.machine, &wanted, arguments.threads);
    Ok(planted(it.name, it.breaks, report))
}

fn mutate_all(arguments: &Arguments) -> Result<(), String> {
    let mut chosen = 0;
    for it in MUTANTS.iter().filter(|it| arguments.chosen(it.name)) {
        chosen += 1;
        print(&mutant(it, arguments)?)?;
    }
    for (name, bug, breaks) in BUGS {
        if arguments.chosen(name) {
            chosen += 1;
            let model = logged(arguments.boots, Some(bug));
            let report = check(model, DISK, &[breaks.name()], arguments.threads);
            print(&planted(name, breaks, report))?;
        }
    }
    some_chosen(chosen, "mutant")
}

fn trace(path: &str) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let mut followed = Followed {
        recording: path.to_owned(),
        steps: 0,
        refused: None,
    };
    match visible(&bytes) {
        Ok(steps) => {
            followed.steps = steps.len();
            followed.refused = follow(&steps).err().map(|error| error.to_string());
        }
        Err(error) => followed.refused = Some(error.to_string()),
    }
    print(&followed)
}

/// The visible steps of a recording, for people.
fn steps(path: &str) -> Result<(), String> {
    let bytes = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    for (event, step) in visible(&bytes).map_err(|error| format!("{path}: {error}"))? {
        println!("{event:>10} {step:?}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let fail = |code: u8, what: &str| {
        eprintln!("rem-protocol: {what}");
        ExitCode::from(code)
    };
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return fail(EXIT_USAGE, &error.to_string()),
    };
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["check"] => check_all(&arguments),
        ["mutants"] => mutate_all(&arguments),
        ["trace", ref paths @ ..] if !paths.is_empty() => {
            paths.iter().try_for_each(|path| trace(path))
        }
        ["steps", path] => steps(path),
        _ => return fail(EXIT_USAGE, USAGE),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => fail(EXIT_INFRASTRUCTURE, &what),
    }
}
