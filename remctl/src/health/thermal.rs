// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thermal zones: a machine that firmware is about to switch off, or that throttles as far as it
//! can, is not one that stops in its time.

use std::path::Path;

use crate::health::{Found, read};
use crate::system::System;

const FOLDER: &str = "sys/class/thermal";
const ZONE: &str = "thermal_zone";
const TRIPS_MAX: usize = 64;
const BAD_TRIPS: [&str; 2] = ["critical", "hot"];
const MILLIDEGREES: i64 = 1000;

/// What is wrong with a zone.
fn fault(name: &str, path: &Path) -> Option<String> {
    let now = read::number(&path.join("temp"))?;
    for trip in 0..TRIPS_MAX {
        let file = |what: &str| path.join(format!("trip_point_{trip}_{what}"));
        let kind = read::text(&file("type"))?;
        if !BAD_TRIPS.contains(&kind.as_str()) {
            continue;
        }
        // Firmware that has no value says zero or less.
        let limit = read::number(&file("temp")).filter(|&limit| limit > 0);
        if limit.is_some_and(|limit| now >= limit) {
            let (now, what) = (now / MILLIDEGREES, read::text(&path.join("type")));
            let what = what.unwrap_or_default();
            return Some(format!("{name} ({what}) is {kind}, {now} C"));
        }
    }
    None
}

/// No zone is beyond its trip points `critical` and `hot`.
#[must_use]
pub fn look(system: &System) -> Found {
    let devices = read::devices(system, FOLDER);
    let zones = devices.iter().filter(|(name, _)| name.starts_with(ZONE));
    let faults = zones.clone().filter_map(|(name, path)| fault(name, path));
    Found::of(zones.clone().next().is_some(), faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;
    use proptest::prelude::*;

    fn zone(fake: &Fake, number: u32, files: &[(&str, &str)]) {
        for (file, text) in files {
            let place = format!("{FOLDER}/{ZONE}{number}/{file}");
            fake.write(&place, format!("{text}\n"));
        }
    }

    /// A zone with these trip points.
    fn looked(temp: &str, trips: &[(&str, &str)]) -> Found {
        let fake = Fake::new();
        zone(&fake, 0, &[("type", "acpitz"), ("temp", temp)]);
        for (number, (kind, limit)) in trips.iter().enumerate() {
            let names = [
                format!("trip_point_{number}_type"),
                format!("trip_point_{number}_temp"),
            ];
            zone(&fake, 0, &[(&names[0], kind), (&names[1], limit)]);
        }
        fake.write(&format!("{FOLDER}/cooling_device0/type"), "Fan\n");
        look(&fake.system())
    }

    #[test]
    fn a_zone_beyond_its_trip_is_bad() {
        let trips = [
            ("passive", "80000"),
            ("hot", "95000"),
            ("critical", "105000"),
        ];
        assert_eq!(looked("94999", &trips), Found::Good);
        let bad = |text: &str| Found::Bad(text.to_owned());
        let why = bad("thermal_zone0 (acpitz) is hot, 95 C");
        assert_eq!(looked("95000", &trips), why);
        let why = bad("thermal_zone0 (acpitz) is critical, 106 C");
        assert_eq!(looked("106000", &trips[2..]), why);
        assert_eq!(looked("106000", &trips[..1]), Found::Good);
        assert_eq!(looked("50000", &[("critical", "0")]), Found::Good);
        assert_eq!(looked("50000", &[("hot", "-274000")]), Found::Good);
        assert_eq!(looked("warm", &trips), Found::Good);
        assert_eq!(look(&Fake::new().system()), Found::None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_numbers_are_compared(temp in any::<i64>(), limit in any::<i64>()) {
            let found = looked(&temp.to_string(), &[("critical", &limit.to_string())]);
            prop_assert_eq!(found == Found::Good, limit <= 0 || temp < limit);
        }

        #[test]
        fn any_bytes_are_read(temp in ".*", kind in ".*", limit in ".*") {
            let found = looked(&temp, &[(&kind, &limit)]);
            prop_assert!(found == Found::Good || kind.trim() == "hot" || kind.trim() == "critical");
        }
    }
}
