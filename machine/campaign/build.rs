// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loader's own files, built for this host: the campaign has no judge of its own.

fn main() {
    let core = ["record", "desc", "crc32c", "interval"];
    println!("cargo::rerun-if-changed=../../loader/core");
    println!("cargo::rerun-if-changed=../../format");
    println!("cargo::rerun-if-changed=src/judge.c");
    cc::Build::new()
        .std("c17")
        .files(core.map(|name| format!("../../loader/core/{name}.c")))
        .file("src/judge.c")
        // What the loader is built with, as far as it changes what the code means.
        .flag("-fno-strict-aliasing")
        .flag("-fno-delete-null-pointer-checks")
        .opt_level(2)
        .warnings(true)
        .compile("go_core");
}
