// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: a cut at any step of an installation leaves the old program or the new one, whole, and a
//! text goes with its last program.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::tests_outside_test_module,
    reason = "tests"
)]

#[path = "cases/attributes.rs"]
mod attributes;
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{old_style, usual};
use off2f::store::Store;
use off2f::{check_abc, check_xyz, is_abc};

struct Place {
    _folder: tempfile::TempDir,
    store: PathBuf,
    elf: PathBuf,
    program: PathBuf,
}

fn place(elf: &[u8]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let place = Place {
        store: root.join("store"),
        elf: root.join("elf"),
        program: root.join("program"),
        _folder: folder,
    };
    fs::write(&place.elf, elf).unwrap();
    fs::set_permissions(&place.elf, fs::Permissions::from_mode(0o4755)).unwrap();
    place
}

/// Which ELF a program is, with each byte of its text there.
fn runs(program: &Path) -> Vec<u8> {
    let bytes = fs::read(program).unwrap();
    if !is_abc(&bytes) {
        return bytes;
    }
    let header = check_abc(&bytes).unwrap();
    let path = String::from_utf8(header.path.clone()).unwrap();
    let xyz = fs::read(path).unwrap();
    check_xyz(&xyz, &header).unwrap();
    off2f::restore(&bytes, &xyz).unwrap()
}

#[test]
fn text_is_shared_and_goes_with_its_last_program() {
    let it = place(&usual());
    let store = Store::open(&it.store).unwrap();
    let other = it.program.with_file_name("other");
    store.install(&it.elf, &it.program).unwrap();
    store.install(&it.elf, &other).unwrap();
    store.install(&it.elf, &other).unwrap();
    assert_eq!(store.texts().unwrap().len(), 1);
    assert_eq!(store.users(&store.texts().unwrap()[0]).unwrap(), 2);
    assert_eq!(
        fs::metadata(&other).unwrap().permissions().mode() & 0o7777,
        0o4755
    );
    store.remove(&it.program, false).unwrap();
    assert!(!it.program.exists());
    assert_eq!(runs(&other), usual());
    store.remove(&other, true).unwrap();
    assert_eq!(fs::read(&other).unwrap(), usual());
    assert!(store.texts().unwrap().is_empty());
    assert_eq!(store.clean().unwrap(), off2f::store::Cleaned::default());
}

#[test]
fn upgrade_takes_the_old_text_away() {
    let it = place(&usual());
    let store = Store::open(&it.store).unwrap();
    store.install(&it.elf, &it.program).unwrap();
    fs::write(&it.elf, old_style()).unwrap();
    store.install(&it.elf, &it.program).unwrap();
    assert_eq!(runs(&it.program), old_style());
    assert_eq!(store.texts().unwrap().len(), 1);
}

#[test]
fn extended_attributes_are_those_of_the_program() {
    let it = place(&usual());
    attributes::are_those_of_the_program(&it.store, &it.elf).unwrap();
}

#[test]
fn list_that_the_folder_gives_is_not_the_programs() {
    let it = place(&usual());
    attributes::are_not_those_of_the_folder(&it.store, &it.elf).unwrap();
}

/// Installs over an old version, cut after `steps`; whether the power held.
fn cut_upgrade(it: &Place, steps: u32) -> bool {
    let store = Store::open(&it.store).unwrap();
    store.install(&it.elf, &it.program).unwrap();
    fs::write(&it.elf, old_style()).unwrap();
    store.cut_after(steps);
    let held = store.install(&it.elf, &it.program).is_ok();
    drop(store);
    held
}

#[test]
fn cut_at_any_step_leaves_old_or_new() {
    let (mut old, mut new) = (0, 0);
    for steps in 0.. {
        let it = place(&usual());
        let held = cut_upgrade(&it, steps);
        let found = runs(&it.program);
        assert!(
            found == usual() || found == old_style(),
            "after {steps} steps"
        );
        assert!(!held || found == old_style());
        if found == usual() {
            old += 1
        } else {
            new += 1
        }
        let store = Store::open(&it.store).unwrap();
        store.clean().unwrap();
        assert_eq!(runs(&it.program), found, "cleaning took too much");
        assert_eq!(store.texts().unwrap().len(), 1, "after {steps} steps");
        assert_eq!(store.clean().unwrap(), off2f::store::Cleaned::default());
        if held {
            break;
        }
    }
    assert!(old > 5 && new > 2, "{old} {new}");
}

#[test]
fn cut_at_any_step_of_a_removal_leaves_the_program_or_its_elf() {
    for steps in 0.. {
        let it = place(&usual());
        let store = Store::open(&it.store).unwrap();
        store.install(&it.elf, &it.program).unwrap();
        store.cut_after(steps);
        let held = store.remove(&it.program, true).is_ok();
        drop(store);
        assert_eq!(runs(&it.program), usual(), "after {steps} steps");
        if held {
            break;
        }
    }
}

#[test]
fn rotten_text_is_found_at_install() {
    let it = place(&usual());
    let store = Store::open(&it.store).unwrap();
    store.install(&it.elf, &it.program).unwrap();
    let text = it.store.join("text").join(&store.texts().unwrap()[0]);
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    let mut bytes = fs::read(&text).unwrap();
    bytes[4321] ^= 4;
    fs::write(&text, bytes).unwrap();
    store
        .install(&it.elf, &it.program.with_file_name("two"))
        .unwrap_err();
    assert!(
        store.remove(&it.program, true).is_err(),
        "it cannot be restored"
    );
}
