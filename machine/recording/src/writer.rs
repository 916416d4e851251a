// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a recording to any `Write`.

use std::io::{self, Write};

use remanence_format::RemRecEvent;

use crate::event::{EVENT_BYTES, PAYLOAD_MAX};
use crate::{Event, Header};

const EVENT_BYTES_MAX: usize = EVENT_BYTES + PAYLOAD_MAX;

/// Writes one recording. It does not buffer: pass a `BufWriter` where that matters.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    header: Header,
}

impl<W: Write> Writer<W> {
    /// Begins with the header.
    ///
    /// # Errors
    /// A header that a reader would refuse, or the error of `out`.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        header
            .check()
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        out.write_all(&header.to_bytes())?;
        Ok(Self {
            out,
            header: header.clone(),
        })
    }

    /// Appends one event.
    ///
    /// # Errors
    /// An event that a reader would refuse, or the error of `out`.
    pub fn put(&mut self, vcpu: u8, time_ns: u64, event: &Event<'_>) -> io::Result<()> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        event.check(&self.header).map_err(invalid)?;
        let raw = event.raw();
        let payload_bytes = raw.word_count * 8 + raw.bytes.len();
        let mut out = [0; EVENT_BYTES_MAX];
        let payload_length =
            u16::try_from(payload_bytes).map_err(|_| invalid("a payload too long"))?;
        let head = RemRecEvent {
            kind: raw.kind,
            vcpu,
            payload_bytes: payload_length,
            aux: raw.aux,
            time_ns,
        };
        out[..EVENT_BYTES].copy_from_slice(&head.to_bytes());
        let mut at = EVENT_BYTES;
        for word in &raw.words[..raw.word_count] {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
            at += 8;
        }
        out[at..at + raw.bytes.len()].copy_from_slice(raw.bytes);
        let end = EVENT_BYTES + payload_bytes.next_multiple_of(8);
        self.out.write_all(&out[..end])
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// The output.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }
}
