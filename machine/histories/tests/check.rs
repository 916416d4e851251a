// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Goal: what a register can answer is accepted, and what it cannot is found. Method: histories
//! made from a register that each operation reaches at an instant between its call and its end;
//! then one answer is made older, or a write is forgotten.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "tests"
)]

use proptest::prelude::*;
use remanence_histories::{Operation, check, parse};

fn write(value: u64, call_ns: u64, return_ns: Option<u64>) -> Operation {
    Operation {
        key: "k".to_owned(),
        write: Some(value),
        read: None,
        call_ns,
        return_ns,
    }
}

fn read(value: Option<u64>, call_ns: u64, return_ns: u64) -> Operation {
    Operation {
        key: "k".to_owned(),
        write: None,
        read: value,
        call_ns,
        return_ns: Some(return_ns),
    }
}

fn is_possible(operations: &[Operation]) -> bool {
    check(operations).impossible.is_empty()
}

#[test]
fn stale_read_is_found() {
    let history = |value| {
        [
            write(1, 0, Some(1)),
            write(2, 2, Some(3)),
            read(value, 4, 5),
        ]
    };
    assert!(is_possible(&history(Some(2))));
    assert!(!is_possible(&history(Some(1))));
    assert!(!is_possible(&history(None)));
}

#[test]
fn reads_that_go_back_in_time_are_found() {
    // Both are concurrent with the write, but one read follows the other.
    let history = |first, second| {
        [
            write(1, 0, Some(1)),
            write(2, 2, Some(9)),
            read(Some(first), 3, 4),
            read(Some(second), 5, 6),
        ]
    };
    assert!(is_possible(&history(1, 2)));
    assert!(!is_possible(&history(2, 1)));
}

#[test]
fn write_without_an_answer_may_be_done_late_or_never() {
    let history = |value| {
        [
            write(1, 0, Some(1)),
            write(2, 2, None),
            read(Some(value), 100, 101),
        ]
    };
    assert!(is_possible(&history(1)));
    assert!(is_possible(&history(2)));
    assert!(!is_possible(&history(3)));
}

#[test]
fn bad_lines_are_named() {
    let good = r#"{"client": 1, "key": "a", "write": 5, "call_ns": 1}"#;
    assert_eq!(parse(good).unwrap().len(), 1);
    let early = r#"{"key": "a", "read": 5, "call_ns": 2, "return_ns": 1}"#;
    let open = r#"{"key": "a", "read": null, "call_ns": 2}"#;
    for bad in ["{", early, open, "{\"key\": \"a\"}"] {
        let why = parse(&format!("{good}\n{bad}")).unwrap_err().to_string();
        assert!(why.starts_with("line 2: "), "{why}");
    }
}

/// Operations as (is a write, from its call to its effect, from that to its end).
fn steps() -> impl Strategy<Value = Vec<(bool, u64, u64)>> {
    prop::collection::vec((any::<bool>(), 0..40u64, 0..40u64), 2..60)
}

/// A register executes them, one every ten nanoseconds.
fn executed(steps: &[(bool, u64, u64)]) -> Vec<Operation> {
    let mut state = None;
    let run = |(index, &(writes, before, after)): (usize, &(bool, u64, u64))| {
        let at = 100 + 10 * index as u64;
        if writes {
            state = Some(index as u64);
            write(index as u64, at - before, Some(at + after))
        } else {
            read(state, at - before, at + after)
        }
    };
    steps.iter().enumerate().map(run).collect()
}

proptest! {
    #[test]
    fn register_is_linearizable(steps in steps()) {
        prop_assert!(is_possible(&executed(&steps)));
    }

    /// A read that began when a newer write had ended returns what was before.
    #[test]
    fn old_answer_is_found(steps in steps(), old in 0..4u64) {
        let mut history = executed(&steps);
        history.push(write(1000, 10_000, Some(10_001)));
        prop_assert!(is_possible(&history));
        history.push(read(Some(old), 10_002, 10_003));
        prop_assert!(!is_possible(&history));
    }
}
