// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CRIU's file of contents of pages (`pages-N.img`), one after the other as a list has them
//! (`pagemap_image`).

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use remanence_format::{REM_KEEP_PAGE_BYTES, usize_of};

use crate::fault::{Fault, at};
use crate::pagemap_image::Source;

/// Rebuilds a file of contents, with pages of the process between those that it has.
///
/// # Errors
/// Those of the file system, and if the process has gone.
pub fn fill(path: &Path, pid: u32, sources: &[Source]) -> Result<(), Fault> {
    if !sources
        .iter()
        .any(|source| matches!(source, Source::Memory(_)))
    {
        return Ok(());
    }
    let memory = format!("/proc/{pid}/mem");
    let memory = File::open(&memory).map_err(at(memory))?;
    let old = File::open(path).map_err(at(path.display()))?;
    let new = path.with_extension("new");
    let options = &mut OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600);
    let file = file.open(&new).map_err(at(new.display()))?;
    write(&old, &memory, sources, file).map_err(at(path.display()))?;
    std::fs::rename(&new, path).map_err(at(path.display()))
}

fn write(mut old: &File, memory: &File, sources: &[Source], new: File) -> io::Result<()> {
    let mut new = BufWriter::with_capacity(1 << 20, new);
    let mut page = [0; usize_of(REM_KEEP_PAGE_BYTES)];
    for source in sources {
        match *source {
            Source::File { pages } => {
                let bytes = pages * REM_KEEP_PAGE_BYTES;
                let done = io::copy(&mut old.take(bytes), &mut new)?;
                if done < bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Source::Memory(run) => {
                for number in 0..run.pages {
                    let vaddr = run.vaddr + number * REM_KEEP_PAGE_BYTES;
                    memory.read_exact_at(&mut page, vaddr)?;
                    new.write_all(&page)?;
                }
            }
        }
    }
    new.flush()?;
    // A rest belongs to no page of the list.
    match old.read(&mut page)? {
        0 => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap_image::Run;

    /// Goal: pages are in the order of the list. Method: this process's own memory.
    #[test]
    fn pages_are_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages-7.img");
        let page = usize_of(REM_KEEP_PAGE_BYTES);
        let held = vec![9u8; 4 * page];
        let vaddr = (held.as_ptr().addr() as u64).next_multiple_of(REM_KEEP_PAGE_BYTES);
        let sources = [
            Source::File { pages: 1 },
            Source::Memory(Run { vaddr, pages: 2 }),
            Source::File { pages: 2 },
        ];
        let pages = |numbers: &[u8]| -> Vec<u8> {
            numbers
                .iter()
                .flat_map(|&number| vec![number; page])
                .collect()
        };
        std::fs::write(&path, pages(&[1, 2, 3])).unwrap();
        let pid = std::process::id();
        fill(&path, pid, &sources).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), pages(&[1, 9, 9, 2, 3]));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        // A list and its contents that do not belong together are refused.
        for wrong in [&[1, 2][..], &[1, 2, 3, 4]] {
            std::fs::write(&path, pages(wrong)).unwrap();
            fill(&path, pid, &sources).unwrap_err();
            assert_eq!(std::fs::read(&path).unwrap(), pages(wrong));
        }
        fill(Path::new("/nowhere"), pid, &sources[..1]).unwrap();
        drop(held);
    }
}
