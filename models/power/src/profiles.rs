// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `models/parts/power.toml`: parts by name, every number with its source.

use std::collections::BTreeMap;

use remanence_cache::{FlatTiming, LINE_BYTES, Profile};
use remanence_parts::POWER as BUILT_IN;
use serde::Deserialize;

use crate::ageing::Ageing;
use crate::budget::Steps;
use crate::capacitor::Capacitor;
use crate::error::PowerError;
use crate::nvdimm::{Battery, Kind, Module};
use crate::psu::{Machine, Supply};
use crate::units::{Ns, PS_PER_NS, Pj};

/// Largest value of any number: larger ones could overflow sums, and no part has them.
const VALUE_MAX: u64 = 1 << 52;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sourced<T> {
    value: T,
    source: String,
}

type Number = Sourced<u64>;
type Numbers = BTreeMap<String, u64>;

/// Any table: a description, words, and numbers with a source.
#[derive(Clone, Debug, Deserialize)]
struct Table {
    about: String,
    machine: Option<String>,
    processor: Option<String>,
    kind: Option<String>,
    ageing: Option<String>,
    points: Option<Sourced<Vec<(u64, u64)>>>,
    #[serde(flatten)]
    numbers: BTreeMap<String, Number>,
}

type Tables = BTreeMap<String, Table>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    machine: Tables,
    supply: Tables,
    stop: Tables,
    ageing: Tables,
    capacitor: Tables,
    nvdimm: Tables,
}

/// A number with its source, for lists.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Origin {
    /// `table.name.field`
    pub what: String,
    /// its source
    pub source: String,
    /// whether it is an assumption
    pub assumed: bool,
}

/// All profiles.
#[derive(Clone, Debug)]
pub struct Profiles {
    file: File,
}

impl Profiles {
    /// The file of this crate.
    ///
    /// # Errors
    /// Never, as a test shows; a modified file may give any [`PowerError`].
    pub fn built_in() -> Result<Self, PowerError> {
        Self::parse(BUILT_IN)
    }

    /// Another file of the same format.
    ///
    /// # Errors
    /// [`PowerError::Syntax`], [`PowerError::NoSource`] or [`PowerError::Impossible`].
    pub fn parse(text: &str) -> Result<Self, PowerError> {
        let file: File = toml::from_str(text).map_err(Box::new)?;
        let profiles = Self { file };
        for (kind, tables) in profiles.all() {
            for (name, table) in tables {
                check(kind, name, table)?;
            }
        }
        Ok(profiles)
    }

    fn all(&self) -> [(&'static str, &Tables); 6] {
        [
            ("machine", &self.file.machine),
            ("supply", &self.file.supply),
            ("stop", &self.file.stop),
            ("ageing", &self.file.ageing),
            ("capacitor", &self.file.capacitor),
            ("nvdimm", &self.file.nvdimm),
        ]
    }

    /// Names of a table, with their descriptions.
    #[must_use]
    pub fn names(&self, kind: &str) -> Vec<(String, String)> {
        self.all()
            .into_iter()
            .filter(|(name, _)| *name == kind)
            .flat_map(|(_, tables)| {
                tables
                    .iter()
                    .map(|(name, table)| (name.clone(), table.about.clone()))
            })
            .collect()
    }

    /// The source of every number.
    #[must_use]
    pub fn origins(&self) -> Vec<Origin> {
        let mut out = Vec::new();
        for (kind, tables) in self.all() {
            for (name, table) in tables {
                let points = table.points.iter().map(|points| ("points", &points.source));
                let numbers = table
                    .numbers
                    .iter()
                    .map(|(field, number)| (field.as_str(), &number.source));
                out.extend(points.chain(numbers).map(|(field, source)| Origin {
                    what: format!("{kind}.{name}.{field}"),
                    source: source.clone(),
                    assumed: source.contains("ASSUMED"),
                }));
            }
        }
        out
    }

    /// A machine by name, with the caches of its processors.
    ///
    /// # Errors
    /// [`PowerError::Unknown`], [`PowerError::Cache`], [`PowerError::Impossible`], or a missing field.
    pub fn machine(&self, name: &str) -> Result<Machine, PowerError> {
        let numbers = numbers("machine", &self.file.machine, name)?;
        let get = |field| field_of(&numbers, "machine", name, field);
        let processor = self.file.machine[name].processor.as_deref();
        let processor = Profile::named(processor.unwrap_or_default())
            .map_err(|error| PowerError::Cache(format!("machine {name}: {error}")))?;
        let (cores, processors) = (get("cores")?, get("processors")?);
        if processors == 0 || cores % processors != 0 {
            let why = "the machine's cores are no multiple of it";
            let what = format!("machine {name}: processors");
            return Err(PowerError::impossible(what, processors, why));
        }
        let bytes = processor.dirty_bytes_max(cores / processors);
        let write_ps = FlatTiming::of(&processor).write_ps;
        Ok(Machine {
            cores,
            base_mw: get("base_mw")?,
            core_running_mw: get("core_running_mw")?,
            core_parked_mw: get("core_parked_mw")?,
            line_write_pj: get("line_write_pj")?,
            cache_bytes: processors * bytes,
            // Each processor has its own memory: they flush side by side.
            walk_ns: processor.walk_all_ps() / PS_PER_NS,
            write_ns: bytes / LINE_BYTES * write_ps / PS_PER_NS,
        })
    }

    /// A supply by name, solved, with the machine it was measured on.
    ///
    /// # Errors
    /// [`PowerError::Unknown`], [`PowerError::Unsolvable`], or a missing field.
    pub fn supply(&self, name: &str) -> Result<(Supply, Machine), PowerError> {
        let numbers = numbers("supply", &self.file.supply, name)?;
        let get = |field| field_of(&numbers, "supply", name, field);
        let on = self.file.supply[name]
            .machine
            .as_deref()
            .unwrap_or_default();
        let machine = self.machine(on)?;
        let (busy, idle) = (Ns(get("busy_window_ns")?), Ns(get("idle_window_ns")?));
        let mut supply = Supply::solve(name, &machine, busy, idle)?;
        if numbers.contains_key("rated_mw") {
            let rated = Pj::of(get("rated_mw")?, Ns(get("rated_window_ns")?));
            supply = supply.rated(name, busy, rated)?;
        }
        Ok((supply, machine))
    }

    /// The steps of a Stop by the name of its mode.
    ///
    /// # Errors
    /// [`PowerError::Unknown`], or a missing field.
    pub fn steps(&self, name: &str) -> Result<Steps, PowerError> {
        let numbers = numbers("stop", &self.file.stop, name)?;
        let get = |field| field_of(&numbers, "stop", name, field);
        Ok(Steps {
            preempt_off_ns: get("preempt_off_ns")?,
            fixed_ns: get("fixed_ns")?,
            cpu_ns: get("cpu_ns")?,
            device_ns: get("device_ns")?,
            entry_ns: get("entry_ns")?,
            devices: get("devices")?,
            entries: get("entries")?,
            idle_dirty_permille: get("idle_dirty_permille")?,
        })
    }

    /// An ageing curve by name.
    ///
    /// # Errors
    /// [`PowerError::Unknown`] or [`PowerError::Impossible`].
    pub fn ageing(&self, name: &str) -> Result<Ageing, PowerError> {
        let table = table("ageing", &self.file.ageing, name)?;
        let points = table
            .points
            .as_ref()
            .map_or(&[][..], |points| &points.value);
        Ageing::new(name, points)
    }

    /// A type of capacitor by name.
    ///
    /// # Errors
    /// [`PowerError::Unknown`], or a missing field.
    pub fn capacitor(&self, name: &str) -> Result<Capacitor, PowerError> {
        let numbers = numbers("capacitor", &self.file.capacitor, name)?;
        let get = |field| field_of(&numbers, "capacitor", name, field);
        let capacitor = Capacitor {
            full_mv: get("full_mv")?,
            empty_mv: get("empty_mv")?,
            uusd_per_f: get("uusd_per_f")?,
            uusd_per_kj: get("uusd_per_kj")?,
            part_uusd: get("part_uusd")?,
            part_uf: get("part_uf")?.max(1),
            ageing: self.file.capacitor[name].ageing.clone().unwrap_or_default(),
        };
        if capacitor.full_mv <= capacitor.empty_mv {
            let why = "the full voltage must be above the empty voltage";
            return Err(PowerError::impossible(
                format!("capacitor {name}"),
                capacitor.full_mv,
                why,
            ));
        }
        Ok(capacitor)
    }

    /// A type of NVDIMM by name, for a module of a size.
    ///
    /// # Errors
    /// [`PowerError::Unknown`], [`PowerError::Impossible`], or a missing field.
    pub fn nvdimm(&self, name: &str, bytes: u64) -> Result<Kind, PowerError> {
        let numbers = numbers("nvdimm", &self.file.nvdimm, name)?;
        let get = |field| field_of(&numbers, "nvdimm", name, field);
        let table = &self.file.nvdimm[name];
        match table.kind.as_deref() {
            Some("scm") => Ok(Kind::Scm),
            Some("battery") => Ok(Kind::Battery(Battery {
                bytes,
                hold_mw_per_gib: get("hold_mw_per_gib")?,
                battery_j: get("battery_j")?,
                charge_mw: get("charge_mw")?,
                cycles_max: get("cycles_max")?,
            })),
            Some("nvdimm-n") => Ok(Kind::NvdimmN(Module::new(
                bytes,
                [
                    get("channel_bytes")?,
                    get("channels_max")?,
                    get("channel_bytes_per_s")?,
                    get("save_fixed_ns")?,
                    get("channel_save_mw")?,
                    get("restore_bytes_per_s")?,
                    get("capacitance_uf_per_gib")?,
                    get("full_mv")?,
                    get("empty_mv")?,
                    get("charge_mw")?,
                ],
            )?)),
            _ => Err(PowerError::Impossible {
                what: format!("nvdimm {name}"),
                value: table.kind.clone().unwrap_or_default(),
                why: "the kind must be scm, nvdimm-n or battery",
            }),
        }
    }
}

fn check(kind: &'static str, name: &str, table: &Table) -> Result<(), PowerError> {
    let sources = table.points.iter().map(|points| &points.source);
    if sources
        .chain(table.numbers.values().map(|number| &number.source))
        .any(|source| source.trim().is_empty())
    {
        return Err(PowerError::NoSource {
            kind,
            name: name.to_owned(),
        });
    }
    for (field, number) in &table.numbers {
        if number.value > VALUE_MAX {
            let what = format!("{kind} {name}: {field}");
            return Err(PowerError::impossible(
                what,
                number.value,
                "larger than any real part",
            ));
        }
    }
    Ok(())
}

fn table<'a>(kind: &'static str, tables: &'a Tables, name: &str) -> Result<&'a Table, PowerError> {
    tables.get(name).ok_or_else(|| PowerError::Unknown {
        kind,
        name: name.to_owned(),
        known: tables.keys().cloned().collect::<Vec<_>>().join(", "),
    })
}

fn numbers(kind: &'static str, tables: &Tables, name: &str) -> Result<Numbers, PowerError> {
    let table = table(kind, tables, name)?;
    Ok(table
        .numbers
        .iter()
        .map(|(field, number)| (field.clone(), number.value))
        .collect())
}

fn field_of(
    numbers: &Numbers,
    kind: &'static str,
    name: &str,
    field: &'static str,
) -> Result<u64, PowerError> {
    numbers
        .get(field)
        .copied()
        .ok_or_else(|| PowerError::Impossible {
            what: format!("{kind} {name}: {field}"),
            value: "nothing".to_owned(),
            why: "the profile lacks this number",
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flush::{Ask, How, flush};

    #[test]
    fn every_profile_of_the_file_can_be_used() {
        let profiles = Profiles::built_in().unwrap();
        for (name, _) in profiles.names("machine") {
            profiles.machine(&name).unwrap();
        }
        for (name, _) in profiles.names("ageing") {
            profiles.ageing(&name).unwrap();
        }
        for (name, _) in profiles.names("capacitor") {
            let capacitor = profiles.capacitor(&name).unwrap();
            profiles.ageing(&capacitor.ageing).unwrap();
        }
        for (name, _) in profiles.names("nvdimm") {
            profiles.nvdimm(&name, 1 << 30).unwrap();
        }
        profiles.steps("fast").unwrap();
        assert!(profiles.names("supply").len() >= 7);
    }

    #[test]
    fn every_supply_has_the_windows_of_its_paper() {
        let profiles = Profiles::built_in().unwrap();
        for (name, busy, idle) in [
            ("atx-spec-16", 16, 16),
            ("atx-22", 22, 22),
            ("server-55", 55, 55),
            ("wsp-amd-400w", 346, 392),
            ("wsp-amd-525w", 22, 71),
            ("wsp-intel-750w", 10, 10),
            ("wsp-intel-1050w", 33, 33),
        ] {
            let (supply, machine) = profiles.supply(name).unwrap();
            assert_eq!(
                supply.window(machine.busy_mw()),
                Ns(busy * 1_000_000),
                "{name} busy"
            );
            assert_eq!(
                supply.window(machine.idle_mw()),
                Ns(idle * 1_000_000),
                "{name} idle"
            );
        }
    }

    #[test]
    fn unknown_name_lists_the_known_names() {
        let profiles = Profiles::built_in().unwrap();
        let error = profiles.supply("atx-23").unwrap_err().to_string();
        assert!(
            error.contains("atx-22") && error.contains("\"atx-23\""),
            "{error}"
        );
        assert!(!error.contains('\n'));
    }

    #[test]
    fn number_without_source_is_refused() {
        let bad = BUILT_IN.replacen("source = \"LightPC, Table I\"", "source = \" \"", 1);
        assert!(matches!(
            Profiles::parse(&bad),
            Err(PowerError::NoSource { .. })
        ));
    }

    #[test]
    fn damaged_files_are_refused() {
        for (from, to) in [
            ("cores = { value = 8,", "cores = { value = -8,"),
            (
                "cores = { value = 8,",
                "cores = { value = 18446744073709551615,",
            ),
            ("cores = { value = 8,", "cores = { worth = 8,"),
            ("[machine.lightpc]", "[machin.lightpc]"),
        ] {
            let bad = BUILT_IN.replacen(from, to, 1);
            assert_ne!(bad, BUILT_IN);
            assert!(Profiles::parse(&bad).is_err(), "{to}");
        }
        let missing = BUILT_IN.replacen("cores = { value = 8,", "kernels = { value = 8,", 1);
        let error = Profiles::parse(&missing)
            .unwrap()
            .machine("lightpc")
            .unwrap_err();
        assert!(
            error.to_string().contains("machine lightpc: cores"),
            "{error}"
        );
    }

    #[test]
    fn machine_of_unknown_or_uneven_processors_is_refused() {
        for (from, to, why) in [
            ("processor = \"lightpc\"", "processor = \"c64\"", "c64"),
            (
                "processors = { value = 1,",
                "processors = { value = 0,",
                "processors",
            ),
            (
                "processors = { value = 1,",
                "processors = { value = 3,",
                "processors",
            ),
        ] {
            let bad = BUILT_IN.replacen(from, to, 1);
            assert_ne!(bad, BUILT_IN);
            let error = Profiles::parse(&bad)
                .unwrap()
                .machine("lightpc")
                .unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    /// The bound of a flush is what the model of the caches takes for it.
    #[test]
    fn flush_of_a_machine_is_that_of_its_caches() {
        let profiles = Profiles::built_in().unwrap();
        for (name, _) in profiles.names("machine") {
            let machine = profiles.machine(&name).unwrap();
            let table = &profiles.file.machine[&name];
            let processors = table.numbers["processors"].value;
            let flush = flush(&Ask {
                profile: table.processor.clone().unwrap(),
                cores: usize::try_from(machine.cores / processors).unwrap(),
                dirty_bytes: machine.cache_bytes / processors,
                how: How::Wbinvd,
                l1_kib: None,
            })
            .unwrap();
            let bound = machine.flush_ns(machine.cache_bytes);
            assert!(flush.time_ns.0 <= bound, "{name}: {flush:?} {bound}");
            assert!(
                flush.time_ns.0 * 10 > bound * 9,
                "{name}: {flush:?} {bound}"
            );
        }
    }

    #[test]
    fn assumptions_are_listed() {
        let origins = Profiles::built_in().unwrap().origins();
        let assumed: Vec<_> = origins.iter().filter(|origin| origin.assumed).collect();
        assert!(!assumed.is_empty() && assumed.len() < origins.len());
    }
}
