// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same numbers for both: a part of kind `dram`, and the peer's configuration made of it.
//!
//! Our model has fewer gates than JESD79-4. With `Gates::Own` the peer's further ones are set to
//! what does not bind, so that both have the same; with `Gates::All` they are as DRAMsim3 publishes
//! them. Lines that follow each other are of different bank groups in both.

use crate::error::PeerError;
use ocpmem::dram::DramPart;
use ocpmem::parts::Part;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Which gates the peer has.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Gates {
    /// Those that our model has.
    Own,
    /// All.
    All,
}

/// What DRAMsim3 publishes and our table does not have, in its cycles:
/// configs/DDR4_8Gb_x8_2933.ini.
const PUBLISHED: [(&str, i64); 4] = [("tWTR_S", 4), ("tWTR_L", 11), ("tRTP", 11), ("tRTRS", 1)];
/// Its clock, from the same file.
pub const CYCLE_PS: u64 = 680;
/// Beats of a burst: a line of 64 bytes on a bus of 64 bits; two a cycle.
const BEATS: i64 = 8;
const BURST: i64 = BEATS / 2;
/// Of a channel, in the peer.
const BANKS: i64 = 16;
/// Cycles until the peer prints and forgets its counts.
pub const EPOCH: u64 = 100_000;
/// Never, for runs whose counts nobody reads.
pub const NO_EPOCH: u64 = 2_000_000_000;
/// Times of a part that the peer has, too, in its words.
const TIMES: [(&str, &str); 13] = [
    ("trcd_ns", "tRCD"),
    ("trp_ns", "tRP"),
    ("tcl_ns", "CL"),
    ("tcwl_ns", "CWL"),
    ("tras_ns", "tRAS"),
    ("twr_ns", "tWR"),
    ("trefi_ns", "tREFI"),
    ("trfc_ns", "tRFC"),
    ("trrd_s_ns", "tRRD_S"),
    ("trrd_l_ns", "tRRD_L"),
    ("tfaw_ns", "tFAW"),
    ("tccd_l_ns", "tCCD_L"),
    ("tburst_ns", "tCCD_S"),
];

/// A part as both get it.
#[derive(Clone, Debug)]
pub struct Timing {
    /// With every time a whole number of the peer's cycles.
    pub part: Part,
    cycles: BTreeMap<&'static str, i64>,
}

fn whole(value: f64) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and small"
    )]
    let found = value as i64;
    #[expect(clippy::cast_precision_loss, reason = "below 2^31")]
    let same = found as f64 == value;
    (same && (0..1 << 31).contains(&found)).then_some(found)
}

impl Timing {
    /// From a built-in part and changes of it. The path from the core is left out on our side, for
    /// the peer has none. Times are rounded up to the peer's cycles.
    ///
    /// # Errors
    /// When it is no part of DRAM, or the peer cannot have it.
    pub fn new(name: &str, change: &BTreeMap<String, f64>) -> Result<Self, PeerError> {
        let mut part = Part::built_in(name)?.with("controller_ns", 0.0)?;
        for (key, value) in change {
            part = part.with(key, *value)?;
        }
        DramPart::from_part(&part)?;
        let cycle_ns = ocpmem::units::Ps(CYCLE_PS).ns();
        let mut cycles = BTreeMap::new();
        for (ours, theirs) in TIMES {
            let exact = part.values[ours].value / cycle_ns;
            // A multiple may be a little more than whole, as a fraction of two.
            let up = (exact - 1e-6).ceil();
            let many = whole(up).ok_or_else(|| PeerError::Job(format!("{ours} is too long")))?;
            part = part.with(ours, up * cycle_ns)?;
            cycles.insert(theirs, many);
        }
        let timing = Self { part, cycles };
        let power = |key| {
            timing
                .number(key)
                .is_some_and(|n| u64::try_from(n).is_ok_and(u64::is_power_of_two))
        };
        if !power("channels") || timing.number("banks") != Some(BANKS) {
            let why =
                "the peer has 2^n channels of 16 banks: change channels, or take another part";
            return Err(PeerError::Job(why.to_owned()));
        }
        if timing.cycles["tCCD_S"] != BURST {
            return Err(PeerError::Job("a burst is 8 beats".to_owned()));
        }
        Ok(timing)
    }

    fn number(&self, key: &str) -> Option<i64> {
        whole(self.part.values[key].value)
    }

    /// Lines between two rows of one bank.
    pub fn stride(&self) -> u64 {
        let product = ["channels", "banks", "row_bytes"]
            .iter()
            .filter_map(|key| self.number(key))
            .product::<i64>();
        u64::try_from(product / 64).unwrap_or(1)
    }

    /// The peer's further gates.
    fn gates(&self, gates: Gates) -> Vec<(&'static str, i64)> {
        if gates == Gates::All {
            return PUBLISHED.to_vec();
        }
        let (read, write) = (self.cycles["CL"], self.cycles["CWL"]);
        vec![
            ("tRTP", BURST),
            // A read and a write are as far apart as two reads are: the peer adds CWL and a burst to
            // the one, CL and a burst less CWL to the other.
            ("tWTR_S", -write),
            ("tWTR_L", self.cycles["tCCD_L"] - BURST - write),
            ("tRTRS", write - read),
        ]
    }

    /// The peer's configuration.
    pub fn configuration(&self, gates: Gates, epoch: u64) -> String {
        let groups = self.number("bank_groups").unwrap_or(1);
        let mut text = format!(
            "[dram_structure]\nprotocol = DDR4\nbankgroups = {groups}\nbanks_per_group = {}\n\
             rows = 65536\ncolumns = 1024\ndevice_width = 8\nBL = 8\n\n[timing]\ntCK = 0.68\n\
             AL = 0\n",
            BANKS / groups
        );
        let own = self.cycles.iter().map(|(name, many)| (*name, *many));
        for (name, many) in own.chain(self.gates(gates)) {
            let _ = writeln!(text, "{name} = {many}");
        }
        let channels = self.number("channels").unwrap_or(1);
        // From the highest bits to the lowest: rows, rank, bank, column, bank group, channel.
        let _ = write!(
            text,
            "\n[system]\nchannel_size = 8192\nchannels = {channels}\nbus_width = 64\n\
             address_mapping = rorabacobgch\nqueue_structure = PER_BANK\n\
             refresh_policy = RANK_LEVEL_STAGGERED\nrow_buf_policy = OPEN_PAGE\n\
             cmd_queue_size = 8\ntrans_queue_size = 32\n\n[other]\nepoch_period = {epoch}\n\
             output_level = 1\n"
        );
        text
    }
}
