// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program whose data a power failure meets: a table of the numbers it counted last, in a region of
//! any policy or in plain memory. It prints each number when it is durable; after the failure `look`
//! prints what is there. This is the binary that the crash tests run in.

use std::alloc::Layout;
use std::io::Write;
use std::path::Path;

use nvheap::fof::{self, Local, Memory, Region, is_region};
use nvheap::structures::{HashHead, HashMap};
use nvheap::{Heap, Options, PPtr, Policy, PolicyKind, Session, Tx, policy_of, with_policy};

use crate::plain::{Glibc, Head, Table};

const REGION_BYTES: u64 = 16 << 20;
const BUCKETS: u64 = 1 << 10;
/// Numbers that are in the table.
const KEPT: u64 = 1000;
/// Under this name a region is plain memory.
pub const FOF: &str = "FoF";
/// A file in the folder that asks a program in plain memory to look and end.
const STOP: &str = "stop";

/// What belongs to a number: no two have the same.
pub fn value(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number >> 7)
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

/// Types of the roots of a region of plain memory.
const TABLE_TYPE: u64 = 1;
const COUNT_TYPE: u64 = 2;

/// The table and the count of a region of plain memory.
fn plain_roots(region: &Region) -> Result<(Table<Local>, *mut u64), String> {
    let text = |error: nvheap::Error| error.to_string();
    let mut local = region.local().map_err(text)?;
    let mut count: *mut u64 = region.root("count", COUNT_TYPE).map_err(text)?.cast();
    if count.is_null() {
        let made = local.alloc(Layout::new::<u64>()).ok_or("no memory")?;
        count = made.cast().as_ptr();
        // SAFETY: just allocated.
        unsafe { count.write(0) };
        let bytes = size_of::<u64>() as u64;
        region
            .set_root("count", COUNT_TYPE, count.cast(), bytes)
            .map_err(text)?;
    }
    let head: *mut Head = region.root("table", TABLE_TYPE).map_err(text)?.cast();
    if !head.is_null() {
        // SAFETY: the root is the head of the table that was made below.
        return Ok((unsafe { Table::at(head, local) }, count));
    }
    let table = Table::new(BUCKETS, local);
    let bytes = size_of::<Head>() as u64;
    region
        .set_root("table", TABLE_TYPE, table.head().cast(), bytes)
        .map_err(text)?;
    Ok((table, count))
}

fn open_plain(file: &Path, accept_unclosed: bool) -> Result<Region, String> {
    // Nothing is assumed, as above.
    let options = fof::Options {
        accept_unclosed,
        ..fof::Options::default()
    };
    if file.exists() {
        // SAFETY: only this program writes to the file.
        unsafe { Region::open(file, &options) }
    } else {
        Region::create(file, REGION_BYTES, &options)
    }
    .map_err(|error| error.to_string())
}

/// Plain memory that outlives the process where caches are saved.
fn in_plain_region(file: &Path, numbers: u64) -> Result<(), String> {
    let region = open_plain(file, false)?;
    let (mut table, count) = plain_roots(&region)?;
    for _ in 0..numbers {
        // SAFETY: the count is an object of the region that only this thread changes.
        let number = unsafe { *count };
        table.insert(number, value(number));
        if number >= KEPT {
            table.remove(number - KEPT);
        }
        // SAFETY: as above.
        unsafe { *count = number + 1 };
        say(number)?;
    }
    Ok(())
}

fn whole_plain_region(file: &Path) -> Result<u64, String> {
    let region = open_plain(file, true)?;
    if let Some(finding) = region.check().first() {
        return Err(finding.what.clone());
    }
    let (table, count) = plain_roots(&region)?;
    // SAFETY: as in `in_plain_region`.
    let count = unsafe { *count };
    whole_if(count, table.entries(2 * KEPT as usize))
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

/// Count on, for so many numbers; `policy` is one of a region's, `FoF` or `none`.
pub fn keep(folder: &Path, policy: &str, numbers: u64) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    if policy == "none" {
        return in_plain_memory(folder, numbers);
    }
    let file = folder.join("region");
    if policy == FOF {
        return in_plain_region(&file, numbers);
    }
    let kind: PolicyKind = policy.parse()?;
    with_policy!(kind, P => in_region::<P>(&file, numbers))
}

fn whole<P: Policy>(file: &Path) -> Result<u64, String> {
    let heap = Heap::<P>::open(file, &Options::default()).map_err(|error| error.to_string())?;
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
    whole_if(count, found)
}

/// The count, if the table holds what belongs to it.
fn whole_if(count: u64, mut found: Vec<(u64, u64)>) -> Result<u64, String> {
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
    let count = if is_region(&file) {
        whole_plain_region(&file)?
    } else {
        let kind = policy_of(&file).map_err(|error| error.to_string())?;
        with_policy!(kind, P => whole::<P>(&file))?
    };
    println!("whole {count}");
    Ok(())
}
