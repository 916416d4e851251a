// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of memory requests, as `format/rem_trace.h` lays them out.

use crate::error::MediaError;
use crate::units::LineAddr;
use remanence_format::{
    REM_TRACE_CPUS_MAX, REM_TRACE_FLUSH, REM_TRACE_IDLE, REM_TRACE_LINE_BYTES, REM_TRACE_MAGIC,
    REM_TRACE_READ, REM_TRACE_VERSION, REM_TRACE_WRITE, RemTraceHeader, u32_of,
};
use std::io::{self, Write};
use std::path::Path;

const VERSION: u32 = u32_of(REM_TRACE_VERSION);
const LINE_BYTES: u32 = u32_of(REM_TRACE_LINE_BYTES);
/// CPUs that a trace can have.
pub const CPUS_MAX: u32 = u32_of(REM_TRACE_CPUS_MAX);
const LINES_MAX: u64 = 1 << 40;
const GAP_MAX: u64 = 0xffff;
/// At a time: a whole trace may have 512 MiB, and is written by the process of QEMU.
const PIECE_RECORDS: usize = 8192;

/// What a record asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A miss.
    Read = REM_TRACE_READ,
    /// A write-back.
    Write = REM_TRACE_WRITE,
    /// Wait for what was written.
    Flush = REM_TRACE_FLUSH,
    /// A pause.
    Idle = REM_TRACE_IDLE,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub kind: Kind,
    /// Which CPU.
    pub cpu: u32,
    /// Which line; 0 where there is none.
    pub line: LineAddr,
    /// Instructions since the CPU's previous record, at most 65,535.
    pub gap: u64,
}

/// A whole trace. Records are kept as they are on disk, 8 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Every line is below.
    pub lines: u64,
    /// Every CPU is below.
    pub cpu_count: u32,
    records: Vec<u64>,
}

impl Trace {
    /// An empty one.
    #[must_use]
    pub fn new(lines: u64, cpu_count: u32) -> Self {
        assert!(lines <= LINES_MAX && (1..=CPUS_MAX).contains(&cpu_count));
        Self {
            lines,
            cpu_count,
            records: Vec::new(),
        }
    }

    /// One more record; a long pause becomes several.
    pub fn push(&mut self, request: Request) {
        assert!(request.line.0 < self.lines.max(1) && request.cpu < self.cpu_count);
        let mut gap = request.gap;
        let cpu = u64::from(request.cpu) << 40;
        while gap > GAP_MAX {
            self.records
                .push(cpu | ((Kind::Idle as u64) << 46) | (GAP_MAX << 48));
            gap -= GAP_MAX;
        }
        self.records
            .push(request.line.0 | cpu | ((request.kind as u64) << 46) | (gap << 48));
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// A record by its number.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Request {
        decode(self.records[index])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Request> + '_ {
        self.records.iter().map(|record| decode(*record))
    }

    /// Reads and writes.
    pub fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        self.iter()
            .filter(|it| matches!(it.kind, Kind::Read | Kind::Write))
    }

    /// CRC-32C of its records, by which a trace is known.
    #[must_use]
    pub fn check(&self) -> u32 {
        self.pieces()
            .fold(0, |check, piece| crc32c::crc32c_append(check, &piece))
    }

    fn pieces(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let bytes = |piece: &[u64]| piece.iter().flat_map(|r| r.to_le_bytes()).collect();
        self.records.chunks(PIECE_RECORDS).map(bytes)
    }

    /// As a file's content.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let header = RemTraceHeader {
            magic: REM_TRACE_MAGIC,
            version: VERSION,
            line_bytes: LINE_BYTES,
            count: self.records.len() as u64,
            lines: self.lines,
            cpu_count: self.cpu_count,
            check: self.check(),
        };
        to.write_all(&header.to_bytes())?;
        self.pieces().try_for_each(|piece| to.write_all(&piece))
    }

    /// From a file's content.
    ///
    /// # Errors
    /// When any check of the format fails; the message says which.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, MediaError> {
        let refuse = |why: String| {
            Err(MediaError::Trace {
                name: name.to_owned(),
                why,
            })
        };
        let Some((header, records)) = bytes.split_first_chunk() else {
            return refuse(format!(
                "{} bytes, shorter than its header of {}",
                bytes.len(),
                RemTraceHeader::BYTES
            ));
        };
        let header = RemTraceHeader::from_bytes(header);
        if header.magic != REM_TRACE_MAGIC {
            return refuse("is not a trace: another magic".to_owned());
        }
        if header.version != VERSION || header.line_bytes != LINE_BYTES {
            return refuse(format!(
                "version {} with lines of {} bytes: version {VERSION} with {LINE_BYTES} is known",
                header.version, header.line_bytes
            ));
        }
        if header.count.checked_mul(8) != Some(records.len() as u64) {
            return refuse(format!(
                "header has {} records, the file has {} bytes of them: truncated?",
                header.count,
                records.len()
            ));
        }
        let (lines, cpu_count) = (header.lines, header.cpu_count);
        if lines > LINES_MAX || cpu_count == 0 || cpu_count > CPUS_MAX {
            return refuse(format!(
                "{lines} lines and {cpu_count} CPUs: at most 2^40 and 1 to {CPUS_MAX}"
            ));
        }
        if crc32c::crc32c(records) != header.check {
            return refuse("check of its records is wrong: damaged".to_owned());
        }
        let records: Vec<u64> = records
            .chunks_exact(8)
            .map(|r| u64::from_le_bytes(r.try_into().expect("8 bytes")))
            .collect();
        for (index, record) in records.iter().enumerate() {
            let it = decode(*record);
            let named = matches!(it.kind, Kind::Read | Kind::Write);
            if it.cpu >= cpu_count || (named && it.line.0 >= lines) || (!named && it.line.0 != 0) {
                return refuse(format!(
                    "record {index}: CPU {} or line {:#x} is not below what the header says",
                    it.cpu, it.line.0
                ));
            }
        }
        Ok(Self {
            lines,
            cpu_count,
            records,
        })
    }

    /// From a file.
    ///
    /// # Errors
    /// When it cannot be read or is no trace.
    pub fn load(path: &Path) -> Result<Self, MediaError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|cause| MediaError::Io {
            path: name.clone(),
            cause,
        })?;
        Self::from_bytes(&name, &bytes)
    }
}

#[inline]
fn decode(record: u64) -> Request {
    let kind = match ((record >> 46) & 3) as u32 {
        REM_TRACE_READ => Kind::Read,
        REM_TRACE_WRITE => Kind::Write,
        REM_TRACE_FLUSH => Kind::Flush,
        _ => Kind::Idle,
    };
    let cpu = ((record >> 40) & 63) as u32;
    Request {
        kind,
        cpu,
        line: LineAddr(record & (LINES_MAX - 1)),
        gap: record >> 48,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Trace {
        let mut trace = Trace::new(100, 2);
        for (kind, line, gap) in [
            (Kind::Read, 99, 5),
            (Kind::Write, 0, 70_000),
            (Kind::Flush, 0, 0),
        ] {
            trace.push(Request {
                kind,
                cpu: 1,
                line: LineAddr(line),
                gap,
            });
        }
        trace
    }

    fn bytes_of(trace: &Trace) -> Vec<u8> {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        let mut trace = sample();
        assert_eq!(trace.iter().map(|r| r.gap).sum::<u64>(), 70_005);
        assert_eq!(Trace::from_bytes("t", &bytes_of(&trace)).unwrap(), trace);
        // More than two pieces.
        trace.records = (0..2 * PIECE_RECORDS as u64 + 1).map(|n| n % 100).collect();
        assert_eq!(Trace::from_bytes("t", &bytes_of(&trace)).unwrap(), trace);
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_refused() {
        let bytes = bytes_of(&sample());
        for length in 0..bytes.len() {
            assert!(
                Trace::from_bytes("t", &bytes[..length]).is_err(),
                "{length}"
            );
        }
        let mut refused = 0;
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // A limit may be raised: then the trace says more than it needs.
            match Trace::from_bytes("t", &bad) {
                Err(_) => refused += 1,
                Ok(trace) => assert!(trace.lines > 100 || trace.cpu_count > 2, "bit {bit}"),
            }
        }
        assert!(refused > bytes.len() * 8 - 64);
    }

    #[test]
    fn wild_addresses_are_refused_though_the_check_is_right() {
        let mut wild = sample();
        wild.records[0] |= 1 << 39;
        let error = Trace::from_bytes("t", &bytes_of(&wild))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("record 0") && error.contains("line 0x8000000063"),
            "{error}"
        );
        let mut wild = sample();
        wild.records[1] |= 63 << 40;
        Trace::from_bytes("t", &bytes_of(&wild)).unwrap_err();
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            failure_persistence: None, ..proptest::prelude::ProptestConfig::default()
        })]

        /// Goal: hostile bytes are refused or read, never trusted: whatever a header with a right
        /// magic, count and check says, each record that is taken is within it.
        #[test]
        fn hostile_traces_are_refused_or_within_their_header(
            lines in proptest::prelude::any::<u64>(),
            cpus in 0_u32..80,
            records in proptest::collection::vec(proptest::prelude::any::<u64>(), 0..20),
            small in proptest::prelude::any::<bool>(),
        ) {
            let lines = if small { lines % 64 } else { lines };
            let mask = if small { 0xffff_c3ff_0000_003f } else { u64::MAX };
            let hostile = Trace {
                lines, cpu_count: cpus, records: records.iter().map(|r| r & mask).collect(),
            };
            if let Ok(trace) = Trace::from_bytes("t", &bytes_of(&hostile)) {
                assert!(trace.requests().all(|it| it.line.0 < lines && it.cpu < cpus));
                assert!(trace.iter().all(|it| it.cpu < cpus));
            }
        }

        #[test]
        fn random_bytes_are_no_trace(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            Trace::from_bytes("t", &bytes).unwrap_err();
            let mut with_magic = REM_TRACE_MAGIC.to_le_bytes().to_vec();
            with_magic.extend(&bytes);
            Trace::from_bytes("t", &with_magic).unwrap_err();
        }
    }
}
