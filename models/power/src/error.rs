// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a profile or a query. Each message is one line for people.

use thiserror::Error;

/// Why a query was refused.
#[derive(Debug, Error)]
pub enum PowerError {
    /// The file is not TOML with the tables of `models/parts/power.toml`.
    #[error("power profiles: {0}")]
    Syntax(#[from] Box<toml::de::Error>),
    /// A name that no table has.
    #[error("no {kind} {name:?}: choose one of {known}")]
    Unknown {
        /// supply, machine, capacitor, nvdimm or ageing
        kind: &'static str,
        /// the unknown name
        name: String,
        /// the known names
        known: String,
    },
    /// A number without a source.
    #[error("power profiles: {kind} {name}: a value has no source: give one, or ASSUMED")]
    NoSource {
        /// the table
        kind: &'static str,
        /// its name
        name: String,
    },
    /// An impossible value.
    #[error("{what}: {value} is impossible: {why}")]
    Impossible {
        /// its quantity
        what: String,
        /// as given
        value: String,
        /// the reason, or valid values
        why: &'static str,
    },
    /// Busy and idle windows that no parameters satisfy.
    #[error(
        "supply {name}: {busy_ns} ns busy and {idle_ns} ns idle cannot both be: at {idle_mw} mW the energy \
         of the busy window lasts {idle_energy_ns} ns"
    )]
    Unsolvable {
        /// of the supply
        name: String,
        /// window when busy
        busy_ns: u64,
        /// window when idle
        idle_ns: u64,
        /// what the idle machine draws
        idle_mw: u64,
        /// how long the energy would last then
        idle_energy_ns: u64,
    },
    /// An error of the model of caches.
    #[error("{0}")]
    Cache(String),
    /// A question that is not one of [`crate::query::Query`].
    #[error("question: {0}")]
    Question(#[from] serde_json::Error),
}

impl PowerError {
    pub(crate) fn impossible(what: impl Into<String>, value: u64, why: &'static str) -> Self {
        Self::Impossible {
            what: what.into(),
            value: value.to_string(),
            why,
        }
    }
}
