// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the core of persistent memory for this host: an image is opened by its own code.

use std::fs;
use std::path::PathBuf;

fn main() {
    let sources = |folder: &str| -> Vec<PathBuf> {
        println!("cargo::rerun-if-changed={folder}");
        let entries = fs::read_dir(folder).unwrap_or_else(|err| panic!("{folder}: {err}"));
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .collect();
        files.sort();
        files
    };
    println!("cargo::rerun-if-changed=../../format");
    println!("cargo::rerun-if-changed=../test/crc32c.c");
    println!("cargo::rerun-if-changed=promise.h");
    cc::Build::new()
        .std("c2x")
        .include("../../format")
        .files(sources("../core"))
        .files(sources("src"))
        .file("../test/crc32c.c")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .compile("pm_core");
}
