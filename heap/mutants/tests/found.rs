// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: each planted bug is found by the tests of the heap, for what it is: by a verdict that its
//! patch names. Another verdict does not count.

#![allow(
    clippy::tests_outside_test_module, // an integration test is one as a whole
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

extern crate nvheap_mutants as nvheap;

#[path = "../../tests/cases/cached.rs"]
mod cached;
#[path = "../../tests/cases/crash.rs"]
mod crash;
#[path = "../../tests/cases/found.rs"]
mod found;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/limits.rs"]
mod limits;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/linear.rs"]
mod linear;
#[path = "../../tests/cases/sessions.rs"]
mod sessions;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/threads.rs"]
mod threads;

use nvheap_mutants::testing::{Broken, Scenario, Trial, scenarios};
use nvheap_mutants::{FocRedo, FocStm, FocUndo, FofStm, FofUndo, MUTANTS};
use remanence_cache::Honoured;
use remanence_planted::{Mutant, plant};

type Tests<'a> = Box<dyn Iterator<Item = Option<Broken>> + 'a>;

/// Each bug that breaks this promise, until it is found by its own verdict.
fn each_is_found(promise: &str, least: usize, tests: fn() -> Tests<'static>) {
    let mutants = || MUTANTS.iter().filter(|mutant| mutant.violates(promise));
    assert!(mutants().count() >= least, "{promise}: too few bugs");
    std::thread::scope(|scope| {
        for mutant in mutants() {
            scope.spawn(|| is_found(mutant, promise, tests));
        }
    });
}

fn is_found(mutant: &'static Mutant, promise: &str, tests: fn() -> Tests<'static>) {
    let mut others = Vec::new();
    let own = plant(mutant.name, || {
        tests().flatten().find(|broken| {
            let own = mutant.is_found_by(promise, broken.verdict);
            if !own {
                others.push(broken.to_string());
            }
            own
        })
    });
    match own {
        Some(broken) => println!("{}: {broken}", mutant.name),
        None => panic!("{} is not found, but: {others:#?}", mutant.name),
    }
}

fn reports(run: fn(&Scenario, &Trial) -> Option<Broken>) -> Tests<'static> {
    let trial = crash::trial();
    Box::new(
        scenarios()
            .into_iter()
            .map(move |scenario| run(&scenario, &trial)),
    )
}

#[test]
fn crash_tests_find_bugs() {
    each_is_found("committed-prefix", 16, || {
        let redo = reports(|scenario, trial| scenario.run::<FocRedo>(trial).failure);
        let undo = reports(|scenario, trial| scenario.run::<FocUndo>(trial).failure);
        Box::new(redo.zip(undo).flat_map(|(redo, undo)| [redo, undo]))
    });
}

/// Surviving caches hide no error of order.
#[test]
fn crash_tests_find_bugs_where_caches_survive() {
    each_is_found("surviving-caches", 6, || {
        let undo = reports(|scenario, trial| scenario.run::<FofUndo>(trial).failure);
        let stm = reports(|scenario, trial| scenario.run::<FofStm>(trial).failure);
        Box::new(undo.zip(stm).flat_map(|(undo, stm)| [undo, stm]))
    });
}

#[test]
fn two_sessions_find_bugs() {
    each_is_found("sessions", 3, || {
        let tests = [
            sessions::checkpoint_in_a_transaction,
            sessions::commits_against_the_order_of_logs,
            sessions::commit_between_two_reads,
        ];
        Box::new(tests.into_iter().map(|test| test()))
    });
}

#[test]
fn four_threads_find_bugs() {
    each_is_found("threads", 1, || {
        Box::new(std::iter::once_with(|| {
            found::broken(|| threads::transfers(200))
        }))
    });
}

#[test]
fn histories_of_one_thread_find_bugs() {
    each_is_found("linearizability", 1, || {
        Box::new(std::iter::once_with(|| {
            found::broken(|| {
                found::must(linear::one_thread::<linear::Avl, FocRedo>(1));
            })
        }))
    });
}

#[test]
fn histories_of_four_threads_find_bugs() {
    each_is_found("linearizability-of-threads", 1, || {
        Box::new((1..200).map(|seed| {
            let run = move || linear::four_threads::<linear::Hash, FocStm>(false, seed);
            found::broken(|| shuttle::check_random(run, 1))
        }))
    });
}

#[test]
fn transactions_that_do_not_fit_find_bugs() {
    each_is_found("limits", 2, || {
        let tests = [
            limits::too_large_changes_nothing::<FocUndo>,
            limits::full_region_loses_nothing::<FocRedo>,
        ];
        Box::new(tests.into_iter().map(found::broken))
    });
}

#[test]
fn caches_of_machines_find_bugs() {
    each_is_found("machine-caches", 2, || {
        let profiles = cached::profiles().into_iter();
        Box::new(profiles.map(|profile| cached::follow::<FocRedo>(profile, Honoured::All).err()))
    });
}

/// Each patch names a promise that a test here checks.
#[test]
fn every_bug_breaks_a_promise_that_is_checked() {
    let checked = [
        "committed-prefix",
        "surviving-caches",
        "sessions",
        "threads",
        "linearizability",
        "linearizability-of-threads",
        "limits",
        "machine-caches",
    ];
    for mutant in MUTANTS {
        let known = checked.iter().any(|promise| mutant.violates(promise));
        assert!(known, "{}: {:?}", mutant.name, mutant.violates);
    }
}
