// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A planned Stop: off, and back where it was.

use std::fs;
use std::io::ErrorKind;

use crate::fault::{Fault, at};
use crate::status::{FOLDER, NO_REMANENCE, has_remanence};
use crate::system::{System, put};
use crate::wake::{Alarm, Wake};

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
    put(&path, b"now\n").map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => Fault::new(format!("no Stop is possible now: {status}")),
        ErrorKind::PermissionDenied => Fault::new("a Stop needs CAP_SYS_BOOT: be root"),
        _ => at(path.display())(error),
    })
}

/// The same, and firmware starts the machine again at a time, if nobody has before.
///
/// # Errors
/// One line, if there is no Stop now, or no clock that could do that; no alarm is left behind.
pub fn stop_and_wake(system: &System, wake: Wake) -> Result<(), Fault> {
    if !has_remanence(system) {
        return Err(Fault::new(NO_REMANENCE));
    }
    // Taken back at the end: it has gone off, or the machine was started before.
    let _alarm = Alarm::set(system, wake)?;
    stop(system)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;

    #[test]
    fn a_refused_stop_leaves_no_alarm() {
        const ALARM: &str = "sys/class/rtc/rtc0/wakealarm";
        let fake = Fake::new();
        let wake = Wake::after_words("1h").unwrap();
        let why = |fake: &Fake| stop_and_wake(&fake.system(), wake).unwrap_err().to_string();
        fake.write(ALARM, "");
        assert_eq!(why(&fake), NO_REMANENCE);
        assert_eq!(fake.read(ALARM), "");
        fake.write("sys/kernel/remanence/status", "armed\n");
        assert!(why(&fake).contains("remanence/stop: No such file"));
        // Over the first letters of what was there, in a file.
        assert!(fake.read(ALARM).starts_with("0\n"));
        fake.write("sys/kernel/remanence/stop", "");
        stop_and_wake(&fake.system(), wake).unwrap();
        assert_eq!(fake.read("sys/kernel/remanence/stop"), "now\n");
        std::fs::remove_file(fake.path(ALARM)).unwrap();
        fake.write("sys/kernel/remanence/stop", "");
        assert!(why(&fake).starts_with("this machine has no clock"));
        assert_eq!(fake.read("sys/kernel/remanence/stop"), "");
    }

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
