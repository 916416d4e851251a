// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nvheap info | check | repair | dump`: looks at a region, safe on hostile bytes. Exit status: 0 in
//! order, 1 something is wrong with the region, 2 usage, 4 the file cannot be read.

mod plain;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nvheap::fsck::{Allocated, Finding, Root, Usage, check, is_open, objects, parse, roots, usage};
use nvheap::layout::Layout;
use nvheap::recover::{Store, Words, replay, roll_back, scan};
use nvheap::{Error, Heap, Options, PolicyKind, with_policy};

const USAGE: &str = "usage: nvheap info FILE | check FILE | dump FILE | repair FILE [--accept]\n\
                     see nvheap(1)";
/// Longest file that is read into memory as a whole.
const FILE_MAX_BYTES: u64 = 64 << 30;

enum Failure {
    /// The region.
    Wrong(String),
    Usage(String),
    /// The system.
    System(String),
}

struct Arguments {
    command: String,
    file: PathBuf,
    accept: bool,
}

/// `None`: help was requested.
fn arguments() -> Result<Option<Arguments>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_env();
    let (mut words, mut accept) = (Vec::new(), false);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("accept") => accept = true,
            Long("help") | Short('h') => return Ok(None),
            Value(word) => words.push(word),
            _ => return Err(argument.unexpected()),
        }
    }
    let [command, file] = words.try_into().map_err(|_| USAGE)?;
    Ok(Some(Arguments {
        command: command.string()?,
        file: file.into(),
        accept,
    }))
}

fn main() -> ExitCode {
    let done = match arguments() {
        Ok(Some(it)) => run(&it),
        Ok(None) => {
            println!("{USAGE}");
            Ok(())
        }
        Err(error) => Err(Failure::Usage(error.to_string())),
    };
    let (text, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Wrong(text)) => (text, 1),
        Err(Failure::Usage(text)) => (text, 2),
        Err(Failure::System(text)) => (text, 4),
    };
    eprintln!("nvheap: {text}");
    ExitCode::from(code)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = &arguments.file;
    if nvheap::fof::is_region(file) {
        return plain::run(arguments);
    }
    match arguments.command.as_str() {
        "info" => info(&load(file)?),
        "check" => report(&load(file)?),
        "dump" => dump(&load(file)?),
        "repair" => repair(file),
        other => Err(Failure::Usage(format!("{other}: no such command\n{USAGE}"))),
    }
}

/// A region's bytes, with the logs' records applied as a recovery would.
struct Region {
    layout: Layout,
    words: Vec<u64>,
    applied: usize,
    rolled_back: usize,
}

impl Region {
    fn word(&self, offset: u64) -> u64 {
        self.words[..].word(offset)
    }
}

fn content(file: &Path) -> Result<Vec<u8>, Failure> {
    let system = |error: std::io::Error| Failure::System(format!("{}: {error}", file.display()));
    let bytes = std::fs::metadata(file).map_err(system)?.len();
    if bytes > FILE_MAX_BYTES {
        return Err(Failure::System(format!(
            "{}: {bytes} bytes are too many",
            file.display()
        )));
    }
    std::fs::read(file).map_err(system)
}

fn load(file: &Path) -> Result<Region, Failure> {
    recovered(&content(file)?).map_err(|error| wrong(file, &error))
}

fn wrong(file: &Path, error: &Error) -> Failure {
    Failure::Wrong(format!("{}: {error}", file.display()))
}

fn recovered(content: &[u8]) -> Result<Region, Error> {
    let (layout, mut words) = parse(content)?;
    let found = scan(&layout, &words[..])?;
    let mut store = |what: Store| match what {
        Store::Word(at, value) => words[(at / 8) as usize] = value,
        Store::Byte(at, value) => {
            let shift = at % 8 * 8;
            let word = &mut words[(at / 8) as usize];
            *word = *word & !(0xff << shift) | (u64::from(value) << shift);
        }
    };
    replay(&found, &mut store);
    roll_back(&found, &mut store);
    Ok(Region {
        layout,
        words,
        applied: found.redo.len(),
        rolled_back: found.undo.len(),
    })
}

fn info(region: &Region) -> Result<(), Failure> {
    let layout = &region.layout;
    let word = |at| region.word(at);
    println!("policy          {}", layout.policy);
    println!("uuid            {}", hexadecimal(&layout.uuid));
    println!("size            {} bytes", layout.size_bytes);
    println!(
        "sessions        {}, logs of {} and {} lines",
        layout.sessions, layout.redo_lines, layout.undo_lines
    );
    println!(
        "state           {}",
        if is_open(&word) {
            "open, or its program died"
        } else {
            "closed"
        }
    );
    println!(
        "in the logs     {} records to apply, {} to undo",
        region.applied, region.rolled_back
    );
    content_info(usage(layout, &word), &roots(&word));
    Ok(())
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = |text: String, byte: &u8| text + &format!("{byte:02x}");
    bytes.iter().fold(String::new(), digits)
}

fn content_info(usage: Usage, roots: &[Root]) {
    println!(
        "objects         {}, {} bytes",
        usage.objects, usage.object_bytes
    );
    println!(
        "chunks          {} of {} bytes in use",
        usage.chunk_bytes, usage.capacity_bytes
    );
    println!(
        "fragmentation   {} permille",
        usage.fragmentation_permille()
    );
    for root in roots {
        println!(
            "root            {:?} at {:#x}, {} bytes, type {:016x}",
            root.name, root.offset, root.bytes, root.type_id
        );
    }
}

fn report(region: &Region) -> Result<(), Failure> {
    findings(&check(&region.layout, &|at| region.word(at)))?;
    println!(
        "in order: {} records to apply, {} to undo",
        region.applied, region.rolled_back
    );
    Ok(())
}

fn findings(found: &[Finding]) -> Result<(), Failure> {
    for Finding { offset, what } in found {
        println!("{offset:#x}: {what}");
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "{} things are not in order",
        found.len()
    )))
}

fn dump(region: &Region) -> Result<(), Failure> {
    let objects = objects(&region.layout, &|at| region.word(at));
    dump_objects(&objects, &|at| region.word(at))
}

fn dump_objects(objects: &[Allocated], word: &dyn Fn(u64) -> u64) -> Result<(), Failure> {
    use std::io::Write;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut write = || -> std::io::Result<()> {
        for (offset, bytes) in objects {
            write!(out, "{offset:#x} {bytes}")?;
            for at in (*offset..offset + bytes / 8 * 8).step_by(8) {
                write!(out, " {:x}", word(at))?;
            }
            writeln!(out)?;
        }
        out.flush()
    };
    match write() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::System(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Open it as a program would, which recovers it, and close it. Only what passes `check` is touched.
fn repair(file: &Path) -> Result<(), Failure> {
    let region = load(file)?;
    report(&region)?;
    let kind: PolicyKind = region.layout.policy;
    let options = Options {
        assume_persistent: true,
        assume_flush_on_fail: true,
        ..Options::default()
    };
    let opened =
        with_policy!(kind, P => Heap::<P>::open(file, &options).map(|heap| heap.recovered()));
    let done = opened.map_err(|error| not_opened(file, &error))?;
    println!(
        "closed: {} records applied, {} undone",
        done.applied, done.rolled_back
    );
    Ok(())
}

fn not_opened(file: &Path, error: &Error) -> Failure {
    match error {
        Error::Busy(_) | Error::Io(..) | Error::AddressTaken { .. } => {
            Failure::System(error.to_string())
        }
        _ => wrong(file, error),
    }
}
