// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the loader's own files for this host, so that the campaign decides by the loader's code, and
//! reads the offsets of the kernel's CPU contexts.

use std::fs;
use std::path::{Path, PathBuf};

/// One of its headers defines the layout of `struct rem_context`, which is the kernel's own.
const KERNEL: &str = "../../kernel";

fn main() {
    let core = ["record", "desc", "crc32c", "interval"];
    println!("cargo::rerun-if-changed=../../loader/core");
    println!("cargo::rerun-if-changed=../../format");
    println!("cargo::rerun-if-changed=src/judge.c");
    let headers = headers(Path::new(KERNEL));
    for header in &headers {
        println!("cargo::rerun-if-changed={}", header.display());
    }
    for name in ["REM_CTX_RSP", "REM_CTX_CR3"] {
        println!("cargo::rustc-env={name}={}", defined(&headers, name));
    }
    cc::Build::new()
        .std("c17")
        .files(core.map(|name| format!("../../loader/core/{name}.c")))
        .file("src/judge.c")
        // The loader's flags that change what the code means.
        .flag("-fno-strict-aliasing")
        .flag("-fno-delete-null-pointer-checks")
        .opt_level(2)
        .warnings(true)
        .compile("go_core");
}

fn headers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            found.extend(headers(&path));
        } else if path.extension().is_some_and(|ext| ext == "h") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The digits behind the one `#define` of this name.
fn defined(headers: &[PathBuf], name: &str) -> String {
    let mut found = Vec::new();
    for header in headers {
        let text =
            fs::read_to_string(header).unwrap_or_else(|err| panic!("{}: {err}", header.display()));
        found.extend(text.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["#define", defined, value, ..] if defined == name => Some(value.to_owned()),
                _ => None,
            }
        }));
    }
    match &found[..] {
        [value] if value.parse::<u64>().is_ok() => value.clone(),
        _ => panic!("{name} in {KERNEL}: {found:?}, one decimal number is wanted"),
    }
}
