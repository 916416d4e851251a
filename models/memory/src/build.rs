// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controllers by name, as jobs ask for them.

use crate::dram::{Dram, DramPart};
use crate::error::MediaError;
use crate::far::{Far, LinkPart};
use crate::hybrid::{LegacyPc, Nmem, NvdimmN};
use crate::memory::Memory;
use crate::optane::{Optane, OptanePart};
use crate::parts::Part;
use crate::psm::{Layout, Order, PramPart, Psm, PsmConfig, Stagger};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names of controllers.
pub const CONTROLLERS: &[&str] = &[
    "lightpc",
    "lightpc-b",
    "dram",
    "optane",
    "nvdimm-n",
    "nmem",
    "nmem-no-snarf",
    "legacypc",
    "bare-pram",
];

/// A memory as a job asks for it; what is not given is as in the paper.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryJob {
    /// One of `CONTROLLERS`.
    pub controller: String,
    /// Another part for its main device.
    pub part: Option<String>,
    /// Another part for the DRAM of a memory that has it beside its main device.
    pub dram: Option<String>,
    /// It is another socket's, behind a link.
    pub far: Option<bool>,
    /// A part's table, instead of a built-in one.
    pub part_file: Option<String>,
    /// Numbers that are different: of that part, else of the only other one that has such a number.
    #[serde(default)]
    pub change: BTreeMap<String, f64>,
    /// Mechanism of the PSM.
    pub xcc: Option<bool>,
    /// Order of programming.
    pub stagger: Option<Stagger>,
    /// Mechanism of the PSM.
    pub early_return: Option<bool>,
    /// Mechanism of the PSM.
    pub row_buffer: Option<bool>,
    /// Which requests keep their order.
    pub order: Option<Order>,
    /// Layout of its DIMMs.
    pub layout: Option<Layout>,
    /// Start-Gap on or off.
    pub start_gap: Option<bool>,
    /// The static randomizer on or off.
    pub randomize: Option<bool>,
    /// Writes between two moves of the gap.
    pub threshold_writes: Option<u32>,
}

impl MemoryJob {
    /// Only the name.
    #[must_use]
    pub fn named(controller: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            ..Self::default()
        }
    }

    /// The main part, and others of a memory; those may be of any number.
    fn parts<const OTHERS: usize>(
        &self,
        usual: &str,
        others: [&str; OTHERS],
    ) -> Result<(Part, [Part; OTHERS], Option<LinkPart>), MediaError> {
        let main = match &self.part_file {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|cause| MediaError::Io {
                    path: path.clone(),
                    cause,
                })?;
                Part::parse(path, &text)?
            }
            None => Part::built_in(self.part.as_deref().unwrap_or(usual))?,
        };
        let far = self.far.unwrap_or(false);
        let mut all = vec![main];
        for name in others.into_iter().chain(far.then_some("upi")) {
            all.push(Part::built_in(name)?);
        }
        for (key, value) in &self.change {
            let owners: Vec<usize> = (0..all.len())
                .filter(|index| all[*index].values.contains_key(key))
                .collect();
            let index = match owners.as_slice() {
                [] | [0, ..] => 0,
                [one] => *one,
                _ => {
                    let why = format!("{key}: more than one part of {} has it", self.controller);
                    return Err(MediaError::Job(why));
                }
            };
            all[index] = all[index].with(key, *value)?;
        }
        let link = if far { all.pop() } else { None };
        let link = link.map(|part| LinkPart::from_part(&part)).transpose()?;
        let mut all = all.into_iter();
        let missing = || MediaError::Job("a memory has a main part".to_owned());
        let main = all.next().ok_or_else(missing)?;
        let others = all.collect::<Vec<_>>().try_into();
        Ok((main, others.map_err(|_| missing())?, link))
    }

    fn psm_config(&self, base: PsmConfig) -> PsmConfig {
        let mut config = PsmConfig {
            layout: self.layout.unwrap_or(base.layout),
            xcc: self.xcc.unwrap_or(base.xcc),
            stagger: self.stagger.unwrap_or(base.stagger),
            early_return: self.early_return.unwrap_or(base.early_return),
            row_buffer: self.row_buffer.unwrap_or(base.row_buffer),
            order: self.order.unwrap_or(base.order),
            wear: base.wear,
        };
        config.wear.start_gap = self.start_gap.unwrap_or(base.wear.start_gap);
        config.wear.randomize = self.randomize.unwrap_or(base.wear.randomize);
        config.wear.threshold_writes = self.threshold_writes.unwrap_or(base.wear.threshold_writes);
        config
    }

    /// A PSM, for callers that need more than the trait.
    ///
    /// # Errors
    /// When the job is not one of a PSM, or cannot be.
    pub fn psm(&self, lines: u64) -> Result<Psm, MediaError> {
        let bare = PsmConfig {
            xcc: false,
            early_return: false,
            row_buffer: false,
            ..PsmConfig::lightpc()
        };
        let base = match self.controller.as_str() {
            "lightpc-b" => PsmConfig::lightpc_b(),
            "bare-pram" => bare,
            _ => PsmConfig::lightpc(),
        };
        let (part, [], _) = self.parts("lpc-table1", [])?;
        Psm::new(self.psm_config(base), PramPart::from_part(&part)?, lines)
    }

    /// The controller with `lines` lines.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be.
    pub fn build(&self, lines: u64) -> Result<Box<dyn Memory>, MediaError> {
        Ok(match self.controller.as_str() {
            "lightpc" | "lightpc-b" | "bare-pram" => {
                let (_, [], link) = self.parts("lpc-table1", [])?;
                behind(self.psm(lines)?, link)
            }
            "dram" => {
                let (part, [], link) = self.parts("ddr4", [])?;
                behind(Dram::new(DramPart::from_part(&part)?, lines)?, link)
            }
            "optane" => {
                let (part, [], link) = self.parts("optane-200-128", [])?;
                behind(Optane::new(OptanePart::from_part(&part)?, lines)?, link)
            }
            "nvdimm-n" => {
                let (part, [dram], link) = self.parts("nvdimm-n", [self.near()])?;
                let dram = Dram::new(DramPart::from_part(&dram)?, lines)?;
                behind(NvdimmN::new(&part, dram)?, link)
            }
            name @ ("nmem" | "nmem-no-snarf") => {
                let others = [self.near(), "optane-200-128"];
                let (part, [dram, optane], link) = self.parts("nmem", others)?;
                let far = Optane::new(OptanePart::from_part(&optane)?, lines)?;
                let near = DramPart::from_part(&dram)?;
                behind(Nmem::new(&part, near, far, name == "nmem")?, link)
            }
            "legacypc" => {
                let (part, [], link) = self.parts("ddr4", [])?;
                let other = Self::named("lightpc").psm(lines)?;
                let dram = Dram::new(DramPart::from_part(&part)?, lines)?;
                behind(LegacyPc::new(dram, other), link)
            }
            name => {
                let known = CONTROLLERS.join(", ");
                return Err(MediaError::Job(format!(
                    "no controller {name}: give one of {known}"
                )));
            }
        })
    }

    /// The DRAM of a memory that has it beside its main device.
    fn near(&self) -> &str {
        self.dram.as_deref().unwrap_or("ddr4")
    }
}

/// The memory, behind a link if there is one.
fn behind<M: Memory + Serialize + 'static>(memory: M, link: Option<LinkPart>) -> Box<dyn Memory> {
    match link {
        Some(link) => Box::new(Far::new(memory, link)),
        None => Box::new(memory),
    }
}
