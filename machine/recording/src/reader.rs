// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads any bytes; an error names the place; never panics.

use remanence_format::RemRecEvent;

use crate::event::{EVENT_BYTES, PAYLOAD_MAX};
use crate::header::HEADER_BYTES;
use crate::{Event, Header, RecordingError, Timed};

/// A recording in memory.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    header: Header,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the header; events are checked as they are read.
    ///
    /// # Errors
    /// The header is invalid.
    pub fn new(bytes: &'a [u8]) -> Result<Self, RecordingError> {
        let header = Header::parse(bytes)?;
        Ok(Self { header, bytes })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All events, in the order in which they happened.
    #[must_use]
    pub fn events(&self) -> Events<'a> {
        Events {
            header: self.header.clone(),
            bytes: self.bytes,
            at: HEADER_BYTES,
        }
    }
}

/// See [`Reader::events`]. Ends at a torn tail, and after an error.
#[derive(Debug, Clone)]
pub struct Events<'a> {
    header: Header,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Timed<'a>, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        let head = RemRecEvent::from_bytes(rest.first_chunk()?);
        let payload_bytes = usize::from(head.payload_bytes);
        if head.kind == 0 {
            return None; // preallocated and not reached
        }
        let begins = self.at;
        let fail = |what| Some(Err(RecordingError::Event(begins, what)));
        if payload_bytes > PAYLOAD_MAX {
            self.at = self.bytes.len();
            return fail("a payload of the wrong size");
        }
        let padded = payload_bytes.next_multiple_of(8);
        let body = rest.get(EVENT_BYTES..EVENT_BYTES + padded)?;
        self.at += EVENT_BYTES + padded;
        let (payload, padding) = body.split_at(payload_bytes);
        let event = if padding.iter().any(|&byte| byte != 0) {
            Err("padding that is not zero")
        } else {
            Event::parse(head.kind, head.aux, payload)
                .and_then(|event| event.check(&self.header).map(|()| event))
        };
        match event {
            Ok(event) => Some(Ok(Timed {
                vcpu: head.vcpu,
                time_ns: head.time_ns,
                event,
            })),
            Err(what) => {
                self.at = self.bytes.len();
                fail(what)
            }
        }
    }
}
