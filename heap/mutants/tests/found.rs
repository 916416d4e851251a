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

#[path = "../../tests/cases/allocating.rs"]
mod allocating;
#[path = "../../tests/cases/blank.rs"]
mod blank;
#[path = "../../tests/cases/cached.rs"]
mod cached;
#[path = "../../tests/cases/crash.rs"]
mod crash;
#[path = "../../tests/cases/found.rs"]
mod found;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/histories.rs"]
mod histories;
#[path = "../../tests/cases/isolation.rs"]
mod isolation;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/limits.rs"]
mod limits;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/linear.rs"]
mod linear;
#[path = "../../tests/cases/meanwhile.rs"]
mod meanwhile;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/panics.rs"]
mod panics;
#[allow(dead_code, reason = "some of it is for the heap without a bug")]
#[path = "../../tests/cases/promise.rs"]
mod promise;
#[path = "../../tests/cases/reopened.rs"]
mod reopened;
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

/// What programs do in their transactions and beside them: the fixed histories of the world.
#[test]
fn worlds_find_bugs() {
    each_is_found("worlds", 5, || {
        let trial = crash::trial();
        let bodies = scenarios()
            .into_iter()
            .filter(|it| BODIES.contains(&it.name));
        Box::new(bodies.flat_map(move |scenario| {
            [
                scenario.run::<FocRedo>(&trial).failure,
                scenario.run::<FocUndo>(&trial).failure,
                scenario.run::<FocStm>(&trial).failure,
            ]
        }))
    });
}

/// Those that were written for one bug each.
const BODIES: [&str; 7] = [
    "panic with objects",
    "nested over new objects",
    "a transaction in a transaction",
    "free behind what was looked at",
    "closed and opened",
    "addition beside an object of all locks",
    "look beside objects of many locks",
];

/// Some of the same bugs by histories that were written for none.
#[test]
fn drawn_histories_find_bugs() {
    each_is_found("histories", 3, || {
        let redo = histories::drawn::<FocRedo>(HISTORIES);
        let stm = histories::drawn::<FocStm>(HISTORIES);
        Box::new(redo.zip(stm).flat_map(|(redo, stm)| [redo, stm]))
    });
}

/// Drawn until a bug is found, at most.
const HISTORIES: usize = 200;

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
fn two_sessions_that_allocate_find_bugs() {
    each_is_found("isolation", 4, || {
        let tests = [
            isolation::addition_beside_a_large_allocation::<FocStm>,
            isolation::addition_beside_a_small_allocation::<FocStm>,
            isolation::last_line_of_another_object::<FocStm>,
            isolation::map_where_an_object_was::<FocStm>,
            isolation::change_for_one_that_waits::<FocStm>,
        ];
        Box::new(tests.into_iter().map(|test| test()))
    });
}

#[test]
fn panics_find_bugs() {
    each_is_found("panics", 1, || {
        let tests = [
            panics::panic_leaves_no_lock::<FocStm>,
            panics::panic_undoes_the_transaction::<FocUndo>,
            panics::panic_in_a_part_undoes_the_part::<FocRedo>,
        ];
        Box::new(tests.into_iter().map(found::broken))
    });
}

/// In the thread that has the bug: the heap's own thread waits for the file to change.
#[test]
fn withdrawn_promises_find_bugs() {
    each_is_found("promise", 2, || {
        let tests = [
            promise::plain_memory_is_held,
            promise::transactions_are_held::<FofUndo>,
        ];
        Box::new(tests.into_iter().map(found::broken))
    });
}

#[test]
fn frees_after_an_opening_find_bugs() {
    each_is_found("reopened", 2, || {
        let tests = [
            reopened::free_before_the_second_scan::<FocRedo>,
            reopened::second_scan_during_a_free::<FocRedo>,
        ];
        Box::new(tests.into_iter().map(found::broken))
    });
}

#[test]
fn content_of_files_finds_bugs() {
    each_is_found("blank", 1, || {
        let test = blank::content_is_refused::<FocRedo>;
        Box::new(std::iter::once_with(move || found::broken(test)))
    });
}

#[test]
fn threads_that_allocate_find_bugs() {
    each_is_found("threads-allocating", 1, || {
        Box::new(std::iter::once_with(|| {
            found::broken(|| allocating::allocating::<FocStm>(200))
        }))
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
    each_is_found("limits", 4, || {
        let tests = [
            limits::too_large_changes_nothing::<FocUndo>,
            limits::full_region_loses_nothing::<FocRedo>,
            limits::new_object_may_be_longer_than_the_log::<FocRedo>,
            limits::root_of_another_layout::<FocRedo>,
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
        "worlds",
        "histories",
        "sessions",
        "isolation",
        "blank",
        "panics",
        "promise",
        "reopened",
        "threads-allocating",
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
