// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regions made where something is: at both ends, where partition tables, file systems, LVM and RAID have
//! their headers.

use std::path::PathBuf;

use nvheap::testing::{Broken, verdict};
use nvheap::{Error, Heap, Options, Policy};

use crate::found::must;

const BYTES: usize = 4 << 20;
/// The first and the last byte, and a superblock's place from either end.
const PLACES: [usize; 4] = [0, 1080, BYTES - 4096, BYTES - 1];

struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Nothing is made over content, and it stays; with `overwrite` a region is made.
pub fn content_is_refused<P: Policy>() {
    let name = format!("nvheap-blank-{}-{}", std::process::id(), P::KIND.name());
    let file = File(std::env::temp_dir().join(name));
    for place in PLACES {
        let mut content = vec![0; BYTES];
        content[place] = 1;
        std::fs::write(&file.0, &content).unwrap();
        match Heap::<P>::create(&file.0, BYTES as u64, &Options::assume_all()) {
            Err(Error::NotEmpty(_)) => {}
            Ok(_) => {
                let what = format!("a region was made over byte {place}");
                must(Err(Broken::new(verdict::NOT_REFUSED, what)))
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(std::fs::read(&file.0).unwrap(), content);
    }
    let overwrite = Options {
        overwrite: true,
        ..Options::assume_all()
    };
    drop(Heap::<P>::create(&file.0, BYTES as u64, &overwrite).unwrap());
    drop(Heap::<P>::open(&file.0, &Options::assume_all()).unwrap());
}
