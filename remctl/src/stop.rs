// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A planned Stop: off, and back where it was.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};

use crate::fault::{Fault, at};
use crate::status::{FOLDER, NO_REMANENCE, has_remanence};
use crate::system::System;

/// Asks the kernel for it (`kernel/stop/sysfs.c`). Returns when the machine is back.
///
/// # Errors
/// One line, if there is no Stop now.
pub fn stop(system: &System) -> Result<(), Fault> {
    let folder = system.path(FOLDER);
    if !has_remanence(system) {
        return Err(Fault::new(NO_REMANENCE));
    }
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    let status = status.trim();
    let path = folder.join("stop");
    let file = OpenOptions::new().write(true).open(&path);
    file.and_then(|mut file| file.write_all(b"now\n"))
        .map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => Fault::new(format!("no Stop is possible now: {status}")),
            ErrorKind::PermissionDenied => Fault::new("a Stop needs CAP_SYS_BOOT: be root"),
            _ => at(path.display())(error),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;

    #[test]
    fn kernel_gets_its_word() {
        let fake = Fake::new();
        let why = stop(&fake.system()).unwrap_err().to_string();
        assert_eq!(
            why,
            "this kernel has no Remanence: boot linux-image-remanence"
        );
        fake.write("sys/kernel/remanence/status", "armed\n");
        let why = stop(&fake.system()).unwrap_err().to_string();
        assert!(why.contains("remanence/stop: No such file"), "{why}");
        fake.write("sys/kernel/remanence/stop", "");
        stop(&fake.system()).unwrap();
        assert_eq!(fake.read("sys/kernel/remanence/stop"), "now\n");
    }
}
