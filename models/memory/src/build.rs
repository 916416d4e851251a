// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controllers by name, as jobs ask for them.

use crate::dram::{Dram, DramPart};
use crate::error::MediaError;
use crate::hybrid::{LegacyPc, Nmem, NvdimmN};
use crate::memory::Memory;
use crate::optane::{Optane, OptanePart};
use crate::parts::Part;
use crate::psm::{Layout, Order, PramPart, Psm, PsmConfig, Stagger};
use serde::Deserialize;
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
    /// A part's table, instead of a built-in one.
    pub part_file: Option<String>,
    /// Numbers of that part that are different.
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

    fn part(&self, usual: &str) -> Result<Part, MediaError> {
        let mut part = match &self.part_file {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|cause| MediaError::Io {
                    path: path.clone(),
                    cause,
                })?;
                Part::parse(path, &text)?
            }
            None => Part::built_in(self.part.as_deref().unwrap_or(usual))?,
        };
        for (key, value) in &self.change {
            part = part.with(key, *value)?;
        }
        Ok(part)
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
        let part = PramPart::from_part(&self.part("lpc-table1")?)?;
        Psm::new(self.psm_config(base), part, lines)
    }

    /// The controller with `lines` lines.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be.
    pub fn build(&self, lines: u64) -> Result<Box<dyn Memory>, MediaError> {
        let dram = |name: &str| -> Result<Dram, MediaError> {
            let part = if name == "main" {
                self.part("ddr4")?
            } else {
                Part::built_in("ddr4")?
            };
            Dram::new(DramPart::from_part(&part)?, lines)
        };
        let optane = || -> Result<Optane, MediaError> {
            Optane::new(OptanePart::from_part(&self.part("optane-200-128")?)?, lines)
        };
        let nmem = |snarf| -> Result<Box<dyn Memory>, MediaError> {
            let ddr4 = DramPart::from_part(&Part::built_in("ddr4")?)?;
            let far = Optane::new(
                OptanePart::from_part(&Part::built_in("optane-200-128")?)?,
                lines,
            )?;
            Ok(Box::new(Nmem::new(&self.part("nmem")?, ddr4, far, snarf)?))
        };
        Ok(match self.controller.as_str() {
            "lightpc" | "lightpc-b" | "bare-pram" => Box::new(self.psm(lines)?),
            "dram" => Box::new(dram("main")?),
            "optane" => Box::new(optane()?),
            "nvdimm-n" => Box::new(NvdimmN::new(&self.part("nvdimm-n")?, dram("ddr4")?)?),
            "nmem" => nmem(true)?,
            "nmem-no-snarf" => nmem(false)?,
            "legacypc" => {
                let other = Self::named("lightpc").psm(lines)?;
                Box::new(LegacyPc::new(dram("main")?, other))
            }
            name => {
                let known = CONTROLLERS.join(", ");
                return Err(MediaError::Job(format!(
                    "no controller {name}: give one of {known}"
                )));
            }
        })
    }
}
