// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policies of transactions: four of the WSP paper, and a redo log without isolation. The paper's
//! fifth, flush on fail alone, has no transactions: it is plain memory ([`crate::fof`]).

use std::fmt;
use std::str::FromStr;

use crate::pmem::Pmem;
use crate::tx::{Engine, RedoTx, UndoTx};

/// What a region was made with; its number is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PolicyKind {
    /// Flush on commit, software transactional memory over a redo log.
    FocStm = 1,
    /// Flush on commit, undo log.
    FocUndo = 2,
    /// Flush on commit, redo log.
    FocRedo = 3,
    /// Flush on fail, software transactional memory in cache.
    FofStm = 4,
    /// Flush on fail, undo log in cache.
    FofUndo = 5,
}

impl PolicyKind {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::FocStm,
        Self::FocUndo,
        Self::FocRedo,
        Self::FofStm,
        Self::FofUndo,
    ];

    /// The policy of that number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// As written: `FoC+STM` and so on.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FocStm => "FoC+STM",
            Self::FocUndo => "FoC+UL",
            Self::FocRedo => "FoC+RL",
            Self::FofStm => "FoF+STM",
            Self::FofUndo => "FoF+UL",
        }
    }

    /// Whether caches must survive a power failure by themselves.
    #[must_use]
    pub fn is_flush_on_fail(self) -> bool {
        matches!(self, Self::FofStm | Self::FofUndo)
    }

    /// Whether transactions of several sessions do not see each other's parts.
    #[must_use]
    pub fn is_isolated(self) -> bool {
        matches!(self, Self::FocStm | Self::FofStm)
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
                format!("policy {text}: give one of {}", names.join(", "))
            })
    }
}

/// A policy as a type, so that each is compiled into code of its own.
pub trait Policy: Send + Sync + 'static {
    /// Its number and name.
    const KIND: PolicyKind;
    /// How its transactions work.
    type Tx<B: Pmem>: Engine<B>;
}

macro_rules! policy {
    ($(#[$doc:meta])* $name:ident, $tx:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Policy for $name {
            const KIND: PolicyKind = PolicyKind::$name;
            type Tx<B: Pmem> = $tx;
        }
    };
}

policy!(
    /// `FoC+STM`.
    FocStm, RedoTx<B, true, true>);
policy!(
    /// `FoC+UL`.
    FocUndo, UndoTx<B, true>);
policy!(
    /// `FoC+RL`.
    FocRedo, RedoTx<B, false, true>);
policy!(
    /// `FoF+STM`.
    FofStm, RedoTx<B, true, false>);
policy!(
    /// `FoF+UL`.
    FofUndo, UndoTx<B, false>);

/// Run code with the policy that a value of [`PolicyKind`] names:
/// `with_policy!(kind, P => body)`; in the body `P` is the policy's type.
#[macro_export]
macro_rules! with_policy {
    ($kind:expr, $p:ident => $body:expr) => {
        match $kind {
            $crate::PolicyKind::FocStm => {
                type $p = $crate::FocStm;
                $body
            }
            $crate::PolicyKind::FocUndo => {
                type $p = $crate::FocUndo;
                $body
            }
            $crate::PolicyKind::FocRedo => {
                type $p = $crate::FocRedo;
                $body
            }
            $crate::PolicyKind::FofStm => {
                type $p = $crate::FofStm;
                $body
            }
            $crate::PolicyKind::FofUndo => {
                type $p = $crate::FofUndo;
                $body
            }
        }
    };
}
