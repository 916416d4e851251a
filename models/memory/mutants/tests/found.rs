// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: each planted bug is found by the tests of the model, for what it is: by a verdict that its
//! patch names. Another verdict does not count.

#![expect(
    clippy::tests_outside_test_module,
    reason = "integration tests are outside"
)]

extern crate ocpmem_mutants as ocpmem;

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/dram_rules/mod.rs"]
mod dram_rules;
#[path = "../../tests/rules/mod.rs"]
mod rules;

use common::cases::{
    LEVELERS, line_cut_twice_is_one_of_its_writes, registers_are_recovered, reset_begins_a_new_life,
};
use common::{Broken, campaign, controller};
use dram_rules::DRAM_RULES;
use ocpmem_mutants::{MUTANTS, jobs};
use remanence_planted::plant;
use rules::RULES;

/// What checks a promise.
type Check = Box<dyn Fn() -> Result<(), Broken>>;

/// Each promise, and what checks it.
fn checks() -> Vec<(&'static str, Check)> {
    let cut_twice = || line_cut_twice_is_one_of_its_writes().map(|_| ());
    let mut all: Vec<(&str, Check)> = vec![
        ("cut", Box::new(cuts)),
        ("line-cut-twice", Box::new(cut_twice)),
        ("registers", Box::new(registers_are_recovered)),
        ("reset", Box::new(reset_begins_a_new_life)),
        ("faults", Box::new(faults)),
    ];
    for (promise, rule) in RULES.into_iter().chain(DRAM_RULES) {
        let broken = |(verdict, what)| Broken::new(verdict, what);
        all.push((promise, Box::new(move || rule().map_err(broken))));
    }
    all
}

fn cuts() -> Result<(), Broken> {
    for (regions, swap) in LEVELERS {
        for seed in 1..4 {
            let psm = controller(regions, swap, |_| {});
            campaign(&psm, false, seed, 60, false)?;
        }
    }
    Ok(())
}

/// A fault in a cell is never silent.
fn faults() -> Result<(), Broken> {
    let job = r#"{"do": "ecc", "faults": 3000, "second_code": false, "seed": 4}"#;
    let answer = jobs::run_text(job).expect("the job is right");
    match answer["silent"].as_u64() {
        Some(0) => Ok(()),
        silent => Err(Broken::new("silent", format!("{silent:?} of {answer}"))),
    }
}

#[test]
fn copy_without_a_bug_breaks_nothing() {
    for (promise, check) in checks() {
        check().unwrap_or_else(|broken| panic!("{promise}: {broken:?}"));
    }
}

#[test]
fn every_planted_bug_is_found_by_its_own_verdict() {
    assert!(MUTANTS.len() >= 41);
    for mutant in MUTANTS {
        let mut checked = 0;
        for (promise, check) in checks() {
            if !mutant.violates(promise) {
                continue;
            }
            let found = plant(mutant.name, check).expect_err(mutant.name);
            let own = mutant.is_found_by(promise, found.verdict);
            assert!(own, "{}: found by {found:?} instead", mutant.name);
            checked += 1;
        }
        assert!(
            checked > 0,
            "{}: nothing checks what it violates",
            mutant.name
        );
    }
}
