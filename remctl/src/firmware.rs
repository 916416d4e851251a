// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How firmware has started this system. A kernel that our loader has started has no services of
//! firmware, so that not all of it is known there.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;

use crate::system::System;

const FIRMWARE: &str = "sys/firmware/efi";
const VARIABLES: &str = "sys/firmware/efi/efivars";
const SECURE_BOOT: &str = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Tables that only UEFI firmware has.
const TABLES: [&str; 2] = [
    "sys/firmware/acpi/tables/BGRT",
    "sys/firmware/acpi/tables/UEFI",
];

/// What is known; `None` is what is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Firmware {
    /// Whether it is UEFI.
    pub uefi: Option<bool>,
    /// Whether Secure Boot is on.
    pub secure_boot: Option<bool>,
}

impl Firmware {
    /// Looks.
    #[must_use]
    pub fn look(system: &System) -> Self {
        let has_services = system.path(FIRMWARE).exists();
        let has_table = || TABLES.iter().any(|table| system.path(table).exists());
        Self {
            uefi: (has_services || has_table()).then_some(true),
            secure_boot: secure_boot(system),
        }
    }
}

/// The folder of firmware's variables, if there are any.
#[must_use]
pub fn variables(system: &System) -> Option<PathBuf> {
    let folder = system.path(VARIABLES);
    fs::read_dir(&folder).ok()?.next()?.ok()?;
    Some(folder)
}

fn secure_boot(system: &System) -> Option<bool> {
    let folder = variables(system)?;
    match fs::read(folder.join(SECURE_BOOT)) {
        // Four bytes of attributes, then its value.
        Ok(bytes) => bytes.get(4).map(|&value| value != 0),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;

    fn look(fake: &Fake) -> (Option<bool>, Option<bool>) {
        let found = Firmware::look(&fake.system());
        (found.uefi, found.secure_boot)
    }

    #[test]
    fn what_cannot_be_known_is_not_guessed() {
        let fake = Fake::new();
        assert_eq!(look(&fake), (None, None));
        fake.write("sys/firmware/acpi/tables/BGRT", "");
        assert_eq!(look(&fake), (Some(true), None));
        std::fs::create_dir_all(fake.path(VARIABLES)).unwrap();
        assert_eq!(look(&fake), (Some(true), None));
        fake.write(&format!("{VARIABLES}/BootOrder-8be4df61"), "");
        assert_eq!(look(&fake), (Some(true), Some(false)));
        for (bytes, on) in [
            (b"\x06\0\0\0\x01".as_slice(), Some(true)),
            (b"\x06\0\0\0\0", Some(false)),
            (b"\x06", None),
        ] {
            fake.write(&format!("{VARIABLES}/{SECURE_BOOT}"), bytes);
            assert_eq!(look(&fake), (Some(true), on));
        }
    }
}
