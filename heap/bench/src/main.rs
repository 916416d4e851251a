// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures nvheap, interleaved with libpmemobj: `rem bench heap` runs it. Before it measures it
//! runs the crash tests in this very binary.
//!
//! Standard output has a line for each figure: name, value, unit, spread in percent.

// On x86-64 a usize is a u64.
#![allow(clippy::cast_possible_truncation)]

#[cfg(feature = "mutants")]
extern crate nvheap_mutants as nvheap;

mod fig5;
mod fof;
mod judge;
mod keep;
mod measure;
mod ops;
mod peer;
mod plain;
mod planted;
mod scale;
mod tape;
mod target;
mod waits;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use nvheap::testing::{Trial, self_check};
use nvheap::{FocRedo, FocStm, FocUndo, Native};

const USAGE: &str =
    "usage: nvheap-bench ops|fig5|waits --folder FOLDER --peer LIBRARY [--rounds N] \
                     [--operations N] [--entries N] [--objects N]
                     [--skip-check]
       nvheap-bench keep --folder FOLDER --policy POLICY|none [--operations N]
       nvheap-bench look --folder FOLDER
       nvheap-bench begin --folder FOLDER --policy POLICY
       nvheap-bench row --folder FOLDER --policy POLICY [--mutant NAME] [--operations N]
       nvheap-bench judge --folder RECORDING --region ADDRESS --bytes N [--limit N]
       nvheap-bench tape --folder FOLDER --policy POLICY [--operations N]
       nvheap-bench updates --folder FOLDER --memory [map-]fof|glibc|mimalloc
               [--operations N] [--entries N]";

struct Arguments {
    what: String,
    folder: PathBuf,
    peer: PathBuf,
    policy: String,
    mutant: String,
    memory: String,
    region: u64,
    bytes: u64,
    limit: u64,
    rounds: u64,
    operations: u64,
    entries: u64,
    objects: u64,
    check: bool,
}

fn parse() -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_env();
    let mut arguments = Arguments {
        what: String::new(),
        folder: PathBuf::new(),
        peer: PathBuf::new(),
        policy: String::new(),
        mutant: String::new(),
        memory: String::new(),
        region: 0,
        bytes: 0,
        limit: 400,
        rounds: 300,
        operations: 1_000_000,
        entries: fig5::ENTRIES,
        objects: 10_000_000,
        check: true,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("folder") => arguments.folder = parser.value()?.into(),
            Long("peer") => arguments.peer = parser.value()?.into(),
            Long("policy") => arguments.policy = parser.value()?.string()?,
            Long("mutant") => arguments.mutant = parser.value()?.string()?,
            Long("memory") => arguments.memory = parser.value()?.string()?,
            Long("region") => arguments.region = parser.value()?.parse()?,
            Long("bytes") => arguments.bytes = parser.value()?.parse()?,
            Long("limit") => arguments.limit = parser.value()?.parse()?,
            Long("rounds") => arguments.rounds = parser.value()?.parse()?,
            Long("operations") => arguments.operations = parser.value()?.parse()?,
            Long("entries") => arguments.entries = parser.value()?.parse()?,
            Long("objects") => arguments.objects = parser.value()?.parse()?,
            Long("skip-check") => arguments.check = false,
            Value(what) if arguments.what.is_empty() => arguments.what = what.string()?,
            _ => return Err(argument.unexpected()),
        }
    }
    match arguments.what.as_str() {
        "ops" | "fig5" | "waits" | "keep" | "look" | "tape" | "begin" | "row" | "judge"
        | "updates"
            if arguments.rounds > 0 && arguments.entries > 0 =>
        {
            Ok(arguments)
        }
        _ => Err(USAGE.into()),
    }
}

fn check() -> Result<u64, String> {
    let trial = Trial::default();
    Ok(self_check::<FocRedo>(&trial)?
        + self_check::<FocUndo>(&trial)?
        + self_check::<FocStm>(&trial)?)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let folder = &arguments.folder;
    match arguments.what.as_str() {
        "keep" => keep::keep(folder, &arguments.policy, arguments.operations),
        "look" => keep::look(folder),
        "begin" => work::begin(folder, &arguments.policy),
        "row" => planted::row(
            &arguments.mutant,
            folder,
            &arguments.policy,
            arguments.operations,
        ),
        "judge" => judge::judge(folder, arguments.region, arguments.bytes, arguments.limit),
        "updates" => fof::updates(
            folder,
            &arguments.memory,
            arguments.entries,
            arguments.operations,
        ),
        "tape" => tape::write(
            &folder.join("tape"),
            &arguments.policy,
            arguments.operations,
        ),
        _ => measure(arguments),
    }
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    let folder = &arguments.folder;
    for name in ["", "second", "third", "fourth"] {
        std::fs::create_dir_all(folder.join(name))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut figures = measure::Figures::default();
    if arguments.check {
        let states = check()?;
        figures.add("crash_states", "states", &[states as f64]);
    }
    let pool = folder.join("pool");
    let _ = std::fs::remove_file(&pool);
    let peer = peer::open(
        &arguments.peer,
        &pool,
        ops::REGION_BYTES as usize,
        ops::BUCKETS,
    )?;
    // From here on time is taken: lab/bench/heap.py counts system calls after this line.
    eprintln!(
        "lines are written back by {}",
        Native::new().write_back_name()
    );
    let shares: Vec<u64> = (0..=100).step_by(10).collect();
    if arguments.what == "waits" {
        waits::measure(
            folder,
            arguments.entries,
            arguments.operations,
            &shares,
            &mut figures,
        );
    } else if arguments.what == "fig5" {
        fig5::measure(
            folder,
            peer,
            arguments.entries,
            arguments.operations,
            &shares,
            &mut figures,
        );
    } else {
        ops::measure(folder, peer, arguments.rounds, &mut figures);
        ops::measure_table(folder, peer, arguments.rounds, &mut figures);
        ops::measure_reads(folder, arguments.rounds, &mut figures);
        fof::against_plain(folder, arguments.rounds, &mut figures)?;
        scale::threads(arguments.rounds.div_ceil(60), &mut figures);
        scale::open(folder, arguments.objects, 20, &mut figures);
        scale::recovery(&mut figures);
    }
    figures.print();
    Ok(())
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("nvheap-bench: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nvheap-bench: {error}");
            ExitCode::from(1)
        }
    }
}
