// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NVDIMMs, as firmware describes them (the NFIT's flags).

use crate::health::{Found, read};
use crate::system::System;

const FOLDER: &str = "sys/bus/nd/devices";
/// It only says that events of health are reported.
const GOOD: &str = "smart_notify";

/// Each module saves, restores and is armed.
#[must_use]
pub fn look(system: &System) -> Found {
    let mut modules = Vec::new();
    for (name, path) in read::devices(system, FOLDER) {
        if let Some(flags) = read::text(&path.join("nfit/flags")) {
            modules.push((name, flags));
        }
    }
    let faults = modules.iter().filter_map(|(name, flags)| {
        let bad: Vec<&str> = flags
            .split_whitespace()
            .filter(|flag| *flag != GOOD)
            .collect();
        (!bad.is_empty()).then(|| format!("{name}: {}", bad.join(" ")))
    });
    Found::of(!modules.is_empty(), faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;
    use proptest::prelude::*;

    fn module(fake: &Fake, name: &str, flags: impl AsRef<[u8]>) {
        fake.write(&format!("{FOLDER}/{name}/nfit/flags"), flags);
    }

    #[test]
    fn each_flag_but_one_is_bad() {
        let fake = Fake::new();
        assert_eq!(look(&fake.system()), Found::None);
        fake.write(&format!("{FOLDER}/region0/size"), "1\n");
        assert_eq!(look(&fake.system()), Found::None);
        module(&fake, "nmem0", "\n");
        module(&fake, "nmem1", "smart_notify \n");
        assert_eq!(look(&fake.system()), Found::Good);
        module(&fake, "nmem1", "save_fail not_armed smart_notify \n");
        module(&fake, "nmem2", "flush_fail\n");
        let why = "nmem1: save_fail not_armed; nmem2: flush_fail";
        assert_eq!(look(&fake.system()), Found::Bad(why.to_owned()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// A flag that nobody knows is bad, too.
        #[test]
        fn any_other_flag_is_bad(flags in prop::collection::vec(any::<u8>(), 0..99)) {
            let fake = Fake::new();
            module(&fake, "nmem0", &flags);
            let text = String::from_utf8_lossy(&flags).into_owned();
            let known = text.split_whitespace().all(|flag| flag == GOOD);
            prop_assert_eq!(look(&fake.system()) == Found::Good, known);
        }
    }
}
