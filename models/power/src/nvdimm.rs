// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NVDIMMs: how main memory survives power loss, and when it does not.
//!
//! An NVDIMM-N is DRAM that a controller copies to flash on command, fed by an ultracapacitor of
//! its own (WSP, section 2 and Figures 1 and 2). It can fail in two ways that software must notice:
//! power is lost without a command (nothing is saved; flash keeps its old content), or before the
//! capacitor is charged again (a part is saved). A flash image stays valid until it is erased, also
//! after a restore: so an image that has been entered must be erased before anything is executed
//! from it, or a later cut without a Stop would restore it, and it would be entered twice.

use serde::{Deserialize, Serialize};

use crate::capacitor;
use crate::error::PowerError;
use crate::units::{GIB_BYTES, NS_PER_S, Ns, PERMILLE, PJ_PER_J, Pj, mul_div, mul_div_up};

/// Larger than any real module.
const MODULE_BYTES_MAX: u64 = 1 << 40;

/// What main memory is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keeps its content by itself.
    Scm,
    /// DRAM, flash and a capacitor.
    NvdimmN(Module),
    /// DRAM refreshed by a battery.
    Battery(Battery),
}

/// An NVDIMM-N of a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Size of DRAM, and of flash.
    pub bytes: u64,
    channels: u64,
    channel_bytes_per_s: u64,
    save_fixed_ns: u64,
    channel_save_mw: u64,
    restore_bytes_per_s: u64,
    /// Its ultracapacitor.
    pub capacitance_uf: u64,
    /// Voltage when charged.
    pub full_mv: u64,
    /// Lowest usable voltage.
    pub empty_mv: u64,
    charge_mw: u64,
}

impl Module {
    /// Numbers in the order of the profile's fields.
    pub(crate) fn new(bytes: u64, numbers: [u64; 10]) -> Result<Self, PowerError> {
        if bytes == 0 || bytes > MODULE_BYTES_MAX {
            return Err(PowerError::impossible(
                "NVDIMM of so many bytes",
                bytes,
                "give 1 to 2^40",
            ));
        }
        let [
            channel_bytes,
            channels_max,
            rate,
            fixed,
            save_mw,
            restore,
            uf_per_gib,
            full,
            empty,
            charge,
        ] = numbers;
        if numbers
            .iter()
            .enumerate()
            .any(|(index, &number)| number == 0 && index != 3)
            || full <= empty
        {
            return Err(PowerError::impossible(
                "NVDIMM-N",
                0,
                "its numbers are above 0, full above empty",
            ));
        }
        Ok(Self {
            bytes,
            channels: bytes.div_ceil(channel_bytes).min(channels_max),
            channel_bytes_per_s: rate,
            save_fixed_ns: fixed,
            channel_save_mw: save_mw,
            restore_bytes_per_s: restore,
            capacitance_uf: mul_div_up(uf_per_gib, bytes.max(GIB_BYTES), GIB_BYTES),
            full_mv: full,
            empty_mv: empty,
            charge_mw: charge,
        })
    }

    /// DRAM to flash, all of it: unused memory cannot be distinguished from used.
    #[must_use]
    pub fn save_time(&self) -> Ns {
        let rate = self.channels * self.channel_bytes_per_s;
        Ns(self.save_fixed_ns + mul_div_up(self.bytes, NS_PER_S, rate))
    }

    /// Flash to DRAM.
    #[must_use]
    pub fn restore_time(&self) -> Ns {
        let rate = self.channels * self.restore_bytes_per_s;
        Ns(self.save_fixed_ns + mul_div_up(self.bytes, NS_PER_S, rate))
    }

    /// Power drawn from the capacitor during a save.
    #[must_use]
    pub fn save_mw(&self) -> u64 {
        self.channels * self.channel_save_mw
    }

    /// Energy of a complete save.
    #[must_use]
    pub fn save_energy(&self) -> Pj {
        Pj::of(self.save_mw(), self.save_time())
    }

    /// Energy of the full capacitor, with `left_permille` thousandths of its capacitance left.
    #[must_use]
    pub fn full_energy(&self, left_permille: u64) -> Pj {
        let capacitance = mul_div(self.capacitance_uf, left_permille, PERMILLE);
        capacitor::energy(capacitance, self.full_mv, self.empty_mv)
    }

    /// The capacitor's voltage during a save that began with a full capacitor (WSP, Figure 2).
    #[must_use]
    pub fn voltage_mv(&self, time: Ns) -> u64 {
        let drawn = time.min(self.save_time());
        capacitor::voltage_mv(self.capacitance_uf, self.full_mv, self.save_mw(), drawn)
    }
}

/// DRAM behind a battery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Battery {
    /// Size of DRAM.
    pub bytes: u64,
    /// Power of keeping the memory.
    pub hold_mw_per_gib: u64,
    /// Capacity when new.
    pub battery_j: u64,
    /// Power of charging.
    pub charge_mw: u64,
    /// Cycles until it is worn out.
    pub cycles_max: u64,
}

impl Battery {
    /// Time that a full battery keeps the memory.
    #[must_use]
    pub fn retention(&self) -> Ns {
        let power_mw = mul_div_up(self.hold_mw_per_gib, self.bytes, GIB_BYTES);
        Pj(self.battery_j.saturating_mul(PJ_PER_J)).lasts(power_mw)
    }
}

/// What is in a module's flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flash {
    /// Nothing.
    #[default]
    Erased,
    /// A complete save.
    Whole,
    /// A save that ran out of energy before its end.
    Partial {
        /// valid bytes
        bytes: u64,
    },
}

/// The changing part of an NVDIMM-N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Charge of its capacitor.
    pub charge: Pj,
    /// Discharges so far, which determine its age.
    pub cycles: u64,
    /// Content of its flash.
    pub flash: Flash,
}

/// Health as the guest sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// A save would be complete now.
    Ready,
    /// It would not, but the capacitor is charging.
    Charging,
    /// It would not be complete even with a full capacitor.
    Worn,
}

impl State {
    /// Whether a save now would be complete, and if not, whether waiting helps.
    #[must_use]
    pub fn health(&self, module: &Module, left_permille: u64) -> Health {
        if module.full_energy(left_permille) < module.save_energy() {
            Health::Worn
        } else if self.charge < module.save_energy() {
            Health::Charging
        } else {
            Health::Ready
        }
    }

    /// The state after the machine had power for a time.
    #[must_use]
    pub fn charged(mut self, module: &Module, left_permille: u64, time: Ns) -> Self {
        let more = self
            .charge
            .0
            .saturating_add(Pj::of(module.charge_mw, time).0);
        self.charge = Pj(more).min(module.full_energy(left_permille));
        self
    }

    /// Time until a save would be complete; `None` if it never will.
    #[must_use]
    pub fn ready_in(&self, module: &Module, left_permille: u64) -> Option<Ns> {
        let missing = Pj(module.save_energy().0.saturating_sub(self.charge.0));
        (self.health(module, left_permille) != Health::Worn)
            .then(|| capacitor::charge_time(missing, module.charge_mw))
    }

    /// The save command, and then no power. Flash is erased first: an old image never survives a new save.
    #[must_use]
    pub fn saved(mut self, module: &Module) -> Self {
        let need = module.save_energy();
        self.flash = if self.charge >= need {
            Flash::Whole
        } else {
            let time = self.charge.lasts(module.save_mw());
            let moving = Ns(time.0.saturating_sub(module.save_fixed_ns));
            let all = Ns(module.save_time().0 - module.save_fixed_ns);
            match mul_div(module.bytes, moving.0, all.0.max(1)) {
                0 => Flash::Erased,
                bytes => Flash::Partial { bytes },
            }
        };
        self.charge = Pj(self.charge.0.saturating_sub(need.0));
        self.cycles += 1;
        self
    }

    /// The save command, with the machine's power until its end: the capacitor stays charged.
    #[must_use]
    pub fn saved_with_power(mut self) -> Self {
        self.flash = Flash::Whole;
        self
    }

    /// The erase command: an entered image must not come back.
    #[must_use]
    pub fn erased(mut self) -> Self {
        self.flash = Flash::Erased;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profiles;

    fn module(bytes: u64) -> Module {
        match Profiles::built_in()
            .unwrap()
            .nvdimm("agiga", bytes)
            .unwrap()
        {
            Kind::NvdimmN(module) => module,
            other => panic!("{other:?}"),
        }
    }

    fn full(module: &Module) -> State {
        State {
            charge: module.full_energy(PERMILLE),
            ..State::default()
        }
    }

    #[test]
    fn wsp_s_modules_save_in_ten_seconds_and_hold_twice_as_long() {
        for gib in [1, 2, 4, 8] {
            let module = module(gib * GIB_BYTES);
            assert!(module.save_time() < Ns(10 * NS_PER_S), "{gib} GiB");
            assert!(
                module.full_energy(PERMILLE).0 >= 2 * module.save_energy().0,
                "{gib} GiB"
            );
            assert!(
                module.voltage_mv(module.save_time()) >= module.empty_mv,
                "{gib} GiB"
            );
            assert!(
                (5_000_000..=50_000_000).contains(&module.capacitance_uf),
                "{gib} GiB"
            );
        }
        assert!(module(16 * GIB_BYTES).save_time() > Ns(10 * NS_PER_S));
    }

    #[test]
    fn second_outage_before_the_capacitor_is_charged_is_reported() {
        let module = module(GIB_BYTES);
        let once = full(&module).saved(&module);
        assert_eq!(once.flash, Flash::Whole);
        // The margin is twice a save: the second one just fits, the third does not.
        let twice = once.erased().saved(&module);
        assert_eq!(twice.flash, Flash::Whole);
        let third = twice.erased().saved(&module);
        assert!(matches!(third.flash, Flash::Partial { bytes } if bytes < module.bytes));
        assert_eq!(third.health(&module, PERMILLE), Health::Charging);
    }

    #[test]
    fn charge_is_enough_at_the_last_picojoule_and_not_before() {
        let module = module(GIB_BYTES);
        let need = module.save_energy();
        let enough = State {
            charge: need,
            ..State::default()
        };
        let short = State {
            charge: Pj(need.0 - 1),
            ..State::default()
        };
        assert_eq!(enough.health(&module, PERMILLE), Health::Ready);
        assert_eq!(short.health(&module, PERMILLE), Health::Charging);
        assert_eq!(enough.saved(&module).flash, Flash::Whole);
        assert!(matches!(short.saved(&module).flash, Flash::Partial { .. }));
        let wait = short.ready_in(&module, PERMILLE).unwrap();
        assert_eq!(
            short
                .charged(&module, PERMILLE, wait)
                .health(&module, PERMILLE),
            Health::Ready
        );
        let nothing = State::default().saved(&module);
        assert_eq!(
            nothing.flash,
            Flash::Erased,
            "no charge, nothing saved, and no old image either"
        );
    }

    #[test]
    fn save_with_the_machine_s_power_needs_no_charge() {
        let empty = State::default().saved_with_power();
        assert_eq!(empty.flash, Flash::Whole);
        assert_eq!((empty.charge, empty.cycles), (Pj(0), 0));
        assert_eq!(empty.erased(), State::default());
    }

    #[test]
    fn worn_and_empty_capacitors_are_distinct() {
        let module = module(GIB_BYTES);
        let left = 400; // of a margin of two, less than half
        let state = full(&module).charged(&module, left, Ns(0));
        assert_eq!(state.health(&module, left), Health::Worn);
        assert_eq!(state.ready_in(&module, left), None);
    }

    #[test]
    fn battery_holds_for_hours_and_a_larger_module_for_less() {
        let profiles = Profiles::built_in().unwrap();
        let hours = |bytes| match profiles.nvdimm("battery", bytes).unwrap() {
            Kind::Battery(battery) => battery.retention().0 / (3600 * NS_PER_S),
            other => panic!("{other:?}"),
        };
        assert_eq!(hours(GIB_BYTES), 11);
        assert!(hours(64 * GIB_BYTES) < 1);
    }

    #[test]
    fn impossible_modules_are_refused() {
        let profiles = Profiles::built_in().unwrap();
        for bytes in [0, MODULE_BYTES_MAX + 1, u64::MAX] {
            assert!(profiles.nvdimm("agiga", bytes).is_err(), "{bytes}");
        }
    }
}
