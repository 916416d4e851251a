// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each planted bug of the protocol that `rem campaign` knows is planted in the model, too, and breaks the
//! same promise there.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use remanence_protocol::disk::BUGS;
use remanence_protocol::mutants::MUTANTS;

/// Bugs of a campaign that are not of the protocol.
const OUTSIDE: [(&str, &str); 4] = [
    (
        "forget-write-through",
        "how a disk is described; the disk's log has a model",
    ),
    (
        "hang-in-stop",
        "a Stop that does not end breaks its time, which the model does not have",
    ),
    ("skip-device", "a driver's work"),
    ("skip-msr", "what a context has"),
];
/// A boot shows it as a crash, the model as an image that differs.
const OTHER_VERDICT: [&str; 1] = ["skip-context"];

/// Names in the model and what each breaks.
fn planted() -> BTreeMap<&'static str, &'static str> {
    let machines = MUTANTS.iter().flat_map(|mutant| {
        let names = mutant.also.iter().copied().chain([mutant.name]);
        names.map(|name| (name, mutant.breaks.name()))
    });
    let disks = BUGS.iter().map(|(name, _, breaks)| (*name, breaks.name()));
    machines.chain(disks).collect()
}

/// Names of the patches that a campaign plants, and the verdict that each must cause.
fn patches() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = BTreeMap::new();
    for folder in ["kernel/mutants", "loader/mutants"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let field = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(name));
                line.map(|line| line.rsplit(": ").next().unwrap().to_owned())
            };
            let shown = field("Shown-by:");
            if matches!(shown.as_deref(), Some("images" | "boot")) {
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                found.insert(name, field("Violates:").unwrap());
            }
        }
    }
    found
}

#[test]
fn each_mutant_of_kernel_and_loader_is_in_the_model() {
    let planted = planted();
    let patches = patches();
    assert!(patches.len() > 15, "{patches:?}");
    for (name, verdict) in patches {
        if OUTSIDE.iter().any(|(outside, _)| *outside == name) {
            assert!(
                !planted.contains_key(name.as_str()),
                "{name} is in the model"
            );
            continue;
        }
        let breaks = planted.get(name.as_str());
        let breaks = breaks.unwrap_or_else(|| panic!("{name} is not in the model"));
        assert!(
            *breaks == verdict || OTHER_VERDICT.contains(&name.as_str()),
            "{name} breaks {breaks} here, {verdict} there"
        );
    }
}

#[test]
fn each_mutant_of_recordings_is_in_the_model() {
    let planted = planted();
    for mutant in &remanence_model::mutants::MUTANTS {
        let breaks = planted.get(mutant.name);
        let breaks = breaks.unwrap_or_else(|| panic!("{} is not in the model", mutant.name));
        assert!(
            mutant.violates.contains(breaks),
            "{}: {breaks}",
            mutant.name
        );
    }
}

#[test]
fn no_two_mutants_have_one_name() {
    let mut names = HashSet::new();
    let own = MUTANTS.iter().map(|mutant| mutant.name);
    for name in own.chain(BUGS.iter().map(|(name, ..)| *name)) {
        assert!(names.insert(name), "{name}");
    }
}
