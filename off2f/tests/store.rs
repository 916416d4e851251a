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

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use common::{old_style, usual};
use off2f::store::Store;
use off2f::{check_abc, check_xyz, is_abc};
use rustix::fs::{XattrFlags, getxattr, setxattr};

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

const ACCESS_LIST: &str = "system.posix_acl_access";

/// An access control list, version 2: owner rwx, a user rwx, group r-x, mask rwx, others ---.
fn access_list(user: u32) -> Vec<u8> {
    let mut list = vec![2, 0, 0, 0];
    for (tag, rights, id) in [
        (1_u16, 7_u16, u32::MAX),
        (2, 7, user),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// That it cannot be set is no success of a test: what it is for would not be tested.
fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty())
        .unwrap_or_else(|error| panic!("{name} of {}: {error}: set TMPDIR", path.display()));
}

/// Sets an access control list, and a capability if root, else a label; returns their names.
fn with_attributes(program: &Path, number: u8) -> [&'static str; 2] {
    set(
        program,
        ACCESS_LIST,
        &access_list(12345 + u32::from(number)),
    );
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        set(program, "user.label", &[number]);
        return [ACCESS_LIST, "user.label"];
    }
    // Version 2, effective: one of CAP_CHOWN to CAP_SETUID.
    let mut capability = vec![1, 0, 0, 2, 1 << (number % 8), 0, 0, 0];
    capability.resize(20, 0);
    set(program, "security.capability", &capability);
    [ACCESS_LIST, "security.capability"]
}

fn attribute(program: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let count = getxattr(program, name, &mut value[..]).ok()?;
    value.truncate(count);
    Some(value)
}

#[test]
fn extended_attributes_are_those_of_the_program() {
    let it = place(&usual());
    let store = Store::open(&it.store).unwrap();
    fs::copy(&it.elf, &it.program).unwrap();
    let names = with_attributes(&it.program, 1);
    let before = names.map(|name| attribute(&it.program, name));
    assert!(before.iter().all(Option::is_some));
    store.install(&it.program, &it.program).unwrap();
    assert!(is_abc(&fs::read(&it.program).unwrap()));
    assert_eq!(names.map(|name| attribute(&it.program, name)), before);
    // As they are when it is put back, not as they were.
    with_attributes(&it.program, 2);
    let changed = names.map(|name| attribute(&it.program, name));
    assert!(changed[0] != before[0] && changed[1] != before[1]);
    store.remove(&it.program, true).unwrap();
    assert_eq!(runs(&it.program), usual());
    assert_eq!(names.map(|name| attribute(&it.program, name)), changed);
}

/// An access control list of the folder's, which every new file in it gets, is not the program's.
#[test]
fn list_that_the_folder_gives_is_not_the_programs() {
    let it = place(&usual());
    let store = Store::open(&it.store).unwrap();
    fs::copy(&it.elf, &it.program).unwrap();
    let folder = it.program.parent().unwrap();
    set(folder, "system.posix_acl_default", &access_list(12345));
    store.install(&it.program, &it.program).unwrap();
    let other = it.program.with_file_name("other");
    fs::write(&other, b"").unwrap();
    assert!(
        attribute(&other, ACCESS_LIST).is_some(),
        "the folder gives none"
    );
    assert_eq!(attribute(&it.program, ACCESS_LIST), None);
    let mode = fs::metadata(&it.program).unwrap().permissions().mode();
    let elf = fs::metadata(&it.elf).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, elf & 0o777);
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
