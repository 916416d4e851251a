// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `struct rem_rec_event` and its payloads.

use remanence_format as format;
use remanence_format::{RemRecEvent, usize_of};

use crate::{Header, LINE_BYTES};

pub(crate) const EVENT_BYTES: usize = RemRecEvent::BYTES;
pub(crate) const PAYLOAD_MAX: usize = usize_of(format::REM_REC_PAYLOAD_MAX);

/// `enum rem_rec_kind`
pub(crate) mod kind {
    use remanence_format as format;
    use remanence_format::u8_of;

    pub(crate) const STORE: u8 = u8_of(format::REM_REC_STORE);
    pub(crate) const WRITEBACK: u8 = u8_of(format::REM_REC_WRITEBACK);
    pub(crate) const FLUSH: u8 = u8_of(format::REM_REC_FLUSH);
    pub(crate) const FENCE: u8 = u8_of(format::REM_REC_FENCE);
    pub(crate) const CACHE_ALL: u8 = u8_of(format::REM_REC_CACHE_ALL);
    pub(crate) const UNSEEN: u8 = u8_of(format::REM_REC_UNSEEN);
    pub(crate) const PHASE: u8 = u8_of(format::REM_REC_PHASE);
    pub(crate) const PWR: u8 = u8_of(format::REM_REC_PWR);
    pub(crate) const DISK_LOG: u8 = u8_of(format::REM_REC_DISK_LOG);
    pub(crate) const WINDOW: u8 = u8_of(format::REM_REC_WINDOW);
    pub(crate) const LINE: u8 = u8_of(format::REM_REC_LINE);
    pub(crate) const CUT: u8 = u8_of(format::REM_REC_CUT);
    pub(crate) const END: u8 = u8_of(format::REM_REC_END);
    pub(crate) const CONSOLE: u8 = u8_of(format::REM_REC_CONSOLE);
    pub(crate) const ACCEPTED: u8 = u8_of(format::REM_REC_ACCEPTED);
}

/// `enum rem_rec_cause`: why a line left the caches, or by which instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause(pub u32);

#[allow(
    missing_docs,
    reason = "each is documented at its number in the format"
)]
impl Cause {
    pub const EVICTION: Self = Self(format::REM_REC_BY_EVICTION);
    pub const CLFLUSH: Self = Self(format::REM_REC_BY_CLFLUSH);
    pub const CLFLUSHOPT: Self = Self(format::REM_REC_BY_CLFLUSHOPT);
    pub const CLWB: Self = Self(format::REM_REC_BY_CLWB);
    pub const WBINVD: Self = Self(format::REM_REC_BY_WBINVD);
    pub const WBNOINVD: Self = Self(format::REM_REC_BY_WBNOINVD);
    pub const INVD: Self = Self(format::REM_REC_BY_INVD);
    pub const NT_STORE: Self = Self(format::REM_REC_BY_NT_STORE);
    pub const SWEEP: Self = Self(format::REM_REC_BY_SWEEP);
    pub const DOMAIN: Self = Self(format::REM_REC_BY_DOMAIN);
    pub const UNCACHED: Self = Self(format::REM_REC_BY_UNCACHED);
    const LAST: u32 = Self::UNCACHED.0;
}

/// `enum rem_rec_fence`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence(pub u32);

#[allow(
    missing_docs,
    reason = "each is documented at its number in the format"
)]
impl Fence {
    pub const SFENCE: Self = Self(format::REM_REC_SFENCE);
    pub const MFENCE: Self = Self(format::REM_REC_MFENCE);
    pub const LOCKED: Self = Self(format::REM_REC_LOCKED);
    pub const SERIAL: Self = Self(format::REM_REC_SERIAL);
    const LAST: u32 = Self::SERIAL.0;
}

/// `enum rem_rec_phase`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase(pub u32);

#[allow(
    missing_docs,
    reason = "each is documented at its number in the format"
)]
impl Phase {
    pub const RUNNING: Self = Self(format::REM_REC_RUNNING);
    pub const STOP: Self = Self(format::REM_REC_STOP);
    pub const STOPPED: Self = Self(format::REM_REC_STOPPED);
    pub const LOADER: Self = Self(format::REM_REC_LOADER);
    pub const GO: Self = Self(format::REM_REC_GO);
    pub const COLD: Self = Self(format::REM_REC_COLD);
    const LAST: u32 = Self::COLD.0;
}

/// An event; see `enum rem_rec_kind`. Addresses are physical, `pc` is virtual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub enum Event<'a> {
    /// Within one line. A `pc` that is not the sign extension of 32 bits is recorded as 0.
    Store {
        address: u64,
        bytes: &'a [u8],
        pc: u64,
    },
    WriteBack {
        line: u64,
        data: &'a [u8; LINE_BYTES],
        cause: Cause,
    },
    Flush {
        line: u64,
        pc: u64,
        cause: Cause,
    },
    Fence {
        pc: u64,
        fence: Fence,
    },
    CacheAll {
        pc: u64,
        cause: Cause,
    },
    Unseen {
        line: u64,
        data: &'a [u8; LINE_BYTES],
    },
    Phase(Phase),
    Power {
        ok: bool,
    },
    DiskLog {
        disk: u32,
        bytes: u64,
    },
    Window {
        begins: bool,
    },
    Line {
        line: u64,
        data: &'a [u8; LINE_BYTES],
    },
    Cut {
        cause: u32,
    },
    End,
    Console {
        bytes: u64,
    },
    Accepted {
        line: u64,
        data: &'a [u8; LINE_BYTES],
        cause: Cause,
    },
}

/// An event with its time and vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed<'a> {
    /// `NO_VCPU` = none.
    pub vcpu: u8,
    /// Time by the recording's clock.
    pub time_ns: u64,
    /// The event.
    pub event: Event<'a>,
}

/// The low half of a program counter, if its sign extension gives the whole.
#[allow(
    clippy::cast_possible_truncation,
    reason = "compared with the whole afterwards"
)]
fn short_pc(pc: u64) -> u32 {
    if long_pc(pc as u32) == pc {
        pc as u32
    } else {
        0
    }
}

#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "that is sign extension"
)]
fn long_pc(short: u32) -> u64 {
    i64::from(short as i32) as u64
}

/// Kind, aux and payload of an event, the latter in one or two parts.
pub(crate) struct Raw<'a> {
    pub(crate) kind: u8,
    pub(crate) aux: u32,
    pub(crate) words: [u64; 2],
    pub(crate) word_count: usize,
    pub(crate) bytes: &'a [u8],
}

/// Checks the sizes of an event's payload and its extra word.
fn check_size(kind: u8, aux: u32, payload: &[u8]) -> Result<(), &'static str> {
    let whole = match kind {
        kind::STORE => 9..=72,
        kind::WRITEBACK | kind::UNSEEN | kind::LINE | kind::ACCEPTED => 72..=72,
        kind::FLUSH => 16..=16,
        kind::FENCE | kind::CACHE_ALL | kind::DISK_LOG | kind::CONSOLE => 8..=8,
        _ => 0..=0,
    };
    let aux_is_used = !matches!(kind, kind::UNSEEN | kind::LINE | kind::END | kind::CONSOLE);
    if aux != 0 && !aux_is_used {
        return Err("a reserved word that is not zero");
    }
    if !whole.contains(&payload.len()) {
        return Err("a payload of the wrong size");
    }
    Ok(())
}

impl<'a> Event<'a> {
    pub(crate) fn raw(&self) -> Raw<'a> {
        let raw = |kind, aux, words, word_count, bytes| Raw {
            kind,
            aux,
            words,
            word_count,
            bytes,
        };
        let none: &'a [u8] = &[];
        match *self {
            Self::Store { address, bytes, pc } => {
                raw(kind::STORE, short_pc(pc), [address, 0], 1, bytes)
            }
            Self::WriteBack { line, data, cause } => {
                raw(kind::WRITEBACK, cause.0, [line, 0], 1, data)
            }
            Self::Flush { line, pc, cause } => raw(kind::FLUSH, cause.0, [line, pc], 2, none),
            Self::Fence { pc, fence } => raw(kind::FENCE, fence.0, [pc, 0], 1, none),
            Self::CacheAll { pc, cause } => raw(kind::CACHE_ALL, cause.0, [pc, 0], 1, none),
            Self::Unseen { line, data } => raw(kind::UNSEEN, 0, [line, 0], 1, data),
            Self::Phase(phase) => raw(kind::PHASE, phase.0, [0; 2], 0, none),
            Self::Power { ok } => raw(kind::PWR, u32::from(ok), [0; 2], 0, none),
            Self::DiskLog { disk, bytes } => raw(kind::DISK_LOG, disk, [bytes, 0], 1, none),
            Self::Window { begins } => raw(kind::WINDOW, u32::from(begins), [0; 2], 0, none),
            Self::Line { line, data } => raw(kind::LINE, 0, [line, 0], 1, data),
            Self::Cut { cause } => raw(kind::CUT, cause, [0; 2], 0, none),
            Self::End => raw(kind::END, 0, [0; 2], 0, none),
            Self::Console { bytes } => raw(kind::CONSOLE, 0, [bytes, 0], 1, none),
            Self::Accepted { line, data, cause } => {
                raw(kind::ACCEPTED, cause.0, [line, 0], 1, data)
            }
        }
    }

    /// The event of a head and its payload; `Err` is the reason for refusal.
    pub(crate) fn parse(kind: u8, aux: u32, payload: &'a [u8]) -> Result<Self, &'static str> {
        let word = |n: usize| {
            let at = payload.get(n * 8..).and_then(<[u8]>::first_chunk);
            at.map(|raw| u64::from_le_bytes(*raw)).ok_or("too short")
        };
        let line = || {
            let data: &[u8; LINE_BYTES] = payload
                .get(8..)
                .and_then(<[u8]>::first_chunk)
                .ok_or("too short")?;
            Ok::<_, &'static str>((word(0)?, data))
        };
        let flag = || match aux {
            0 | 1 => Ok(aux == 1),
            _ => Err("neither 0 nor 1"),
        };
        let cause = || match aux {
            1..=Cause::LAST => Ok(Cause(aux)),
            _ => Err("unknown cause"),
        };
        check_size(kind, aux, payload)?;
        Ok(match kind {
            kind::STORE => Self::Store {
                address: word(0)?,
                bytes: &payload[8..],
                pc: long_pc(aux),
            },
            kind::WRITEBACK | kind::ACCEPTED => {
                let ((line, data), cause) = (line()?, cause()?);
                if kind == kind::WRITEBACK {
                    Self::WriteBack { line, data, cause }
                } else {
                    Self::Accepted { line, data, cause }
                }
            }
            kind::FLUSH => Self::Flush {
                line: word(0)?,
                pc: word(1)?,
                cause: cause()?,
            },
            kind::FENCE => match aux {
                1..=Fence::LAST => Self::Fence {
                    pc: word(0)?,
                    fence: Fence(aux),
                },
                _ => return Err("unknown fence"),
            },
            kind::CACHE_ALL => Self::CacheAll {
                pc: word(0)?,
                cause: cause()?,
            },
            kind::UNSEEN => line().map(|(line, data)| Self::Unseen { line, data })?,
            kind::PHASE => match aux {
                1..=Phase::LAST => Self::Phase(Phase(aux)),
                _ => return Err("unknown phase"),
            },
            kind::PWR => Self::Power { ok: flag()? },
            kind::DISK_LOG => Self::DiskLog {
                disk: aux,
                bytes: word(0)?,
            },
            kind::WINDOW => Self::Window { begins: flag()? },
            kind::LINE => line().map(|(line, data)| Self::Line { line, data })?,
            kind::CUT => Self::Cut { cause: aux },
            kind::END => Self::End,
            kind::CONSOLE => Self::Console { bytes: word(0)? },
            _ => return Err("unknown kind"),
        })
    }

    /// Checks its addresses against `header`.
    pub(crate) fn check(&self, header: &Header) -> Result<(), &'static str> {
        let line_bytes = LINE_BYTES as u64;
        let inside = |address: u64| {
            address
                .checked_sub(header.nvram_phys)
                .is_some_and(|offset| offset < header.nvram_bytes)
        };
        match *self {
            Self::Store { address, bytes, .. } => {
                if bytes.is_empty() || address % line_bytes + bytes.len() as u64 > line_bytes {
                    return Err("a store beyond the end of its line");
                }
                if inside(address) {
                    Ok(())
                } else {
                    Err("an address outside NVRAM")
                }
            }
            Self::WriteBack { line, .. }
            | Self::Accepted { line, .. }
            | Self::Flush { line, .. }
            | Self::Unseen { line, .. }
            | Self::Line { line, .. } => {
                if line % line_bytes != 0 {
                    Err("a line that is not aligned")
                } else if inside(line) {
                    Ok(())
                } else {
                    Err("a line outside NVRAM")
                }
            }
            _ => Ok(()),
        }
    }
}
