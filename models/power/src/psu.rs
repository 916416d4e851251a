// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The supply after PWR_OK has dropped: usable energy, and a limit independent of the load.
//!
//! The window is WSP's: from PWR_OK to the first 250 us in which a rail is below 95 % (`rails.rs`). Its
//! two parameters are solved from the windows measured with a busy and with an idle machine: the energy
//! from the busy one, the limit from the idle one. If the two windows are equal the limit is that
//! window, the energy is just sufficient, and parking a core gains nothing. Inductors, converters
//! that
//! lose efficiency at light load and supervisors that switch rails off are modelled by the limit.

use crate::error::PowerError;
use crate::units::{Ns, PERMILLE, Pj, mul_div, mul_div_up};

/// Power of a machine, by its activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of cores.
    pub cores: u64,
    /// Everything but the cores.
    pub base_mw: u64,
    /// One core that runs.
    pub core_running_mw: u64,
    /// One core that is halted.
    pub core_parked_mw: u64,
    /// One line written to main memory.
    pub line_write_pj: u64,
    /// Sum of all caches.
    pub cache_bytes: u64,
    /// To walk all caches, whatever is dirty in them.
    pub walk_ns: u64,
    /// To write all lines of the caches, at the rate that memory accepts.
    pub write_ns: u64,
}

/// Activity of the machine for some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Cores that run; all others are parked.
    pub running: u64,
    /// Lines written to memory meanwhile.
    pub lines_written: u64,
    /// Drawn by NVDIMMs that save from the machine's supply; 0 if they have their own.
    pub nvdimm_mw: u64,
}

impl Activity {
    /// `running` cores running, nothing written.
    #[must_use]
    pub const fn running(cores: u64) -> Self {
        Self {
            running: cores,
            lines_written: 0,
            nvdimm_mw: 0,
        }
    }
}

impl Machine {
    /// With `running` cores running; values above `cores` count as all.
    #[must_use]
    pub fn power_mw(&self, running: u64) -> u64 {
        let running = running.min(self.cores);
        self.base_mw + running * self.core_running_mw + (self.cores - running) * self.core_parked_mw
    }

    /// All cores running.
    #[must_use]
    pub fn busy_mw(&self) -> u64 {
        self.power_mw(self.cores)
    }

    /// All cores parked.
    #[must_use]
    pub fn idle_mw(&self) -> u64 {
        self.power_mw(0)
    }

    /// Time of a flush of all caches, of which so many bytes are dirty.
    #[must_use]
    pub fn flush_ns(&self, dirty_bytes: u64) -> u64 {
        mul_div_up(self.write_ns, dirty_bytes, self.cache_bytes.max(1)).max(self.walk_ns)
    }

    /// Energy of an activity in some time.
    #[must_use]
    pub fn energy(&self, activity: &Activity, time: Ns) -> Pj {
        let steady = Pj::of(self.power_mw(activity.running) + activity.nvdimm_mw, time);
        Pj(steady
            .0
            .saturating_add(activity.lines_written.saturating_mul(self.line_write_pj)))
    }
}

/// A supply, solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// Usable energy after PWR_OK has dropped.
    pub energy: Pj,
    /// Latest end of the window, however little is drawn.
    pub limit: Ns,
}

impl Supply {
    /// From the windows of a busy and of an idle machine.
    ///
    /// # Errors
    /// [`PowerError::Unsolvable`] if idle is shorter than busy or longer than the energy lasts.
    pub fn solve(name: &str, machine: &Machine, busy: Ns, idle: Ns) -> Result<Self, PowerError> {
        let energy = Pj::of(machine.busy_mw(), busy);
        let idle_energy = energy.lasts(machine.idle_mw());
        if busy.0 == 0 || idle < busy || idle > idle_energy {
            return Err(PowerError::Unsolvable {
                name: name.to_owned(),
                busy_ns: busy.0,
                idle_ns: idle.0,
                idle_mw: machine.idle_mw(),
                idle_energy_ns: idle_energy.0,
            });
        }
        Ok(Self {
            energy,
            limit: idle,
        })
    }

    /// The same if the rating promises a time at more power than was measured.
    ///
    /// # Errors
    /// [`PowerError::Impossible`] if the windows differ: then they alone decide the energy.
    pub fn rated(self, name: &str, busy: Ns, rated: Pj) -> Result<Self, PowerError> {
        if busy != self.limit {
            let why =
                "a rating decides the energy only where the busy and the idle window are equal";
            return Err(PowerError::impossible(
                format!("rating of supply {name}"),
                rated.0,
                why,
            ));
        }
        Ok(Self {
            energy: self.energy.max(rated),
            ..self
        })
    }

    /// Hold-up time at a steady power.
    #[must_use]
    pub fn window(&self, power_mw: u64) -> Ns {
        self.energy.lasts(power_mw).min(self.limit)
    }

    /// With `left_permille` thousandths of its capacitance left. The limit scales with the energy:
    /// what ends the
    /// window early in a converter is the same falling voltage.
    #[must_use]
    pub fn aged(&self, left_permille: u64) -> Self {
        Self {
            energy: Pj(mul_div(self.energy.0, left_permille, PERMILLE)),
            limit: Ns(mul_div(self.limit.0, left_permille, PERMILLE)),
        }
    }

    /// PWR_OK drops now.
    #[must_use]
    pub fn discharge(&self) -> Discharge {
        Discharge {
            supply: *self,
            spent: Pj(0),
            elapsed: Ns(0),
        }
    }
}

/// The window ended before the activity did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RanDry {
    /// Time since PWR_OK dropped.
    pub at: Ns,
}

/// A supply that is being discharged. Invariant: `spent` and `elapsed` never exceed what the supply
/// has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discharge {
    supply: Supply,
    spent: Pj,
    elapsed: Ns,
}

impl Discharge {
    /// Spends the energy of an activity. Lines are written evenly over the time.
    ///
    /// # Errors
    /// [`RanDry`] with the time; nothing is left then.
    pub fn spend(
        &mut self,
        machine: &Machine,
        activity: &Activity,
        time: Ns,
    ) -> Result<(), RanDry> {
        let energy = machine.energy(activity, time);
        let left = self.energy_left();
        let by_energy = if energy <= left {
            time
        } else {
            Ns(mul_div(time.0, left.0, energy.0))
        };
        let by_limit = Ns(self.supply.limit.0 - self.elapsed.0);
        if energy > left || time > by_limit {
            let lasted = by_energy.min(by_limit);
            self.elapsed = Ns(self.elapsed.0 + lasted.0);
            self.spent = self.supply.energy;
            return Err(RanDry { at: self.elapsed });
        }
        self.elapsed = Ns(self.elapsed.0 + time.0);
        self.spent = Pj(self.spent.0 + energy.0);
        Ok(())
    }

    /// Energy left.
    #[must_use]
    pub fn energy_left(&self) -> Pj {
        Pj(self.supply.energy.0 - self.spent.0)
    }

    /// Time since PWR_OK dropped.
    #[must_use]
    pub fn elapsed(&self) -> Ns {
        self.elapsed
    }

    /// Remaining hold-up time at a steady power.
    #[must_use]
    pub fn lasts(&self, power_mw: u64) -> Ns {
        let by_limit = Ns(self.supply.limit.0 - self.elapsed.0);
        if self.energy_left() == Pj(0) {
            return Ns(0);
        }
        self.energy_left().lasts(power_mw).min(by_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            cores: 4,
            base_mw: 10,
            core_running_mw: 20,
            core_parked_mw: 5,
            line_write_pj: 100,
            cache_bytes: 4096,
            walk_ns: 1_000_000,
            write_ns: 4_096_000,
        }
    }

    #[test]
    fn power_follows_the_cores() {
        let machine = machine();
        assert_eq!(machine.busy_mw(), 90);
        assert_eq!(machine.idle_mw(), 30);
        assert_eq!(machine.power_mw(1), 45);
        assert_eq!(machine.power_mw(9), 90, "more cores than there are");
    }

    #[test]
    fn solving_gives_both_points_back() {
        let machine = machine();
        let supply = Supply::solve("s", &machine, Ns(1000), Ns(2500)).unwrap();
        assert_eq!(supply.window(machine.busy_mw()), Ns(1000));
        assert_eq!(supply.window(machine.idle_mw()), Ns(2500));
        assert_eq!(
            supply.window(0),
            Ns(2500),
            "the limit holds without any load"
        );
    }

    #[test]
    fn equal_windows_make_parking_useless() {
        let machine = machine();
        let supply = Supply::solve("s", &machine, Ns(1000), Ns(1000)).unwrap();
        let mut parked = supply.discharge();
        parked
            .spend(&machine, &Activity::running(0), Ns(999))
            .unwrap();
        assert_eq!(parked.lasts(machine.idle_mw()), Ns(1));
    }

    #[test]
    fn rating_feeds_larger_machines_without_longer_windows() {
        let machine = machine();
        let busy = Ns(1000);
        let measured = Supply::solve("s", &machine, busy, busy).unwrap();
        let rated = measured.rated("s", busy, Pj::of(900, busy)).unwrap();
        assert_eq!(rated.window(machine.busy_mw()), busy);
        assert_eq!(rated.window(900), busy);
        assert_eq!(rated.window(1800), Ns(500));
        let two = Supply::solve("s", &machine, busy, Ns(2500)).unwrap();
        two.rated("s", busy, Pj::of(900, busy)).unwrap_err();
    }

    #[test]
    fn unsolvable_windows_are_refused() {
        let machine = machine();
        let longest = 1000 * 90 / 30;
        Supply::solve("s", &machine, Ns(1000), Ns(longest)).unwrap();
        let error = Supply::solve("s", &machine, Ns(1000), Ns(longest + 1)).unwrap_err();
        assert!(error.to_string().contains("cannot both be"), "{error}");
        Supply::solve("s", &machine, Ns(1000), Ns(999)).unwrap_err();
        Supply::solve("s", &machine, Ns(0), Ns(0)).unwrap_err();
    }

    #[test]
    fn window_is_met_at_its_last_nanosecond_and_missed_after_it() {
        let machine = machine();
        let supply = Supply::solve("s", &machine, Ns(1000), Ns(2500)).unwrap();
        let busy = Activity::running(4);
        let mut left = supply.discharge();
        left.spend(&machine, &busy, Ns(1000)).unwrap();
        assert_eq!(left.energy_left(), Pj(0));
        assert_eq!(
            left.spend(&machine, &busy, Ns(1)),
            Err(RanDry { at: Ns(1000) })
        );
        let mut idle = supply.discharge();
        let end = idle.spend(&machine, &Activity::running(0), Ns(2501));
        assert_eq!(end, Err(RanDry { at: Ns(2500) }));
    }

    #[test]
    fn parking_gains_time_and_writing_costs_it() {
        let machine = machine();
        let supply = Supply::solve("s", &machine, Ns(1000), Ns(2500)).unwrap();
        let mut late = supply.discharge();
        late.spend(&machine, &Activity::running(4), Ns(800))
            .unwrap();
        let mut early = supply.discharge();
        early
            .spend(&machine, &Activity::running(4), Ns(400))
            .unwrap();
        early
            .spend(&machine, &Activity::running(1), Ns(400))
            .unwrap();
        assert!(early.lasts(30) > late.lasts(30));
        let mut written = supply.discharge();
        let flush = Activity {
            lines_written: 100,
            ..Activity::running(4)
        };
        written.spend(&machine, &flush, Ns(800)).unwrap();
        assert_eq!(late.energy_left().0 - written.energy_left().0, 100 * 100);
    }

    #[test]
    fn pieces_sum_to_the_whole() {
        let machine = machine();
        let supply = Supply::solve("s", &machine, Ns(1000), Ns(2500)).unwrap();
        let mut whole = supply.discharge();
        whole
            .spend(&machine, &Activity::running(2), Ns(900))
            .unwrap();
        let mut pieces = supply.discharge();
        for _ in 0..9 {
            pieces
                .spend(&machine, &Activity::running(2), Ns(100))
                .unwrap();
        }
        assert_eq!(whole, pieces);
    }

    #[test]
    fn ageing_shortens_energy_and_limit() {
        let supply = Supply {
            energy: Pj(1000),
            limit: Ns(500),
        };
        assert_eq!(
            supply.aged(900),
            Supply {
                energy: Pj(900),
                limit: Ns(450)
            }
        );
    }
}
