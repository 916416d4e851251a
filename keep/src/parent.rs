// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An older image of a program, as CRIU's incremental dumps have one, that has all its pages and no
//! content.
//!
//! Of a page that was not stored to since, CRIU then notes that the older image has it, and does
//! not touch it. What was stored to after [`claim`] it handles as without an older image. Either
//! way the page is found after that, when the program is frozen: nothing depends on which it was.

use std::fs;
use std::path::Path;

use prost::Message;

use crate::fault::{Fault, at};
use crate::images;
use crate::pagemap_image::{all_addresses, record};
use crate::processes;
use crate::state::remove_file;

/// By which CRIU finds the older image.
pub const LINK: &str = "parent";
/// `INVENTORY_MAGIC`.
const MAGIC: [u8; 4] = [0x16, 0x31, 0x31, 0x58];
const VERSION: u32 = 2;
const US_PER_S: f64 = 1e6;

/// `inventory_entry` of CRIU, as far as a parent needs one.
#[derive(Clone, PartialEq, Message)]
struct Inventory {
    #[prost(uint32, tag = "1")]
    img_version: u32,
    /// A process that began later is another one.
    #[prost(uint64, tag = "8")]
    dump_uptime: u64,
}

fn uptime_us(text: &str) -> Option<u64> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "such numbers saturate"
    )]
    Some((seconds * US_PER_S) as u64)
}

fn inventory(dump_uptime: u64) -> Vec<u8> {
    let inventory = Inventory {
        img_version: VERSION,
        dump_uptime,
    };
    [&MAGIC[..], &record(&inventory)].concat()
}

/// Makes such an image in a folder, for the processes of a program, and begins to note what they
/// store to.
///
/// # Errors
/// Those of the file system, and if the kernel does not note it.
pub fn claim(folder: &Path, root: u32) -> Result<(), Fault> {
    images::reset(folder)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(at(path.display()))
    };
    let pids = processes::tree(root);
    let list = all_addresses();
    write("pages-1.img", &[])?;
    for pid in &pids {
        write(&format!("pagemap-{pid}.img"), &list)?;
    }
    let uptime = fs::read_to_string("/proc/uptime").map_err(at("/proc/uptime"))?;
    let uptime = uptime_us(&uptime).ok_or_else(|| Fault::new("/proc/uptime: no time"))?;
    write("inventory.img", &inventory(uptime))?;
    pids.into_iter().try_for_each(processes::make_read_only)
}

/// Removes the link to it from the images of a dump, and the image.
///
/// # Errors
/// Those of the file system.
pub fn forget(images: &Path, folder: &Path) -> Result<(), Fault> {
    let link = images.join(LINK);
    remove_file(&link).map_err(at(link.display()))?;
    images::remove(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the bytes are CRIU's: magic words, version, microseconds since the kernel's start.
    #[test]
    fn an_inventory_has_version_and_time() {
        let us = uptime_us("12345.67 99.00\n").unwrap();
        assert_eq!(us, 12_345_670_000);
        let tail = [8, 2, 0x40, 0xf0, 0xf2, 0xef, 0xfe, 0x2d];
        let length = [8, 0, 0, 0];
        assert_eq!(inventory(us), [&MAGIC[..], &length, &tail].concat());
        assert_eq!(uptime_us("\n"), None);
    }

    /// Goal: a child has a list of its own, and both the link and the folder go.
    #[test]
    fn each_process_has_a_list() {
        let base = tempfile::tempdir().unwrap();
        let (folder, images) = (base.path().join("parent-of-x"), base.path().join("x"));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        claim(&folder, child.id()).unwrap();
        let list = fs::read(folder.join(format!("pagemap-{}.img", child.id()))).unwrap();
        assert_eq!(list, all_addresses());
        fs::create_dir(&images).unwrap();
        std::os::unix::fs::symlink(&folder, images.join(LINK)).unwrap();
        forget(&images, &folder).unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
        forget(&images, &folder).unwrap();
        child.kill().unwrap();
        let _ = child.wait();
    }
}
