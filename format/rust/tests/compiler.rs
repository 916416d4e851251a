// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Claim: each constant, and the offset and size of each field of each struct, is what the C
//! compiler makes of the headers. Method: one C file of static assertions, compiled by `cc`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use remanence_format::{RemBody, RemRecHeader};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// C that compiles if all numbers are the headers'.
fn assertions(constants: &[(&str, u64)], fields: &[(&str, &str, usize, usize)]) -> String {
    let mut c = String::from("#include <assert.h>\n#include <stddef.h>\n");
    for header in HEADERS {
        writeln!(c, "#include \"{header}\"").unwrap();
    }
    for (name, value) in constants {
        writeln!(c, "static_assert({name} == {value:#x}u);").unwrap();
    }
    for (name, field, offset, bytes) in fields {
        if field.is_empty() {
            writeln!(c, "static_assert(sizeof(struct {name}) == {bytes});").unwrap();
            continue;
        }
        writeln!(
            c,
            "static_assert(offsetof(struct {name}, {field}) == {offset} && \
             sizeof(((struct {name} *)0)->{field}) == {bytes});"
        )
        .unwrap();
    }
    c
}

fn compiles(c: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("assertions.c");
    std::fs::write(&file, c).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let done = Command::new("cc")
        .args(["-std=c2x", "-fsyntax-only", "-I"])
        .arg(folder)
        .arg(&file)
        .output()
        .unwrap();
    done.status.success()
}

#[test]
fn numbers_are_those_of_the_c_compiler() {
    assert!(CONSTANTS.len() > 200 && FIELDS.len() > 200);
    assert!(compiles(&assertions(CONSTANTS, FIELDS)));
}

/// The test of the test: one wrong number of each kind is seen.
#[test]
fn wrong_number_does_not_compile() {
    let (name, value) = CONSTANTS[0];
    assert!(!compiles(&assertions(&[(name, value + 1)], &[])));
    let (name, field, offset, bytes) = FIELDS[1];
    assert!(!compiles(&assertions(
        &[],
        &[(name, field, offset + 1, bytes)]
    )));
    assert!(!compiles(&assertions(
        &[],
        &[(name, field, offset, bytes + 1)]
    )));
    assert!(!compiles(&assertions(&[], &[(name, "", 0, bytes)])));
}

#[test]
fn every_header_is_read_or_skipped_by_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let found = std::fs::read_dir(folder)
        .unwrap()
        .filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            path.extension().is_some_and(|ext| ext == "h")
        })
        .count();
    assert_eq!(found, HEADERS.len() + 5);
}

#[test]
fn golden_bytes_are_read_and_written_back() {
    let body = include_bytes!("../../golden/body.bin");
    let head: &[u8; RemBody::BYTES] = body.first_chunk().unwrap();
    assert_eq!(&RemBody::from_bytes(head).to_bytes(), head);
    let recording = include_bytes!("../../golden/recording.bin");
    let head: &[u8; RemRecHeader::BYTES] = recording.first_chunk().unwrap();
    let header = RemRecHeader::from_bytes(head);
    assert_eq!(header.magic, remanence_format::REM_REC_MAGIC);
    assert_eq!(&header.profile[..6], b"golden");
    assert_eq!(&header.to_bytes(), head);
}
