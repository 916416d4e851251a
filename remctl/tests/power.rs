// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs when the machine is asked to sleep, or a UPS is nearly empty: the scripts as they are
//! packed, with programs that remember their words.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const SLEEP: &str = include_str!("../dist/sleep");
    const UPS_LOW: &str = include_str!("../dist/ups-low");
    const PROGRAMS: [&str; 8] = [
        "logger",
        "remctl",
        "service",
        "setsid",
        "shutdown",
        "systemctl",
        "systemd-sleep",
        "upsdrvctl",
    ];
    const RESTART: &str = "systemctl --no-block restart nut-driver@* nut-server nut-monitor";

    struct Machine(tempfile::TempDir);

    impl Machine {
        /// With what the kernel says; none: a kernel without Remanence.
        fn new(status: Option<&str>) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            for folder in ["bin", "systemd", "nut"] {
                fs::create_dir(machine.path(folder)).unwrap();
            }
            for name in ["sed", "tr"] {
                symlink(Path::new("/bin").join(name), machine.path("bin").join(name)).unwrap();
            }
            let flag = machine.path("nut/flag");
            let words = format!("  POWERDOWNFLAG \"{}\"\n", flag.display());
            fs::write(machine.path("nut/upsmon.conf"), words).unwrap();
            fs::write(flag, b"").unwrap();
            let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/any");
            for name in PROGRAMS {
                symlink(&fake, machine.path("bin").join(name)).unwrap();
            }
            if let Some(status) = status {
                fs::write(machine.path("status"), format!("{status}\n")).unwrap();
            }
            machine
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn fails(self, program: &str) -> Self {
            fs::write(self.path("bin").join(format!("{program}.fails")), b"").unwrap();
            self
        }

        /// What runs, but for lines of the system's log.
        fn run(&self, script: &str, words: &[&str]) -> Vec<String> {
            let bin = self.path("bin").display().to_string();
            let status = self.path("status").display().to_string();
            let script = script
                .replace("/sys/kernel/remanence/status", &status)
                .replace(
                    "/run/systemd/system",
                    &self.path("systemd").display().to_string(),
                )
                .replace("/etc/nut", &self.path("nut").display().to_string())
                .replace("/lib/systemd/", &format!("{bin}/"))
                .replace("/sbin/", &format!("{bin}/"));
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &script, "script"]).args(words);
            command.env("PATH", &bin);
            command.status().unwrap();
            let log = fs::read_to_string(self.path("bin/log")).unwrap_or_default();
            let lines = log.lines().map(|line| line.trim().to_owned());
            lines.filter(|line| !line.starts_with("logger")).collect()
        }
    }

    /// A planned Stop needs no hold-up.
    const ARMED: [&str; 2] = ["armed", "unhealthy: battery: BAT0 is at 7 %, and 1 more"];
    const NOT_ARMED: [Option<&str>; 4] = [
        None,
        Some(""),
        Some("refused: a Stop may outlast the hold-up"),
        Some("stopping"),
    ];

    #[test]
    fn an_armed_machine_sleeps_by_a_stop() {
        for unit in ["systemd-suspend", "systemd-hibernate"] {
            for status in ARMED {
                let ran = Machine::new(Some(status)).run(SLEEP, &[unit]);
                assert_eq!(ran, ["remctl stop"]);
            }
        }
    }

    /// A Stop that is refused is an error of `systemctl suspend`, and nothing else happens.
    #[test]
    fn a_refused_stop_is_no_other_sleep() {
        let ran = Machine::new(Some("armed"))
            .fails("remctl")
            .run(SLEEP, &["systemd-suspend"]);
        assert_eq!(ran, ["remctl stop"]);
    }

    #[test]
    fn another_machine_sleeps_as_ever() {
        for status in NOT_ARMED {
            let ran = Machine::new(status).run(SLEEP, &["systemd-hybrid-sleep"]);
            assert_eq!(ran, ["systemd-sleep hybrid-sleep"], "{status:?}");
        }
    }

    #[test]
    fn an_empty_ups_is_a_stop_and_nut_begins_again() {
        for status in ARMED {
            let ran = Machine::new(Some(status)).run(UPS_LOW, &[]);
            assert_eq!(ran, ["upsdrvctl shutdown", "remctl stop", RESTART]);
        }
    }

    #[test]
    fn without_systemd_nut_begins_again_too() {
        let machine = Machine::new(Some("armed"));
        fs::remove_dir(machine.path("systemd")).unwrap();
        let ran = machine.run(UPS_LOW, &[]);
        assert_eq!(ran[2], "service nut-server restart");
        assert!(!ran.contains(&RESTART.to_owned()), "{ran:?}");
    }

    /// Others decide when a UPS goes off that feeds them, too.
    #[test]
    fn a_secondary_leaves_the_ups_on() {
        let machine = Machine::new(Some("armed"));
        fs::remove_file(machine.path("nut/flag")).unwrap();
        assert_eq!(machine.run(UPS_LOW, &[]), ["remctl stop", RESTART]);
        fs::write(machine.path("nut/upsmon.conf"), "MONITOR x\n").unwrap();
        fs::remove_file(machine.path("bin/log")).unwrap();
        assert_eq!(machine.run(UPS_LOW, &[]), ["remctl stop", RESTART]);
    }

    #[test]
    fn a_ups_that_cannot_go_off_keeps_no_machine_from_its_stop() {
        let ran = Machine::new(Some("armed"))
            .fails("upsdrvctl")
            .run(UPS_LOW, &[]);
        assert!(ran.contains(&"remctl stop".to_owned()), "{ran:?}");
        assert!(
            !ran.iter().any(|line| line.starts_with("shutdown")),
            "{ran:?}"
        );
    }

    #[test]
    fn a_machine_that_could_not_be_entered_is_shut_down() {
        for status in NOT_ARMED {
            let ran = Machine::new(status).run(UPS_LOW, &[]);
            assert_eq!(ran, ["shutdown -h +0"], "{status:?}");
        }
    }

    #[test]
    fn a_refused_stop_is_a_shutdown() {
        let ran = Machine::new(Some("armed"))
            .fails("remctl")
            .run(UPS_LOW, &[]);
        assert_eq!(ran.last().map(String::as_str), Some("shutdown -h +0"));
        assert!(!ran.contains(&RESTART.to_owned()), "{ran:?}");
    }
}
