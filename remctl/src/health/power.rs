// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's class of power supplies: batteries, also of a UPS that is one, and the mains.

use std::path::Path;

use crate::health::{Found, read};
use crate::system::System;

const FOLDER: &str = "sys/class/power_supply";
/// A battery's `health` with which it does what it is there for. All else is bad.
const GOOD: [&str; 2] = ["Good", "Unknown"];
const EMPTY_LEVEL: &str = "Critical";

/// One battery.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Battery {
    name: String,
    discharging: bool,
    /// In percent.
    charge: Option<i64>,
    low: bool,
    health: Option<String>,
}

/// What the class says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Power {
    batteries: Vec<Battery>,
    /// Names, and whether there is power.
    mains: Vec<(String, bool)>,
}

fn battery(name: &str, path: &Path, low_percent: i64) -> Option<Battery> {
    let text = |file: &str| read::text(&path.join(file));
    if text("present").as_deref() == Some("0") {
        return None; // a bay without one
    }
    let charge = read::number(&path.join("capacity")).filter(|charge| (0..=100).contains(charge));
    let low = match charge {
        Some(charge) => charge <= low_percent,
        None => low_percent > 0 && text("capacity_level").as_deref() == Some(EMPTY_LEVEL),
    };
    Some(Battery {
        name: name.to_owned(),
        discharging: text("status").as_deref() == Some("Discharging"),
        charge,
        low,
        health: text("health").filter(|health| !GOOD.contains(&health.as_str())),
    })
}

impl Battery {
    fn fault(&self) -> Option<String> {
        if let Some(health) = &self.health {
            return Some(format!("{} is {health}", self.name));
        }
        let charge = self.charge.map(|charge| format!("at {charge} %"));
        let charge = charge.unwrap_or_else(|| "nearly empty".to_owned());
        self.low.then(|| format!("{} is {charge}", self.name))
    }
}

impl Power {
    /// Looks. A battery is low at *`low_percent`*; 0: none is.
    #[must_use]
    pub fn look(system: &System, low_percent: u8) -> Self {
        let mut found = Self::default();
        for (name, path) in read::devices(system, FOLDER) {
            // That of a mouse.
            if read::text(&path.join("scope")).as_deref() == Some("Device") {
                continue;
            }
            match read::text(&path.join("type")).as_deref() {
                Some("Battery" | "UPS") => {
                    let one = battery(&name, &path, i64::from(low_percent));
                    found.batteries.extend(one);
                }
                Some("Mains") => {
                    let online = read::number(&path.join("online"));
                    found.mains.push((name, online.is_some_and(|it| it != 0)));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether the machine soon has no power: it is fed by batteries alone, and all are low.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        let fed = self.mains.iter().any(|(_, online)| *online);
        let discharging = self.batteries.iter().any(|battery| battery.discharging);
        !fed && discharging && self.batteries.iter().all(|battery| battery.low)
    }

    /// Each battery is well, and charged.
    #[must_use]
    pub fn batteries(&self) -> Found {
        let faults = self.batteries.iter().filter_map(Battery::fault);
        Found::of(!self.batteries.is_empty(), faults)
    }

    /// One input has power. More than one are for redundancy, of which nothing is promised.
    #[must_use]
    pub fn mains(&self) -> Found {
        let fed = self.mains.iter().any(|(_, online)| *online);
        let faults = self.mains.iter().filter(|_| !fed);
        let faults = faults.map(|(name, _)| format!("{name} is offline"));
        Found::of(!self.mains.is_empty(), faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;
    use proptest::prelude::*;

    fn supply(fake: &Fake, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            fake.write(&format!("{FOLDER}/{name}/{file}"), format!("{text}\n"));
        }
    }

    /// A battery of this state and charge, and mains.
    fn laptop(status: &str, capacity: &str, online: &str) -> Power {
        let fake = Fake::new();
        let battery = [
            ("type", "Battery"),
            ("status", status),
            ("capacity", capacity),
        ];
        supply(&fake, "BAT0", &battery);
        supply(&fake, "AC", &[("type", "Mains"), ("online", online)]);
        Power::look(&fake.system(), 10)
    }

    fn bad(text: &str) -> Found {
        Found::Bad(text.to_owned())
    }

    #[test]
    fn a_machine_without_any_has_none() {
        let power = Power::look(&Fake::new().system(), 10);
        assert_eq!(
            (power.batteries(), power.mains()),
            (Found::None, Found::None)
        );
        assert!(!power.is_ending());
    }

    #[test]
    fn a_low_battery_ends_the_power_only_where_there_is_no_other() {
        for (status, capacity, online, ending) in [
            ("Discharging", "10", "0", true),
            ("Discharging", "0", "0", true),
            ("Discharging", "11", "0", false),
            ("Discharging", "10", "1", false), // it is calibrated
            ("Charging", "1", "1", false),
            ("Not charging", "10", "0", false),
            ("Discharging", "-1", "0", false),
            ("Discharging", "101", "0", false),
            ("Discharging", "x", "0", false),
            ("", "10", "0", false),
        ] {
            let power = laptop(status, capacity, online);
            assert_eq!(power.is_ending(), ending, "{status} {capacity} {online}");
        }
    }

    #[test]
    fn a_second_battery_that_is_charged_lasts() {
        let fake = Fake::new();
        let low = [
            ("type", "Battery"),
            ("status", "Discharging"),
            ("capacity", "3"),
        ];
        supply(&fake, "BAT0", &low);
        assert!(Power::look(&fake.system(), 10).is_ending());
        supply(
            &fake,
            "BAT1",
            &[("type", "UPS"), ("status", "Full"), ("capacity", "100")],
        );
        let power = Power::look(&fake.system(), 10);
        assert!(!power.is_ending());
        assert_eq!(power.batteries(), bad("BAT0 is at 3 %"));
        supply(&fake, "BAT1", &[("present", "0")]);
        assert!(Power::look(&fake.system(), 10).is_ending());
    }

    #[test]
    fn without_a_threshold_none_is_low() {
        let fake = Fake::new();
        let words = [("type", "Battery"), ("status", "Discharging")];
        supply(&fake, "BAT0", &words);
        supply(&fake, "BAT0", &[("capacity_level", "Critical")]);
        assert!(Power::look(&fake.system(), 10).is_ending());
        let power = Power::look(&fake.system(), 0);
        assert!(!power.is_ending());
        assert_eq!(power.batteries(), Found::Good);
    }

    #[test]
    fn what_is_bad_is_named() {
        assert_eq!(laptop("Full", "100", "1").batteries(), Found::Good);
        assert_eq!(
            laptop("Charging", "7", "1").batteries(),
            bad("BAT0 is at 7 %")
        );
        assert_eq!(laptop("Full", "100", "1").mains(), Found::Good);
        assert_eq!(laptop("Full", "100", "0").mains(), bad("AC is offline"));
        assert_eq!(laptop("Full", "100", "yes").mains(), bad("AC is offline"));
        let fake = Fake::new();
        for (name, health) in [("BAT0", "Good"), ("BAT1", "Dead"), ("BAT2", "Overheat")] {
            supply(
                &fake,
                name,
                &[("type", "Battery"), ("capacity", "90"), ("health", health)],
            );
        }
        supply(
            &fake,
            "mouse",
            &[("type", "Battery"), ("capacity", "1"), ("scope", "Device")],
        );
        supply(&fake, "AC1", &[("type", "Mains"), ("online", "0")]);
        supply(&fake, "AC2", &[("type", "Mains"), ("online", "1")]);
        supply(&fake, "usb", &[("type", "USB"), ("online", "0")]);
        let power = Power::look(&fake.system(), 10);
        assert_eq!(power.batteries(), bad("BAT1 is Dead; BAT2 is Overheat"));
        assert_eq!(power.mains(), Found::Good);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Whatever a driver says: a machine that is fed goes on, and so does one whose battery
        /// does not say that it is low.
        #[test]
        fn any_bytes_are_read(
            files in prop::collection::vec(
                ("type|status|capacity|capacity_level|health|online|present|scope",
                 prop_oneof![
                     prop::collection::vec(any::<u8>(), 0..40),
                     "Battery|Mains|Discharging|Critical|Dead|[0-9]{1,3}"
                         .prop_map(String::into_bytes),
                 ]),
                0..9,
            ),
            low_percent in 0..=100_u8,
        ) {
            let fake = Fake::new();
            for (file, bytes) in &files {
                fake.write(&format!("{FOLDER}/x/{file}"), bytes);
            }
            let power = Power::look(&fake.system(), low_percent);
            prop_assert!(power.batteries.len() + power.mains.len() <= 1);
            if power.is_ending() {
                prop_assert!(matches!(power.batteries(), Found::Bad(_)));
                prop_assert!(power.batteries[0].discharging && low_percent > 0 || power.batteries[0].charge == Some(0));
            }
        }
    }
}
