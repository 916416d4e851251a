// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of parts: files with every number of a processor, a memory or a supply, each with its
//! source. Models parse what they need of it.
//!
//! A number is there once. Where one model needs what another one computes, the number names the
//! model as its source and a test of that model compares: `models/memory/tests/processors.rs`.

/// Processors: caches, cores, how fast they write back.
pub const PROCESSORS: &str = include_str!("../processors.toml");

/// Machines, supplies, capacitors, NVDIMMs, and the steps of a Stop.
pub const POWER: &str = include_str!("../power.toml");

/// Memory devices and what is between them and a core: name and table.
pub const MEMORY: &[(&str, &str)] = &[
    ("ddr4", include_str!("../memory/ddr4.toml")),
    ("ddr4-2933", include_str!("../memory/ddr4-2933.toml")),
    ("lpc-core", include_str!("../memory/lpc-core.toml")),
    ("lpc-fig2", include_str!("../memory/lpc-fig2.toml")),
    ("lpc-table1", include_str!("../memory/lpc-table1.toml")),
    ("nmem", include_str!("../memory/nmem.toml")),
    ("nvdimm-n", include_str!("../memory/nvdimm-n.toml")),
    ("nvme", include_str!("../memory/nvme.toml")),
    (
        "optane-200-128",
        include_str!("../memory/optane-200-128.toml"),
    ),
    ("ssd", include_str!("../memory/ssd.toml")),
    ("ssd-plp", include_str!("../memory/ssd-plp.toml")),
    ("upi", include_str!("../memory/upi.toml")),
    (
        "xeon-6330-power",
        include_str!("../memory/xeon-6330-power.toml"),
    ),
];
