// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands for a region of plain memory. Only `repair` maps it: the others read the file.

use std::path::Path;

use nvheap::Error;
use nvheap::fof::check::{Look, look};
use nvheap::fof::header::MARK_OFFSET;
use nvheap::fof::{Header, Mark, Options, Region};

use crate::{
    Arguments, Failure, content, content_info, dump_objects, findings, hexadecimal, not_opened,
    wrong,
};

/// The bytes of a file, as words.
struct Plain {
    header: Header,
    words: Vec<u64>,
}

impl Plain {
    fn load(file: &Path) -> Result<Self, Failure> {
        let content = content(file)?;
        let header = Header::decode(&content).map_err(|error| wrong(file, &error))?;
        let bytes = content.len() as u64;
        if header.size_bytes > bytes {
            return Err(wrong(file, &Error::Short(bytes, header.size_bytes)));
        }
        let words = content
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or([0; 8])))
            .collect();
        Ok(Self { header, words })
    }

    /// Zero for what is past the end.
    fn word(&self, offset: u64) -> u64 {
        self.words.get((offset / 8) as usize).copied().unwrap_or(0)
    }

    fn look(&self) -> Look {
        look(&self.header, &|offset| self.word(offset))
    }

    fn state(&self) -> &'static str {
        match Mark::of(self.word(MARK_OFFSET as u64)) {
            Some(Mark::Closed) => "closed",
            Some(Mark::Open) => "open, or its program died",
            Some(Mark::Held) => "held: written back, no stores since; its program runs or died",
            None => "impossible",
        }
    }
}

/// Run a command on a region of plain memory.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = &arguments.file;
    match arguments.command.as_str() {
        "info" => info(&Plain::load(file)?),
        "check" => check(&Plain::load(file)?),
        "dump" => dump(&Plain::load(file)?),
        "repair" => repair(file, arguments.accept),
        other => Err(Failure::Usage(format!(
            "{other}: no such command\n{}",
            crate::USAGE
        ))),
    }
}

fn info(region: &Plain) -> Result<(), Failure> {
    let header = &region.header;
    println!("policy          FoF (plain memory)");
    println!("uuid            {}", hexadecimal(&header.uuid));
    println!("size            {} bytes", header.size_bytes);
    println!("address         {:#x}", header.base);
    println!("state           {}", region.state());
    let found = region.look();
    content_info(found.usage, &found.roots);
    Ok(())
}

fn check(region: &Plain) -> Result<(), Failure> {
    findings(&region.look().findings)?;
    println!("the allocator is in order; {}", region.state());
    Ok(())
}

fn dump(region: &Plain) -> Result<(), Failure> {
    let base = region.header.base;
    dump_objects(&region.look().objects, &|at| {
        region.word(at.wrapping_sub(base))
    })
}

/// Open it as a program would, and close it. What was not closed is only taken where somebody says so.
fn repair(file: &Path, accept: bool) -> Result<(), Failure> {
    findings(&Plain::load(file)?.look().findings)?;
    let options = Options {
        assume_flush_on_fail: true,
        accept_unclosed: accept,
        ..Options::default()
    };
    // SAFETY: the allocator was found to be in order, and nothing else of the region is used.
    let region = unsafe { Region::open(file, &options) }.map_err(|error| match error {
        Error::NotClosed => Failure::Wrong(format!(
            "{}: {error}: it passes the check; --accept takes its content as it is",
            file.display()
        )),
        error => not_opened(file, &error),
    })?;
    drop(region);
    println!("closed");
    Ok(())
}
