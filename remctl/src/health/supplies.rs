// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power supplies of a server, as its BMC sees them: sensors of IPMI, by ipmitool(1).

use crate::health::{Found, read};
use crate::system::System;

/// The kernel's ways to the BMC of this machine.
const DEVICES: [&str; 3] = ["dev/ipmi0", "dev/ipmi/0", "dev/ipmidev/0"];
const WORDS: [&str; 3] = ["sdr", "type", "Power Supply"];
/// A BMC answers within a second or two for each sensor of a kind.
const LIMIT_S: u32 = 30;
const COLUMNS: usize = 5; // NAME | NUMBER | STATUS | ENTITY | STATES or READING

/// Words of a sensor's status with which nothing is wrong: within its thresholds, not there.
const GOOD_STATUS: [&str; 2] = ["ok", "ns"];
/// States of sensors with which nothing is wrong. Of a state that is not here nobody knows.
const GOOD_STATES: [&str; 10] = [
    "Presence detected",
    "Device Present",
    "Device Enabled",
    "Fully Redundant",
    "Limit Not Exceeded",
    "Performance Met",
    "Power Supply Inactive",
    "State Deasserted",
    "Transition to OK",
    "Transition to Running",
];
const NOT_READ: [&str; 3] = ["No Reading", "Disabled", "Not Readable"];

fn is_reading(state: &str) -> bool {
    let number = state.split_whitespace().next().unwrap_or_default();
    number.parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_good(state: &str) -> bool {
    state.is_empty()
        || GOOD_STATES.contains(&state)
        || NOT_READ.contains(&state)
        || is_reading(state)
}

/// What is wrong by one line of the list; none: nothing.
fn fault(line: &str) -> Option<String> {
    let columns: Vec<&str> = line.splitn(COLUMNS, '|').map(str::trim).collect();
    let [name, _, status, _, states] = columns[..] else {
        return Some(format!("no sensor: {line}"));
    };
    // Commas separate states, and are a part of one of them; each of its halves is bad.
    let bad: Vec<&str> = states
        .split(',')
        .map(str::trim)
        .filter(|state| !is_good(state))
        .collect();
    if !bad.is_empty() {
        return Some(format!("{name}: {}", bad.join(", ")));
    }
    let good = GOOD_STATUS.contains(&status);
    (!good).then(|| format!("{name}: {status}, {states}"))
}

/// From the list of sensors.
fn parse(list: &str) -> Found {
    let lines: Vec<&str> = list
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    Found::of(
        !lines.is_empty(),
        lines.iter().filter_map(|line| fault(line)),
    )
}

/// Asks the BMC. A machine without one, or without ipmitool, has no sensors.
#[must_use]
pub fn look(system: &System) -> Found {
    let there = DEVICES.iter().any(|device| system.path(device).exists());
    if !there || system.program("ipmitool", "ipmitool").is_err() {
        return Found::None;
    }
    match read::output(system, ("ipmitool", "ipmitool"), &WORDS, LIMIT_S) {
        Ok(list) => parse(&list),
        Err(why) => Found::Bad(format!("cannot be asked: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// In the words of ipmitool, for servers of several makers.
    const WELL: &str = "\
PS1 Status       | C8h | ok  | 10.1 | Presence detected
PS2 Status       | C9h | ok  | 10.2 | Presence detected
PS3 Status       | CAh | ns  | 10.3 | No Reading
Power Supply 4   | 2Ch | ok  | 10.4 | 105 Watts, Presence detected
PS1 Input Power  | 39h | ok  | 10.1 | 130 Watts
PS2 Temp         | 3Ah | ok  | 10.2 | 31 degrees C
PS Redundancy    | D1h | ok  | 21.1 | Fully Redundant
";

    fn bad(text: &str) -> Found {
        Found::Bad(text.to_owned())
    }

    #[test]
    fn supplies_that_are_well_are_good() {
        assert_eq!(parse(WELL), Found::Good);
        assert_eq!(parse("\n  \n"), Found::None);
    }

    #[test]
    fn what_is_bad_is_named() {
        for (line, why) in [
            (
                "PS2 Status | C9h | ok | 10.2 | Presence detected, Failure detected, Power Supply AC lost",
                "PS2 Status: Failure detected, Power Supply AC lost",
            ),
            (
                "PS2 Status | C9h | ok | 10.2 | Predictive failure",
                "PS2 Status: Predictive failure",
            ),
            (
                "PS2 Status | C9h | ok | 10.2 | Presence detected, AC out-of-range, but present",
                "PS2 Status: AC out-of-range, but present",
            ),
            (
                "PS Redundancy | D1h | ok | 21.1 | Redundancy Lost",
                "PS Redundancy: Redundancy Lost",
            ),
            (
                "PS1 Temp | 3Ah | ucr | 10.1 | 92 degrees C",
                "PS1 Temp: ucr, 92 degrees C",
            ),
            ("PS1 | 3Ah | ok | 10.1 | nan", "PS1: nan"),
            ("Unable to open SDR", "no sensor: Unable to open SDR"),
        ] {
            assert_eq!(parse(&format!("{WELL}{line}\n")), bad(why), "{line}");
        }
    }

    fn server() -> Fake {
        let fake = Fake::new();
        symlink("/usr/bin/timeout", fake.path("bin/timeout")).unwrap();
        fake.add_program("ipmitool");
        fake.write("bin/ipmitool.list", WELL);
        fake.write("dev/ipmi0", "");
        fake
    }

    #[test]
    fn the_bmc_is_asked_where_there_is_one() {
        let fake = server();
        assert_eq!(look(&fake.system()), Found::Good);
        assert_eq!(fake.read("bin/ipmitool.log"), "sdr type Power Supply\n");
        fs::remove_file(fake.path("bin/ipmitool.list")).unwrap();
        let why = "cannot be asked: ipmitool: exit status: 1";
        assert_eq!(look(&fake.system()), bad(why));
        fs::remove_file(fake.path("dev/ipmi0")).unwrap();
        assert_eq!(look(&fake.system()), Found::None);
        let fake = server();
        fs::remove_file(fake.path("bin/ipmitool")).unwrap();
        assert_eq!(look(&fake.system()), Found::None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Whatever a BMC says, a failure that it names is seen; no text panics.
        #[test]
        fn a_failure_is_seen_between_any_lines(before in ".*", after in ".*", name in "[^|\n\r]*") {
            let list = format!("{before}\n{name} | C9h | ok | 10.2 | Failure detected\n{after}");
            let found = parse(&list);
            prop_assert!(matches!(found, Found::Bad(why) if why.contains("Failure detected")));
        }

        /// What is no list of sensors is never good.
        #[test]
        fn no_sensors_are_not_good(text in "[^|]*") {
            prop_assert_ne!(parse(&text), Found::Good);
        }
    }
}
