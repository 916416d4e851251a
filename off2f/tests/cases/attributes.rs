// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of extended attributes, each with a verdict by which a planted bug must be found.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use off2f::is_abc;
use off2f::store::Store;
use rustix::fs::{XattrFlags, getxattr, setxattr};

const ACCESS_LIST: &str = "system.posix_acl_access";

/// What must not be: a name, which planted bugs refer to, and details.
#[derive(Debug)]
pub struct Broken {
    pub verdict: &'static str,
    pub what: String,
}

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

type Values = [Option<Vec<u8>>; 2];

fn must_be(step: &str, found: &Values, wanted: &Values) -> Result<(), Broken> {
    if found == wanted {
        return Ok(());
    }
    Err(Broken {
        verdict: "dropped",
        what: format!("after {step}: {found:?}, not {wanted:?}"),
    })
}

/// An ELF that is a program's, installed over itself and put back.
pub fn are_those_of_the_program(store: &Path, program: &Path) -> Result<(), Broken> {
    let store = Store::open(store).unwrap();
    let elf = fs::read(program).unwrap();
    let names = with_attributes(program, 1);
    let before = names.map(|name| attribute(program, name));
    assert!(before.iter().all(Option::is_some));
    store.install(program, program).unwrap();
    assert!(is_abc(&fs::read(program).unwrap()));
    must_be(
        "install",
        &names.map(|name| attribute(program, name)),
        &before,
    )?;
    // As they are when it is put back, not as they were.
    with_attributes(program, 2);
    let changed = names.map(|name| attribute(program, name));
    assert!(changed[0] != before[0] && changed[1] != before[1]);
    store.remove(program, true).unwrap();
    assert_eq!(fs::read(program).unwrap(), elf);
    must_be(
        "remove",
        &names.map(|name| attribute(program, name)),
        &changed,
    )
}

/// An access control list of the folder's, which every new file in it gets, is not the program's.
pub fn are_not_those_of_the_folder(store: &Path, program: &Path) -> Result<(), Broken> {
    let store = Store::open(store).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let before = mode(program);
    let folder = program.parent().unwrap();
    set(folder, "system.posix_acl_default", &access_list(12345));
    store.install(program, program).unwrap();
    let other = program.with_file_name("other");
    fs::write(&other, b"").unwrap();
    assert!(
        attribute(&other, ACCESS_LIST).is_some(),
        "the folder gives none"
    );
    if let Some(list) = attribute(program, ACCESS_LIST) {
        return Err(Broken {
            verdict: "inherited",
            what: format!("the program has the list {list:?}"),
        });
    }
    assert_eq!(mode(program), before);
    Ok(())
}
