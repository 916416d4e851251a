// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Goal: the end of a Stop needs no model of store buffers. The cache model has none; here all
//! executions of that end (`kernel/stop/fast.c`) are enumerated on a machine of x86-TSO, in which
//! each CPU's stores wait in a buffer, first in, first out (SDM volume 3A, 9.2). On media, a commit
//! word has all that it commits, with such buffers as without.
//!
//! The negative proof: a WBINVD that leaves the buffer alone. Only with buffers does that lose a
//! store, so they are at work here.
#![allow(clippy::tests_outside_test_module, reason = "a whole program of tests")]

use std::collections::HashSet;

const CPUS: usize = 3;
const BUFFER_MAX: usize = 2;

/// Words in lines of their own.
const STATE: [usize; CPUS] = [0, 1, 2]; // of each CPU
const DEVICES_STOPPED: usize = 3;
const FLUSHED: usize = 4;
const COMMIT: usize = 5;
const WORDS: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Op {
    Store(usize),
    /// Until other CPUs have made it this value.
    Wait(usize, u8),
    /// A locked addition, which waits for the buffer.
    Add(usize),
    Wbinvd,
    Clflush(usize),
    /// An output to a port, which waits for the buffer.
    Report,
}

fn boot_cpu() -> Vec<Op> {
    let others = u8::try_from(CPUS - 1).unwrap_or(u8::MAX);
    vec![
        Op::Store(DEVICES_STOPPED),
        Op::Store(STATE[0]),
        Op::Wbinvd,
        Op::Wait(FLUSHED, others),
        Op::Clflush(FLUSHED),
        Op::Store(COMMIT),
        Op::Clflush(COMMIT),
        Op::Report,
    ]
}

fn other_cpu(cpu: usize) -> Vec<Op> {
    vec![
        Op::Store(STATE[cpu]),
        Op::Wait(DEVICES_STOPPED, 1),
        Op::Wbinvd,
        Op::Add(FLUSHED),
    ]
}

/// The machine that runs it.
#[derive(Clone, Copy, Debug)]
struct Rules {
    buffers: bool,
    wbinvd_drains: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    done: [usize; CPUS],
    buffered: [Vec<usize>; CPUS],
    /// What CPUs see, and whose caches have it while media does not.
    seen: [u8; WORDS],
    dirty_in: [Option<usize>; WORDS],
    media: [u8; WORDS],
    reported: bool,
}

impl State {
    fn arrives(&mut self, cpu: usize, word: usize, value: u8) {
        self.seen[word] = value;
        self.dirty_in[word] = Some(cpu);
    }

    fn written_back(&mut self, word: usize) {
        self.media[word] = self.seen[word];
        self.dirty_in[word] = None;
    }

    /// The CPU executes its next instruction; `None` if it has to wait.
    fn executed(&self, cpu: usize, op: Op, rules: Rules) -> Option<Self> {
        let mut next = self.clone();
        next.done[cpu] += 1;
        let drained = self.buffered[cpu].is_empty();
        let may = match op {
            Op::Store(word) if rules.buffers => {
                next.buffered[cpu].push(word);
                self.buffered[cpu].len() < BUFFER_MAX
            }
            Op::Store(word) => {
                next.arrives(cpu, word, 1);
                true
            }
            Op::Wait(word, value) => self.seen[word] == value,
            Op::Add(word) => {
                next.arrives(cpu, word, self.seen[word] + 1);
                drained
            }
            Op::Wbinvd => {
                for word in 0..WORDS {
                    if self.dirty_in[word] == Some(cpu) {
                        next.written_back(word);
                    }
                }
                drained || !rules.wbinvd_drains
            }
            Op::Clflush(word) => {
                next.written_back(word);
                drained
            }
            Op::Report => {
                next.reported = true;
                drained
            }
        };
        may.then_some(next)
    }

    fn successors(&self, programs: &[Vec<Op>], rules: Rules) -> Vec<Self> {
        let mut found = Vec::new();
        for (cpu, program) in programs.iter().enumerate() {
            let op = program.get(self.done[cpu]);
            found.extend(op.and_then(|op| self.executed(cpu, *op, rules)));
            if let Some(oldest) = self.buffered[cpu].first() {
                let mut next = self.clone();
                next.buffered[cpu].remove(0);
                next.arrives(cpu, *oldest, 1);
                found.push(next);
            }
        }
        for word in 0..WORDS {
            if self.dirty_in[word].is_some() {
                let mut next = self.clone();
                next.written_back(word);
                found.push(next);
            }
        }
        found
    }

    /// What a cut in this state breaks.
    fn broken(&self) -> Option<&'static str> {
        let committed = self.media[COMMIT] == 1;
        if self.reported && !committed {
            return Some("reported and not committed");
        }
        let whole = self.media[..COMMIT].iter().all(|value| *value > 0);
        (committed && !whole).then_some("committed and not whole")
    }
}

/// What a cut at any moment of any execution breaks, and whether one comes to its end.
fn explore(rules: Rules) -> (HashSet<&'static str>, bool) {
    let mut programs = vec![boot_cpu()];
    programs.extend((1..CPUS).map(other_cpu));
    let mut known = HashSet::from([State::default()]);
    let mut open = vec![State::default()];
    let (mut broken, mut ends) = (HashSet::new(), false);
    while let Some(state) = open.pop() {
        broken.extend(state.broken());
        ends |= state.reported;
        for next in state.successors(&programs, rules) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (broken, ends)
}

fn rules(buffers: bool, wbinvd_drains: bool) -> Rules {
    Rules {
        buffers,
        wbinvd_drains,
    }
}

#[test]
fn commit_has_all_that_it_commits() {
    for buffers in [false, true] {
        let (broken, ends) = explore(rules(buffers, true));
        assert!(broken.is_empty(), "buffers {buffers}: {broken:?}");
        assert!(ends, "buffers {buffers}: no execution ends");
    }
}

#[test]
fn buffer_that_wbinvd_leaves_alone_is_found() {
    let (broken, _) = explore(rules(true, false));
    assert_eq!(broken, HashSet::from(["committed and not whole"]));
    let (broken, _) = explore(rules(false, false));
    assert!(broken.is_empty(), "without buffers nothing waits");
}
