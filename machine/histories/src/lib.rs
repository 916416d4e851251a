// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linearizability of what clients remember of registers.
//!
//! Each key is a register of its own, and a history is linearizable if that of each key is. The
//! search is that of the crate todc-utils (Wing and Gong, with Lowe's cache of what was tried).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use todc_utils::{Action, History, Specification, WGLChecker};

/// One line of a history: an operation of a client.
#[derive(Clone, Debug, Deserialize)]
pub struct Operation {
    /// The register.
    pub key: String,
    /// The value that was written, if it was a write.
    pub write: Option<u64>,
    /// The value that was read; a register that was never written has none.
    #[serde(default)]
    pub read: Option<u64>,
    /// When it was requested.
    pub call_ns: u64,
    /// When the answer came; none if nobody knows whether it was done.
    pub return_ns: Option<u64>,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A line that is no operation.
    #[error("line {line}: {cause}")]
    Line {
        /// From 1.
        line: usize,
        /// Why.
        cause: serde_json::Error,
    },
    /// An answer before its question, or a read without an answer.
    #[error("line {0}: its times are impossible")]
    Times(usize),
}

/// What was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Operations.
    pub operations: usize,
    /// Of these, writes of which nobody knows whether they were done.
    pub unknown: usize,
    /// Keys.
    pub keys: usize,
    /// Keys whose history no register can have.
    pub impossible: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64),
    Read(Option<u64>),
}

struct Register;

impl Specification for Register {
    type State = Option<u64>;
    type Operation = Step;

    fn init() -> Self::State {
        None
    }

    fn apply(step: &Step, state: &Self::State) -> (bool, Self::State) {
        match step {
            Step::Write(value) => (true, Some(*value)),
            Step::Read(value) => (value == state, *state),
        }
    }
}

/// Operations of a file of JSON lines.
///
/// # Errors
/// One line that names the line.
pub fn parse(text: &str) -> Result<Vec<Operation>, HistoryError> {
    let parse_one = |(index, line): (usize, &str)| {
        let line_number = index + 1;
        let found: Operation = serde_json::from_str(line).map_err(|cause| HistoryError::Line {
            line: line_number,
            cause,
        })?;
        let is_possible = match found.return_ns {
            Some(end) => end >= found.call_ns,
            None => found.write.is_some(),
        };
        if is_possible {
            Ok(found)
        } else {
            Err(HistoryError::Times(line_number))
        }
    };
    text.lines().enumerate().map(parse_one).collect()
}

/// Checks all keys.
#[must_use]
pub fn check(operations: &[Operation]) -> Found {
    let mut by_key: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for one in operations {
        by_key.entry(&one.key).or_default().push(one);
    }
    let impossible = by_key
        .iter()
        .filter(|(_, history)| !is_linearizable(history))
        .map(|(key, _)| (*key).to_owned())
        .collect();
    Found {
        operations: operations.len(),
        unknown: operations
            .iter()
            .filter(|one| one.return_ns.is_none())
            .count(),
        keys: by_key.len(),
        impossible,
    }
}

/// A write without an answer ends when all is over: done then, it is as if it were never done.
fn is_linearizable(operations: &[&Operation]) -> bool {
    // At one instant calls come first: what may overlap does.
    let mut events = Vec::with_capacity(operations.len() * 2);
    for (process, one) in operations.iter().enumerate() {
        let step = one.write.map_or(Step::Read(one.read), Step::Write);
        events.push((one.call_ns, 0, process, Action::Call(step)));
        let end = one.return_ns.unwrap_or(u64::MAX);
        events.push((end, 1, process, Action::Response(step)));
    }
    events.sort_by_key(|(at, kind, process, _)| (*at, *kind, *process));
    let actions = events
        .into_iter()
        .map(|(_, _, process, action)| (process, action));
    WGLChecker::<Register>::is_linearizable(History::from_actions(actions.collect()))
}
