// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions and answers as JSON: one object per line in, one per line out, so that Python does not
//! compute anything that this crate computes.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::budget::{self, Given, Load};
use crate::error::PowerError;
use crate::flush::{Ask, flush};
use crate::nvdimm::{Kind, State};
use crate::psu::Activity;
use crate::rails;
use crate::units::{Ns, PERMILLE, mul_div_up};
use crate::{Profiles, capacitor};

/// Longest trace, since each sample is a number in a line of text.
const TRACE_MAX: Ns = Ns(2_000_000_000);
/// A larger margin is a typing error.
const MARGIN_MAX_PERMILLE: u64 = 100_000;

/// The queries.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Query {
    /// Names of a table.
    Names {
        /// machine, supply, ...
        kind: String,
    },
    /// The source of every number.
    Origins,
    /// A supply: its parameters and windows on a machine (its own by default).
    Supply {
        /// its name
        name: String,
        /// another machine
        machine: Option<String>,
        /// cycles of power so far
        #[serde(default)]
        cycles: u64,
    },
    /// The energy of a Stop, and the supplies and capacitors that suffice.
    Budget(Box<BudgetQuery>),
    /// Energy left in a supply after each of a sequence of activities.
    Discharge {
        /// name of the supply
        name: String,
        /// in order
        steps: Vec<Step>,
    },
    /// Rails after PWR_OK, and the window read from them.
    Rails {
        /// name of the supply
        name: String,
        /// busy or idle
        load: Load,
        /// noise of the samples
        noise_permille: u64,
        /// seed of the noise
        seed: u64,
        /// length of the trace
        until_ns: u64,
    },
    /// Cost and energy of a capacitance.
    Capacitor {
        /// its kind
        name: String,
        /// its size
        capacitance_uf: u64,
    },
    /// Thousandths left of a capacitor after numbers of cycles.
    Ageing {
        /// its type
        name: String,
        /// numbers of cycles, each with an answer
        cycles: Vec<u64>,
    },
    /// A module: time and energy of a save, and its voltage during it.
    Nvdimm {
        /// its kind
        name: String,
        /// its size
        bytes: u64,
        /// times at which to report the voltage
        #[serde(default)]
        at_ns: Vec<u64>,
    },
    /// How long flushing the caches takes.
    Flush(Ask),
    /// State of a module after an event.
    NvdimmEvent {
        /// its kind
        name: String,
        /// its size
        bytes: u64,
        /// state before; none: new and full
        state: Option<State>,
        /// the event
        event: Event,
    },
}

/// See [`Query::Budget`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetQuery {
    machine: String,
    load: Load,
    #[serde(default = "no_margin")]
    margin_permille: u64,
    /// Supply to be compared; none: all.
    supply: Option<String>,
    #[serde(default)]
    supply_cycles: u64,
    capacitor: String,
    /// Cycles after which it must still suffice.
    #[serde(default)]
    capacitor_cycles: u64,
    #[serde(default)]
    given: Given,
}

fn no_margin() -> u64 {
    PERMILLE
}

/// See [`Query::Discharge`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    time_ns: u64,
    /// Thousandths of the machine's cores that run; the rest are parked.
    running_permille: u64,
    lines_written: u64,
}

/// An event of a module.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// Nothing: report the state.
    Look,
    /// The machine has power for some time.
    Charge {
        /// duration
        time_ns: u64,
    },
    /// The save command, then no power.
    Save,
    /// The save command, and power until the save has ended.
    SaveWithPower,
    /// The erase command.
    Erase,
}

/// Answers one line.
///
/// # Errors
/// Any [`PowerError`].
pub fn answer(profiles: &Profiles, line: &str) -> Result<Value, PowerError> {
    match serde_json::from_str(line)? {
        Query::Names { kind } => Ok(json!(profiles.names(&kind))),
        Query::Origins => Ok(json!(profiles.origins())),
        Query::Supply {
            name,
            machine,
            cycles,
        } => supply(profiles, &name, machine.as_deref(), cycles),
        Query::Budget(query) => answer_budget(profiles, &query),
        Query::Discharge { name, steps } => discharge(profiles, &name, &steps),
        Query::Rails {
            name,
            load,
            noise_permille,
            seed,
            until_ns,
        } => {
            let (supply, machine) = profiles.supply(&name)?;
            let power_mw = match load {
                Load::Busy => machine.busy_mw(),
                Load::Idle => machine.idle_mw(),
            };
            let until = Ns(until_ns).min(TRACE_MAX);
            let rails: Vec<_> = (rails::NOMINAL_MV.into_iter().zip(seed..))
                .map(|(nominal_mv, seed)| {
                    let trace = rails::samples(
                        nominal_mv,
                        supply.window(power_mw),
                        until,
                        noise_permille,
                        seed,
                    );
                    let window = rails::window(&trace, nominal_mv);
                    json!({"nominal_mv": nominal_mv, "samples_mv": trace, "window_ns": window})
                })
                .collect();
            Ok(json!({"sample_ns": rails::SAMPLE, "rails": rails}))
        }
        Query::Capacitor {
            name,
            capacitance_uf,
        } => {
            let kind = profiles.capacitor(&name)?;
            let energy = capacitor::energy(capacitance_uf, kind.full_mv, kind.empty_mv);
            Ok(json!({"energy_pj": energy, "cost": kind.cost(capacitance_uf)}))
        }
        Query::Ageing { name, cycles } => {
            let ageing = profiles.ageing(&name)?;
            let left: Vec<_> = cycles
                .iter()
                .map(|&cycles| ageing.left_permille(cycles))
                .collect();
            Ok(json!({"left_permille": left}))
        }
        Query::Flush(ask) => Ok(json!(flush(&ask)?)),
        Query::Nvdimm { name, bytes, at_ns } => nvdimm(profiles, &name, bytes, &at_ns),
        Query::NvdimmEvent {
            name,
            bytes,
            state,
            event,
        } => nvdimm_event(profiles, &name, bytes, state, &event),
    }
}

fn supply(
    profiles: &Profiles,
    name: &str,
    machine: Option<&str>,
    cycles: u64,
) -> Result<Value, PowerError> {
    let (supply, own) = profiles.supply(name)?;
    let machine = machine.map_or(Ok(own), |machine| profiles.machine(machine))?;
    let supply = supply.aged(profiles.ageing("electrolytic")?.left_permille(cycles));
    Ok(json!({
        "energy_pj": supply.energy,
        "limit_ns": supply.limit,
        "busy_mw": machine.busy_mw(),
        "idle_mw": machine.idle_mw(),
        "busy_window_ns": supply.window(machine.busy_mw()),
        "idle_window_ns": supply.window(machine.idle_mw()),
    }))
}

fn discharge(profiles: &Profiles, name: &str, steps: &[Step]) -> Result<Value, PowerError> {
    let (supply, machine) = profiles.supply(name)?;
    let mut discharge = supply.discharge();
    let (mut left_pj, mut dry_ns) = (Vec::with_capacity(steps.len()), None);
    for step in steps {
        let activity = Activity {
            running: mul_div_up(machine.cores, step.running_permille.min(PERMILLE), PERMILLE),
            lines_written: step.lines_written,
            nvdimm_mw: 0,
        };
        if dry_ns.is_none() {
            let spent = discharge.spend(&machine, &activity, Ns(step.time_ns));
            dry_ns = spent.err().map(|dry| dry.at);
        }
        left_pj.push(discharge.energy_left());
    }
    Ok(json!({
        "energy_pj": supply.energy,
        "left_pj": left_pj,
        "dry_ns": dry_ns,
    }))
}

fn answer_budget(profiles: &Profiles, query: &BudgetQuery) -> Result<Value, PowerError> {
    if !(PERMILLE..=MARGIN_MAX_PERMILLE).contains(&query.margin_permille) {
        let why = "a margin is 1 to 100 times, in thousandths";
        return Err(PowerError::impossible("margin", query.margin_permille, why));
    }
    let machine = profiles.machine(&query.machine)?;
    let steps = profiles.steps("fast")?;
    let phases = budget::phases(&machine, &steps, query.load, query.given)?;
    let (time, energy) = budget::total(&phases, query.margin_permille);
    let kind = profiles.capacitor(&query.capacitor)?;
    let left = profiles
        .ageing(&kind.ageing)?
        .left_permille(query.capacitor_cycles);
    if left == 0 {
        let why = "nothing is left of the capacitor after that many";
        return Err(PowerError::impossible(
            "capacitor cycles",
            query.capacitor_cycles,
            why,
        ));
    }
    let capacitance_uf = kind.sized(energy, left);
    let names = match &query.supply {
        Some(name) => vec![name.clone()],
        None => profiles
            .names("supply")
            .into_iter()
            .map(|(name, _)| name)
            .collect(),
    };
    let psu_left = profiles
        .ageing("electrolytic")?
        .left_permille(query.supply_cycles);
    let mut verdicts = serde_json::Map::new();
    for name in names {
        let supply = profiles.supply(&name)?.0.aged(psu_left);
        let verdict = budget::judge(&supply, &machine, &phases, query.margin_permille);
        verdicts.insert(name, json!(verdict));
    }
    Ok(json!({
        "phases": phases,
        "stop_ns": time,
        "energy_pj": energy,
        "busy_mw": machine.busy_mw(),
        "idle_mw": machine.idle_mw(),
        "capacitance_uf": capacitance_uf,
        "cost": kind.cost(capacitance_uf),
        "supplies": verdicts,
    }))
}

fn nvdimm(profiles: &Profiles, name: &str, bytes: u64, at_ns: &[u64]) -> Result<Value, PowerError> {
    Ok(match profiles.nvdimm(name, bytes)? {
        Kind::Scm => json!({"kind": "scm"}),
        Kind::Battery(battery) => json!({"kind": "battery", "retention_ns": battery.retention()}),
        Kind::NvdimmN(module) => json!({
            "kind": "nvdimm-n",
            "save_ns": module.save_time(),
            "restore_ns": module.restore_time(),
            "save_mw": module.save_mw(),
            "save_pj": module.save_energy(),
            "full_pj": module.full_energy(PERMILLE),
            "capacitance_uf": module.capacitance_uf,
            "empty_mv": module.empty_mv,
            "voltage_mv": at_ns.iter().map(|&at| module.voltage_mv(Ns(at))).collect::<Vec<_>>(),
        }),
    })
}

fn nvdimm_event(
    profiles: &Profiles,
    name: &str,
    bytes: u64,
    state: Option<State>,
    event: &Event,
) -> Result<Value, PowerError> {
    let Kind::NvdimmN(module) = profiles.nvdimm(name, bytes)? else {
        return Err(PowerError::Impossible {
            what: format!("nvdimm {name}"),
            value: "a save".to_owned(),
            why: "only an nvdimm-n accepts commands",
        });
    };
    let ageing = profiles.ageing("ultracapacitor")?;
    let state = state.unwrap_or_else(|| State {
        charge: module.full_energy(PERMILLE),
        ..State::default()
    });
    let left = ageing.left_permille(state.cycles);
    let after = match *event {
        Event::Look => state,
        Event::Charge { time_ns } => state.charged(&module, left, Ns(time_ns)),
        Event::Save => state.saved(&module),
        Event::SaveWithPower => state.saved_with_power(),
        Event::Erase => state.erased(),
    };
    Ok(json!({
        "state": after,
        "health": after.health(&module, left),
        "ready_in_ns": after.ready_in(&module, left),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Result<Value, PowerError> {
        answer(&Profiles::built_in().unwrap(), line)
    }

    #[test]
    fn budget_names_time_energy_and_a_capacitor() {
        let found = ask(
            r#"{"ask":"budget","machine":"wsp-intel-c5528","load":"busy",
            "capacitor":"supercapacitor","given":{"park_ns":0}}"#,
        )
        .unwrap();
        // WSP: half a farad, less than 2 $, powers the save of its testbed.
        assert!(
            found["capacitance_uf"].as_u64().unwrap() < 500_000,
            "{found}"
        );
        assert_eq!(found["cost"]["by_parts_uusd"], 2_000_000);
        assert_eq!(found["supplies"]["wsp-intel-750w"]["fits"], true);
    }

    #[test]
    fn invalid_queries_are_refused_in_one_line() {
        for line in [
            "",
            "{}",
            "[1]",
            r#"{"ask":"hold-up"}"#,
            r#"{"ask":"supply","name":"none"}"#,
            r#"{"ask":"supply","name":"atx-22","machine":"none"}"#,
            r#"{"ask":"nvdimm","name":"agiga","bytes":0}"#,
            r#"{"ask":"budget","machine":"reference","load":"busy","capacitor":"supercapacitor","margin_permille":999}"#,
            r#"{"ask":"budget","machine":"reference","load":"lazy","capacitor":"supercapacitor"}"#,
            r#"{"ask":"budget","machine":"reference","load":"busy","capacitor":"supercapacitor","capacitor_cycles":99999999}"#,
            r#"{"ask":"nvdimm-event","name":"scm","bytes":1,"state":null,"event":"save"}"#,
        ] {
            let error = ask(line).unwrap_err().to_string();
            assert!(
                !error.is_empty() && !error.contains('\n'),
                "{line}: {error}"
            );
        }
    }

    #[test]
    fn module_state_round_trips() {
        let save = ask(
            r#"{"ask":"nvdimm-event","name":"agiga","bytes":1073741824,"state":null,"event":"save"}"#,
        );
        let save = save.unwrap();
        assert_eq!(save["state"]["flash"], "whole");
        let erase = json!({"ask": "nvdimm-event", "name": "agiga", "bytes": 1_073_741_824u64,
            "state": save["state"], "event": "erase"});
        assert_eq!(ask(&erase.to_string()).unwrap()["state"]["flash"], "erased");
    }

    #[test]
    fn aged_supply_holds_less() {
        let window = |cycles| {
            let line = format!(r#"{{"ask":"supply","name":"atx-22","cycles":{cycles}}}"#);
            ask(&line).unwrap()["busy_window_ns"].as_u64().unwrap()
        };
        assert_eq!(window(0), 22_000_000);
        assert_eq!(window(20_000), 17_600_000);
    }

    #[test]
    fn supply_is_spent_step_by_step_until_it_is_dry() {
        let discharge = |steps: &str| {
            let line = format!(r#"{{"ask":"discharge","name":"atx-22","steps":[{steps}]}}"#);
            ask(&line).unwrap()
        };
        let step = |time_ns: u64, running: u64| {
            format!(r#"{{"time_ns":{time_ns},"running_permille":{running},"lines_written":0}}"#)
        };
        let half = discharge(&step(11_000_000, 1000));
        assert_eq!(half["dry_ns"], Value::Null);
        let (all, left) = (&half["energy_pj"], &half["left_pj"][0]);
        assert!(left.as_u64().unwrap() < all.as_u64().unwrap());
        let parked = discharge(&step(11_000_000, 0));
        assert!(parked["left_pj"][0].as_u64() > left.as_u64(), "{parked}");
        let both = [step(11_000_000, 1000), step(11_000_001, 1000), step(1, 0)].join(",");
        let dry = discharge(&both);
        assert_eq!(dry["dry_ns"], 22_000_000);
        assert_eq!(dry["left_pj"][1], 0);
        assert_eq!(dry["left_pj"][2], 0);
    }
}
