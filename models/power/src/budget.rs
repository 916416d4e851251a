// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worst case of a Stop, whether a supply is sufficient, and which capacitor would be.

use serde::{Deserialize, Serialize};

use remanence_cache::LINE_BYTES;

use crate::error::PowerError;
use crate::psu::{Activity, Machine, Supply};
use crate::units::{Ns, PERMILLE, Pj, mul_div, mul_div_up};

/// The steps of `kernel/stop/budget.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Longest section with preemption off.
    pub preempt_off_ns: u64,
    /// Once per Stop.
    pub fixed_ns: u64,
    /// For each CPU.
    pub cpu_ns: u64,
    /// For each PCI function.
    pub device_ns: u64,
    /// For each entry of the machine's description.
    pub entry_ns: u64,
    /// PCI functions of the reference machine.
    pub devices: u64,
    /// Entries of its description.
    pub entries: u64,
    /// Share of the caches that is dirty when idle.
    pub idle_dirty_permille: u64,
}

/// What the machine was doing when PWR_OK dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// All lines dirty.
    Busy,
    /// Some are.
    Idle,
}

/// One phase of a Stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// Duration.
    pub time_ns: u64,
    /// Power drawn, including the lines written.
    pub power_mw: u64,
    /// Energy of the phase.
    pub energy_pj: u64,
    /// Cores that run.
    pub running: u64,
    /// Lines written.
    pub lines: u64,
}

/// Values that override those of the profiles.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Time until all CPUs are parked and contexts saved, instead of the bound.
    pub park_ns: Option<u64>,
    /// Time of the flush, e.g. from a model of the caches.
    pub flush_ns: Option<u64>,
    /// Bytes that the flush writes.
    pub dirty_bytes: Option<u64>,
}

/// The phases of a bounded Stop at their worst.
///
/// # Errors
/// [`PowerError::Impossible`] if more is dirty than the caches hold.
pub fn phases(
    machine: &Machine,
    steps: &Steps,
    load: Load,
    given: Given,
) -> Result<Vec<Phase>, PowerError> {
    let cached = match load {
        Load::Busy => machine.cache_bytes,
        Load::Idle => mul_div_up(machine.cache_bytes, steps.idle_dirty_permille, PERMILLE),
    };
    let dirty = given.dirty_bytes.unwrap_or(cached);
    if dirty > machine.cache_bytes {
        return Err(PowerError::impossible(
            "dirty bytes",
            dirty,
            "more than the machine's caches hold",
        ));
    }
    let park = given.park_ns.unwrap_or(
        steps.preempt_off_ns
            + machine.cores * steps.cpu_ns
            + steps.devices * steps.device_ns
            + steps.entries * steps.entry_ns,
    );
    let flush = given.flush_ns.unwrap_or_else(|| machine.flush_ns(dirty));
    // Until all are parked, all run: early ones wait for the rest. All flush; the control CPU
    // commits.
    Ok(vec![
        phase("park", machine, machine.cores, 0, park),
        phase(
            "flush",
            machine,
            machine.cores,
            dirty.div_ceil(LINE_BYTES),
            flush,
        ),
        phase("commit", machine, 1, 2, steps.fixed_ns),
    ])
}

fn phase(name: &'static str, machine: &Machine, running: u64, lines: u64, time_ns: u64) -> Phase {
    let activity = Activity {
        running,
        lines_written: lines,
        nvdimm_mw: 0,
    };
    let energy = machine.energy(&activity, Ns(time_ns));
    Phase {
        name,
        time_ns,
        power_mw: energy.0.checked_div(time_ns).unwrap_or(0),
        energy_pj: energy.0,
        running,
        lines,
    }
}

/// Whether a supply lasts, and what is left then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether it lasts with the margin.
    pub fits: bool,
    /// Its window if no core is parked.
    pub busy_window_ns: u64,
    /// From the end of the Stop to the end of the window, at the parked machine's power.
    pub margin_ns: u64,
    /// Energy left at the end of the Stop.
    pub left_pj: u64,
    /// When it ran dry, if it did.
    pub dry_at_ns: Option<u64>,
}

/// Discharges a supply through the phases, each stretched by the margin.
#[must_use]
pub fn judge(
    supply: &Supply,
    machine: &Machine,
    phases: &[Phase],
    margin_permille: u64,
) -> Verdict {
    let run = |permille: u64| {
        let mut left = supply.discharge();
        for phase in phases {
            let activity = Activity {
                running: phase.running,
                lines_written: mul_div_up(phase.lines, permille, PERMILLE),
                nvdimm_mw: 0,
            };
            left.spend(
                machine,
                &activity,
                Ns(mul_div_up(phase.time_ns, permille, PERMILLE)),
            )?;
        }
        Ok::<_, crate::RanDry>(left)
    };
    let (margin_ns, left_pj, dry_at_ns) = match run(PERMILLE) {
        Ok(left) => (left.lasts(machine.idle_mw()).0, left.energy_left().0, None),
        Err(dry) => (0, 0, Some(dry.at.0)),
    };
    Verdict {
        fits: run(margin_permille).is_ok(),
        busy_window_ns: supply.window(machine.busy_mw()).0,
        margin_ns,
        left_pj,
        dry_at_ns,
    }
}

/// Time and energy of all phases, with the margin.
#[must_use]
pub fn total(phases: &[Phase], margin_permille: u64) -> (Ns, Pj) {
    let time = phases.iter().map(|phase| phase.time_ns).sum();
    let energy: u64 = phases.iter().map(|phase| phase.energy_pj).sum();
    (
        Ns(mul_div(time, margin_permille, PERMILLE)),
        Pj(mul_div_up(energy, margin_permille, PERMILLE)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profiles;

    fn parts() -> (Profiles, Steps) {
        let profiles = Profiles::built_in().unwrap();
        let steps = profiles.steps("fast").unwrap();
        (profiles, steps)
    }

    #[test]
    fn wsp_s_testbeds_save_well_within_their_windows() {
        // WSP, section 5: the save takes 2 to 35 % of the window; ours adds 2 ms of parking.
        let (profiles, steps) = parts();
        for (name, most_permille) in [
            ("wsp-amd-400w", 20),
            ("wsp-amd-525w", 200),
            ("wsp-intel-750w", 520),
            ("wsp-intel-1050w", 200),
        ] {
            let (supply, machine) = profiles.supply(name).unwrap();
            let phases = phases(&machine, &steps, Load::Busy, Given::default()).unwrap();
            let verdict = judge(&supply, &machine, &phases, 1000);
            let (time, _) = total(&phases, 1000);
            assert!(verdict.fits, "{name}");
            assert!(
                time.0 * 1000 <= verdict.busy_window_ns * most_permille,
                "{name}: {time:?}"
            );
        }
    }

    #[test]
    fn margin_that_is_too_large_does_not_fit_and_the_plain_stop_still_does() {
        let (profiles, steps) = parts();
        let (supply, machine) = profiles.supply("wsp-intel-750w").unwrap();
        let phases = phases(&machine, &steps, Load::Busy, Given::default()).unwrap();
        let (time, _) = total(&phases, 1000);
        // Written lines take a little energy that is not in the window measured busy.
        let most = supply.window(machine.busy_mw()).0 * 1000 / time.0;
        assert!(judge(&supply, &machine, &phases, most - 20).fits);
        let over = judge(&supply, &machine, &phases, most + 20);
        assert!(!over.fits && over.dry_at_ns.is_none());
    }

    #[test]
    fn stop_longer_than_the_window_runs_dry_at_its_end() {
        let (profiles, steps) = parts();
        let (supply, machine) = profiles.supply("wsp-intel-750w").unwrap();
        let given = Given {
            park_ns: Some(20_000_000),
            ..Given::default()
        };
        let phases = phases(&machine, &steps, Load::Busy, given).unwrap();
        let verdict = judge(&supply, &machine, &phases, 1000);
        assert!(!verdict.fits);
        assert_eq!(verdict.dry_at_ns, Some(10_000_000));
        assert_eq!(verdict.margin_ns, 0);
    }

    #[test]
    fn less_dirt_takes_less_energy() {
        let (profiles, steps) = parts();
        let machine = profiles.machine("reference").unwrap();
        let cost = |load| {
            total(
                &phases(&machine, &steps, load, Given::default()).unwrap(),
                1000,
            )
        };
        // WBINVD walks all of the caches, dirty or not (WSP, Figure 8).
        assert!(cost(Load::Idle).0 <= cost(Load::Busy).0);
        assert!(cost(Load::Idle).1 < cost(Load::Busy).1);
        let given = Given {
            dirty_bytes: Some(machine.cache_bytes + 1),
            ..Given::default()
        };
        phases(&machine, &steps, Load::Busy, given).unwrap_err();
    }
}
