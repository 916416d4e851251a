// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the loader's own files for the host, so that the campaign decides by the loader's code,
//! and reads the offsets of the kernel's CPU contexts.

use std::fs;

/// Each defines the layout of the kernel's internal `struct rem_context` of an instruction set: what
/// is read of it.
const HEADERS: [(&str, [&str; 2]); 2] = [
    ("../../kernel/x86/isa.h", ["REM_CTX_RSP", "REM_CTX_CR3"]),
    ("../../kernel/riscv/isa.h", ["REM_CTX_SP", "REM_CTX_SATP"]),
];

fn main() {
    let core = ["record", "desc", "crc32c", "interval"];
    println!("cargo::rerun-if-changed=../../loader/core");
    println!("cargo::rerun-if-changed=../../format");
    println!("cargo::rerun-if-changed=src/judge.c");
    for (path, names) in HEADERS {
        println!("cargo::rerun-if-changed={path}");
        let header = fs::read_to_string(path).unwrap_or_else(|err| panic!("{path}: {err}"));
        for name in names {
            println!("cargo::rustc-env={name}={}", defined(path, &header, name));
        }
    }
    cc::Build::new()
        .std("c17")
        .files(core.map(|name| format!("../../loader/core/{name}.c")))
        .file("src/judge.c")
        // The loader's flags that change the meaning of code.
        .flag("-fno-strict-aliasing")
        .flag("-fno-delete-null-pointer-checks")
        .opt_level(2)
        .warnings(true)
        .compile("go_core");
}

/// The digits behind the one `#define` of this name.
fn defined(path: &str, header: &str, name: &str) -> String {
    let found: Vec<&str> = header
        .lines()
        .filter_map(
            |line| match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["#define", defined, value, ..] if defined == name => Some(value),
                _ => None,
            },
        )
        .collect();
    match found[..] {
        [value] if value.parse::<u64>().is_ok() => value.to_owned(),
        _ => panic!("{name} in {path}: {found:?}, expected one decimal number"),
    }
}
