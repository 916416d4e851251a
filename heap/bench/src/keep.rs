// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program whose data a power failure meets: a table of the numbers it counted last, in a region of
//! any policy or in plain memory. It says each number when that is durable; after the failure `look`
//! tells what is there. This is the binary that the crash tests run in.

use std::io::Write;
use std::path::Path;

use nvheap::structures::{HashHead, HashMap};
use nvheap::{Heap, Options, PPtr, Policy, PolicyKind, Session, Tx, policy_of, with_policy};

use crate::plain::{Glibc, Table};

const REGION_BYTES: u64 = 16 << 20;
const BUCKETS: u64 = 1 << 10;
/// Numbers that are in the table.
const KEPT: u64 = 1000;
/// A file in the folder that asks a program in plain memory to look and end.
const STOP: &str = "stop";

/// What belongs to a number: no two have the same.
pub fn value(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number >> 7
}

fn say(number: u64) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{number}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output: {error}"))
}

struct Roots {
    table: HashMap<u64, u64>,
    count: PPtr<u64>,
}

fn roots<P: Policy>(session: &mut Session<P>) -> Result<Roots, String> {
    let text = |error: nvheap::Error| error.to_string();
    let head: PPtr<HashHead<u64, u64>> = session
        .root_or("table", |tx| HashMap::create(tx, BUCKETS))
        .map_err(text)?;
    let count = session.root_or("count", |tx| tx.alloc(0)).map_err(text)?;
    let table = HashMap::at(head);
    Ok(Roots { table, count })
}

fn in_region<P: Policy>(file: &Path, numbers: u64) -> Result<(), String> {
    // Nothing is assumed: the file must be in persistent memory, and what the platform promises is
    // what its kernel says.
    let options = Options::default();
    let heap = if file.exists() {
        Heap::<P>::open(file, &options)
    } else {
        Heap::<P>::create(file, REGION_BYTES, &options)
    }
    .map_err(|error| error.to_string())?;
    let mut session = heap.session().map_err(|error| error.to_string())?;
    let Roots { table, count } = roots(&mut session)?;
    for _ in 0..numbers {
        let number = session
            .run(|tx| {
                let number = tx.get(count)?;
                table.insert(tx, number, value(number))?;
                if number >= KEPT {
                    table.remove(tx, &(number - KEPT))?;
                }
                tx.set(count, number + 1)?;
                Ok(number)
            })
            .map_err(|error| error.to_string())?;
        say(number)?;
    }
    Ok(())
}

/// Until a file asks for the end; then all that should be in the table is looked up.
fn in_plain_memory(folder: &Path, numbers: u64) -> Result<(), String> {
    let mut table = Table::new(BUCKETS, Glibc);
    let mut number = 0;
    while number < numbers && !folder.join(STOP).exists() {
        table.insert(number, value(number));
        if number >= KEPT && table.remove(number - KEPT) != Some(value(number - KEPT)) {
            return Err(format!("number {} is not what it was", number - KEPT));
        }
        say(number)?;
        number += 1;
    }
    for kept in number.saturating_sub(KEPT)..number {
        if table.get(kept) != Some(value(kept)) {
            return Err(format!("number {kept} is not what it was"));
        }
    }
    println!("whole {number}");
    Ok(())
}

/// Count on, for so many numbers; `policy` is one of a region's, or `none`.
pub fn keep(folder: &Path, policy: &str, numbers: u64) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    if policy == "none" {
        return in_plain_memory(folder, numbers);
    }
    let kind: PolicyKind = policy.parse()?;
    let file = folder.join("region");
    with_policy!(kind, P => in_region::<P>(&file, numbers))
}

fn whole<P: Policy>(file: &Path) -> Result<u64, String> {
    let options = Options {
        accept_unclosed: true,
        ..Options::default()
    };
    let heap = Heap::<P>::open(file, &options).map_err(|error| error.to_string())?;
    let findings = nvheap::fsck::check(heap.layout(), &|offset| heap.word(offset));
    if let Some(finding) = findings.first() {
        return Err(finding.what.clone());
    }
    let mut session = heap.session().map_err(|error| error.to_string())?;
    let Roots { table, count } = roots(&mut session)?;
    let (count, found) = session
        .view(|tx| {
            let mut found = Vec::new();
            let mut cursor = table.iter();
            while let Some(entry) = cursor.next(tx)? {
                found.push(entry);
            }
            Ok((tx.get(count)?, found))
        })
        .map_err(|error| error.to_string())?;
    let mut found = found;
    found.sort_unstable();
    let wanted: Vec<_> = (count.saturating_sub(KEPT)..count)
        .map(|number| (number, value(number)))
        .collect();
    if found == wanted {
        Ok(count)
    } else {
        Err(format!(
            "{count} counted, and {} numbers are there",
            found.len()
        ))
    }
}

/// What a failure left: says how many were counted, if the table fits that.
pub fn look(folder: &Path) -> Result<(), String> {
    let file = folder.join("region");
    let kind = policy_of(&file).map_err(|error| error.to_string())?;
    let count = with_policy!(kind, P => whole::<P>(&file))?;
    println!("whole {count}");
    Ok(())
}
