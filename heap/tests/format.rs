// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What format/rem_heap.h says is what the code does.

#![allow(
    clippy::tests_outside_test_module, // an integration test is one as a whole
    clippy::unwrap_used,
    missing_docs
)]

use nvheap::layout;

fn defined(name: &str) -> u64 {
    defined_in(include_str!("../../format/rem_heap.h"), "HEAP", name)
}

fn defined_in(header: &str, prefix: &str, name: &str) -> u64 {
    let start = format!("#define REM_{prefix}_{name} ");
    let value = header
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap();
    let hex = value.strip_prefix("0x");
    hex.map_or_else(
        || value.parse().unwrap(),
        |hex| u64::from_str_radix(hex, 16).unwrap(),
    )
}

#[test]
fn the_header_file_and_the_code_agree() {
    assert_eq!(defined("MAGIC"), layout::MAGIC);
    assert_eq!(defined("VERSION"), u64::from(layout::VERSION));
    assert_eq!(
        defined("HEADER_CHECKED_BYTES"),
        layout::HEADER_CHECKED_BYTES as u64
    );
    assert_eq!(defined("TRUNCATED"), layout::TRUNCATED_OFFSET);
    assert_eq!(defined("OPEN"), layout::OPEN_OFFSET);
    assert_eq!(defined("LIVE"), layout::LIVE_OFFSET);
    assert_eq!(defined("ROOTS"), layout::ROOTS_OFFSET);
    assert_eq!(defined("ROOT_BYTES"), layout::ROOT_BYTES);
    assert_eq!(defined("LOGS"), layout::LOGS_OFFSET);
    assert_eq!(defined("CHUNK_BYTES"), layout::CHUNK_BYTES);
}

#[test]
fn the_header_file_of_plain_memory_and_the_code_agree() {
    use nvheap::fof::header;
    let text = include_str!("../../format/rem_fof.h");
    for (name, ours) in [
        ("MAGIC", header::MAGIC),
        ("VERSION", u64::from(header::VERSION)),
        ("MARK", header::MARK_OFFSET as u64),
        ("OPENING", header::OPENING_OFFSET as u64),
        ("ROOTS", header::ROOTS_OFFSET as u64),
        ("SHARED", header::SHARED_OFFSET as u64),
        ("LISTS", header::LISTS_OFFSET as u64),
        ("THREADS", header::THREADS_OFFSET as u64),
        ("TABLE", header::TABLE_OFFSET as u64),
        ("CHUNK_BYTES", header::CHUNK_BYTES as u64),
    ] {
        assert_eq!(defined_in(text, "FOF", name), ours, "{name}");
    }
}
