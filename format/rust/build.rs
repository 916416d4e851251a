// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Generates the Rust view of `format/*.h`: see `src/lib.rs`.

#[path = "generate/emit.rs"]
mod emit;
#[path = "generate/layout.rs"]
mod layout;
#[path = "generate/parse.rs"]
mod parse;

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Headers with nothing to generate: functions, or strings only.
const SKIPPED: [&str; 5] = [
    "rem_fwcfg.h",
    "rem_judge.h",
    "rem_mac.h",
    "rem_reason_name.h",
    "rem_text.h",
];

fn headers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
    let mut headers: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "h"))
        .filter(|path| SKIPPED.iter().all(|name| !path.ends_with(name)))
        .collect();
    headers.sort();
    headers
}

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = root.parent().expect("format/rust has a parent");
    // A header that is new is a change, too.
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut units = Vec::new();
    for path in headers(folder) {
        println!("cargo::rerun-if-changed={}", path.display());
        let text =
            fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let unit = parse::parse(&name, &text).unwrap_or_else(|what| panic!("{name}: {what}"));
        units.push(unit);
    }
    println!("cargo::rerun-if-changed=generate");
    let layouts = layout::of(&units).unwrap_or_else(|what| panic!("{what}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    };
    write("format.rs", emit::view(&units, &layouts));
    write("tables.rs", emit::tables(&units, &layouts));
}
